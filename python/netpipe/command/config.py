# SPDX-License-Identifier: Apache-2.0
"""Options from a TOML file: a table for each command, a key for each of its options.

    [run]
    target = "1%"
    pattern = ["pingpong", "stream"]

The command line overrides the environment, and that overrides the file.
"""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.contents import toml
from netpipe.failure import USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

HERE = Path("netpipe.toml")  # read when it exists and no other file is named


def did_you_mean(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"


def settable(command: click.Command, context: click.Context) -> dict[str, click.Parameter]:
    """The options and arguments of a command, by the names that a file has for them."""
    found: dict[str, click.Parameter] = {}
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Argument):
            found[parameter.name or ""] = parameter
        elif isinstance(parameter, click.Option) and parameter.expose_value:
            for spelled in (*parameter.opts, *parameter.secondary_opts):
                if spelled.startswith("--"):
                    found[spelled.removeprefix("--")] = parameter
    return found


def values(where: str, table: Mapping[str, Any], known: Mapping[str, click.Parameter]) -> dict[str, Any]:
    """What a table says, by the names of the parameters. Raises Failure (2), whose sentence begins with `where`."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        parameter = known.get(key)
        if parameter is None or parameter.name is None:
            hint = did_you_mean(key, sorted(known))
            raise Failure(USAGE, f"{where} has an unknown key '{key}'; {hint}")
        if isinstance(value, dict) or (isinstance(value, list) and not takes_many(parameter)):
            raise Failure(USAGE, f"{where} {key} must be one value")
        if takes_many(parameter) and not isinstance(value, list):
            value = [value]
        for one in value if isinstance(value, list) else [value]:
            _check_type(f"{where} {key}", parameter, one)
        found[parameter.name] = value
    return found


def _check_type(where: str, parameter: click.Parameter, value: Any) -> None:
    """Raises Failure (2) for what click would round, or fail at. It converts texts itself."""
    if not isinstance(value, (str, int, float)):
        raise Failure(USAGE, f"{where} must be a text or a number")
    if isinstance(value, str) and "\0" in value:
        raise Failure(USAGE, f"{where} has a NUL character")
    if isinstance(parameter.type, click.types.IntParamType) and type(value) in (bool, float):
        raise Failure(USAGE, f"{where} must be a whole number")
    if isinstance(parameter.type, click.types.BoolParamType) and type(value) in (int, float):
        raise Failure(USAGE, f"{where} must be true or false")


def _table(
    path: Path, name: str, table: Any, command: click.Command, parent: click.Context
) -> dict[str, Any]:
    """One table of the file as defaults for a command."""
    if not isinstance(table, dict):
        raise Failure(USAGE, f"the configuration {path}: '{name}' is not a table; write [{name}]")
    try:
        known = settable(command, click.Context(command, parent, name))
    except Failure:  # no worker: the command will say so, or explain itself without the worker's options
        return {}
    return values(f"the configuration {path}: [{name}]", table, known)


def takes_many(parameter: click.Parameter) -> bool:
    return parameter.nargs == -1 or bool(getattr(parameter, "multiple", False))


def read(path: Path, group: click.Group, context: click.Context) -> dict[str, Any]:
    """The defaults of every command. Raises Failure (2) for unknown names, so that a typing error is noticed."""
    commands = group.list_commands(context)
    defaults: dict[str, Any] = {}
    for name, table in toml(path, "configuration").items():
        command = group.get_command(context, name) if name in commands else None
        if command is None:
            hint = did_you_mean(name, commands)
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
        say(f"options from {HERE} in this folder")
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
