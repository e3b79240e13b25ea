# SPDX-License-Identifier: Apache-2.0
"""Options from a TOML file: a table for each command, a key for each of its options.

    [run]
    target = "1%"
    pattern = ["pingpong", "stream"]

The command line overrides the environment, and that overrides the file.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path("netpipe.toml")  # read when it exists and no other file is named


def _parse(path: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(USAGE, f"the configuration {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(USAGE, f"the configuration {path} is not UTF-8 text") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Failure(USAGE, f"the configuration {path} is not valid TOML: {error}") from None


def _did_you_mean(word: str, known: list[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"


def _table(
    path: Path, name: str, table: Any, command: click.Command, parent: click.Context
) -> dict[str, Any]:
    """One table of the file as defaults for a command, by the names of its parameters."""
    if not isinstance(table, dict):
        raise Failure(USAGE, f"the configuration {path}: '{name}' is not a table; write [{name}]")
    try:
        parameters = command.get_params(click.Context(command, parent, name))
    except Failure:  # no worker: the command will say so, or explain itself without the worker's options
        return {}
    options = {
        spelled.removeprefix("--"): option
        for option in parameters
        if isinstance(option, click.Option) and option.expose_value
        for spelled in [*option.opts, *option.secondary_opts]
        if spelled.startswith("--")
    }
    arguments = {argument.name: argument for argument in parameters if isinstance(argument, click.Argument)}
    known: dict[str, click.Parameter] = {**options, **{key: value for key, value in arguments.items() if key}}
    defaults: dict[str, Any] = {}
    for key, value in table.items():
        parameter = known.get(key)
        if parameter is None or parameter.name is None:
            hint = _did_you_mean(key, sorted(known))
            raise Failure(USAGE, f"the configuration {path}: [{name}] has an unknown key '{key}'; {hint}")
        if isinstance(value, dict) or (isinstance(value, list) and not _takes_many(parameter)):
            raise Failure(USAGE, f"the configuration {path}: [{name}] {key} must be one value")
        if _takes_many(parameter) and not isinstance(value, list):
            value = [value]
        defaults[parameter.name] = value
    return defaults


def _takes_many(parameter: click.Parameter) -> bool:
    return parameter.nargs == -1 or bool(getattr(parameter, "multiple", False))


def read(path: Path, group: click.Group, context: click.Context) -> dict[str, Any]:
    """The defaults of every command. Raises Failure (2) for unknown names, so that a typing error is noticed."""
    commands = group.list_commands(context)
    defaults: dict[str, Any] = {}
    for name, table in _parse(path).items():
        command = group.get_command(context, name) if name in commands else None
        if command is None:
            hint = _did_you_mean(name, commands)
            raise Failure(USAGE, f"the configuration {path}: there is no command '{name}'; {hint}")
        defaults[name] = _table(path, name, table, command, context)
    return defaults


def _apply(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if context.resilient_parsing:  # the shell completes a word: options from the file do not matter
        return
    top = context.find_root()
    if value is None and context is not top:
        return
    if value is None and not HERE.is_file():
        return
    path = Path(value) if value is not None else HERE
    if value is None:
        print(f"netpipe: options from {HERE} in this folder", file=sys.stderr)
    assert isinstance(top.command, click.Group)
    defaults = read(path, top.command, top)
    context.default_map = defaults if context is top else defaults.get(context.info_name or "", {})


config_option = click.option(
    "--config",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_apply,
    help=f"Read options from this TOML file instead of ./{os.fspath(HERE)}.",
)
