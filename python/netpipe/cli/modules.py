# SPDX-License-Identifier: Apache-2.0
"""netpipe modules: the MPI libraries that were added, one more of them, one less."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.libraries.adding.added import Checked


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show, add and remove MPI libraries.

    Without a command: the libraries that were added, and whether they still work.
    """
    if context.invoked_subcommand is not None:
        if as_json:
            raise Failure(USAGE, "--json is for 'netpipe modules' alone")
        return
    from netpipe.libraries.adding import added

    found = list(added.checked())
    if as_json:
        click.echo(json.dumps({"modules": [each.as_json() for each in found]}))
        return
    from netpipe.render.terminal.summary import console

    print_modules(console(), found)


@command.command()
@click.argument("what", type=click.Choice(["mpi"]))
@click.option("--mpicc", required=True, metavar="PATH", help="The library's compiler.")
@click.option("--name", metavar="NAME", help="It becomes mpi@NAME. Default: by the library, such as openmpi.")
@click.option(
    "--mpiexec",
    metavar="PATH",
    help="What starts its processes. Default: the mpirun or mpiexec beside mpicc.",
)
@click.option("--abi", is_flag=True, help="Build against the MPI standard ABI, with an mpicc_abi.")
@click.option(
    "--library",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="With --abi: where the libmpi_abi.so is that it shall run with.",
)
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="Part of the environment of mpicc, of the launcher and of the processes; may be repeated.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Put it here, for NETPIPE_MODULE_PATH. Default: among netpipe's own modules, or the user's.",
)
def add(
    what: str,  # noqa: ARG001  (there will be more than MPI)
    mpicc: str,
    name: str | None,
    mpiexec: str | None,
    abi: bool,
    library: Path | None,
    environment: tuple[str, ...],
    into: Path | None,
) -> None:
    """Build the module of one more MPI library, so that 'netpipe run mpi@NAME' measures it."""
    from netpipe.libraries.adding.add import Wish
    from netpipe.libraries.adding.add import add as build

    settings = dict(setting(one) for one in environment)
    done = build(
        Wish(on_path(mpicc), name, on_path(mpiexec) if mpiexec else None, abi, library, settings, into)
    )
    click.echo(f"{done.name}: {done.version}. Measure it with: netpipe run {done.name}")


@command.command()
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=lambda _, __, incomplete: complete_added(incomplete),
)
def remove(names: tuple[str, ...]) -> None:
    """Remove modules that were added. The library itself stays."""
    from netpipe.libraries.adding import added

    for one in [added.one(name) for name in names]:
        added.remove(one.name)
        click.echo(f"{one.name} is removed")


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or "\n" in text:
        raise Failure(USAGE, f"{text!r} is no setting of the environment; write NAME=VALUE")
    return name, value


def on_path(program: str) -> Path:
    """`mpicc` is the one of PATH; `./mpicc` and `/opt/bin/mpicc` are what they say."""
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
            "No MPI library was added. netpipe doctor finds those of this machine, and says how to add them."
        )
    for one in found:
        mark, style = ("✗", "bold red") if one.problem else ("!", "yellow") if one.advice else ("✓", "green")
        each = one.module
        line = Text(f"{mark} ", style=style).append(each.name, style="not dim bold default")
        out.print(line.append(f"  {each.version}", style="not bold default"), soft_wrap=True)
        # Paths are for copying: they are never cut.
        for name, words in (
            ("mpicc", each.mpicc),
            ("launcher", each.launcher and each.launcher[1]),
            ("", one.problem or one.advice),
        ):
            if words:
                out.print(
                    Text(f"  {name:8}  ", style="dim").append(str(words), style="not dim"), soft_wrap=True
                )
