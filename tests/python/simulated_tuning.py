# SPDX-License-Identifier: Apache-2.0
"""A machine made up for `netpipe tune`: it takes the times that it is told to, with noise, and its clock is a number.

What it does to a measurement is what a busy machine did (docs/bench.md, tuning_buffers): each launch of a variant is
off as a whole, each visit by itself, and some visits are hit by other work and take several times as long. How many
visits there are follows from the budget as in src/sampling/sampler.cpp: visits of slow sizes have half of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from netpipe.findings import examples
from netpipe.records import Point, Visits
from netpipe.session import Request
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.bench import Bench, Measured
from netpipe.tuning.search.goals import Place, goal
from netpipe.tuning.search.halving import Failed
from netpipe.tuning.search.space import Space
from netpipe.tuning.search.variants import Changes, Start
from netpipe.tuning.tune import Outcome, Tuner, Watch

PASSES = 24  # that a budget is laid out for
SLOW_PART, SLOWEST_PART, ALWAYS_SLOW_S = 0.01, 0.5, 0.005
OPEN_S = 0.02  # to open a variant

Truth = Callable[[Mapping[str, str], int], float]  # ns of settings at a size


@dataclass(frozen=True)
class Noise:
    """Standard deviations of logarithms."""

    launch: float = 0.03
    visit: float = 0.1
    hit: float = 0.15  # of the visits are hit by other work,
    most: float = 5.0  # which makes them at most so many times as long


QUIET = Noise(0.005, 0.02, 0.02, 2.0)
LOADED = Noise()


@dataclass
class Machine(Bench):
    """A bench whose sessions are made up."""

    truth: Truth = lambda _settings, _size: 1e4
    noise: Noise = LOADED
    draw: random.Random = field(default_factory=lambda: random.Random(1))
    now_s: float = 0.0
    sessions: list[tuple[tuple[str, ...], tuple[Place, ...], int]] = field(default_factory=list)

    def refusal(self, changes: Changes) -> Failed | None:
        return None

    def _planned(self, some: Sequence[Changes], _told: object) -> list[Changes]:
        return list(some)

    def session(
        self,
        variants: Sequence[str],
        places: Sequence[Place],
        budget_s: float,
        limit_s: float,
        *,
        launches: int = 1,
        output: Path | None = None,
        argv: Sequence[str] = (),
        onto: bool = False,
    ) -> Measured:
        self.sessions.append((tuple(variants), tuple(places), launches))
        self.measurements += len(variants) * len(places) * launches
        sizes = sorted({size for _, size in places})
        points: list[Point] = []
        until_s = self.now_s + limit_s
        for launch in range(launches):
            self.now_s += OPEN_S * len(variants)
            made = self._launch(launch, variants, sizes, max(budget_s, 0.08) / launches)
            if self.now_s > until_s:
                self.now_s = until_s
                break
            points += made
        return Measured(examples.run(*points, variants=tuple(variants)), False, self.now_s >= until_s)

    def _launch(
        self, launch: int, variants: Sequence[str], sizes: Sequence[int], part_s: float
    ) -> list[Point]:
        found = []
        for variant in variants:
            start = Start.of(variant.partition("#")[0])
            off = self.draw.gauss(0, self.noise.launch)
            slow = [size for size in sizes if 2e-9 * self.truth(start.settings, size) > self._slow_s(part_s)]
            for size in sizes:
                time = self.truth(start.settings, size)
                share_s = (
                    SLOWEST_PART * part_s / len(slow)
                    if size in slow and len(slow) < len(sizes)
                    else part_s / len(sizes)
                )
                # One sample of each visit is left out.
                count = max(1, min(PASSES, int(share_s * 1e9 / (2 * time * (2 if size in slow else 8)))))
                self.now_s += 2e-9 * time * count * (2 if size in slow else 8)
                logs = [off + self._visit() for _ in range(count)]
                visits = Visits(
                    block=[size * 100 + block for block in range(count)],
                    at_s=[0.1 * block for block in range(count)],
                    state=[0] * count,
                    samples=[1 if size in slow else 7] * count,
                    median_ns=[time * math.exp(one) for one in logs],
                )
                made = examples.point(variant, size, median(visits.median_ns))
                found.append(msgspec.structs.replace(made, visits=visits, launch=launch))
        return found

    def _slow_s(self, part_s: float) -> float:
        return max(SLOW_PART * part_s, ALWAYS_SLOW_S)

    def _visit(self) -> float:
        hit = self.draw.random() < self.noise.hit
        return self.draw.gauss(0, self.noise.visit) + hit * self.draw.uniform(0, math.log(self.noise.most))


def tuned(
    space: Space,
    truth: Truth,
    what: str = "throughput",
    seconds: float = 60.0,
    noise: Noise = LOADED,
    seed: int = 1,
    kind: type[Machine] = Machine,
    watch: Watch = lambda _: None,
) -> tuple[Outcome, Machine]:
    """A whole call of the tuner: feeling, search and proof."""
    machine = kind(
        Start.of("made:a=1"),
        goal(what),
        Request(["made:a=1"]),
        False,
        truth=truth,
        noise=noise,
        draw=random.Random(seed),
    )
    machine.clock = lambda: machine.now_s
    tuner = Tuner(machine, space, Log(None), seconds, watch)
    return tuner.tune(None), machine
