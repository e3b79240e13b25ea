# SPDX-License-Identifier: Apache-2.0
"""What was asked for and not measured, with the reason that the layer gave. Of sizes that have no time because every
sample lost a message, it says how much was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, Quantity, examples, rule
from netpipe.reading import Reading
from netpipe.reading.measures import LOSS
from netpipe.records import Run
from netpipe.records import Skipped as SkippedRecord
from netpipe.units import limits_text, listed, percent_text, sizes_text


def left_out(run: Run) -> dict[tuple[str, str | None, str], tuple[int, ...]]:
    """(variant, pattern, reason) -> the sizes that were skipped; () is all of them. A pattern of None is every one."""
    found: dict[tuple[str, str | None, str], list[SkippedRecord]] = {}
    for skip in run.skipped:
        found.setdefault((skip.variant, skip.pattern, skip.reason.rstrip(".")), []).append(skip)
    return {
        (variant, pattern, _with_loss(reason, several)): tuple(
            sorted({skip.size_bytes for skip in several if skip.size_bytes is not None})
        )
        for (variant, pattern, reason), several in found.items()
    }


def _with_loss(reason: str, several: list[SkippedRecord]) -> str:
    """The reason; where these sizes lost messages in every sample, how many they lost of them."""
    shares = [
        one.median for skip in several for one in skip.measures if one.name == LOSS and one.median is not None
    ]
    if not shares:
        return reason
    low, high = percent_text(min(shares)), percent_text(max(shares))
    lost = low if low == high else limits_text(min(shares), max(shares), percent_text)
    return f"{lost} of the messages were lost, and no sample was whole"


@rule("not-measured", "Not measured")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each reason and the sizes to which it applies."""
    names: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[str]] = {}
    known = {(point.variant, point.pattern, point.size_bytes) for point in reading.run.points}
    for (variant, pattern, reason), sizes in left_out(reading.run).items():
        there = tuple(size for size in sizes if (variant, pattern, size) in known)
        names.setdefault((reason, sizes, there), []).append(f"{variant} {pattern}" if pattern else variant)
    for (reason, sizes, there), several in names.items():
        # What one launch skipped another one may have measured.
        some = f" ({sizes_text(there)} in some launches only)" if there else ""
        yield Finding(
            severity=NOTE,
            what=f"Skipped {f'{sizes_text(sizes)} of ' if sizes else ''}{listed(several)}{some}: {reason}.",
            evidence={"curves": Quantity(len(several), "curves"), "sizes": Quantity(len(sizes), "sizes")},
            certainty=AS_RECORDED,
        )


def fires() -> Run:
    skip = SkippedRecord(
        variant="tcp", pattern="collective", size_bytes=12, reason="not a multiple of 8 bytes"
    )
    return examples.run(examples.point("tcp", 8, 1000.0), skip)


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
