# SPDX-License-Identifier: Apache-2.0
"""The two sizes at which all lines of a table stand: a small one and a large one that most curves have."""

from __future__ import annotations

import math
from collections.abc import Mapping

from netpipe.reading.summary import LATENCY_BYTES, LATENCY_MOST_BYTES


def small_size(count: Mapping[int, int]) -> int | None:
    """Of sizes and how many curves have them: the one of at most 64 bytes that most have, of several the nearest to 8
    bytes. None: there is none.
    """
    small = [size for size in count if size <= LATENCY_MOST_BYTES]
    return min(
        small, key=lambda size: (-count[size], abs(math.log(max(size, 1) / LATENCY_BYTES))), default=None
    )


def large_size(count: Mapping[int, int]) -> int | None:
    """Likewise of those above 64 bytes, of several the largest."""
    large = [size for size in count if size > LATENCY_MOST_BYTES]
    return max(large, key=lambda size: (count[size], size), default=None)
