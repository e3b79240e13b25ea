# SPDX-License-Identifier: Apache-2.0
"""The figures of a profile's page: bars in tables, columns of many ranks, and who sends to whom.

A kind of call has the same colour in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from netpipe.profiles.figures import KINDS, MOVES, OTHERS, Matrix, PhaseKinds, RankKinds, SizeBin
from netpipe.profiles.tables import CallTime
from netpipe.profiles.waiting import Waiting
from netpipe.render.terminal.profile import MOST_CALLS
from netpipe.units import SIZE_STEPS, counts_text, digits, percent_text, size_text, time_text, unit_of

COLORS = ("c0", "c5", "c1", "c4", "c6")  # of KINDS; classes of the page
COMPUTES = ("rest", "computing")
LATE = (
    ("c4", "for late senders"),
    ("c3", "for late receivers"),
    ("c1", "in collectives"),
    ("rest", "transfer"),
)
MOST_ROWS = 32  # ranks with a bar of their own; of more the bars stand side by side
MOST_COLUMNS = 512  # that stand side by side; of more ranks each is the mean of several
MOST_NAMED = 6  # ranks of a matrix whose cells hold their numbers
MOST_TICKS = 8
LEVELS = 10  # of colour in a matrix
WIDE = 20.0  # if the largest exceeds the smallest by more, the levels are logarithmic
LEFT, TOP, SIDE = 40.0, 34.0, 360.0  # of the matrix, in units of its drawing


@dataclass(frozen=True, slots=True)
class Part:
    """Of a bar."""

    color: str  # its class
    percent: str  # of the longest bar there can be
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str  # name, bar or number


@dataclass(frozen=True, slots=True)
class Bars:
    """A table in which some cells are bars."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | tuple[Part, ...], ...], ...]
    legend: tuple[tuple[str, str], ...]  # (class, what it stands for)


@dataclass(frozen=True, slots=True)
class Columns:
    """Ranks side by side."""

    drawing: Markup
    top: str  # what the full height is
    ticks: tuple[str, ...]  # below, evenly spread
    legend: tuple[tuple[str, str], ...]
    ranks_per_column: int


@dataclass(frozen=True, slots=True)
class Map:
    title: str
    drawing: Markup
    least: str  # that has the lightest colour
    most: str
    logarithmic: bool


@dataclass(frozen=True, slots=True)
class Maps:
    maps: tuple[Map, ...]  # empty: no messages
    ranks_per_bin: int
    without_peer: str  # empty: none


def _parts(
    values: Sequence[float], whole: float, texts: Sequence[str], colors: Sequence[str]
) -> tuple[Part, ...]:
    return tuple(
        Part(color, f"{100 * value / whole:.2f}", text)
        for value, text, color in zip(values, texts, colors, strict=True)
        if value > 0
    )


def _volume(total_bytes: int) -> str:
    """Three digits: a matrix has room for no more."""
    step, unit = unit_of(total_bytes, SIZE_STEPS, "B")
    return f"{total_bytes} B" if unit == "B" else f"{digits(total_bytes / step)} {unit}"


def _legend(kinds: Iterable[int]) -> tuple[tuple[str, str], ...]:
    return tuple((COLORS[kind], KINDS[kind]) for kind in sorted(set(kinds)))


# --------------------------------------------------------------------------------------------------------- as bars


def by_call(found: Sequence[CallTime], kinds: Mapping[str, int]) -> Bars | None:
    """The calls that take most time of all ranks; the others are summed."""
    timed = [one for one in found if one.all_ranks.time_ns > 0]
    if not timed:
        return None
    many = len(timed) if len(timed) <= MOST_CALLS + 1 else MOST_CALLS
    whole = timed[0].all_ranks.time_ns
    rows = []
    for one in timed[:many]:
        of = one.all_ranks
        color = COLORS[kinds.get(one.call, OTHERS)]
        rows.append(_call_row(one.call, color, of.time_ns, of.share, of.calls, whole))
    if others := [one.all_ranks for one in timed[many:]]:
        time, calls = sum(of.time_ns for of in others), sum(of.calls for of in others)
        share = sum(of.share for of in others if of.share is not None)
        whole_too = max(whole, time)
        rows.append(_call_row(f"{len(others)} others", "rest", time, share, calls, whole_too))
    return Bars(
        (
            Column("call", "name"),
            Column("", "bar"),
            Column("time", "number"),
            Column("share", "number"),
            Column("calls", "number"),
        ),
        tuple(rows),
        _legend(kinds.get(one.call, OTHERS) for one in timed[:many]),
    )


