# SPDX-License-Identifier: Apache-2.0
"""How much more often than the others one of several has to be the slowest, and by how much, to stand out."""

from __future__ import annotations

import math

FEWEST = 3  # of two nobody can tell which is the odd one
LEAST_SAMPLES = 20
LEAST_DEVIATIONS = 4.0  # of a binomial above chance: by chance alone once in 30,000
LEAST_EXCESS = 1 / 3  # of the way from chance to always
LEAST_TIMES = 1.1  # the median of the others


def clear(share: float, chance: float, samples: int) -> bool:
    """Whether one that was the slowest in this share of the samples, where `chance` was expected, stands out."""
    deviation = math.sqrt(chance * (1 - chance) / samples)
    return share > chance + LEAST_DEVIATIONS * deviation and share > chance + LEAST_EXCESS * (1 - chance)
