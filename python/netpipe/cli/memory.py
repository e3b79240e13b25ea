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
    from collections.abc import Mapping

    from netpipe.session import Progress, Session

LAUNCHES = 3
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
    session = planned(given)
    starts = len(session.request.process_counts) * session.request.launches
    result = measuring.measure(session, given, Starts(starts, given["quiet"]))
    if not given["quiet"]:
        measuring.print_result(result, given, f"The run is in {result.path}")
    return result.exit_code


def planned(given: Mapping[str, Any]) -> Session:
    """The checked plan of these options. Raises Failure."""
    from netpipe.launch.variants import TRANSPORTS
    from netpipe.session import Session, process_counts

    return Session(
        measuring.request(
            {name: value for name, value in given.items() if name != "ranks"},
            SETTINGS,
            patterns=("none",),
            launches=given["launches"] or LAUNCHES,
            process_counts=process_counts(given["ranks"]),
            defaults=TRANSPORTS,  # the layers below the libraries, and every library that was added
        )
    )


@dataclass(slots=True)
class Starts:
    """A line for each launch."""

    launches: int
    quiet: bool
    seen: int = 0

    def show(self, progress: Progress) -> None:
        from netpipe.events import Ready
        from netpipe.units import counted, launch_text

        if progress.note:
            say(progress.note)
        if isinstance(progress.event, Ready):
            self.seen += 1
            opened = [variant for variant in progress.run.variants if variant.launch == progress.launch]
            most = max((len(variant.ranks) for variant in opened), default=0)
            variants = counted(progress.event.variants or 0, "variant")
            launch = launch_text(self.seen, self.launches)
            self.say(f"{launch}: {variants} opened, with up to {counted(most, 'rank')}")

    def say(self, sentence: str) -> None:
        if not self.quiet:
            say(sentence)

    def close(self) -> None:
        pass
