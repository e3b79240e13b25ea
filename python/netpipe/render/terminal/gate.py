# SPDX-License-Identifier: Apache-2.0
"""What a gate found: a row for each curve, and what failed in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from netpipe.reading.across.gate import METRICS, Result
from netpipe.render.terminal.compare import print_differences, ratio_text
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import UNKNOWN, counted, digits, percent_text, size_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading.across.compared import Compared
    from netpipe.reading.across.gate import Tested

STYLES = {Result.FAILED: "red", Result.BETTER: "red", Result.UNDECIDED: "yellow", Result.PASSED: ""}
MOST = 12  # sentences about what failed


def print_gate(out: Console, results: Sequence[Tested], gone: Sequence[str], found: Compared) -> None:
    """The table, what failed, and one sentence of the outcome."""
    metrics = [name for name in METRICS if any(one.metric == name for one in results)]
    several = len({one.pattern for one in results}) > 1
    columns = ((name, "right") for name in metrics)
    table = Rows(("variant", "name"), *columns, ("", "left"), apart=True)
    for curve in dict.fromkeys((one.variant, one.pattern) for one in results):
        of = [one for one in results if (one.variant, one.pattern) == curve]
        worst = _worst(of)
        cells = [_cell([one for one in of if one.metric == name]) for name in metrics]
        table.add_row(" ".join(curve) if several else curve[0], *cells, worst.value, style=STYLES[worst])
    out.print(f"time over that in {found.first}, with 95 % intervals", style="bold")
    out.print(table)
    out.print()
    failed = [one for one in results if one.result in (Result.FAILED, Result.BETTER)]
    for one in failed[:MOST]:
        print_paragraph(out, "✗", "red", sentence(one, several))
    if len(failed) > MOST:
        print_paragraph(out, "✗", "red", f"{len(failed) - MOST} more: --json")
    for name in gone:
        print_paragraph(out, "✗", "red", f"{name} is in the baseline, and the run has none of its sizes")
    counts = Counter(one.result for one in results)
    undecided = counts[Result.UNDECIDED]
    if undecided:
        print_paragraph(
            out,
            "!",
            "yellow",
            f"{counted(undecided, 'metric')} of {len(results)} cannot be told: the intervals reach from no difference "
            "to beyond the limit; netpipe run --continue narrows them",
        )
    _, differences, paces = found.others[0]
    if failed or any(pace.differs for pace in paces):
        print_differences(out, differences, paces)
    if failed or gone:
        print_paragraph(out, "✗", "bold red", f"failed: {counted(len(failed) + len(gone), 'metric')}")
    else:
        print_paragraph(
            out, "✓", "bold", f"passed: {counts[Result.PASSED]} of {counted(len(results), 'metric')}"
        )


def sentence(one: Tested, several: bool) -> str:
    """tcp: latency at 8 B: 1.12 (1.05 to 1.19) times as long as in the baseline; the limit is 5 %"""
    name = f"{one.variant} ({one.pattern})" if several else one.variant
    where = "over all sizes" if one.size_bytes is None else f"at {size_text(one.size_bytes)}"
    metric = "the time" if one.metric in ("any", "all") else one.metric
    times, how = one.times, "as long"
    if one.result is Result.BETTER:
        times, how = one.times.inverse(), "as fast"
    said = f"{digits(times.value)} ({digits(times.low)} to {digits(times.high)}) times {how}"
    limit = "" if one.result is Result.BETTER else f"; the limit is {percent_text(one.limit)}"
    return f"{name}: {metric} {where}: {said} as in the baseline{limit}"


def _worst(of: Sequence[Tested]) -> Result:
    there = {one.result for one in of}
    order = (Result.FAILED, Result.BETTER, Result.UNDECIDED, Result.PASSED)
    return next(one for one in order if one in there)


def _cell(of: Sequence[Tested]) -> str:
    """The ratio of a metric, or of several sizes how many failed."""
    if not of:
        return UNKNOWN
    if of[0].metric != "any":
        return ratio_text(of[0].times)
    failed = sum(one.result in (Result.FAILED, Result.BETTER) for one in of)
    return f"{failed} of {len(of)}"
