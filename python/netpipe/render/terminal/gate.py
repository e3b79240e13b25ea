# SPDX-License-Identifier: Apache-2.0
"""What a gate found: a row for each curve, and what failed in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from netpipe.reading.across.gate import METRICS, Result, Tested, TestedMeasure
from netpipe.reading.across.measured import SHARE
from netpipe.render.terminal.compare import print_commands, print_differences, ratio_text
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import (
    UNKNOWN,
    counted,
    digits,
    limits_text,
    measure_text,
    percent_text,
    share_text,
    size_text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading.across.compared import Compared
    from netpipe.reading.estimate import Estimate

STYLES = {Result.FAILED: "red", Result.BETTER: "red", Result.UNDECIDED: "yellow", Result.PASSED: ""}
BAD = (Result.FAILED, Result.BETTER)
MOST = 12  # sentences about what failed


def print_gate(
    out: Console,
    results: Sequence[Tested],
    measures: Sequence[TestedMeasure],
    gone: Sequence[str],
    found: Compared,
    more: str | None = None,
    commands: Sequence[str] = (),
) -> None:
    """The tables, what failed, and one sentence of the outcome. `more` says what it takes to tell what cannot be told,
    and the commands do it.
    """
    every: tuple[Tested | TestedMeasure, ...] = (*results, *measures)
    several = len({one.pattern for one in every}) > 1
    if results:
        out.print(f"time over that in {found.first}, with 95 % intervals", style="bold")
        out.print(_table(results, several))
        out.print()
    if measures:
        out.print(f"sizes at which a measure is outside its limit, against {found.first}", style="bold")
        out.print(_table(measures, several))
        out.print()
    failed = list(chain(_failed(results, measures, several), _gone(gone)))
    for sentence in failed[:MOST]:
        print_paragraph(out, "✗", "red", sentence)
    if len(failed) > MOST:
        print_paragraph(out, "✗", "red", f"{len(failed) - MOST} more: --json")
    counts = Counter(one.result for one in every)
    undecided = counts[Result.UNDECIDED]
    if undecided:
        print_paragraph(
            out,
            "!",
            "yellow",
            f"{counted(undecided, 'metric')} of {len(every)} cannot be told: the intervals reach from no difference "
            f"to beyond the limit{f'; {more}' if more else ''}",
        )
        print_commands(out, commands)
    _, differences, paces = found.others[0]
    if counts[Result.FAILED] or counts[Result.BETTER] or any(pace.differs for pace in paces):
        print_differences(out, differences, paces)
    if failed:
        print_paragraph(out, "✗", "bold red", f"failed: {counted(len(failed), 'metric')}")
    elif undecided and undecided == len(every):
        none = (
            "the only metric cannot be told" if undecided == 1 else f"none of {undecided} metrics can be told"
        )
        print_paragraph(
            out, "!", "bold yellow", f"nothing was checked: {none}; with --strict that is exit code 5"
        )
    else:
        print_paragraph(
            out, "✓", "bold", f"passed: {counts[Result.PASSED]} of {counted(len(every), 'metric')}"
        )


def failures(
    results: Sequence[Tested], measures: Sequence[TestedMeasure], gone: Sequence[str]
) -> tuple[str, ...]:
    """A sentence of each metric and measure that failed, and of each curve that is gone."""
    every: tuple[Tested | TestedMeasure, ...] = (*results, *measures)
    several = len({one.pattern for one in every}) > 1
    return (*_failed(results, measures, several), *_gone(gone))


def _failed(results: Iterable[Tested], measures: Iterable[TestedMeasure], several: bool) -> Iterator[str]:
    yield from (_sentence(one, several) for one in results if one.result in BAD)
    yield from (_measure_sentence(one, several) for one in measures if one.result in BAD)


def _gone(gone: Iterable[str]) -> Iterator[str]:
    return (f"{name} is in the baseline, and the run has none of its sizes" for name in gone)


def _sentence(one: Tested, several: bool) -> str:
    """tcp: latency at 8 B: 1.12 (1.05 to 1.19) times as long as in the baseline; the limit is 5 %"""
    where = "over all sizes" if one.size_bytes is None else f"at {size_text(one.size_bytes)}"
    metric = "the time" if one.metric in ("any", "all") else one.metric
    times, how = one.times, "as long"
    if one.result is Result.BETTER:
        times, how = one.times.inverse(), "as fast"
    said = f"{digits(times.value)} ({digits(times.low)} to {digits(times.high)}) times {how}"
    limit = f"; the limit is {percent_text(one.limit)}" if one.result is Result.FAILED else ""
    return f"{_curve(one, several)}: {metric} {where}: {said} as in the baseline{limit}"


def _measure_sentence(one: TestedMeasure, several: bool) -> str:
    """udp (stream): loss at 64 KiB: 0.031 (0.029 to 0.033), in the baseline 0.010 (0.009 to 0.011): worse by 0.021
    (0.012 to 0.030); the limit is 0.010. Of what is no share, by a percentage of the value in the baseline.
    """

    def value(of: Estimate) -> str:
        text = measure_text(of.value, one.unit)
        return f"{text} ({limits_text(of.low, of.high, in_unit)})" if of.known else text

    def in_unit(number: float) -> str:
        return measure_text(number, one.unit)

    text = digits if one.unit == SHARE else share_text
    by, how = (one.worse.negative(), "better") if one.result is Result.BETTER else (one.worse, "worse")
    limit = (
        f"; the limit is {text(one.limit)}" if one.limit is not None and one.result is Result.FAILED else ""
    )
    return (
        f"{_curve(one, several)}: {one.measure} at {size_text(one.size_bytes)}: {value(one.now)}, in the baseline "
        f"{value(one.before)}: {how} by {text(by.value)} ({limits_text(by.low, by.high, text)}){limit}"
    )


def _curve(one: Tested | TestedMeasure, several: bool) -> str:
    return f"{one.variant} ({one.pattern})" if several else one.variant


def _table(results: Sequence[Tested] | Sequence[TestedMeasure], several: bool) -> Rows:
    names = list(dict.fromkeys(map(_name, results)))
    names.sort(key=lambda name: list(METRICS).index(name) if name in METRICS else len(METRICS))
    table = Rows(("variant", "name"), *((name, "right") for name in names), ("", "left"), apart=True)
    for curve in dict.fromkeys((one.variant, one.pattern) for one in results):
        of = [one for one in results if (one.variant, one.pattern) == curve]
        worst = _worst(of)
        cells = [_cell([one for one in of if _name(one) == name]) for name in names]
        table.add_row(" ".join(curve) if several else curve[0], *cells, worst.value, style=STYLES[worst])
    return table


def _name(one: Tested | TestedMeasure) -> str:
    return one.metric if isinstance(one, Tested) else one.measure


def _worst(of: Sequence[Tested | TestedMeasure]) -> Result:
    there = {one.result for one in of}
    order = (Result.FAILED, Result.BETTER, Result.UNDECIDED, Result.PASSED)
    return next(one for one in order if one in there)


def _cell(of: Sequence[Tested | TestedMeasure]) -> str:
    """The ratio of a metric, or of several sizes how many failed."""
    if not of:
        return UNKNOWN
    if isinstance(of[0], Tested) and of[0].metric != "any":
        return ratio_text(of[0].times)
    return f"{sum(one.result in BAD for one in of)} of {len(of)}"
