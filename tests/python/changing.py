# SPDX-License-Identifier: Apache-2.0
"""Made-up machines that change while they are measured, by blocks as netpipe measures: the same every time for a seed.
For the tests of what yardsticks explain; by hand it writes a run file:

python tests/python/changing.py FILE [--seed 1]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netpipe.findings import examples
from netpipe.records import Point, Record, Run, Visits, Yardstick, encode

Reals = NDArray[np.float64]
SIZES = tuple(1 << power for power in range(21))
EVERY_S = 0.25  # a yardstick


def steady(_: int, at_s: Reals) -> Reals:
    return np.zeros(len(at_s))


class Telegraph:
    """0 or 1 over time. Times in each level are exponential, with these means in seconds; `of_launch`: it changes from
    launch to launch alone.
    """

    def __init__(self, seed: int, low_s: float, high_s: float, of_launch: bool = False) -> None:
        self._seed, self._means, self._of_launch = seed, (low_s, high_s), of_launch
        self._edges: dict[int, tuple[int, Reals]] = {}

    def __call__(self, launch: int, at_s: Reals) -> Reals:
        if launch not in self._edges:
            draw = np.random.default_rng((self._seed, launch))
            first = int(draw.random() < self._means[1] / sum(self._means))
            spans = [draw.exponential(self._means[(first + step) % 2]) for step in range(4000)]
            self._edges[launch] = first, np.zeros(0) if self._of_launch else np.cumsum(spans)
        first, edges = self._edges[launch]
        return (first + np.searchsorted(edges, at_s)) % 2.0


class Wander:
    """A slow walk around 0 with this spread, whose memory is so many seconds; `trend`: per second, besides."""

    def __init__(self, seed: int, spread: float, memory_s: float, trend: float = 0.0) -> None:
        self._seed, self._spread, self._memory_s, self._trend = seed, spread, memory_s, trend
        self._walks: dict[int, Reals] = {}
        self._last = np.random.default_rng(seed).normal() * spread

    def __call__(self, launch: int, at_s: Reals) -> Reals:
        if launch not in self._walks:
            draw = np.random.default_rng((self._seed, launch))
            keep = math.exp(-0.05 / self._memory_s)
            steps = draw.normal(size=4000) * self._spread * math.sqrt(1 - keep**2)
            walk = np.empty(4000)
            for place, step in enumerate(steps):
                walk[place] = self._last = keep * self._last + step
            self._walks[launch] = walk
        return self._walks[launch][(at_s / 0.05).astype(int)] + self._trend * at_s


Over = Callable[[int, Reals], Reals]  # of a launch and times in it


@dataclass
class Layer:
    """Time of an operation: latency and rate, times e to the power of what adds up here."""

    name: str
    latency_ns: float = 1000.0
    bytes_per_s: float = 1e10
    noise: float = 0.03  # of a visit
    own: Sequence[Over] = ()
    factor: Callable[[int], float] = lambda size: 1.0  # in the slow state
    state: Over = steady


@dataclass
class Machine:
    layers: Sequence[Layer]
    seed: int = 1
    sizes: Sequence[int] = SIZES
    launches: int = 4
    launch_s: float = 7.5
    block_s: float = 0.04
    bounce: Over = steady  # 0 or 1, or anything between: the level of each yardstick
    copy: Over = steady
    wakeup: Over = steady
    # size -> when
    only: Mapping[int, Callable[[int, Reals], NDArray[np.bool_]]] = field(default_factory=dict)

    def run(self) -> Run:
        draw = np.random.default_rng((self.seed, 99))
        records: list[Record] = []
        for launch in range(self.launches):
            records += self._launch(launch, draw)
        return examples.run(*records, variants=[layer.name for layer in self.layers])

    def _launch(self, launch: int, draw: np.random.Generator) -> list[Record]:
        taken = np.arange(0.1, self.launch_s + EVERY_S, EVERY_S)
        levels = [of(launch, taken) for of in (self.bounce, self.copy, self.wakeup)]
        bounce = 54 * np.exp(levels[0] * math.log(250 / 54) + 0.06 * draw.normal(size=len(taken)))
        copy = 1.2e10 * np.exp(-levels[1] * math.log(3) + 0.06 * draw.normal(size=len(taken)))
        wakeup = 5e3 * np.exp(levels[2] * math.log(5) + 0.12 * draw.normal(size=len(taken)))
        state = np.cumsum(np.abs(np.diff(levels[0], prepend=levels[0][0])) > 0.5) % 2
        records: list[Record] = [
            Yardstick(
                launch=launch,
                at_s=float(taken[place]),
                state=int(state[place]),
                clock_ns=19.5,
                clock_resolution_ns=1,
                bounce_ns=float(bounce[place]),
                copy_bytes_per_s=float(copy[place]),
                wakeup_ns=float(wakeup[place]),
            )
            for place in range(len(taken))
        ]
        number = int((self.launch_s - 0.2) / self.block_s)
        at_s = 0.15 + self.block_s * (np.arange(number) + draw.random(number))
        passes = [draw.permutation(len(self.sizes)) for _ in range(-(-number // len(self.sizes)))]
        which = np.concatenate(passes)[:number]
        for layer in self.layers:
            log = sum((own(launch, at_s) for own in layer.own), np.zeros(number))
            slow = layer.state(launch, at_s)
            for place, size in enumerate(self.sizes):
                here = np.flatnonzero(which == place)
                if size in self.only:
                    here = here[self.only[size](launch, at_s[here])]
                if len(here):
                    base = math.log(layer.latency_ns + size / layer.bytes_per_s * 1e9)
                    noise = layer.noise * draw.normal(size=len(here))
                    logs = base + log[here] + slow[here] * math.log(layer.factor(size)) + noise
                    records.append(_point(layer.name, launch, size, here, at_s[here], np.exp(logs)))
        return records


def _point(variant: str, launch: int, size: int, block: NDArray[np.int64], at_s: Reals, ns: Reals) -> Point:
    median = float(np.median(ns))
    return examples.point(
        variant,
        size,
        median,
        0.02,
        launch=launch,
        state=None,
        visits=Visits(
            block=block.tolist(),
            at_s=at_s.tolist(),
            state=[0] * len(ns),
            samples=[10] * len(ns),
            median_ns=ns.tolist(),
        ),
    )


def up_to(limit: int, times: float) -> Callable[[int], float]:
    """So many times as long for messages up to that size, and then less and less."""
    return lambda size: 1 + (times - 1) / (1 + (size / limit) ** 2)


def above(limit: int, times: float) -> Callable[[int], float]:
    return lambda size: 1 + (times - 1) / (1 + (limit / size) ** 2)


def cores_that_move(seed: int) -> Machine:
    """The bounce comes in two levels, and shm with it; tcp and pipe do not mind."""
    moved = Telegraph(seed, 2.5, 1.5)
    return Machine(
        [
            Layer("shm", 120, 1.2e10, factor=up_to(16 << 10, 2.6), state=moved),
            Layer("pipe", 5000, 4e9),
            Layer("tcp", 9000, 5e9),
        ],
        seed,
        bounce=moved,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    made = cores_that_move(given.seed).run()
    lines = [encode(record) for record in (made.header, *made.body(), made.end) if record is not None]
    given.file.write_bytes(b"".join(lines))


if __name__ == "__main__":
    main()
