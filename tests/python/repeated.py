# SPDX-License-Identifier: Apache-2.0
"""Runs of several launches with visits, made up from a truth: to compare."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from netpipe.findings import examples
from netpipe.records import Run, Visits

SIZES = tuple(4**power for power in range(11))
BLOCKS = 6


def same(_: int) -> float:
    return 1.0


def made(
    layers: Mapping[str, Callable[[int], float]],
    seed: int,
    launches: int = 4,
    launch_noise: float = 0.005,
    run_noise: float = 0.0,
    path: str | None = None,
) -> Run:
    """Each variant takes so many times as long as the truth; the machine has another pace in each launch and run."""
    source = random.Random(seed)
    records = []
    run_pace = source.gauss(0, run_noise)
    for launch in range(launches):
        for variant, factor in layers.items():
            pace = run_pace + source.gauss(0, launch_noise)
            for number, size in enumerate(SIZES):
                medians = [
                    (1000 + size) * factor(size) * math.exp(pace + source.gauss(0, launch_noise))
                    for _ in range(BLOCKS)
                ]
                visits = Visits(
                    block=[number + 100 * place for place in range(BLOCKS)],
                    at_s=[number / 100 + place for place in range(BLOCKS)],
                    state=[0] * BLOCKS,
                    samples=[9] * BLOCKS,
                    median_ns=medians,
                )
                point = examples.point(variant, size, sorted(medians)[BLOCKS // 2], launch=launch)
                records.append(msgspec.structs.replace(point, visits=visits))
    run = examples.run(*records, variants=tuple(layers))
    run.path = Path(path) if path else None
    return run
