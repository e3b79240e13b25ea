# SPDX-License-Identifier: Apache-2.0
"""Predictions held against profiles of the same program that were taken over the predicted variants. Of a prediction
of a first part it is the same part of these profiles: as many events of each rank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from netpipe.prediction.predict import Predicted, Prediction, middle_of
from netpipe.prediction.shares import took
from netpipe.profiles import NotAProfile
from netpipe.profiles.trace.calls import calls
from netpipe.profiles.trace.chosen import of_counts, shorter
from netpipe.profiles.trace.first_part import PROFILER_NS, FirstPart, measured_time

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
    """Of the variants of which there are profiles. Raises NotAProfile without a trace, or with one that ends before
    what is predicted.
    """
    return [_of(one, measured[one.variant], found.part) for one in found.variants if one.variant in measured]


def _of(prediction: Prediction, launches: Sequence[Profile], part: FirstPart | None) -> Held:
    counts = None if part is None else part.counts
    if short := [rank for one in launches for rank in shorter(one, counts)]:
        raise NotAProfile(
            f"the profile over {prediction.variant} cannot be compared: its trace of rank {short[0]} ends before what "
            "is predicted; profile the program again with more --events, or predict a shorter part with fewer --events"
        )
    made = [calls(one, PROFILER_NS / 2, of_counts(counts)) for one in launches]
    times = [measured_time(one, some, part) for one, some in zip(launches, made, strict=True)]
    there = took(made[middle_of(times)])
    rows = [
        (*key, there.get(key, 0.0), prediction.by_call.get(key, 0.0))
        for key in there.keys() | prediction.by_call.keys()
    ]
    rows.sort(key=lambda row: (-abs(row[2] - row[3]), row[:2]))
    return Held(prediction, median(times), len(launches), tuple(rows))
