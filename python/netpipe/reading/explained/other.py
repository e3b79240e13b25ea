# SPDX-License-Identifier: Apache-2.0
"""What a curve in states comes to in the other ones, and what each of its launches took in its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netpipe.reading.blocks.visits import NEXT_RUN, estimates_of_each, groups, medians
from netpipe.reading.curves import Curve, visited_points
from netpipe.reading.launches import LaunchMedians

if TYPE_CHECKING:
    from netpipe.reading.columns.by_curve import CurveRecords
    from netpipe.reading.explained.decision import Split


def other_curves(split: Split, points: CurveRecords) -> tuple[Curve, ...]:
    """One for each of `others`, at the sizes that were visited in that state. They have the name of their curve."""
    return tuple(
        Curve(
            split.said.variant,
            split.said.pattern,
            visited_points(points, times),
            one_state=True,
        )
        for times in estimates_of_each(split.others, NEXT_RUN)
    )


def launch_medians(split: Split) -> LaunchMedians:
    """The medians of the visits in the state of the curve."""
    own = split.own
    of = groups(own.size, own.launch)
    times = np.exp(np.minimum(medians(of, own.log), 700)) if len(own.log) else own.log
    return LaunchMedians(own.size[of.first], own.launch[of.first], times, np.full(len(times), np.nan))