def _call_row(
    name: str, color: str, time_ns: int, share: float | None, calls: int, whole: int
) -> tuple[str | tuple[Part, ...], ...]:
    time = time_text(time_ns)
    return name, _parts([time_ns], whole, [time], [color]), time, percent_text(share), counts_text(calls)


def by_size(found: Sequence[SizeBin]) -> Bars | None:
    """Calls and bytes side by side for each power of two."""
    if not found:
        return None
    most_calls = max(1, *(sum(one.calls) for one in found))
    most_bytes = max(1, *(sum(one.bytes) for one in found))
    colors = [COLORS[kind] for kind in MOVES]
    rows: list[tuple[str | tuple[Part, ...], ...]] = []
    for one in found:
        calls = [f"{counts_text(many)} {KINDS[kind]}" for kind, many in zip(MOVES, one.calls, strict=True)]
        volumes = [f"{_volume(many)} in {KINDS[kind]}" for kind, many in zip(MOVES, one.bytes, strict=True)]
        rows.append(
            (
                f"≤ {size_text(one.most_bytes)}" if one.most_bytes > 1 else size_text(one.most_bytes),
                _parts(one.calls, most_calls, calls, colors),
                counts_text(sum(one.calls)) if sum(one.calls) else "",
                _parts(one.bytes, most_bytes, volumes, colors),
                _volume(sum(one.bytes)) if sum(one.bytes) else "",
            )
        )
    return Bars(
        (
            Column("size", "name"),
            Column("calls", "bar"),
            Column("", "number"),
            Column("bytes", "bar"),
            Column("", "number"),
        ),
        tuple(rows),
        _legend(kind for one in found for kind, many in zip(MOVES, one.calls, strict=True) if many),
    )


def by_rank(found: Sequence[RankKinds]) -> Bars | Columns | None:
    """What each rank computes, and its time in MPI by kind of call."""
    whole = max((one.compute_s + sum(one.by_kind_s) for one in found), default=0.0)
    if whole <= 0:
        return None
    kinds = [kind for kind in range(len(KINDS)) if any(one.by_kind_s[kind] > 0 for one in found)]
    legend = (COMPUTES, *_legend(kinds))
    if len(found) > MOST_ROWS:
        return _columns(found, kinds, legend)
    rows: list[tuple[str | tuple[Part, ...], ...]] = []
    colors = [COMPUTES[0], *(COLORS[kind] for kind in kinds)]
    for one in found:
        values = [one.compute_s, *(one.by_kind_s[kind] for kind in kinds)]
        names = [COMPUTES[1], *(KINDS[kind] for kind in kinds)]
        texts = [f"{name}: {time_text(value * 1e9)}" for name, value in zip(names, values, strict=True)]
        rows.append(
            (
                str(one.rank),
                _parts(values, whole, texts, colors),
                time_text(one.compute_s * 1e9),
                time_text(one.mpi_s * 1e9),
                percent_text(one.mpi_s / one.seconds if one.seconds else None),
            )
        )
    return Bars(
        (
            Column("rank", "name"),
            Column("", "bar"),
            Column("computes", "number"),
            Column("in MPI", "number"),
            Column("share", "number"),
        ),
        tuple(rows),
        legend,
    )


