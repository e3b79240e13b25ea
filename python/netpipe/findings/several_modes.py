# SPDX-License-Identifier: Apache-2.0
"""A curve whose distribution of times has more than one mode. reading/modes.py has the method."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, rule
from netpipe.reading import Reading
from netpipe.reading.modes import DEEPEST_VALLEY, LEAST_SHARE, SeveralModes
from netpipe.records import Run
from netpipe.units import counted, listed, percent_text, size_text, time_text

NUMBERS = {2: "two", 3: "three", 4: "four"}


@rule("several-modes", "Several modes", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each curve, the one with the largest second mode first; only the typical sizes are looked at."""
    if all(point.histogram is None for point in reading.run.points):
        raise CannotJudge("no point has a histogram")
    several_patterns = len(reading.patterns) > 1
    for one in reading.several_modes:
        name = f"{one.variant} {one.pattern}" if several_patterns else one.variant
        number = NUMBERS.get(len(one.modes), str(len(one.modes)))
        each = listed(f"{time_text(mode.at_ns)} ({percent_text(mode.share)})" for mode in one.modes)
        also = f" Also at {listed(map(size_text, one.other_sizes))}." if one.other_sizes else ""
        yield Finding(
            severity=NOTE,
            variant=one.variant,
            pattern=one.pattern,
            size_bytes=one.point.size_bytes,
            what=f"{name} at {size_text(one.point.size_bytes)} has {number} modes: {each}, of {_samples(one)}.{also}",
            evidence={
                f"mode {place}": Quantity(mode.at_ns, "ns", mode.low_ns, mode.high_ns)
                for place, mode in enumerate(one.modes, start=1)
            },
            certainty=(
                f"Each mode has at least {percent_text(LEAST_SHARE)} of the samples, and the density between two falls "
                f"below {percent_text(DEEPEST_VALLEY)} of the lower peak; low and high are the valleys."
            ),
            cause="The operation takes one of several ways: a protocol, a wake-up or not, a cache hit or a miss.",
        )


def _samples(one: SeveralModes) -> str:
    point = one.point
    histogram = point.distribution()
    number = sum(histogram.count) if histogram else 0
    if point.single:
        return counted(number, "operation")
    return counted(number, "batch", "batches") + (
        f" of {counted(point.ops, 'operation')}" if point.ops else ""
    )


def fires() -> Run:
    histogram = examples.histogram({500.0: 3000, 1000.0: 2000})
    return examples.run(examples.point("tcp", 8, 510.0, single=True, histogram=histogram))


def silent() -> Run:
    histogram = examples.histogram({500.0: 5000})
    return examples.run(examples.point("tcp", 8, 500.0, single=True, histogram=histogram))
