# SPDX-License-Identifier: Apache-2.0
"""A run on one screen: its curves, what each layer loses of the one below, measures, findings. Numbers are never cut:
where the terminal is too narrow, words are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.measure import Measurement
from rich.text import Text

from netpipe import theory
from netpipe.findings import judge
from netpipe.findings.experiments.outcomes import withdrawn_text
from netpipe.findings.trust import tells, trust
from netpipe.reading.across.merge import name_of
from netpipe.reading.measures import typical_sizes
from netpipe.reading.sweeps import PatternSettings, number, setting_text
from netpipe.render.losses import ROUGHLY, compared_text, largest_losses, unmeasured_sentences
from netpipe.render.next_step import next_sentence
from netpipe.render.terminal.collectives import print_collectives
from netpipe.render.terminal.findings import ANSWER, print_brief, print_important
from netpipe.render.terminal.rows import WIDEST, Rows, console, interval_text, print_paragraph, spark
from netpipe.render.terminal.stack import print_stack
from netpipe.render.verdicts import ratio_text, side_by_side, sizes_of, verdict_sentences
from netpipe.render.words import UNSETTLED, measured, other_answers, rough, sizes_of_peak
from netpipe.units import (
    UNKNOWN,
    capped_percent_text,
    digits,
    measure_text,
    percent_text,
    rate_text,
    size_text,
    time_text,
    times_text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading import Reading
    from netpipe.reading.blocks.beside import Beside
    from netpipe.reading.blocks.verdicts import Verdict
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate
    from netpipe.reading.losses import Loss, SizeLoss
    from netpipe.reading.measures import Measured
    from netpipe.reading.models.pieces import Fit
    from netpipe.reading.summary import Summary

__all__ = ["Rows", "console", "interval_text", "print_summary", "spark"]

MORE_COLUMNS = 26  # of the terminal, that two more columns of the table of curves take
MOST_FITTED = 40  # curves; a fit takes some milliseconds


def print_summary(out: Console, reading: Reading) -> None:
    """All of a run on one screen."""
    summaries = dict(zip(reading.by_name, reading.summaries, strict=True))
    losses_of = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    compared = side_by_side(reading.verdicts)
    for name, group in reading.curves_by_pattern.items():
        settings = reading.settings_of.get(group[0].pattern)
        # All settings of one variant below each other: what a setting does is read downwards.
        order: dict[str, int] = {}
        for curve in group:
            order.setdefault(curve.variant, len(order))
        curves = sorted(group, key=lambda curve: order[curve.variant])
        by_curve = [losses_of[key] for curve in group if (key := (curve.variant, curve.pattern)) in losses_of]
        losses = sorted(by_curve, key=lambda loss: order[loss.variant])
        measures = [measure for curve in curves for measure in reading.measures_of(curve)]
        rows = [(curve, summaries[curve.variant, curve.pattern]) for curve in curves]
        stack = next(
            (one for one in reading.stacks if settings is None and one.pattern == group[0].pattern), None
        )
        if stack:
            out.print()
            print_stack(out, stack, name)
            print_words(out, losses)
        patterns = {curve.pattern for curve in group}
        if operations := [one for one in reading.collectives if one.message in patterns]:
            out.print()
            print_collectives(out, operations)
        out.print()
        print_curves(out, name, rows, reading, settings)
        for curve in curves:
            for other in other_answers(reading, curve):
                print_paragraph(out, "·", "dim", ": ".join(other), faint=True)
        if of_group := [one for one in compared if one.pattern in patterns]:
            out.print()
            print_ratios(out, sorted(of_group, key=lambda one: order[one.variant]), settings)
        if losses and not stack:
            out.print()
            print_losses(out, losses, settings)
        if measures:
            out.print()
            out.print(measure_table(measures, settings))
    if reading.beside:
        out.print()
        out.print(beside_table(reading.beside))
    if reading.loggp:
        from netpipe.render.terminal import loggp

        out.print()
        out.print(loggp.table(reading.loggp))
    measured_sizes = [
        point.size_bytes
        for curve in reading.curves
        if curve.pattern.partition(":")[0] == theory.PATTERN
        for point in curve.points
    ]
    models = theory.of(reading.run) if measured_sizes else ()
    if models:
        out.print()
        for model in models:
            print_paragraph(out, "·", "dim", theory.sentence(model, measured_sizes))
    if not reading.curves and reading.openings:
        from netpipe.render.terminal import openings

        openings.print_openings(out, reading.openings)
    elif not reading.curves:
        out.print(measured(reading))
    judgement = judge(reading)
    found = judgement.findings
    several_hosts = len(reading.hosts) > 1
    trusted = trust(reading, found)
    largest = largest_losses(reading.losses) if tells(reading, found) else ()
    answers = [*largest, *filter(None, (next_sentence(reading, found), trusted))]
    verdicts = verdict_sentences(reading.verdicts)
    if answers or verdicts or found or judgement.withdrawn:
        out.print()
    for answer in answers:
        print_paragraph(out, *ANSWER, answer)
    print_important(out, found, several_hosts)
    for verdict in verdicts:
        print_paragraph(out, *ANSWER, verdict)
    print_brief(out, found, several_hosts, trusted)
    if judgement.withdrawn:
        print_paragraph(out, "·", "dim", withdrawn_text(len(judgement.withdrawn)), faint=True)


class _Named:
    """The first cells of a row: the variant, printed once, and the setting if the pattern has several."""

    def __init__(self, settings: PatternSettings | None) -> None:
        self._settings = settings
        self._said: str | None = None

    def columns(self, header: str) -> list[tuple[str, str]]:
        if self._settings is None:
            return [(header, "name")]
        values = [value for of in self._settings.values.values() for value in of.values()]
        numbers = all(number(value) is not None for value in values)
        alone = self._settings.options[0] if len(self._settings.options) == 1 else "setting"
        return [(header, "name"), (alone, "right" if numbers and alone != "setting" else "name")]

    def cells(self, variant: str, pattern: str, behind: str = "") -> list[str]:
        """behind: what is said of the variant after its name."""
        variant += behind
        if self._settings is None:
            return [variant]
        repeated, self._said = self._said == variant, variant
        values = self._settings.values[pattern].values()
        setting = next(iter(values)) if len(values) == 1 else setting_text(self._settings, pattern)
        return ["" if repeated else variant, setting]


def heading(pattern: str, rows: Sequence[tuple[Curve, Summary]], reading: Reading) -> str:
    """The pattern, with its operation where that is the same in all rows and the name does not say it."""
    operations = {reading.operations.get(curve.pattern) for curve, _ in rows}
    said = operations.pop() if len(operations) == 1 else None
    return f"{pattern}, {said}" if said and said not in pattern else pattern


def print_curves(
    out: Console,
    pattern: str,
    rows: Sequence[tuple[Curve, Summary]],
    reading: Reading,
    settings: PatternSettings | None = None,
) -> None:
    """The table of curves. Where there is room it also has the size from which a curve is saturated and the rate that
    its last piece comes near.
    """
    short = curve_table(pattern, rows, reading, settings)
    room = out.width - Measurement.get(out, out.options.update(max_width=WIDEST), short).maximum
    if room < MORE_COLUMNS or len(rows) > MOST_FITTED:
        out.print(short)
        return
    out.print(curve_table(pattern, rows, reading, settings, more=True))


def curve_table(
    pattern: str,
    rows: Sequence[tuple[Curve, Summary]],
    reading: Reading,
    settings: PatternSettings | None = None,
    more: bool = False,
) -> Rows:
    """Latency, peak, n½ and how wide intervals usually are, a row for each curve; with `more` the saturation size and
    the asymptotic rate.
    """
    sizes = {summary.latency_size_bytes for _, summary in rows if summary.latency_size_bytes}
    each = len(sizes) > 1  # is of another size
    small = size_text(sizes.pop()) if len(sizes) == 1 else "small"
    crowds = [reading.crowding_of(curve.variant, curve.pattern) for curve, _ in rows]
    same = len({crowd and str(crowd) for crowd in crowds}) == 1 and crowds[0] is not None
    named = _Named(settings)
    made = Rows(
        *named.columns(heading(pattern, rows, reading) + (f", {crowds[0]}" if same else "")),
        *([("time", "right"), ("for", "right")] if each else [(f"time for {small}", "right")]),
        ("peak", "right"),
        ("at", "right"),
        ("n½", "right"),
        *([("saturates", "right"), ("asymptote", "right")] if more else []),
        ("typical ±", "right"),
    )
    for (curve, summary), crowd in zip(rows, crowds, strict=True):
        rated = not reading.is_idle(curve.variant)
        width = summary.typical_half_width
        made.add_row(
            *named.cells(curve.variant, curve.pattern, f", {crowd}" if crowd and not same else ""),
            interval_text(summary.latency_ns),
            *([size_text(summary.latency_size_bytes)] if each else []),
            *(_peak(summary) if rated else [UNKNOWN] * 3),
            *([] if not more else _saturation(summary, reading.fit_of(curve)) if rated else [UNKNOWN] * 2),
            Text(capped_percent_text(width), style="yellow" if width is None or width > UNSETTLED else ""),
        )
    return made


def _peak(summary: Summary) -> tuple[str, str, str]:
    """The peak, its size and n½."""
    peak = summary.peak_bytes_per_s
    at, half, _ = sizes_of_peak(summary)
    if peak is None:
        return UNKNOWN, size_text(at), size_text(half)
    return (ROUGHLY if rough(peak) else "") + rate_text(peak.value), size_text(at), size_text(half)


def _saturation(summary: Summary, fit: Fit | None) -> tuple[str, str]:
    """The size with 90 % of the peak, as far as the peak is known, and the rate of the last piece of the fit. Neither
    where a pattern has no rate.
    """
    peak, rate = summary.peak_bytes_per_s, fit.pieces[-1].bytes_per_s if fit else None
    if peak is None:
        return UNKNOWN, UNKNOWN
    _, _, knee = sizes_of_peak(summary)
    size = size_text(knee)
    if rate is None:
        return size, UNKNOWN
    return size, (ROUGHLY if rough(rate) or not peak.known else "") + rate_text(rate.value)


def print_losses(out: Console, losses: Sequence[Loss], settings: PatternSettings | None) -> None:
    """The table of losses. Where the words on what each layer adds do not fit beside it, they stand below."""
    whole = loss_table(losses, settings)
    if Measurement.get(out, out.options.update(max_width=WIDEST), whole).maximum <= out.width:
        out.print(whole)
        return
    out.print(loss_table(losses, settings, with_words=False))
    print_words(out, losses)


def print_words(out: Console, losses: Sequence[Loss]) -> None:
    """What each layer adds, in words, and which layers between would tell more."""
    modules = {name_of(loss.variant).partition(":")[0]: loss.adds for loss in losses if loss.adds}
    if modules:
        text = "; ".join(f"{module}: {adds}" for module, adds in modules.items())
        print_paragraph(out, "·", "dim", f"Each layer adds: {text}.", faint=True)
    for sentence in unmeasured_sentences(losses):
        print_paragraph(out, "·", "dim", sentence, faint=True)


def loss_table(
    rows: Sequence[Loss], settings: PatternSettings | None = None, with_words: bool = True
) -> Rows:
    """What each layer adds to the time of the one below, and keeps of its throughput, each at one size."""
    small, large = _one_size([loss.small for loss in rows]), _one_size([loss.large for loss in rows])
    named = _Named(settings)
    made = Rows(
        *named.columns("loss of"),
        ("against", "name"),
        *([(f"{small} takes", "right")] if small else [("takes", "right"), ("for", "right")]),
        ("more by", "right"),
        *([(f"keeps at {large}", "right")] if large else [("keeps", "right"), ("at", "right")]),
        *([("it adds", "left")] if with_words else []),
    )
    for loss in rows:
        kept = UNKNOWN
        if loss.large is not None:
            kept = compared_text(loss.large.kept, percent_text(loss.large.kept.value))
        made.add_row(
            *named.cells(loss.variant, loss.pattern),
            loss.below + ("*" if loss.waits else ""),
            _times(loss.small),
            *([] if small else [_size(loss.small)]),
            _added(loss.small),
            kept,
            *([] if large else [_size(loss.large)]),
            *([loss.adds or ""] if with_words else []),
        )
    return made


def _one_size(of: Sequence[SizeLoss | None]) -> str:
    """The size of all rows; empty if they have several, which then stand in a column."""
    sizes = {one.size_bytes for one in of if one}
    return size_text(sizes.pop()) if len(sizes) == 1 else ""


def _size(of: SizeLoss | None) -> str:
    return UNKNOWN if of is None else size_text(of.size_bytes)


def measure_table(rows: Sequence[Measured], settings: PatternSettings | None = None) -> Rows:
    """What a pattern measures besides the time, at the few sizes that represent all."""
    sizes = typical_sizes(size for measure in rows for size in measure.values)
    named = _Named(settings)
    made = Rows(
        *named.columns("measures"), ("median", "left"), *((size_text(size), "right") for size in sizes)
    )
    said: tuple[str, str] | None = None
    for measure in rows:
        curve = (measure.variant, measure.pattern)
        cells = named.cells(*curve)
        made.add_row(
            *(cells if curve != said else [""] * len(cells)),
            measure.name,
            *(_measured(measure.values.get(size), measure.unit) for size in sizes),
        )
        said = curve
    return made


def beside_table(rows: Sequence[Beside]) -> Rows:
    """How far each variant lies from itself: differences that are smaller were not to be seen in this run."""
    several = len({row.pattern for row in rows}) > 1
    made = Rows(
        ("beside itself", "name"),
        *([("pattern", "name")] if several else []),
        ("half of the sizes within", "right"),
        ("90 %", "right"),
        ("intervals that hold 1", "right"),
    )
    for row in rows:
        cells = [row.variant, *([row.pattern] if several else [])]
        made.add_row(*cells, percent_text(row.typical), percent_text(row.most), percent_text(row.holds))
    return made


def print_ratios(out: Console, rows: Sequence[Verdict], settings: PatternSettings | None) -> None:
    """The table of ratios at the few sizes that represent all; at the smallest and largest of these alone where there
    is no room for more.
    """
    sizes = sizes_of(rows)
    whole = ratio_table(rows, sizes, settings)
    out.print(whole if whole.fits(out.width) else ratio_table(rows, sorted({sizes[0], sizes[-1]}), settings))


def ratio_table(
    rows: Sequence[Verdict], sizes: Sequence[int], settings: PatternSettings | None = None
) -> Rows:
    """How many times as long each value of a sweep takes as one of them, by pairs of visits. The intervals of all sizes
    of a row hold together.
    """
    named = _Named(settings)
    made = Rows(
        *named.columns("times as long"),
        ("as", "name"),
        *((size_text(size), "right") for size in sizes),
    )
    for one in rows:
        at = {of.size_bytes: of for of in one.sizes}
        made.add_row(
            *named.cells(one.variant, one.pattern),
            one.against if one.settings is None else one.settings[1],
            *(ratio_text(at[size]) if size in at else UNKNOWN for size in sizes),
        )
    return made


def _measured(value: Estimate | None, unit: str) -> str:
    if value is None:
        return UNKNOWN
    return ("" if value.known else ROUGHLY) + measure_text(value.value, unit)


def _times(small: SizeLoss | None) -> str:
    if small is None:
        return UNKNOWN
    times = small.times
    return compared_text(times, f"{times_text(times.value)} [{digits(times.low)} {digits(times.high)}]")


def _added(small: SizeLoss | None) -> str:
    if small is None or (small.times.known and not small.seen):
        return UNKNOWN
    return ("" if small.times.known else ROUGHLY) + time_text(small.added_ns.value)
