# SPDX-License-Identifier: Apache-2.0
"""Suite files. One TOML file is one suite: what it is, its runs, and the figures and tables drawn from them.

    summary = "What it measures"
    source = "Where its runs and figures are from"

    [quick.run]                     # options that all runs of a kind have at this size; also [default.run], [full.run]
    preset = "quick"

    [set]                           # what --set of `netpipe suite run` fills in the variants of runs: {links}
    links = "What belongs there"

    [[run]]
    name = "small"                  # the rest: options of `netpipe run`, by their names
    variants = ["shm", "tcp"]
    full = { launches = 8 }         # what is different at one size
    between_hosts = { ranks = "" }  # and with --hosts, at every size; "" is what the command does by default

    [[run]]
    name = "kernels"
    kind = "apps"                   # the rest: options of `netpipe apps`
    kernels = ["is"]

    [[figure]]
    title = "Throughput"
    run = "small"                   # the rest: options of `netpipe plot`
    figure = "throughput"

    [[table]]
    title = "All points"
    run = "small"                   # the rest: options of `netpipe export`; or `shows`, a table of tables.py

The options, their types and their defaults are those of the commands; nothing of them is written here again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from netpipe.cli.suite import published, settings
from netpipe.cli.suite.checking import check_keys, text
from netpipe.cli.suite.parts import (
    APPS,
    DEFAULT,
    DOCTOR,
    FAR,
    MEMORY,
    NODES,
    PAIRS,
    PROFILE,
    RUN,
    RUN_FILES,
    SIZES,
    Part,
    Suite,
)
from netpipe.command.config import did_you_mean, settable, takes_many, values
from netpipe.contents import toml
from netpipe.failure import USAGE, Failure

FOLDER = Path(__file__).resolve().parents[2] / "suites"
ENDING = ".toml"
TEXTS = ("summary", "source")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # of a run, which names its file

# The command whose options a table takes, and those of them that are for the suite to decide.
_RUN = {"output", "report", "dry-run", "strict", "quiet", "json", "continue"}
# options of netpipe suite run, for all kernels
_SITE = {"hosts", "launcher", "launcher-args", "remote-shell"}
_APPS = {"output", "dry-run", "json", "quiet", "seed", *_SITE}
COMMANDS = {
    RUN: ("run", _RUN),
    MEMORY: ("memory", _RUN),
    APPS: ("apps", _APPS),
    PROFILE: ("apps", _APPS | {"launches", "map"}),
    NODES: ("run", _RUN | {"hosts", "ranks"}),
    PAIRS: ("run", _RUN | {"hosts", "ranks", "pattern"}),
    "figure": ("plot", {"runs", "list", "output"}),
    "table": ("export", {"run", "output"}),
    "check": ("check", {"run", "json"}),
}
KINDS = (RUN, MEMORY, APPS, PROFILE, NODES, PAIRS)
RESULTS = ("figure", "table", "check")
LONGEST_STEM = 56
IMB, OSU = "imb", "osu"  # formats that hold one curve
SET = "set"  # the table of what variants leave open
OWN_KEYS = ("name", "kind", "minutes", "optional", *SIZES, FAR)
ROUNDS = "rounds"  # of pairs, also in the tables of sizes
LEAST_ROUNDS = 3  # with two others nobody knows which of three is slow


def names() -> list[str]:
    """The suites that come with netpipe."""
    return sorted(path.stem for path in FOLDER.glob(f"*{ENDING}"))


def find(name: str) -> Path:
    """The file of a suite: what ends in .toml or has a slash is a path, anything else a name. Raises Failure (2)."""
    if "/" in name or name.endswith(ENDING):
        return Path(name)
    if name not in names():
        raise Failure(
            USAGE,
            f"there is no suite '{name}' (a file needs its path: ./{name}{ENDING}); {did_you_mean(name, names())}",
        )
    return FOLDER / f"{name}{ENDING}"


def texts(path: Path) -> dict[str, str]:
    """The summary and the source of a suite. Raises Failure (2)."""
    return _texts(path, toml(path, "suite"))


def _texts(path: Path, said: Mapping[str, Any]) -> dict[str, str]:
    return {key: text(f"the suite {path}:", said, key) for key in TEXTS}


def load(path: Path, size: str = DEFAULT) -> Suite:
    """A suite at one size, with all that can be checked before a plan is made; the other sizes are checked too. Raises
    Failure: 2 with the file, the table and the key, 3 if there is no worker to ask for its options.
    """
    said = toml(path, "suite")
    known = [*TEXTS, *SIZES, SET, "run", *RESULTS, "published", "stands_for", "not_measured"]
    for key in said:
        if key not in known:
            raise Failure(USAGE, f"the suite {path} has an unknown key '{key}'; {did_you_mean(key, known)}")
    head = _texts(path, said)
    places = _places(path, said)
    sizes = _sizes(path, said)
    if size not in sizes:
        raise Failure(USAGE, f"the suite {path} has no size '{size}'; it has {', '.join(sizes)}")
    options = _Options()
    for one in dict.fromkeys((*sizes, size)):  # the asked one last
        runs = [_run(path, said, table, number, one, options) for number, table in _tables(path, said, "run")]
        _check_places(runs, places)
        if one == size:
            chosen = runs
    runs = chosen
    _check_once(path, "run", [run.name for run in runs])
    kinds = {run.name: run.does for run in runs}
    made = [
        _result(path, kind, table, number, kinds, options)
        for kind in RESULTS
        for number, table in _tables(path, said, kind)
    ]
    results = [part for part, _ in made]
    if not runs:
        raise Failure(USAGE, f"the suite {path} has no [[run]]")
    if not results:
        raise Failure(USAGE, f"the suite {path} has no [[figure]] and no [[table]]")
    _check_once(path, "file", [result.file for result in results if result.file])
    found = [value for _, some in made for value in some]
    for number, table in _tables(path, said, "published"):
        found.append(published.value(f"the suite {path}: [[published]] {number}", table, kinds))
    return Suite(
        name=path.stem,
        path=path,
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
        size=size,
        sizes=sizes,
        summary=head["summary"],
        source=head["source"],
        runs=tuple(runs),
        results=tuple(results),
        published=tuple(found),
        stands_for=tuple(
            (one[0], one[1], one[2]) for one in _words(path, said, "stands_for", ("paper", "here", "why"))
        ),
        not_measured=tuple((one[0], one[1]) for one in _words(path, said, "not_measured", ("title", "why"))),
        places=places,
    )


def _places(path: Path, said: Mapping[str, Any]) -> dict[str, str]:
    table = said.get(SET, {})
    if not isinstance(table, dict):
        raise Failure(USAGE, f"the suite {path}: '{SET}' is not a table; write [{SET}]")
    for name in table:
        if not re.fullmatch(settings.NAME, name):
            raise Failure(
                USAGE,
                f"the suite {path}: [{SET}] '{name}' is not a name; write small letters, digits and '_'",
            )
    return {name: text(f"the suite {path}: [{SET}]", table, name) for name in table}


def _check_places(runs: list[Part], known: Mapping[str, str]) -> None:
    for run in runs:
        for given in filter(None, (run.given, run.far)):
            for name in settings.places(given.get("variants") or ()):
                if name not in known:
                    raise Failure(
                        USAGE, f"{run.where} variants: [{SET}] does not say what belongs into {{{name}}}"
                    )


def _words(path: Path, said: Mapping[str, Any], kind: str, keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    found = []
    for number, table in _tables(path, said, kind):
        where = f"the suite {path}: [[{kind}]] {number}"
        check_keys(where, table, keys)
        found.append(tuple(text(where, table, key) for key in keys))
    return found


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


# ------------------------------------------------------------------------------------------------------------- sizes


def _sizes(path: Path, said: Mapping[str, Any]) -> tuple[str, ...]:
    """`default`, and those that the file says anything about. Raises Failure (2)."""
    for size in SIZES:
        table = said.get(size, {})
        if not isinstance(table, dict) or not all(isinstance(one, dict) for one in table.values()):
            raise Failure(
                USAGE, f"the suite {path}: '{size}' holds tables for kinds of runs; write [{size}.run]"
            )
        check_keys(f"the suite {path}: [{size}]", table, KINDS)
    found = {size for size in SIZES if said.get(size)}
    found |= {size for _, table in _tables(path, said, "run") for size in SIZES if size in table}
    return tuple(size for size in SIZES if size in found or size == DEFAULT)


def _run(
    path: Path, said: Mapping[str, Any], table: dict[str, Any], number: int, size: str, options: _Options
) -> Part:
    name = text(f"the suite {path}: [[run]] {number}", table, "name")
    where = f"the suite {path}: [[run]] '{name}'"
    if not NAME.fullmatch(name):
        raise Failure(USAGE, f"{where} name names a file; write letters, digits, '.', '_' and '-'")
    does = table.get("kind", RUN)
    if does not in KINDS:
        raise Failure(USAGE, f"{where} kind: there is no '{does}'; {did_you_mean(str(does), KINDS)}")
    own = {key: value for key, value in table.items() if key not in OWN_KEYS}
    different, far = table.get(size, {}), table.get(FAR, {})
    for key, some, example in ((size, different, "launches = 3"), (FAR, far, 'ranks = "4"')):
        if not isinstance(some, dict):
            raise Failure(USAGE, f"{where} {key} must be a table: {key} = {{ {example} }}")
    merged = {**said.get(size, {}).get(does, {}), **own, **different}
    rounds = merged.pop(ROUNDS, None) if does == PAIRS else None
    if rounds is not None and (type(rounds) is not int or rounds < LEAST_ROUNDS):
        raise Failure(USAGE, f"{where} {ROUNDS} must be a whole number of {LEAST_ROUNDS} or more")
    optional = table.get("optional", False)
    if type(optional) is not bool:
        raise Failure(USAGE, f"{where} optional must be true or false")
    minutes = table.get("minutes", {}).get(size) if isinstance(table.get("minutes", {}), dict) else None
    if "minutes" in table and not (
        isinstance(table["minutes"], dict) and _numbers(table["minutes"].values())
    ):
        raise Failure(USAGE, f"{where} minutes must say them for each size: minutes = {{ quick = 2 }}")
    given = options.given(does, where, merged)
    part = Part("run", name, where, given, does, minutes, optional=optional, rounds=rounds)
    if not far:
        return part
    there = {key: value for key, value in {**merged, **far}.items() if value != ""}
    return replace(part, far=options.given(does, f"{where} {FAR}", there))


def _numbers(some: Any) -> bool:
    return all(type(one) in (int, float) for one in some)


# ----------------------------------------------------------------------------------------------------------- results


def _result(
    path: Path, kind: str, table: dict[str, Any], number: int, kinds: Mapping[str, str], options: _Options
) -> tuple[Part, list[Any]]:
    """The part, and the values that a paper printed for it."""
    title = text(f"the suite {path}: [[{kind}]] {number}", table, "title")
    where = f"the suite {path}: [[{kind}]] '{title}'"
    run = text(where, table, "run")
    if run not in kinds:
        raise Failure(USAGE, f"{where} run: there is no [[run]] '{run}'; {did_you_mean(run, list(kinds))}")
    does = kinds[run]
    own = {key: value for key, value in table.items() if key != "run"}
    stem = _stem(title) or f"{kind}-{number}"
    if kind == "figure":
        return _figure(where, title, does, run, own, stem, options), []
    del own["title"]
    if kind == "check":
        if does not in RUN_FILES:
            raise Failure(USAGE, f"{where} run: '{run}' is of the kind {does}, which has no history")
        if DOCTOR in own:
            check_keys(where, own, (DOCTOR,))
            if own[DOCTOR] is not True:
                raise Failure(USAGE, f"{where} {DOCTOR} must be true; leave it out for a check of the times")
            return Part(kind, title, where, {DOCTOR: True}, does, None, run), []
        given = options.given(kind, where, {"baseline": "last", **own})
        _check_limits(where, given)
        chosen = given.pop("variants"), given.pop("patterns")
        return Part(kind, title, where, given, does, None, run, "", *chosen), []
    return _table(where, title, does, run, own, stem, options)


def _stem(title: str) -> str:
    """The title as the name of a file, not longer than a line of a terminal takes."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words if len(words) <= LONGEST_STEM else words[:LONGEST_STEM].rpartition("-")[0]


