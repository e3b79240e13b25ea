# SPDX-License-Identifier: Apache-2.0
"""Curves that are too fast to be true: a message cannot take less time than its bytes need, by much.

What a layer may reach at most depends on who moves its bytes:

* A layer that stands on memcpy, on one host: its processes do. Each can be faster than memcpy in the same run, at the
  same size, because its messages fit into a nearer cache: a step of at most 4 from one level to the next. Two
  processes that share a copy double that. So `OF_MEMCPY` for each process is beyond all of them.
* The same without memcpy in the run: the yardstick copies 4 MiB, often from main memory, and copies in the first level
  are up to 40 times as fast. Hence `OF_YARDSTICK`.
* Any other layer: a network adapter or an accelerator may do it. The fastest memory of one device so far moves 8e12
  bytes a second (HBM3e of 2025), to read and to write; `OF_ANY` leaves room.

The nearest of 19,600 points of 36 runs (shm, windows of 64 KiB) has 1.8 % of its limit.

Slower than that says nothing: what arrived can be told by --verify alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.layers import COPY_MODULE, Below

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate, Reals
    from netpipe.records import Run, Variant

# Times the rate of one copy, for each process.
OF_MEMCPY = 20
OF_YARDSTICK = 200
OF_ANY = 2e13  # bytes/s for each process


@dataclass(frozen=True, slots=True)
class TooFast:
    """A curve with impossible points, and the one that exceeds its limit the most."""

    variant: str
    pattern: str
    size_bytes: int
    time_ns: Estimate
    rate_bytes_per_s: Estimate
    most_bytes_per_s: float
    source: str  # of that limit: copy (in the run), yardstick or memory
    sizes: int  # how many are too fast


def too_fast(run: Run, curves: Sequence[Curve], is_idle: Callable[[str], bool]) -> tuple[TooFast, ...]:
    limits = _Limits(run, curves)
    found = []
    for curve in curves:
        if is_idle(curve.variant) or limits.module(curve.variant) == COPY_MODULE:
            continue
        points = curve.points
        most, source = limits.of(curve)
        beyond = np.flatnonzero(points.moves & (points.rates.low > most))
        if len(beyond):
            worst = int(beyond[(points.rates.value[beyond] / most[beyond]).argmax()])
            found.append(
                TooFast(
                    curve.variant,
                    curve.pattern,
                    int(points.size[worst]),
                    points.times.one(worst),
                    points.rates.one(worst),
                    float(most[worst]),
                    source[worst],
                    len(beyond),
                )
            )
    return tuple(found)


class _Limits:
    def __init__(self, run: Run, curves: Sequence[Curve]) -> None:
        self._opened = {one.variant: one for one in run.variants}
        self._below = Below(run)
        self._copied = {
            (curve.pattern, size, state): rate
            for curve in curves
            if curve.variant == COPY_MODULE
            for size, state, rate, moves in zip(
                curve.points.size.tolist(),
                curve.points.state,
                curve.points.rates.high.tolist(),
                curve.points.moves.tolist(),
                strict=True,
            )
            if moves
        }
        self._yardstick = max((one.copy_bytes_per_s or 0.0 for one in run.yardsticks), default=0.0)

    def module(self, variant: str) -> str:
        opened = self._opened.get(variant)
        return opened.module if opened else variant.partition(":")[0]

    def of(self, curve: Curve) -> tuple[Reals, Sequence[str]]:
        """For each point of the curve the bytes per second, and where that is from."""
        points = curve.points
        opened = self._opened.get(curve.variant)
        processes = max(1, len(opened.ranks)) if opened else 2
        if opened is None or len({rank.host for rank in opened.ranks}) > 1 or not self._copies(opened):
            return np.full(len(points), OF_ANY * processes), ["memory"] * len(points)
        otherwise, source = (
            (OF_YARDSTICK * self._yardstick, "yardstick") if self._yardstick else (OF_ANY, "memory")
        )
        copied = [
            self._copied.get((curve.pattern, size, state), 0.0)
            for size, state in zip(points.size.tolist(), points.state, strict=True)
        ]
        rates = np.array(copied)
        most = np.minimum(np.where(rates > 0, OF_MEMCPY * rates, otherwise), OF_ANY) * processes
        return most, ["copy" if rate else source for rate in copied]

    def _copies(self, opened: Variant) -> bool:
        """Whether it stands on memcpy, however far above."""
        return COPY_MODULE in self._below.down(opened)
