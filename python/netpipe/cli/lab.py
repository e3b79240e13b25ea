# SPDX-License-Identifier: Apache-2.0
"""netpipe lab: a virtual cluster on this machine, for tests, tutorials and suites."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from netpipe.failure import FAILED, USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.lab.state import Lab


def complete_labs(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from netpipe.lab import state

    try:
        return [CompletionItem(lab.name) for lab in state.labs() if lab.name.startswith(incomplete)]
    except (Failure, OSError):
        return []


def complete_hosts(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from netpipe.lab import state

    try:
        names = [(host.name, lab.name) for lab in state.labs() for host in lab.hosts]
    except (Failure, OSError):
        return []
    return [CompletionItem(host, help=f"of lab {lab}") for host, lab in names if host.startswith(incomplete)]


@click.group(no_args_is_help=True)
def command() -> None:
    """Make a virtual cluster of network namespaces on this machine.

    Its hosts have a name, an address, processors and a network of their own. netpipe and MPI libraries measure between
    them as between real hosts, over a link with the rate, delay, MTU and loss that you give. Needs root.
    """


@command.command()
@click.option(
    "--hosts", type=click.IntRange(2, 64), default=2, metavar="N", help="Number of hosts.", show_default=True
)
@click.option(
    "--rate", metavar="RATE", help="Rate of each host's link, such as 100m or 1g, in bits per second."
)
@click.option("--delay", metavar="TIME", help="Delay of every packet, one way, such as 50us or 1ms.")
@click.option(
    "--mtu",
    type=click.IntRange(576, 65521),
    default=1500,
    metavar="BYTES",
    help="Largest packet.",
    show_default=True,
)
@click.option("--loss", metavar="SHARE", help="Share of packets that get lost at random: 0.1% or 0.001.")
@click.option(
    "--seed",
    type=click.IntRange(0, (1 << 63) - 1),
    default=1,
    metavar="N",
    help="Seed for the losses.",
    show_default=True,
)
@click.option(
    "--offloads",
    type=click.Choice(["on", "off"]),
    help="Segmentation and receive offloads; with off no packet is larger than the MTU  [default: those of the device]",
)
@click.option(
    "--name",
    default="lab",
    metavar="NAME",
    help="Name of the lab; its hosts are NAME1, NAME2 and so on.",
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def up(**given: Any) -> None:
    """Make a lab. It stays until netpipe lab down."""
    from netpipe.lab import making, wanted

    network = wanted.Network(
        bits_per_s=None if given["rate"] is None else wanted.rate(given["rate"]),
        delay_ns=0 if given["delay"] is None else wanted.delay(given["delay"]),
        loss=0.0 if given["loss"] is None else wanted.loss(given["loss"]),
        seed=given["seed"],
        mtu_bytes=given["mtu"],
        offloads=None if given["offloads"] is None else given["offloads"] == "on",
    )
    lab = making.up(making.Request(given["hosts"], network, wanted.name(given["name"])), say)
    if given["as_json"]:
        click.echo(json.dumps(making.summary(lab)))
    elif not given["quiet"]:
        from netpipe.render.terminal.lab import print_labs

        print_labs([making.summary(lab)], hints=True)


@command.command()
@click.argument("name", required=False, shell_complete=complete_labs)
@click.option("--all", "all_", is_flag=True, help="Remove all labs.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def down(name: str | None, all_: bool, quiet: bool) -> None:
    """Remove a lab: its hosts, what runs on them, and nothing else.

    Without a NAME: the only lab that there is.
    """
    from netpipe.lab import shell, state, tools
    from netpipe.units import counted

    if name is not None and all_:
        raise Failure(USAGE, "--all is for all labs; leave the name out")
    tools.need_root()
    if os.environ.get(shell.LAB):
        raise Failure(USAGE, f"this is a host of lab {os.environ[shell.LAB]}; take labs down outside of it")
    with state.locked():
        for lab in state.labs() if all_ else [state.one(name)]:
            ended = state.remove(lab)
            ends = f"; {counted(ended, 'process', 'processes')} that ran on its hosts ended" if ended else ""
            if not quiet:
                click.echo(f"removed lab {lab.name}{ends}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """Show the labs, their networks and hosts that died."""
    from netpipe.lab import making, state

    found = [making.summary(lab) for lab in state.labs()]
    if as_json:
        click.echo(json.dumps({"labs": found}))
        return
    from netpipe.render.terminal.lab import print_labs

    print_labs(found)


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("host", shell_complete=complete_hosts)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
def exec(host: str, words: tuple[str, ...]) -> None:  # noqa: A001  (the name of the command)
    """Run a COMMAND on a HOST, with its exit code.

    Without a COMMAND: a shell. It sees the files of this machine and the network of the host. ssh reaches the other
    hosts, so netpipe run --hosts and every mpirun work as on a cluster.
    """
    from netpipe.lab import shell, tools

    tools.need_root()
    tools.need("nsenter", "taskset")
    lab = lab_of(host)
    given = list(words[1:] if words[:1] == ("--",) else words)
    command_line = shell.entering(lab, lab.host(host), given or [os.environ.get("SHELL") or "/bin/sh"])
    program = shutil.which(command_line[0])
    assert program is not None
    try:
        os.execve(program, command_line, shell.environment(lab))  # noqa: S606  (signals and terminal are its own)
    except OSError as error:
        raise Failure(FAILED, f"{program} cannot be started: {error.strerror}") from None


def lab_of(host: str) -> Lab:
    """The lab that has this host. Raises Failure (2)."""
    from netpipe.lab import state

    there = state.labs()
    if not there:
        raise Failure(USAGE, "no lab is up; netpipe lab up makes one")
    for lab in there:
        if any(one.name == host for one in lab.hosts):
            return lab
    names = ", ".join(one.name for lab in there for one in lab.hosts)
    raise Failure(USAGE, f"no lab has a host '{host}'; there are {names}")