def _figure(
    where: str, title: str, does: str, run: str, own: dict[str, Any], stem: str, options: _Options
) -> Part:
    from netpipe.cli.suite import drawings

    name = text(where, own, "figure")
    if does in RUN_FILES:
        given = options.given("figure", where, own)
        _check_figure(where, given)
        chosen = given.pop("variants"), given.pop("patterns")
    else:
        known = drawings.OF_KIND.get(does, ())
        if name not in known:
            raise Failure(
                USAGE,
                f"{where} figure: there is no '{name}' of a run of the kind {does}; there are "
                f"{', '.join(known) or 'none'}",
            )
        check_keys(where, own, ("title", "figure", "format", "kernels"))
        given = {"figure": name, "title": title, "file_format": own.get("format")}
        kernels = own.get("kernels", [])
        chosen = tuple([kernels] if isinstance(kernels, str) else kernels), ()
    ending = given["file_format"] = given["file_format"] or "svg"
    return Part("figure", title, where, given, does, None, run, f"{stem}.{ending}", *chosen)


def _table(
    where: str, title: str, does: str, run: str, own: dict[str, Any], stem: str, options: _Options
) -> tuple[Part, list[Any]]:
    from netpipe.cli.suite import tables

    shows = own.pop("shows", "")
    known = tables.OF_KIND.get(does, ())
    if not shows and does not in RUN_FILES:
        raise Failure(
            USAGE, f"{where} shows is missing: which table of '{run}'; there are {', '.join(known)}"
        )
    if shows:
        if shows not in known:
            raise Failure(
                USAGE,
                f"{where} shows: there is no '{shows}' of a run of the kind {does}; there are {', '.join(known)}",
            )
        check_keys(where, own, ("variant", "pattern", *published.TABLE_KEYS))
        found = published.of_table(where, title, run, shows, own)
        chosen = _many(own.get("variant", ())), _many(own.get("pattern", ()))
        return Part("table", title, where, {}, does, None, run, f"{stem}.csv", *chosen, shows), found
    form = own.get("format")
    if form == IMB:  # `netpipe export` may not know it yet
        own = {**own, "format": OSU}
    given = options.given("table", where, own)
    form = given["form"] = form or given["form"] or "csv"
    ending = "np.out" if form.startswith("npout") else "txt" if form in (OSU, IMB) else form
    chosen = given.pop("variants"), given.pop("patterns")
    return (
        Part(
            "table", title, where, given, does, None, run, f"{stem}.{ending}", *chosen, "", form in (OSU, IMB)
        ),
        [],
    )


