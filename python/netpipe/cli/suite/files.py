# SPDX-License-Identifier: Apache-2.0
"""Suite files. One TOML file is one suite: what it is, its runs, and the figures and tables drawn from them.

    summary = "What it measures"
    source = "Where its runs and figures are from"

    [[run]]
    name = "small"                  # the rest: options of `netpipe run`, by their names
    variants = ["shm", "tcp"]
    sizes = "8,64k"

    [[figure]]
    title = "Throughput"
    run = "small"                   # the rest: options of `netpipe plot`
    figure = "throughput"

    [[table]]
    title = "All points"
    run = "small"                   # the rest: options of `netpipe export`

The options, their types and their defaults are those of the commands; nothing of them is written here again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from netpipe.command.config import did_you_mean, settable, takes_many, values
from netpipe.contents import toml
from netpipe.failure import USAGE, Failure

FOLDER = Path(__file__).resolve().parents[2] / "suites"
ENDING = ".toml"
TEXTS = ("summary", "source")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a run, which names its file

# The command whose options a table takes, and those of them that are for the suite to decide.
COMMANDS = {
    "run": ("run", {"output", "report", "dry-run", "strict", "quiet", "json"}),
    "figure": ("plot", {"runs", "list", "output"}),
    "table": ("export", {"run", "output"}),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One table of the file. `given` is what the command would be called with."""

    kind: str  # run, figure or table
    name: str  # of a run; else the title
    where: str  # how a sentence about it begins
    given: dict[str, Any]
    # Of a figure or a table: its run, its file, and what of the run it chooses (nothing: all).
    run: str = ""
    file: str = ""
    variants: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    summary: str
    source: str
    runs: tuple[Part, ...]
    results: tuple[Part, ...]  # figures, then tables


def names() -> list[str]:
    """The suites that come with netpipe."""
    return sorted(path.stem for path in FOLDER.glob(f"*{ENDING}"))


def find(text: str) -> Path:
    """The file of a suite: what ends in .toml or has a slash is a path, anything else a name. Raises Failure (2)."""
    if "/" in text or text.endswith(ENDING):
        return Path(text)
    if text not in names():
        raise Failure(
            USAGE,
            f"there is no suite '{text}' (a file needs its path: ./{text}{ENDING}); {did_you_mean(text, names())}",
        )
    return FOLDER / f"{text}{ENDING}"


def texts(path: Path) -> dict[str, str]:
    """The summary and the source of a suite. Raises Failure (2)."""
    return _texts(path, toml(path, "suite"))


def _texts(path: Path, said: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(f"the suite {path}:", said, key) for key in TEXTS}


def load(path: Path) -> Suite:
    """A suite with all that can be checked before a plan is made. Raises Failure: 2 with the file, the table and the
    key, 3 if there is no worker to ask for its options.
    """
    said = toml(path, "suite")
    known = [*TEXTS, *COMMANDS]
    for key in said:
        if key not in known:
            raise Failure(USAGE, f"the suite {path} has an unknown key '{key}'; {did_you_mean(key, known)}")
    head = _texts(path, said)
    runs = [_run(path, table, number) for number, table in _tables(path, said, "run")]
    _check_once(path, "run", [run.name for run in runs])
    results = [
        _result(path, kind, table, number, [run.name for run in runs])
        for kind in ("figure", "table")
        for number, table in _tables(path, said, kind)
    ]
    if not runs:
        raise Failure(USAGE, f"the suite {path} has no [[run]]")
    if not results:
        raise Failure(USAGE, f"the suite {path} has no [[figure]] and no [[table]]")
    _check_once(path, "file", [result.file for result in results])
    return Suite(path.stem, head["summary"], head["source"], tuple(runs), tuple(results))


def _check_once(path: Path, what: str, every: list[str]) -> None:
    for one in every:
        if every.count(one) > 1:
            raise Failure(
                USAGE, f"the suite {path} makes the {what} '{one}' twice; choose another name or title"
            )


