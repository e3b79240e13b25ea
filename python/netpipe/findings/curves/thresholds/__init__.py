# SPDX-License-Identifier: Apache-2.0
"""Rules about sizes at which a layer begins to do something else."""

from __future__ import annotations

import numpy as np

from netpipe.reading import Reading
from netpipe.reading.blocks.steps import Step

FALLS = 0.9  # of the throughput just below a step: one that certainly keeps more is no dip


def back_at(reading: Reading, step: Step) -> int | None:
    """The size (bytes) at which the throughput of a curve is again what it was just below a step at which it fell by a
    tenth or more, and certainly more than just above it; None: it did not fall so far, or is not back.
    """
    if step.times.low * FALLS <= step.above_bytes / step.below_bytes:
        return None
    points = reading.by_name[step.variant, step.pattern].joined
    size, rates = points.size, points.rates
    below, above = np.searchsorted(size, (step.below_bytes, step.above_bytes)).tolist()
    back = (size > step.above_bytes) & (rates.value >= rates.value[below]) & (rates.low > rates.high[above])
    return int(size[back].min()) if back.any() else None