def by_phase(found: Sequence[PhaseKinds], waiting: Waiting) -> Bars | None:
    """The time in MPI of all ranks in each phase, by kind of call; of many phases those with most of it."""
    if sum(one.phase is not None for one in found) < 2:
        return None
    times = [sum(one.by_kind_s) for one in found]
    kept = sorted(range(len(found)), key=lambda at: -times[at])[:MOST_ROWS]
    whole = max(times)
    if whole <= 0:
        return None
    kinds = [kind for kind in range(len(KINDS)) if any(found[at].by_kind_s[kind] > 0 for at in kept)]
    waits: dict[int | None, int] = {one.phase: one.waiting_ns for one in waiting.phases}
    judged = len(waiting.ranks) > 1
    rows: list[tuple[str | tuple[Part, ...], ...]] = []
    for at in sorted(kept):
        one = found[at]
        values = [one.by_kind_s[kind] for kind in kinds]
        texts = [f"{KINDS[kind]}: {time_text(of * 1e9)}" for kind, of in zip(kinds, values, strict=True)]
        rows.append(
            (
                "not known" if one.phase is None else str(one.phase),
                _parts(values, whole, texts, [COLORS[kind] for kind in kinds]),
                time_text(times[at] * 1e9),
                percent_text(times[at] / sum(times)),
                *((time_text(waits.get(one.phase)),) if judged else ()),
            )
        )
    return Bars(
        (
            Column("phase", "name"),
            Column("", "bar"),
            Column("time", "number"),
            Column("of MPI", "number"),
            *((Column("waits", "number"),) if judged else ()),
        ),
        tuple(rows),
        _legend(kinds),
    )


def by_waiting(waiting: Waiting) -> Bars | None:
    """How much of each rank's time in MPI is waiting, and for what; of many ranks those that wait longest."""
    ranks = waiting.ranks
    if waiting.problem is not None or len(ranks) < 2 or not waiting.waiting_ns:
        return None
    if len(ranks) > MOST_ROWS:
        ranks = sorted(sorted(ranks, key=lambda one: -one.waiting_ns)[:MOST_ROWS], key=lambda one: one.rank)
    whole = max(one.mpi_ns for one in ranks)
    colors, names = zip(*LATE, strict=True)
    rows: list[tuple[str | tuple[Part, ...], ...]] = []
    for one in ranks:
        values = [
            one.late_sender_ns,
            one.late_receiver_ns,
            one.collective_ns,
            one.mpi_ns - one.waiting_ns,
        ]
        texts = [f"{name}: {time_text(value)}" for name, value in zip(names, values, strict=True)]
        rows.append(
            (
                str(one.rank),
                _parts(values, whole, texts, colors),
                time_text(one.waiting_ns),
                percent_text(one.waiting_ns / one.mpi_ns if one.mpi_ns else None),
                time_text(one.waited_for_ns),
            )
        )
    return Bars(
        (
            Column("rank", "name"),
            Column("", "bar"),
            Column("waits", "number"),
            Column("of MPI", "number"),
            Column("is waited for", "number"),
        ),
        tuple(rows),
        LATE,
    )