def _many(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_limits(where: str, given: Mapping[str, Any]) -> None:
    from netpipe.cli.check import Limits
    from netpipe.command.comparing import worse_of_measures
    from netpipe.reading.measures import LOSS

    try:
        limits = Limits.of(given["slower"], given["faster"])
        if limits.measures:
            limits.check({*worse_of_measures(), LOSS}, "patterns and layers")
    except Failure as failure:
        raise Failure(USAGE, f"{where} {failure.sentence.removeprefix('--')}") from None


def _check_figure(where: str, given: Mapping[str, Any]) -> None:
    from netpipe.cli import plot

    try:
        plot.check(given["figure"], given["sizes"], given["measures"], given["scale"])
    except Failure as failure:
        raise Failure(USAGE, f"{where} {failure.sentence.removeprefix('--')}") from None


# ----------------------------------------------------------------------------------------------------------- options


class _Options:
    """The options of the commands, asked for once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[click.Context, dict[str, click.Parameter]]] = {}

    def given(self, kind: str, where: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """What the command would be called with if its command line said this. The environment and netpipe.toml have
        no part in it: a suite is the same everywhere.
        """
        context, known = self._of(kind)
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

    def _of(self, kind: str) -> tuple[click.Context, dict[str, click.Parameter]]:
        if kind not in self._known:
            name, left_out = COMMANDS[kind]
            command: click.Command = import_module(f"netpipe.cli.{name}").command
            context = click.Context(command, info_name=name)
            known = {key: one for key, one in settable(command, context).items() if key not in left_out}
            self._known[kind] = context, known
        return self._known[kind]


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
