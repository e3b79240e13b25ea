# SPDX-License-Identifier: Apache-2.0
"""The pairs of a fleet as a map: each pair's time over the median of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from netpipe.render.drawing.picture import Map, NothingToDraw, Panel
from netpipe.units import size_text, time_text


def pairs(
    title: str, members: Sequence[str], times_ns: Mapping[int, Mapping[tuple[str, str], float]]
) -> list[Panel]:
    """`times_ns` by size, then by the pair. A pair without a time stays empty. Raises NothingToDraw."""
    views = []
    for size, of in sorted(times_ns.items()):
        if not of:
            continue
        middle = median(of.values())
        both = {**of, **{(b, a): time for (a, b), time in of.items()}}
        views.append(
            Map(
                size_text(size),
                "member",
                "member",
                tuple(members),
                tuple(members),
                tuple(tuple(_over(both.get((a, b)), middle) for b in members) for a in members),
                tuple(tuple(_text(both.get((a, b))) for b in members) for a in members),
            )
        )
    if not views:
        raise NothingToDraw("no pair has a time")
    return [Panel(title, tuple(views))]


def _over(time_ns: float | None, middle: float) -> float | None:
    return None if time_ns is None or middle <= 0 else time_ns / middle


def _text(time_ns: float | None) -> str:
    return "" if time_ns is None else time_text(time_ns)
