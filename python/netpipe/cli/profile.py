# SPDX-License-Identifier: Apache-2.0
"""netpipe profile: what messages a program sends."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.failure import DONE, USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.profiles import Profile


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("profile.jsonl"),
    metavar="FILE",
    help="Where the profile goes  [default: profile.jsonl]",
)
@click.option(
    "--events",
    type=click.IntRange(0),
    metavar="N",
    help="The most calls of each rank to keep in order, 48 bytes each while it runs; 0 keeps none  [default: 1000000]",
)
@click.option("--no-trace", is_flag=True, help="Keep no calls in order, as --events 0.")
@click.option(
    "--from",
    "left",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="FOLDER",
    help="Run nothing: make a profile of the folder that a netpipe profile which was killed has left.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but what the program prints.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    output: Path, events: int | None, no_trace: bool, left: Path | None, quiet: bool, command: tuple[str, ...]
) -> int:
    """Run an MPI program and record the messages it sends.

    COMMAND is what you would type without netpipe: mpirun -n 4 ./app. Nothing is compiled anew, the output is the
    program's own, and so is the exit code. Then netpipe show FILE prints its messages, and netpipe predict FILE RUN
    what another library or network would make of them.

    Each rank writes into the folder of --output while it runs. If the program runs on several hosts, all of them have
    to see that folder. SIGTERM and SIGHUP are passed on to COMMAND, and what it did until its end is in the profile.
    """
    from netpipe import version
    from netpipe.profiles.lines import is_profile, write
    from netpipe.profiling import Request, notes, profile, rescue
    from netpipe.profiling.run import DEFAULT_EVENTS

    if left is not None and (command or no_trace or events is not None):
        raise Failure(
            USAGE, "--from takes what is in its folder; leave out the command, --events and --no-trace"
        )
    if left is None and not command:
        raise Failure(
            USAGE,
            "there is no command; give it as you would without netpipe: netpipe profile -- mpirun -n 4 ./app",
        )
    if no_trace and events:
        raise Failure(USAGE, "--no-trace and --events exclude each other")
    if output.exists() and not (is_profile(output) or output.stat().st_size == 0):
        raise Failure(USAGE, f"{output} exists and is not a profile; choose another name with --output")
    folder = output.absolute().parent
    if not folder.is_dir():
        raise Failure(USAGE, f"there is no folder {folder}; make it, or choose another name with --output")
    if left is not None:
        whole, found = rescue(left, lambda made: write(made, output), version())
        code, said = DONE, notes(whole, found)
    else:
        whole, code, said = profile(
            Request(
                command=command,
                folder=folder,
                events=0 if no_trace else DEFAULT_EVENTS if events is None else events,
                started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                version=version(),
            ),
            lambda made: write(made, output),
        )
    if not quiet:
        for sentence in said:
            say(sentence)
        say(f"{summary(whole)}; netpipe show {output} prints them")
    return code


def summary(whole: Profile) -> str:
    """How many calls there were, and what they took."""
    from netpipe.units import counted

    ranks = [one for one in whole.ranks if one.seconds > 0]
    share = sum(one.mpi_s for one in ranks) / max(sum(one.seconds for one in ranks), 1e-9)
    calls = sum(one.calls for one in ranks)
    threads = any(one.threads == "multiple" for one in ranks)
    added = ", the times of all threads of a rank added up" if threads else ""
    made = f"{counted(whole.header.ranks, 'rank')} made {calls:,} calls of MPI"
    return f"{made}, which took {share:.0%} of the time{added}"
