# SPDX-License-Identifier: Apache-2.0
"""What was asked for and not measured, with the reason that the layer gave."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, Quantity, examples, rule
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.records import Skipped as SkippedRecord
from netpipe.units import listed, sizes_text


def left_out(run: Run) -> dict[tuple[str, str | None, str], tuple[int, ...]]:
    """(variant, pattern, reason) -> the sizes that were skipped; () is all of them. A pattern of None is every one."""
    found: dict[tuple[str, str | None, str], set[int]] = {}
    for skip in run.skipped:
        sizes = found.setdefault((skip.variant, skip.pattern, skip.reason.rstrip(".")), set())
        if skip.size_bytes is not None:
            sizes.add(skip.size_bytes)
    return {key: tuple(sorted(sizes)) for key, sizes in found.items()}


@rule("not-measured", "Not measured")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each reason and the sizes to which it applies."""
    names: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (variant, pattern, reason), sizes in left_out(reading.run).items():
        names.setdefault((reason, sizes), []).append(f"{variant} {pattern}" if pattern else variant)
    for (reason, sizes), several in names.items():
        yield Finding(
            severity=NOTE,
            what=f"Skipped {f'{sizes_text(sizes)} of ' if sizes else ''}{listed(several)}: {reason}.",
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
