# SPDX-License-Identifier: Apache-2.0
"""The tables of the report: a header with the unit of each column, and cells as text. In a column with one unit all
numbers have the same number of decimals, so that it reads well from top to bottom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from netpipe.findings.skipped import left_out
from netpipe.reading import Reading
from netpipe.reading.blocks.verdicts import Verdict
from netpipe.reading.curves import Curve
from netpipe.reading.estimate import Bools, Estimate, Ints
from netpipe.reading.losses import Loss
from netpipe.records import Point, Run
from netpipe.render.export import whole
from netpipe.render.verdicts import names_of, side_by_side, sizes_of
from netpipe.render.words import pattern_text, promises_text, sizes_of_peak, variant_text
from netpipe.units import (
    TIME_STEPS,
    UNKNOWN,
    capped_percent_text,
    digits,
    size_text,
    sizes_text,
    time_text,
    times_text,
    unit_of,
)

THIN = "\u202f"  # between thousands
TO = " \u2013 "  # between the limits of an interval
INTERVAL = "95 % interval"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    unit: str = ""
    left: bool = False  # words to the left, numbers to the right


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    faint: tuple[bool, ...] = ()  # rows of which little is known


def fixed(number: float | None, places: int = 0, step: float = 1.0) -> str:
    """65539 with a thin space between the thousands, in units of `step`."""
    return UNKNOWN if number is None else f"{number / step:,.{places}f}".replace(",", THIN)


def time_unit_for(values_ns: Iterable[float]) -> tuple[float, str]:
    """The largest unit in which the shortest of the times is at least 1."""
    least = min(values_ns, default=0.0)
    return next(((step, unit) for step, unit in TIME_STEPS if least >= step), (1.0, "ns"))


def _limits(estimate: Estimate | None, text: Callable[[float], str]) -> str:
    if estimate is None or not estimate.known:
        return UNKNOWN
    return f"{text(estimate.low)}{TO}{text(estimate.high)}"


def _time_limits(estimate: Estimate | None) -> str:
    """In the unit of the value, which stands beside them; each with its own unit if they go far beyond."""
    step, _ = unit_of(estimate.value if estimate else 0.0, TIME_STEPS, "ns")
    if estimate and max(abs(estimate.low), abs(estimate.high)) >= 1000 * step:
        return _limits(estimate, time_text)
    return _limits(estimate, lambda value: digits(value / step))


def _words(*names: str) -> list[Column]:
    return [Column(name, left=True) for name in names]


def summary_table(reading: Reading, several_patterns: bool) -> Table:
    """A row for each curve."""
    summaries = reading.summaries
    verified = any(summary.verified for summary in summaries)
    sizes = {summary.latency_size_bytes for summary in summaries}
    one_size = sizes.pop() if len(sizes) == 1 else None
    with_pattern = several_patterns or bool(reading.operations)
    columns = _words("variant", *(["pattern"] if with_pattern else []))
    columns += [Column(f"time at {size_text(one_size)}" if one_size else "shortest time"), Column(INTERVAL)]
    columns += [] if one_size else [Column("at")]
    columns += [
        Column("peak", "Gbps"),
        Column(INTERVAL, "Gbps"),
        Column("at"),
        Column("half from"),
        Column("90 % from"),
    ]
    columns += [Column("typical ±"), *([Column("verified")] if verified else [])]
    rows = []
    for s in summaries:
        rated = s.peak_bytes_per_s if not reading.is_idle(s.variant) else None
        peak = rated.scaled(8e-9) if rated else None
        row = [variant_text(reading, s.variant, s.pattern)]
        row += [pattern_text(reading, s.pattern)] if with_pattern else []
        row += [time_text(s.latency_ns.value if s.latency_ns else None), _time_limits(s.latency_ns)]
        row += [] if one_size else [size_text(s.latency_size_bytes)]
        row += [fixed(peak.value, 2) if peak else UNKNOWN, _limits(peak, lambda value: fixed(value, 2))]
        row += [size_text(size if peak else None) for size in sizes_of_peak(s)]
        row += [capped_percent_text(s.typical_half_width)]
        row += [f"{s.verified} of {s.points}"] if verified else []
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows))


def loss_table(losses: Sequence[Loss], several_patterns: bool) -> Table:
    """A row for each loss; all of one pattern are at the same two sizes."""
    columns = _words("layer", "against", *(["pattern"] if several_patterns else []), "adds")
    small, large = (
        (sizes.pop() if len(sizes) == 1 else None)
        for sizes in (
            {loss.small.size_bytes for loss in losses if loss.small},
            {loss.large.size_bytes for loss in losses if loss.large},
        )
    )
    at = f" at {size_text(small)}" if small else ""
    columns += [] if small else [Column("at")]
    columns += [Column(f"takes{at}"), Column(INTERVAL), Column(f"added{at}"), Column(INTERVAL)]
    columns += [] if large else [Column("at")]
    columns += [Column(f"keeps at {size_text(large)}" if large else "keeps", "%"), Column(INTERVAL, "%")]
    columns += [Column("sizes that differ")]
    rows = []
    for loss in losses:
        kept = loss.large.kept.scaled(100) if loss.large else None
        row = [loss.variant, loss.below + (f" ({loss.waits[1]})" if loss.waits else "")]
        row += [loss.pattern] if several_patterns else []
        row += [loss.adds or UNKNOWN]
        row += [] if small else [size_text(loss.small.size_bytes if loss.small else None)]
        row += [
            times_text(loss.small.times.value if loss.small else None),
            _limits(loss.small.times, digits) if loss.small else UNKNOWN,
        ]
        row += [
            time_text(loss.small.added_ns.value if loss.small else None),
            _time_limits(loss.small.added_ns if loss.small else None),
        ]
        row += [] if large else [size_text(loss.large.size_bytes if loss.large else None)]
        row += [fixed(kept.value, 1) if kept else UNKNOWN, _limits(kept, lambda value: fixed(value, 1))]
        row += [f"{int(loss.sizes.seen.sum())} of {len(loss.sizes)}"]
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows))


def ratio_table(verdicts: Sequence[Verdict], several_patterns: bool) -> Table:
    """A row for each value of a sweep: how many times as long it takes as the one that it is held against."""
    found = side_by_side(verdicts)
    sizes = sizes_of(found)
    columns = _words("takes", "as long as", *(["pattern"] if several_patterns else []))
    for size in sizes:
        columns += [Column(f"times at {size_text(size)}"), Column(INTERVAL)]
    rows = []
    for one in found:
        at = {of.size_bytes: of.times for of in one.sizes}
        row = [*names_of(one), *([one.pattern] if several_patterns else [])]
        for size in sizes:
            row += [times_text(at[size].value if size in at else None), _limits(at.get(size), digits)]
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows))


MOST_KEPT = 30_000  # cells with an interval in the table of throughput kept


def few_kept(losses: Sequence[Loss]) -> bool:
    """Is there room for the throughput kept at every size, or for powers of two only?"""
    return sum(len(loss.sizes) for loss in losses) > MOST_KEPT


def loss_sizes_table(losses: Sequence[Loss]) -> Table:
    """The throughput kept at every size, two columns for each layer."""
    few = few_kept(losses)
    kept = [
        {
            size.size_bytes: size.kept.scaled(100)
            for size in (loss.sizes.at(_round(loss.sizes.size)) if few else loss.sizes)
        }
        for loss in losses
    ]
    columns = [Column("size", "B")]
    several = len({loss.pattern for loss in losses}) > 1
    for loss in losses:
        pattern = f", {loss.pattern}" if several else ""
        columns += [Column(f"{loss.variant} of {loss.below}{pattern}", "%"), Column(INTERVAL, "%")]
    rows = []
    for size in sorted({size for of_loss in kept for size in of_loss}):
        row = [fixed(size)]
        for share in (of_loss.get(size) for of_loss in kept):
            row += [fixed(share.value if share else None, 1), _limits(share, lambda value: fixed(value, 1))]
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows))


MOST_POINTS = 1000  # rows of tables, 300 bytes each: the report of a default run is to stay below 2 MB


def thinned(found: Sequence[Curve], by_launch: bool = False) -> tuple[str, tuple[Curve, ...]]:
    """The curves as the tables of points show them, and what these leave out of a large run; empty if nothing.
    `by_launch`: has the table a row for each launch, also where the points stand in one?
    """

    def number(several: Sequence[Point]) -> int:
        return 1 if not by_launch and whole.together(several) else len(several)

    def rows(of: Iterable[Curve]) -> int:
        return sum(number(several) for curve in of for several in curve.points.by_launch)

    if rows(found) <= MOST_POINTS:
        return "", tuple(found)
    curves = tuple(replace(curve, points=curve.points.at(_round(curve.points.size))) for curve in found)
    if rows(curves) <= max(MOST_POINTS, sum(len(curve.points) for curve in curves)):
        return "only the sizes that are powers of two are here", curves
    curves = tuple(
        replace(
            curve,
            points=replace(
                curve.points,
                by_launch=[at.by_launch if number(at.by_launch) == 1 else (at.shown,) for at in curve.points],
            ),
        )
        for curve in curves
    )
    return (
        "only the sizes that are powers of two are here, and of each the launch whose median is in the middle",
        curves,
    )


def _round(size_bytes: Ints) -> Bools:
    """Where it is 0 or a power of two."""
    powers: Bools = size_bytes & (size_bytes - 1) == 0
    return powers


def point_table(curve: Curve, rated: bool = True) -> Table:
    """Every size of a curve with its number of the whole run; of older and imported runs every launch."""
    shown = list(whole.rows(curve))
    points = [p for _, p, _ in shown]
    several = len({p.launch for _, p, of_run in shown if not of_run}) > 1
    launches = any(of_run and len(at.by_launch) > 1 for at, _, of_run in shown)
    states = any(at.apart or p.state is not None for at, p, _ in shown)
    verified = any(p.verified_bytes for p in points)
    time_step, time_unit = time_unit_for(p.median_ns for p in points)
    columns = [Column("size", "B"), *([Column("launch")] if several else [])]
    columns += [Column(name, time_unit) for name in ("median", "low", "high")] + [Column("±", "%")]
    columns += [Column("rate", "Mbps")] if rated else []
    columns += [Column(name, time_unit) for name in ("mean", "min", "p90", "p99", "p99.9", "max")]
    columns += [*([Column("launches")] if launches else []), Column("samples"), Column("passes")]
    columns += [*([Column("state")] if states else []), *([Column("verified", "B")] if verified else [])]
    columns += _words("ended by")
    rows = []
    for at, p, of_run in shown:
        rate = p.bytes_per_s * 8 if p.bytes_per_s else None
        row = [fixed(p.size_bytes), *([UNKNOWN if of_run else str(p.launch)] if several else [])]
        row += [fixed(value, 2, time_step) for value in (p.median_ns, p.low_ns, p.high_ns)]
        row += [fixed(p.half_width, 2, 0.01)]
        row += [fixed(rate, 2, 1e6)] if rated else []
        row += [
            fixed(value, 2, time_step)
            for value in (p.mean_ns, p.min_ns, p.p90_ns, p.p99_ns, p.p999_ns, p.max_ns)
        ]
        row += [str(len(at.by_launch)) if of_run else UNKNOWN] if launches else []
        row += [fixed(p.samples), fixed(p.passes)]
        row += ["another" if at.apart else fixed(p.state)] if states else []
        row += [fixed(p.verified_bytes)] if verified else []
        row += [p.stop or UNKNOWN]
        rows.append(tuple(row))
    faint = (at.loose if of_run else p.converged is False for at, p, of_run in shown)
    return Table(tuple(columns), tuple(rows), tuple(faint))


def plan_table(run: Run) -> Table:
    """What was asked for, defaults included, a row for each setting; if launches differ, the row names the launches."""
    said: dict[tuple[str, str], list[str]] = {}
    for plan in run.plans:
        fields = plan.fields()
        sizes = fields.pop("sizes")
        lines = flattened(
            {name: value for name, value in fields.items() if name not in ("launch", "variants", "modes")}
        )
        if sizes:
            shown = ", ".join(map(str, sizes[:6])) + (f" … {sizes[-1]}" if len(sizes) > 6 else "")
            lines.append(("sizes", f"{len(sizes)}: {shown} B"))
        for line in lines:
            said.setdefault(line, []).append(str(plan.launch))
    rows = [
        (name, text if len(launches) == len(run.plans) else f"{text} (launch {', '.join(launches)})")
        for (name, text), launches in said.items()
    ]
    return Table(tuple(_words("setting", "value")), tuple(rows))


Names = Callable[[str], bool]  # is this variant, or pattern, one of those that the page shows?


def options_table(run: Run, shown: Names) -> Table:
    """The options of variants and patterns, defaults included."""
    said = [(v.variant, v.options) for plan in run.plans for v in plan.variants if shown(v.variant)]
    said += [(mode.pattern, mode.options) for plan in run.plans for mode in plan.modes if shown(mode.pattern)]
    rows = dict.fromkeys((of, name, value) for of, options in said for name, value in options.items())
    return Table(tuple(_words("variant or pattern", "option", "value")), tuple(rows))


def settings_table(run: Run, shown: Names) -> Table:
    """The settings in force, by rank; and the counters of the layers."""
    several = len({opened.launch for opened in run.variants}) > 1
    found: dict[tuple[str, str, str], dict[str, None]] = {}  # the ranks are an ordered set

    def add(variant: str, name: str, value: object, launch: int, rank: int) -> None:
        who = f"{rank} (launch {launch})" if several else str(rank)
        if value is not None:
            found.setdefault((variant, name, str(value)), {})[who] = None

    for opened in run.variants:
        for rank in opened.ranks if shown(opened.variant) else ():
            facts: dict[str, object] = {"host": rank.host, "cpu": rank.cpu, "library": opened.version}
            facts["promises"] = promises_text(opened.promises) if opened.promises else None
            facts["message memory on huge pages"] = rank.huge_bytes and size_text(rank.huge_bytes)
            facts["message memory on node"] = rank.memory_node
            facts |= rank.settings
            for name, value in facts.items():
                add(opened.variant, name, value, opened.launch, rank.rank)
    for counters in run.counters:
        for name, value in counters.values.items() if shown(counters.variant) else ():
            add(counters.variant, f"counted: {name}", value, counters.launch, counters.rank)
    order = {variant: place for place, variant in enumerate(dict.fromkeys(key[0] for key in found))}
    rows = [(variant, name, value, ", ".join(ranks)) for (variant, name, value), ranks in found.items()]
    rows.sort(key=lambda row: order[row[0]])
    return Table(tuple(_words("variant", "setting", "value", "rank")), tuple(rows))


def environment_tables(run: Run) -> list[tuple[str, Table]]:
    """A table for each host: dotted names and values. Ranks and launches with different facts have their own."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = {}
    for environment in run.environments:
        facts = {name: value for name, value in environment.facts.items() if name != "spoilers"}
        who = f"rank {environment.rank}" + (f" of launch {environment.launch}" if environment.launch else "")
        groups.setdefault((environment.host or "host", tuple(flattened(facts))), []).append(who)
    columns = tuple(_words("fact", "value"))
    return [(f"{host}: {', '.join(who)}", Table(columns, rows)) for (host, rows), who in groups.items()]


