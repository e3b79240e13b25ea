# SPDX-License-Identifier: Apache-2.0
"""Tables of a suite that are not a format of `netpipe export`: `shows = "NAME"` in its file. Each is written as CSV,
and stands in the report.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.cli.suite.parts import APPS, NODES, PAIRS, PROFILE, RUN
from netpipe.render.drawing.picture import NothingToDraw

if TYPE_CHECKING:
    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Done
    from netpipe.profiles.tables import Both, Portion, Tables

Cell = str | float | int | None
FACTS = "facts"  # of hosts; that it has no row is good news
SUMMARY = "summary"  # the table of a run file; the others are of kernels, profiles and fleets


@dataclass(frozen=True, slots=True)
class Grid:
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def csv(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return text.getvalue().encode()


def made(part: Part, done: Done, variants: tuple[str, ...], patterns: tuple[str, ...]) -> Grid:
    """Raises NothingToDraw."""
    grid = _summary(done, variants, patterns) if part.shows == SUMMARY else _SHOWS[part.shows](done)
    if not grid.rows and part.shows != FACTS:
        raise NothingToDraw(f"the run {part.run} has nothing for it")
    return grid


# ------------------------------------------------------------------------------------------------------- of a run file


def _summary(done: Done, variants: tuple[str, ...], patterns: tuple[str, ...]) -> Grid:
    assert done.reading is not None
    rows: list[tuple[Cell, ...]] = []
    for one in done.reading.summaries:
        if (variants and one.variant not in variants) or (patterns and one.pattern not in patterns):
            continue
        latency, peak = one.latency_ns, one.peak_bytes_per_s
        rows.append(
            (
                one.variant,
                one.pattern,
                *(None if latency is None else round(value / 1e3, 4) for value in _three(latency)),
                *(None if peak is None else round(value * 8 / 1e6, 3) for value in _three(peak)),
                one.peak_size_bytes,
                one.half_size_bytes and round(one.half_size_bytes),
                one.knee_size_bytes,
            )
        )
    columns: tuple[str, ...] = ("variant", "pattern", "latency_us", "latency_low_us", "latency_high_us")
    columns += (
        "peak_mbps",
        "peak_low_mbps",
        "peak_high_mbps",
        "peak_at_bytes",
        "half_from_bytes",
        "knee_bytes",
    )
    return Grid(columns, tuple(rows), "95 % intervals of the median; Mbps are 10^6 bits per second.")


def _three(estimate: object) -> tuple[float, float, float]:
    if estimate is None:
        return (0.0, 0.0, 0.0)
    return estimate.value, estimate.low, estimate.high  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------------------- of kernels


def _times(done: Done) -> Grid:
    columns = (
        "kernel",
        "class",
        "ranks",
        "over",
        "seconds",
        "low_s",
        "high_s",
        "mops",
        "speedup",
        "launches",
    )
    rows: list[tuple[Cell, ...]] = [
        (
            row.cell.kernel,
            row.cell.problem,
            row.cell.ranks,
            row.cell.variant,
            row.seconds.value if row.seconds else None,
            row.seconds.low if row.seconds else None,
            row.seconds.high if row.seconds else None,
            row.mops and round(row.mops, 3),
            row.speedup and round(row.speedup, 4),
            row.verified,
        )
        for row in done.rows or ()
    ]
    return Grid(
        columns, tuple(rows), "Medians of the launches with their 95 % interval, which needs six launches."
    )


# --------------------------------------------------------------------------------------------------------- of profiles

SIZES = ("up_to_2k", "2k_to_16k", "16k_to_1m", "over_1m")
STARTED = ("isend_calls", "isend_mean_bytes", "irecv_calls", "irecv_mean_bytes")
REUSED = ("reuse_percent", "reuse_of_bytes_percent")
COLLECTIVE = ("calls", "calls_percent", "volume_percent")
COLUMNS = {
    "message_sizes": SIZES,
    "non_blocking": STARTED,
    "buffer_reuse": REUSED,
    "collectives": COLLECTIVE,
    "same_host": COLLECTIVE,
}
FIRST_RANK = "Of the first rank, as in the paper, and of all ranks together."


def of_profile(which: str, one: Tables, all_ranks: bool = False) -> tuple[Cell, ...]:
    """The cells of a kernel, in the order of COLUMNS; None where there is nothing."""

    def side(both: Both) -> object:  # type: ignore[type-arg]
        return both.all_ranks if all_ranks else both.rank

    nothing = (None,) * len(COLUMNS[which])
    if which == "message_sizes":
        sizes = side(one.message_sizes)
        return tuple(sizes.calls) if sizes else nothing  # type: ignore[attr-defined]
    if which == "non_blocking":
        started = side(one.non_blocking)
        if not started:
            return nothing
        of = (started.sends, started.receives)  # type: ignore[attr-defined]
        return tuple(cell for each in of for cell in (each.calls, each.mean_bytes and round(each.mean_bytes)))
    portion: Portion | None = side(getattr(one, which))  # type: ignore[assignment]
    if portion is None:
        return nothing
    shares = (_percent(portion.share), _percent(portion.share_of_bytes))
    return shares if which == "buffer_reuse" else (portion.calls, *shares)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


def _profile(which: str) -> Callable[[Done], Grid]:
    def grid(done: Done) -> Grid:
        columns = ("kernel", "ranks", *COLUMNS[which], *(f"all_{name}" for name in COLUMNS[which]))
        rows = tuple(
            (name, one.facts.ranks, *of_profile(which, one), *of_profile(which, one, True))
            for name, one in done.profiles.items()
        )
        note = FIRST_RANK
        if which == "same_host":
            per_host = {one.ranks_per_host for one in done.profiles.values()} - {None}
            note += (
                " Each two consecutive ranks are taken for one host."
                if per_host
                else " All were on one host."
            )
        return Grid(columns, rows, note)

    return grid


# ----------------------------------------------------------------------------------------------------------- of fleets


def _fleet(done: Done) -> Grid:
    assert done.fleet is not None
    return Grid(
        ("what", "size_bytes", "member", "peer", "time_ns", "over_the_median", "judged"),
        tuple(done.fleet.rows()),
        done.fleet.rule_text(),
    )


def _facts(done: Done) -> Grid:
    assert done.fleet is not None
    rows = tuple((odd.fact, odd.usual, *one) for odd in done.fleet.odd for one in odd.hosts)
    note = (
        "What most hosts have, and each host that has something else; the names are those of the run files."
    )
    return Grid(("fact", "most_hosts", "host", "value"), rows, note if rows else "All facts are the same.")


_SHOWS: dict[str, Callable[[Done], Grid]] = {
    "times": _times,
    "members": _fleet,
    FACTS: _facts,
    **{which: _profile(which) for which in COLUMNS},
}
OF_KIND = {
    RUN: (SUMMARY,),
    APPS: ("times",),
    PROFILE: tuple(COLUMNS),
    NODES: ("members", FACTS),
    PAIRS: ("members",),
}
