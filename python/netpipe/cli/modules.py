# SPDX-License-Identifier: Apache-2.0
"""netpipe modules: show, add and remove libraries."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from netpipe.escapes import printable
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.libraries.adding.added import Checked
    from netpipe.libraries.adding.layers import Layer


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show, add and remove libraries that netpipe measures.

    Without a command: the libraries that were added and whether they still work, and the layers that are not available
    here, with the reason.
    """
    if context.invoked_subcommand is not None:
        if as_json:
            raise Failure(USAGE, "--json is for 'netpipe modules' alone")
        return
    from netpipe import native
    from netpipe.libraries.adding import added, discover, layers

    listing = native.list_()
    found = list(added.checked())
    names = {each.module.name for each in found}
    missing = [
        {"name": module["name"], "summary": module["summary"], "reason": module["reason"]}
        for module in listing["modules"]
        if not module["available"] and module["name"] not in names
    ] + [asdict(layer) for layer in layers.without_library(listing, discover.compiler_here)]
    if as_json:
        click.echo(json.dumps({"modules": [each.as_json() for each in found], "missing": missing}))
        return
    from netpipe.render.terminal.rows import console, print_paragraph

    out = console()
    print_modules(out, found)
    if missing:
        out.print()
        out.print("not available here", style="bold")
    for module in missing:
        print_paragraph(out, "·", "dim", f"{module['name']}: {module['reason']}")


class Layers(click.Group):
    """One command for each layer that is built once per library. Its module.toml names the options."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002
        from netpipe.libraries.adding import layers

        return list(layers.all_())

    def get_command(self, context: click.Context, name: str) -> click.Command:  # noqa: ARG002
        from netpipe.libraries.adding import layers

        return add_command(layers.one(name))


@command.group(
    cls=Layers, subcommand_metavar="LAYER [OPTIONS]", short_help="Build a module for one more library."
)
def add() -> None:
    """Build the module LAYER@NAME for a library, so that 'netpipe run LAYER@NAME' measures it."""


def add_command(layer: Layer) -> click.Command:
    """`netpipe modules add LAYER`, with the options that this layer has."""
    options = [
        click.Option(
            [f"--{layer.compiler}", "compiler"], required=True, metavar="PATH", help="The library's compiler."
        ),
        click.Option(
            ["--name"],
            metavar="NAME",
            help=f"Call the module {layer.prefix}NAME  [default: the library's name, such as openmpi]",
        ),
    ]
    if layer.launcher:
        options.append(
            click.Option(
                [f"--{layer.launcher}", "launcher"],
                metavar="PATH",
                help="The library's launcher  [default: the one beside the compiler]",
            )
        )
    if layer.abi:
        options += [
            click.Option(
                ["--abi"],
                is_flag=True,
                help=f"Build against the {layer.title} standard ABI, with an {layer.compiler}_abi.",
            ),
            click.Option(
                ["--library"],
                type=click.Path(path_type=Path),
                metavar="FOLDER",
                help=f"With --abi: the folder of the {layer.abi} to run with.",
            ),
        ]
    options += [
        click.Option(
            ["--env", "environment"],
            multiple=True,
            metavar="NAME=VALUE",
            help="Environment of the compiler, the launcher and the processes; repeatable.",
        ),
        click.Option(
            ["--into"],
            type=click.Path(path_type=Path),
            metavar="FOLDER",
            help="Put the module here, for NETPIPE_MODULE_PATH  [default: among netpipe's own modules, or the user's]",
        ),
        click.Option(
            ["--replace"],
            is_flag=True,
            help="With --into: allow the name of a module in another folder, which this one then hides.",
        ),
    ]
    return click.Command(
        layer.name,
        params=list(options),
        help=f"Add a library for {layer.title}, so that 'netpipe run {layer.prefix}NAME' measures it.",
        short_help=f"Add a library for {layer.title}.",
        callback=lambda **given: build(layer, **given),
    )


def build(
    layer: Layer,
    compiler: str,
    name: str | None,
    environment: tuple[str, ...],
    into: Path | None,
    replace: bool,
    launcher: str | None = None,
    **abi: Any,
) -> None:
    from netpipe.libraries.adding.add import Request
    from netpipe.libraries.adding.add import add as add_library

    done = add_library(
        Request(
            on_path(compiler),
            name,
            on_path(launcher) if launcher else None,
            environment=dict(variable(one) for one in environment),
            folder=into,
            replace=replace,
            layer=layer.name,
            **abi,
        )
    )
    where = f"NETPIPE_MODULE_PATH={searched(into)} " if into and into.resolve() not in places() else ""
    click.echo(f"{done.name}: {printable(done.version)}. Measure it with: {where}netpipe run {done.name}")


def places() -> set[Path]:
    """The folders in which modules are looked for."""
    from netpipe.libraries.starting.description import folders

    return {folder.resolve() for folder in folders()}


def searched(folder: Path) -> str:
    """The value of NETPIPE_MODULE_PATH with this folder in front of those that it names now, for a shell."""
    return shlex.quote(
        ":".join(filter(None, [str(folder.absolute()), os.environ.get("NETPIPE_MODULE_PATH")]))
    )


@command.command()
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=lambda _, __, incomplete: complete_added(incomplete),
)
def remove(names: tuple[str, ...]) -> None:
    """Remove modules that were added. The libraries themselves stay."""
    from netpipe.libraries.adding import added

    for one in [added.one(name) for name in names]:
        added.remove(one.name)
        click.echo(f"removed {one.name}")


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\n" in text:
        raise Failure(USAGE, f"{text!r} is not an environment variable; write NAME=VALUE")
    return name, value


def on_path(program: str) -> Path:
    """`mpicc` is looked up in PATH; `./mpicc` and `/opt/bin/mpicc` are taken as they are."""
    import shutil

    return Path(program if "/" in program else shutil.which(program) or program)


def complete_added(incomplete: str) -> list[CompletionItem]:
    from netpipe.libraries.adding import added

    try:
        there = added.all_()
    except Failure:
        return []
    return [CompletionItem(one.short, help=one.version) for one in there if one.short.startswith(incomplete)]


def print_modules(out: Console, found: list[Checked]) -> None:
    from rich.text import Text

    if not found:
        out.print(
            "No library was added. 'netpipe doctor' finds those of this machine and says how to add them."
        )
    for one in found:
        mark, style = ("✗", "bold red") if one.problem else ("!", "yellow") if one.advice else ("✓", "green")
        each = one.module
        line = Text(f"{mark} ", style=style).append(each.name, style="not dim bold default")
        out.print(line.append(f"  {each.version}", style="not bold default"), soft_wrap=True)
        # Paths are for copying: they are never cut.
        for name, words in (
            ("compiler", each.compiler),
            ("launcher", each.launcher and each.launcher[1]),
            ("", one.problem or one.advice),
        ):
            if words:
                out.print(
                    Text(f"  {name:8}  ", style="dim").append(str(words), style="not dim"), soft_wrap=True
                )
