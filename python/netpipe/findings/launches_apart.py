# SPDX-License-Identifier: Apache-2.0
"""How far launches lie apart, beside what varies inside one (docs/method.md)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from netpipe.findings import NOTE, Finding, Quantity, examples, rule
from netpipe.reading import Reading
from netpipe.reading.launches import LaunchSpread
from netpipe.records import Run
from netpipe.units import counted, digits, percent_text, size_text

LARGE = 10.0  # from here on a factor says more than per cent


@rule("launches-apart", "Spread between launches", needs=("launches",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Always one finding for the whole run: the spread is a property of the numbers, not a fault."""
    spreads = reading.launch_spreads
    typical = median(spread.typical_spread for spread in spreads)
    worst = max(spreads, key=lambda spread: spread.worst.spread)
    inside = [spread.typical_inside for spread in spreads if spread.typical_inside is not None]
    name = f"{worst.variant}: " if len(spreads) == 1 else ""
    of = f" for {worst.variant}" if len(spreads) > 1 else ""
    beside = f"; the interval inside a launch is ±{percent_text(median(inside))}" if inside else ""
    evidence = {
        "launches": Quantity(max(spread.launches for spread in spreads), "launches"),
        "typical_spread": Quantity(typical - 1, "1"),
        "largest_spread": Quantity(worst.worst.spread - 1, "1"),
        **{f"typical spread of {_name(one)}": Quantity(one.typical_spread - 1, "1") for one in spreads},
    }
    if inside:
        evidence["typical_half_width_inside"] = Quantity(median(inside), "1")
    yield Finding(
        severity=NOTE,
        variant=worst.variant,
        pattern=worst.pattern,
        size_bytes=worst.worst.size_bytes,
        what=(
            f"{name}{counted(int(evidence['launches'].value), 'launch', 'launches')} differ by "
            f"{_apart(typical)} at a typical size, at most by {_apart(worst.worst.spread)}{of} at "
            f"{size_text(worst.worst.size_bytes)}{beside}."
        ),
        evidence=evidence,
        certainty="The largest over the smallest median of the launches; a few launches give no interval for it.",
        cause="Each start chooses placement, memory layout and sometimes the protocol anew.",
    )


def _apart(spread: float) -> str:
    """The largest over the smallest: nobody reads 2170631 %."""
    return percent_text(spread - 1) if spread < LARGE else f"a factor of {digits(spread)}"


def _name(spread: LaunchSpread) -> str:
    return f"{spread.variant} ({spread.pattern})"


def fires() -> Run:
    times = (1000.0, 1200.0, 1100.0)
    return examples.run(*(examples.point("tcp", 8, time, launch=launch) for launch, time in enumerate(times)))


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