def _columns(
    found: Sequence[RankKinds], kinds: Sequence[int], legend: tuple[tuple[str, str], ...]
) -> Columns:
    each = -(-len(found) // MOST_COLUMNS)
    groups = [found[at : at + each] for at in range(0, len(found), each)]
    stacks = [
        [
            sum(one.compute_s for one in group) / len(group),
            *(sum(one.by_kind_s[kind] for one in group) / len(group) for kind in kinds),
        ]
        for group in groups
    ]
    whole = max(map(sum, stacks))
    base = [0.0] * len(stacks)
    paths = []
    for layer, (color, _) in enumerate(legend):
        steps = []
        for place, stack in enumerate(stacks):
            low, high = base[place], base[place] + stack[layer]
            base[place] = high
            if high > low:
                bottom, top = 100 - 100 * low / whole, 100 - 100 * high / whole
                steps.append(f"M{place} {bottom:.2f}V{top:.2f}h1V{bottom:.2f}z")
        paths.append(f'<path class="{color}" d="{"".join(steps)}"/>')
    box = f'viewBox="0 0 {len(stacks)} 100" preserveAspectRatio="none"'
    drawing = f'<svg {box} aria-hidden="true">{"".join(paths)}</svg>'
    last = len(found) - 1
    ticks = tuple(str(found[round(last * part / 4)].rank) for part in range(5))
    return Columns(Markup(drawing), time_text(whole * 1e9), ticks, legend, each)  # noqa: S704  (numbers, our own names)


# --------------------------------------------------------------------------------------------------- who sends to whom


def matrix(found: Matrix) -> Maps:
    maps = []
    if any(map(any, found.calls)):
        for title, values, text in (
            ("Bytes from rank to rank", found.bytes, _volume),
            ("Messages from rank to rank", found.calls, counts_text),
        ):
            there = [value for row in values for value in row if value]
            if there:
                drawing = _map(title, found, values, min(there), max(there), text is _volume)
                wide = _wide(min(there), max(there))
                maps.append(Map(title, drawing, text(min(there)) if wide else "0", text(max(there)), wide))
    return Maps(
        tuple(maps), found.ranks_per_bin, counts_text(found.without_peer) if found.without_peer else ""
    )


def level(value: int, least: int, most: int) -> int:
    """From 1 to LEVELS, for what is more than nothing."""
    if _wide(least, most):
        return math.ceil((0.1 + 0.9 * math.log(value / least) / math.log(most / least)) * LEVELS - 1e-9)
    return math.ceil(value / most * LEVELS - 1e-9)


def _wide(least: int, most: int) -> bool:
    """Whether the levels are logarithmic."""
    return most > WIDE * least


def _map(
    title: str, found: Matrix, values: Sequence[Sequence[int]], least: int, most: int, in_bytes: bool
) -> Markup:
    many = len(values)
    cell = SIDE / many
    gap = min(2.0, cell * 0.08)
    named = many <= MOST_NAMED
    size = f"{cell - gap:.2f}".rstrip("0").rstrip(".")
    made = [
        f'<rect class="field" x="{LEFT:g}" y="{TOP:g}" width="{SIDE:g}" height="{SIDE:g}"/><g class="cells">'
    ]
    names = [_ranks_of(found, place) for place in range(many)]
    written = []
    for row, of in enumerate(values):
        y = TOP + row * cell
        for column, value in enumerate(of):
            if not value:
                continue
            x = LEFT + column * cell
            strength = level(value, least, most)
            told = f"{names[row]} to {names[column]}: {_messages(found.calls[row][column])}, " + _volume(
                found.bytes[row][column]
            )
            made.append(
                f'<rect class="o{strength}" x="{x + gap / 2:.4g}" y="{y + gap / 2:.4g}" width="{size}" height="{size}">'
                f"<title>{told}</title></rect>"
            )
            if named:
                inside = _volume(value) if in_bytes else counts_text(value)
                dark = ' class="on"' if strength > LEVELS * 0.55 else ""
                written.append(
                    f'<text{dark} x="{x + cell / 2:.4g}" y="{y + cell / 2 + 4:.4g}">{inside}</text>'
                )
    made += ["</g>", *written]
    step = -(-many // MOST_TICKS)
    for place in range(0, many, step):
        middle = (place + 0.5) * cell
        number = place * found.ranks_per_bin
        made.append(f'<text x="{LEFT + middle:.4g}" y="{TOP - 6:g}">{number}</text>')
        made.append(f'<text class="end" x="{LEFT - 6:g}" y="{TOP + middle + 4:.4g}">{number}</text>')
    made.append(f'<text class="axis" x="{LEFT + SIDE / 2:g}" y="11">receives</text>')
    middle = TOP + SIDE / 2
    made.append(f'<text class="axis" transform="translate(10 {middle:g}) rotate(-90)">sends</text>')
    wide, high = LEFT + SIDE, TOP + SIDE
    return Markup(  # noqa: S704  (numbers, and our own words)
        f'<svg class="map" viewBox="0 0 {wide:g} {high:g}" role="img" aria-label="{title}">{"".join(made)}</svg>'
    )


def _messages(calls: int) -> str:
    return f"{counts_text(calls)} {'message' if calls == 1 else 'messages'}"


def _ranks_of(found: Matrix, place: int) -> str:
    first = place * found.ranks_per_bin
    last = min(found.ranks, first + found.ranks_per_bin) - 1
    return f"rank {first}" if first == last else f"ranks {first} to {last}"