def flattened(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as lines of (dotted name, text). A list of plain values becomes one text."""
    if isinstance(value, dict):
        inner = [(f"{prefix}.{key}" if prefix else str(key), item) for key, item in value.items()]
        return [line for name, item in inner for line in flattened(item, name)]
    if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        return [line for place, item in enumerate(value) for line in flattened(item, f"{prefix}.{place}")]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(_text, value)) or "none")]
    return [(prefix, _text(value))]


def _text(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def problem_tables(run: Run) -> tuple[Table, Table]:
    """(skipped, errors), without duplicates."""

    def size(size_bytes: int | None) -> str:
        return UNKNOWN if size_bytes is None else size_text(size_bytes)

    skipped = [
        (variant, pattern or UNKNOWN, sizes_text(sizes) if sizes else UNKNOWN, reason)
        for (variant, pattern, reason), sizes in left_out(run).items()
    ]
    errors = dict.fromkeys(
        (
            e.variant or UNKNOWN,
            e.pattern or UNKNOWN,
            size(e.size_bytes),
            e.host or UNKNOWN,
            fixed(e.rank),
            fixed(e.code),
            e.message,
        )
        for e in run.errors
    )
    return (
        Table(tuple(_words("variant", "pattern", "size", "why")), tuple(skipped)),
        Table(
            tuple(_words("variant", "pattern", "size", "host", "rank", "exit", "what happened")),
            tuple(errors),
        ),
    )
