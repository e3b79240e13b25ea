# SPDX-License-Identifier: Apache-2.0
"""netpipe memory: what opening a library costs each process, and how long that takes, over the number of processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli._choices import complete_variants
from netpipe.cli._config import config_option
from netpipe.cli.run import available, each_library, execute, make_plan, make_site, resolve
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from netpipe.launch.measure import Progress
    from netpipe.records import Run

# Beside every MPI library that was added.
DEFAULT_VARIANTS = ("shm", "tcp")
# Nothing is timed but the start, which lasts long where many ranks share a processor.
SETTINGS = {"pattern": ("none",), "schedule": "list", "sizes": "1", "timeout": "60"}


@click.command
@click.argument("variants", nargs=-1, metavar="[VARIANT]...", shell_complete=complete_variants)
@click.option(
    "--ranks",
    default="2,4,8,16",
    show_default=True,
    metavar="N,N,...",
    help="Numbers of processes; a module that only makes pairs has 2.",
)
@click.option(
    "--launches",
    type=click.IntRange(1, 10_000),
    default=3,
    show_default=True,
    metavar="N",
    help="Starts with each number of processes.",
)
@click.option("--hosts", metavar="A,B", help="Where the processes are, as in netpipe run  [here]")
@click.option(
    "--launcher", metavar="NAME", help="srun, or ssh to the hosts, instead of the library's own way."
)
@click.option("--launcher-args", metavar="WORDS", help="More options for mpirun, mpiexec or srun.")
@click.option("--remote-shell", metavar="COMMAND", help="How other hosts are reached: 'ssh -p 2222'.")
@click.option("--bind", metavar="ADDRESS", help="Where processes on --hosts reach this host  [found out]")
@click.option("--timeout", metavar="SECONDS", help="Longest time that any wait may last  [60]")
@click.option(
    "--module", multiple=True, metavar="FILE", help="A module outside the installation; may be repeated."
)
@click.option(
    "-o",
    "--output",
    default="memory.jsonl",
    show_default=True,
    metavar="FILE",
    help="The run file; an older run there is renamed.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but what went wrong.")
@click.option("--json", "as_json", is_flag=True, help="Records to standard output as they come.")
@config_option
def command(**given: Any) -> int:
    """Measure the memory and the start-up time of VARIANTs with different numbers of processes.

    Each library is started, every rank exchanges a message with every other, and what that has cost each process is
    recorded. Without a VARIANT: shm, tcp and every MPI library that was added. netpipe plot --figure memory and
    --figure startup draw the result.
    """
    from netpipe import native

    said = {key.replace("_", "-"): value for key, value in given.items() if value not in (None, False, ())}
    numbers = parse_ranks(said.pop("ranks"))
    settings = {**SETTINGS, **said}
    site = make_site(settings)
    variants = each_library(given["variants"]) or available(DEFAULT_VARIANTS)
    plans = [make_plan({**settings, "ranks": str(number)}, variants) for number in numbers]
    resolved = [
        resolve(native.plan(plan.text())) for plan in plans
    ]  # a fault in any shows before the first begins
    output = Path(given["output"])
    display = Starts(len(numbers) * given["launches"], given["quiet"])
    run, code = execute(
        plans[0],
        resolved[0],
        output,
        given["launches"],
        display,
        given["as_json"],
        False,
        site,
        tuple(plans[1:]),
    )
    if not given["quiet"]:
        conclude(run, output, given["as_json"])
    return code


def parse_ranks(text: str) -> list[int]:
    """Rising, each once. Raises Failure (2)."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and int(word) > 0 for word in words):
        raise Failure(
            USAGE, f"--ranks {text}: write numbers of processes with commas between them, such as 2,4,8"
        )
    return sorted({int(word) for word in words})


@dataclass(slots=True)
class Starts:
    """One line for each launch; a display as those of render.live."""

    launches: int
    quiet: bool
    seen: int = 0

    def show(self, progress: Progress) -> None:
        from netpipe.cli import say
        from netpipe.launch.events import Ready

        if progress.note:
            say(progress.note)
        if isinstance(progress.event, Ready):
            self.seen += 1
            opened = [variant for variant in progress.run.variants if variant.launch == progress.launch]
            most = max((len(variant.ranks) for variant in opened), default=0)
            self.say(
                f"launch {self.seen} of {self.launches}: {progress.event.variants} opened with up to {most} ranks"
            )

    def say(self, sentence: str) -> None:
        from netpipe.cli import say

        if not self.quiet:
            say(sentence)

    def close(self) -> None:
        pass


def conclude(run: Run, output: Path, as_json: bool) -> None:
    import sys

    from netpipe.reading import Reading
    from netpipe.render.terminal.summary import console, print_summary

    out = console(sys.stderr if as_json else sys.stdout)
    print_summary(out, Reading(run))
    out.print()
    out.print(f"All of it is in {output}; netpipe report {output} makes a page of it.", soft_wrap=True)
