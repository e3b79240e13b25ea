# SPDX-License-Identifier: Apache-2.0
"""Predictions held against profiles of the same program that were taken over the predicted variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netpipe.prediction.predict import (
    PROFILER_NS,
    Predicted,
    Prediction,
    middle_of,
    time_in_mpi,
    took,
)
from netpipe.profiles.trace.calls import calls

if TYPE_CHECKING:
    from netpipe.profiles import Profile


@dataclass(frozen=True, slots=True)
class Held:
    """A prediction beside what was measured; seconds as those of the prediction."""

    prediction: Prediction
    measured: float  # the median of the launches
    launches: int
    # name, bytes, measured, predicted: by how much they differ, the most first
    by_call: tuple[tuple[str, int, float, float], ...]

    @property
    def error(self) -> float | None:
        """The prediction over the measured time, less 1; None if nothing was measured."""
        return self.prediction.seconds / self.measured - 1 if self.measured > 0 else None

    @property
    def holds(self) -> bool:
        """Whether the measured time lies in the interval."""
        return self.prediction.low <= self.measured <= self.prediction.high


def held(found: Predicted, measured: Mapping[str, Sequence[Profile]]) -> list[Held]:
    """Of the variants of which there are profiles. Raises NotAProfile without a trace."""
    return [_of(one, measured[one.variant]) for one in found.variants if one.variant in measured]


def _of(prediction: Prediction, launches: Sequence[Profile]) -> Held:
    times = [time_in_mpi(one) for one in launches]
    there = took(calls(launches[middle_of(times)], PROFILER_NS / 2))
    rows = [
        (*key, there.get(key, 0.0), prediction.by_call.get(key, 0.0))
        for key in there.keys() | prediction.by_call.keys()
    ]
    rows.sort(key=lambda row: (-abs(row[2] - row[3]), row[:2]))
    return Held(prediction, median(times), len(launches), tuple(rows))
