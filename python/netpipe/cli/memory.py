# SPDX-License-Identifier: Apache-2.0
"""netpipe memory: what it costs each process to open a library, and how long that takes, for several numbers of
processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from netpipe.command import measuring
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.session import Progress

LAUNCHES = 3
DEFAULT_VARIANTS = ("shm", "tcp")  # and every MPI library that was added
# Only the start is timed, which takes long when many ranks share a processor.
TIMEOUT_S = "60"
SETTINGS = {"schedule": "list", "sizes": "1", "timeout": TIMEOUT_S}


@measuring.measuring_command(
    output="memory.jsonl",
    plan_options=("timeout", "bind", "pin"),
    defaults={"timeout": TIMEOUT_S, "launches": LAUNCHES},
    more=(
        click.option(
            "--ranks",
            default="2,4,8,16",
            metavar="N,N,...",
            help="Numbers of processes  [default: 2,4,8,16]",
        ),
    ),
)
def command(**given: Any) -> int:
    """Measure the memory and the start-up time of VARIANTs.

    Starts each library with different numbers of processes. Records what each process has taken after a barrier, and
    after every rank has exchanged a message with every other. Without a VARIANT: shm, tcp and every MPI library that
    was added. netpipe plot --figure memory and --figure startup draw the result.
    """
    from netpipe.session import Session, process_counts

    counts = process_counts(given.pop("ranks"))
    launches = given["launches"] or LAUNCHES
    session = Session(
        measuring.request(
            given,
            SETTINGS,
            patterns=("none",),
            launches=launches,
            process_counts=counts,
            defaults=DEFAULT_VARIANTS,
        )
    )
    result = measuring.measure(session, given, Starts(len(counts) * launches, given["quiet"]))
    if not given["quiet"]:
        measuring.print_result(result, given, f"The run is in {result.path}")
    return result.exit_code


@dataclass(slots=True)
class Starts:
    """A line for each launch."""

    launches: int
    quiet: bool
    seen: int = 0

    def show(self, progress: Progress) -> None:
        from netpipe.events import Ready
        from netpipe.units import counted

        if progress.note:
            say(progress.note)
        if isinstance(progress.event, Ready):
            self.seen += 1
            opened = [variant for variant in progress.run.variants if variant.launch == progress.launch]
            most = max((len(variant.ranks) for variant in opened), default=0)
            variants = counted(progress.event.variants or 0, "variant")
            self.say(
                f"launch {self.seen} of {self.launches}: {variants} opened, with up to {counted(most, 'rank')}"
            )

    def say(self, sentence: str) -> None:
        if not self.quiet:
            say(sentence)

    def close(self) -> None:
        pass
