# SPDX-License-Identifier: Apache-2.0
"""The share of netpipe itself in the time of a layer, by blocks as any ratio of two curves."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from netpipe.findings import examples
from netpipe.findings.floor import Floor, floors
from netpipe.reading import Reading
from netpipe.reading.estimate import ratio
from netpipe.records import Run, Visits

SIZES = (8, 64, 512, 4096)
NS = {"null": 20.0, "shm": 100.0}


def wandering(seed: int = 1, visits: bool = True) -> Run:
    """The machine has another pace in each block, and shm was visited in half of the blocks of null alone."""
    source = random.Random(seed)
    points = []
    for launch in range(4):
        for number, size in enumerate(SIZES):
            paces = [math.exp(source.gauss(0, 0.5)) for _ in range(8)]
            for variant, ns in NS.items():
                places = range(8) if variant == "null" else range(0, 8, 2)
                medians = [ns * paces[place] * math.exp(source.gauss(0, 0.002)) for place in places]
                count = len(medians)
                of = Visits(
                    block=[number + 100 * place for place in places],
                    at_s=[number / 100 + place for place in places],
                    state=[0] * count,
                    samples=[9] * count,
                    median_ns=medians,
                )
                point = examples.point(variant, size, sorted(medians)[count // 2], launch=launch)
                points.append(msgspec.structs.replace(point, visits=of if visits else None))
    return examples.run(*points, variants=list(NS))


def only(run: Run) -> tuple[Reading, Floor]:
    reading = Reading(run)
    (found,) = floors(reading)
    assert found.variant == "shm"
    return reading, found


def test_the_share_is_that_within_blocks() -> None:
    reading, found = only(wandering())
    assert found.share == pytest.approx(0.2, rel=0.01)
    assert found.share_interval.covers(0.2)
    assert found.share_interval.half_width < 0.05, "what the machine does to both cancels"
    assert found.to_bytes == SIZES[-1]
    by_blocks = reading.ratios_of(("null", "pingpong"), ("shm", "pingpong"))
    assert found.share_interval == by_blocks[found.size_bytes]


def test_without_blocks_it_is_that_of_the_two_numbers() -> None:
    reading, found = only(wandering(visits=False))
    null, shm = (
        {at.size_bytes: at.time_ns for at in reading.by_name[name, "pingpong"].points} for name in NS
    )
    shares = {size: ratio(null[size], shm[size]) for size in SIZES}
    assert found.share == max(one.value for one in shares.values())
    assert found.share_interval == shares[found.size_bytes]
