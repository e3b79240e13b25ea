# SPDX-License-Identifier: Apache-2.0
"""What a session on fresh launches says of settings: which of them gain over what they are held against, and which is
the simplest that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.tuning.measuring.bench import Bench
from netpipe.tuning.measuring.ratios import Scores, Verdict, scores, verdict
from netpipe.tuning.search.goals import Goal
from netpipe.tuning.search.halving import LEAST_GAIN
from netpipe.tuning.search.variants import Changes

COPY = "#2"  # after a variant: beside itself


@dataclass(frozen=True)
class Decision:
    """`best`: None where nothing gains. `tried` is the fastest then, None where nothing was measured to its end."""

    best: Changes | None
    tried: Changes | None
    decided: Mapping[Changes, Verdict]
    beside: Estimate | None  # the reference beside itself


def decide(bench: Bench, run: Run, reference: Changes, some: Sequence[Changes], tests: int) -> Decision:
    """Over `reference`, which the run has beside itself. The simplest settings that gain, unless others are certainly
    faster than those: a setting that does nothing is no part of an answer. Intervals hold for `tests` of them together.
    """
    start = bench.start
    copy = bench.name(f"{start.variant(reference)}{COPY}")
    itself = _against(bench, run, reference, bench.goal, tests)
    whole = _against(bench, run, reference, bench.goal, tests, copy)
    beside, apart = itself.of.get(copy), itself.apart(copy, bench.goal)
    decided = {
        one: verdict(whole.of[name], beside, apart)
        for one in some
        if (name := bench.name(start.variant(one))) in whole.of
    }
    best: Changes | None = None
    for one in sorted(decided, key=lambda one: len(one.items)):
        if decided[one].gains and (best is None or _certainly_faster(bench, run, one, best, tests)):
            best = one
    fastest = max(decided, key=lambda one: decided[one].times_as_fast.value, default=None)
    return Decision(best, fastest if best is None else best, decided, beside)


def times_over(
    bench: Bench, run: Run, one: Changes, reference: Changes, goal: Goal, tests: int = 1
) -> Estimate | None:
    """What `one` takes over what `reference` takes, both in the run, for a goal; None where a place is missing."""
    found = _against(bench, run, reference, goal, tests)
    return found.of.get(bench.name(bench.start.variant(one)))


def _certainly_faster(bench: Bench, run: Run, one: Changes, than: Changes, tests: int) -> bool:
    times = times_over(bench, run, one, than, bench.goal, tests)
    return times is not None and times.known and times.high * LEAST_GAIN < 1


def _against(bench: Bench, run: Run, reference: Changes, goal: Goal, tests: int, copy: str = "") -> Scores:
    base = bench.name(bench.start.variant(reference))
    return scores(run, base, goal.patterns, goal, goal.counted, tests, copy)
