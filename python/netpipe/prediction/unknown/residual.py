# SPDX-License-Identifier: Apache-2.0
"""How well the model fits the library that a profile was taken over, and when it fits too badly to predict others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from netpipe.units import digits, time_text

# A factor. Where the model says less than half, most of a prediction is what was carried over, which nothing explains;
# where it says more than twice, half of the replay is more than the program took, and no correction reaches further
# (ranking.py). All predictions of the bench are within 1.92 of what was measured (decision 21).
MOST_WRONG = 2.0


@dataclass(frozen=True, slots=True)
class Residual:
    """The model held against the profile itself."""

    variant: str
    measured: float  # seconds, as `Prediction.seconds`
    predicted: float
    # name, bytes, measured, predicted: those that differ most
    by_call: tuple[tuple[str, int, float, float], ...] = ()

    @property
    def factor(self) -> float:
        """How many times as long the one takes as the other; at least 1."""
        less, more = sorted((self.measured, self.predicted))
        return more / less if less > 0 else (math.inf if more > 0 else 1.0)

    @property
    def misfit(self) -> bool:
        """Whether nothing can be predicted by this model and these curves."""
        return self.factor > MOST_WRONG

    @property
    def least(self) -> float:
        """Of a replay over another variant, the share that what was carried over leaves at least: half, as long as half
        of the replay over the profile's own library is not more than the program took.
        """
        return min(0.5, self.measured / self.predicted) if self.predicted > 0 else 0.5

    @property
    def text(self) -> str:
        return (
            f"over its own library ({self.variant}) the profile has {time_text(1e9 * self.measured)} in MPI, and the "
            f"model says {time_text(1e9 * self.predicted)}"
        )

    @property
    def misfit_text(self) -> str:
        """Why nothing is known; empty where the model fits."""
        if not self.misfit:
            return ""
        more = self.predicted > self.measured
        times = (
            ""
            if math.isinf(self.factor)
            else f", {digits(self.factor)} times {'as much' if more else 'less'}"
        )
        return (
            f"{self.text}{times}: the curves are not what the program met, or the model does not fit it. Measure them "
            "on a quiet machine (netpipe doctor), and let --own name the settings that the program ran with"
        )
