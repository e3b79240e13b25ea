# SPDX-License-Identifier: Apache-2.0
"""What a curve in states comes to in the other ones, and what each of its launches took in its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.blocks.visits import NEXT_RUN, estimates, groups, medians
from netpipe.reading.curves import Curve, curve_point

if TYPE_CHECKING:
    from netpipe.reading.explained.decision import Split
    from netpipe.records import Point


def other_curves(split: Split, points: Mapping[int, Sequence[Point]]) -> tuple[Curve, ...]:
    """One for each of `others`, at the sizes that were visited in that state. They have the name of their curve."""
    return tuple(
        Curve(
            split.said.variant,
            split.said.pattern,
            tuple(curve_point(points[size], None, time) for size, time in estimates(of, NEXT_RUN).items()),
            one_state=True,
        )
        for of in split.others
    )


def launch_medians(split: Split) -> dict[int, dict[int, float]]:
    """Size -> launch -> the median of the visits in the state of the curve, in ns."""
    own = split.own
    of = groups(own.size, own.launch)
    found: dict[int, dict[int, float]] = {}
    times = np.exp(np.minimum(medians(of, own.log), 700)).tolist() if len(own.log) else []
    for size, launch, time in zip(
        own.size[of.first].tolist(), own.launch[of.first].tolist(), times, strict=True
    ):
        found.setdefault(size, {})[launch] = time
    return found