def _tables(path: Path, said: Mapping[str, Any], kind: str) -> list[tuple[int, dict[str, Any]]]:
    tables = said.get(kind, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise Failure(USAGE, f"the suite {path}: '{kind}' is not a list of tables; write [[{kind}]]")
    return list(enumerate(tables, start=1))


def _text(where: str, table: Mapping[str, Any], key: str) -> str:
    text = table.get(key)
    if not isinstance(text, str) or not text.strip():
        raise Failure(USAGE, f"{where} {key} {'is missing' if key not in table else 'must be a text'}")
    return text.strip()


def _run(path: Path, table: dict[str, Any], number: int) -> Part:
    name = _text(f"the suite {path}: [[run]] {number}", table, "name")
    where = f"the suite {path}: [[run]] '{name}'"
    if not NAME.fullmatch(name):
        raise Failure(USAGE, f"{where} name names a file; write letters, digits, '.', '_' and '-'")
    return Part("run", name, where, _given("run", where, {k: v for k, v in table.items() if k != "name"}))


def _result(path: Path, kind: str, table: dict[str, Any], number: int, runs: list[str]) -> Part:
    title = _text(f"the suite {path}: [[{kind}]] {number}", table, "title")
    where = f"the suite {path}: [[{kind}]] '{title}'"
    run = _text(where, table, "run")
    if run not in runs:
        raise Failure(USAGE, f"{where} run: there is no [[run]] '{run}'; {did_you_mean(run, runs)}")
    own = {key: value for key, value in table.items() if key != "run"}
    if kind == "figure":
        _text(where, table, "figure")
        given = _given(kind, where, own)
        ending = given["file_format"] = given["file_format"] or "svg"
        _check_figure(where, given)
        chosen = given.pop("variants"), given.pop("patterns")
    else:
        given = _given(kind, where, {key: value for key, value in own.items() if key != "title"})
        form = given["form"] = given["form"] or "csv"
        ending = "np.out" if form.startswith("npout") else form
        chosen = given.pop("variants"), given.pop("patterns")
    stem = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or f"{kind}-{number}"
    return Part(kind, title, where, given, run, f"{stem}.{ending}", *chosen)


def _check_figure(where: str, given: Mapping[str, Any]) -> None:
    from netpipe.cli import plot

    try:
        plot.check(given["figure"], given["sizes"], given["measures"], given["scale"])
    except Failure as failure:
        raise Failure(USAGE, f"{where} {failure.sentence.removeprefix('--')}") from None


def _given(kind: str, where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """What the command would be called with if its command line said this. The environment and netpipe.toml have no
    part in it: a suite is the same everywhere.
    """
    name, left_out = COMMANDS[kind]
    command: click.Command = import_module(f"netpipe.cli.{name}").command
    context = click.Context(command, info_name=name)
    known = {key: one for key, one in settable(command, context).items() if key not in left_out}
    given: dict[str, Any] = {}
    for parameter in known.values():
        if parameter.name is not None:
            default = () if takes_many(parameter) else parameter.to_info_dict()["default"]
            given[parameter.name] = default
    said = values(where, table, known)
    for key in table:
        parameter = known[key]
        assert parameter.name is not None
        given[parameter.name] = _converted(f"{where} {key}", parameter, said[parameter.name], context)
    return given


def _converted(where: str, parameter: click.Parameter, value: Any, context: click.Context) -> Any:
    """The value in the type of the parameter. click would round 1.5 to 1, and take a date for a text."""
    for one in value if takes_many(parameter) else [value]:
        if isinstance(parameter.type, click.types.IntParamType) and type(one) is not int:
            raise Failure(USAGE, f"{where} must be a whole number")
        if isinstance(parameter.type, click.types.BoolParamType) and type(one) is not bool:
            raise Failure(USAGE, f"{where} must be true or false")
        if not isinstance(one, (str, int, float)):
            raise Failure(USAGE, f"{where} must be a text or a number")
        if isinstance(parameter.type, click.Choice) and one not in parameter.type.choices:
            hint = did_you_mean(str(one), list(parameter.type.choices))
            raise Failure(USAGE, f"{where}: there is no '{one}'; {hint}")
    try:
        return parameter.type_cast_value(context, value)
    except click.BadParameter as error:
        raise Failure(USAGE, f"{where}: {error.message.removesuffix('.')}") from None
