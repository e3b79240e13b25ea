# SPDX-License-Identifier: Apache-2.0
"""A library whose ranks share memory through a file on a disk: the kernel writes what they exchange to it."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, rule
from netpipe.findings.curves import ENV, Opened, opened, with_variables
from netpipe.findings.library import assignments, own_remedy, variables
from netpipe.libraries.settings import FILES_IN_MEMORY
from netpipe.reading import Reading
from netpipe.reading.summary import latency_place
from netpipe.records import Rank, Run

MAPPED, ON_DISK = "shared_mappings", "shared_mapping_on_disk"  # what a module records
REMEDY = "a folder in memory for it (/dev/shm, or TMPDIR on a tmpfs)"


@rule("backing-file", "Shared memory in a file", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires once for each variant whose ranks share 256 KiB or more through a file that is on a disk."""
    found = {one.curve.variant: one for one in reversed(list(opened(reading)))}  # by its first curve
    if not any(MAPPED in one.settings for one in found.values()):
        raise CannotJudge("no layer recorded the memory that its ranks share")
    for variant, one in found.items():
        file = one.settings.get(ON_DISK)
        if not file:
            continue
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=one.curve.pattern,
            what=f"{variant} shares memory through {file}, which is on a disk.",
            certainty="The mapping is certain; what it costs depends on the disk and on when the kernel writes to it.",
            cause="Each page that the ranks write is dirty, and the kernel writes it to the disk again and again.",
            remedy=_remedy(reading, variant),
            confirm=_confirm(reading, one),
        )


def _remedy(reading: Reading, variant: str) -> str:
    """The variable of exactly this version, and what else its library offers."""
    _, own = variables(reading, variant, *FILES_IN_MEMORY)
    ways = [assignments(own) or REMEDY, own_remedy(reading, variant, "backing-file")]
    return "; ".join(filter(None, ways))


def _confirm(reading: Reading, one: Opened) -> Confirm | None:
    """The variant with its files in memory, at a small message. None: its library has no variable for that, or has been
    told so, and this file is another one.
    """
    _, own = variables(reading, one.curve.variant, *FILES_IN_MEMORY)
    place = latency_place(one.curve.points)
    told = set(one.options.get(ENV, "").split(";"))
    if place is None or ENV not in one.has or not own or set(assignments(own).split()) <= told:
        return None
    size = one.curve.points[place].size_bytes
    return Confirm(one.curve.variant, with_variables(one, own), one.curve.pattern, [size])


def _run(settings: dict[str, str]) -> Run:
    made = examples.run(examples.point("mpi@x", 8, 4e2), variants=("mpi@x",))
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={MAPPED: "sm_segment", **settings})]
    return made


def fires() -> Run:
    return _run({ON_DISK: "/tmp/sm_segment"})  # noqa: S108


def silent() -> Run:
    return _run({})
