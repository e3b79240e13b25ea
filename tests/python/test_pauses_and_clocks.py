# SPDX-License-Identifier: Apache-2.0
"""What is said of a machine that was suspended, or whose clock source changed, during a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from netpipe.findings import SEVERE, WARNING, Finding, clock_changed, examples, paused, placed_apart
from netpipe.reading import Reading
from netpipe.records import Pause, Point, Rank, Record, Run, Variant, Visits, Yardstick, encode


def yardstick(at_s: float, source: str | None, cost_ns: float, launch: int = 0) -> Yardstick:
    return Yardstick(launch=launch, at_s=at_s, state=0, clock_ns=cost_ns, clock_source=source)


def visited(size: int, median_ns: float, ops: int, at_s: list[float], launch: int = 0) -> Point:
    count = len(at_s)
    visits = Visits(
        block=list(range(count)),
        at_s=at_s,
        state=[0] * count,
        samples=[9] * count,
        median_ns=[median_ns] * count,
    )
    point = examples.point("shm", size, median_ns, launch=launch, ops=ops)
    return msgspec.structs.replace(point, visits=visits)


def changed(*records: Record) -> list[Finding]:
    return list(clock_changed.judge(Reading(examples.run(*records, variants=["shm"]))))


# A sample of 600 operations of 35 ns lasts 21 us: 1000 readings of tsc, 17 of hpet.
SHORT = visited(8, 35.0, 600, [1.0, 5.0, 9.0])
LONG = visited(65536, 9000.0, 6, [1.0, 5.0, 9.0])
TSC, HPET = yardstick(4.0, "tsc", 20), yardstick(6.0, "hpet", 1200)


def test_a_clock_source_that_changes_names_the_samples_that_are_too_short_for_it() -> None:
    (found,) = changed(TSC, HPET, SHORT, LONG)
    assert found.severity == SEVERE
    assert found.what == (
        "The kernel changed the clock source from tsc to hpet, 6.0 s into the run: reading the clock took 20.0 ns, "
        "then 1.20 µs. 1 size has samples after it that last less than 20 readings (shm at 8 B)."
    )


def test_samples_before_the_change_are_long_enough() -> None:
    early = visited(8, 35.0, 600, [1.0, 2.0, 3.0])
    (found,) = changed(TSC, HPET, early, LONG)
    assert found.severity == WARNING
    assert "samples" not in found.what
    (other,) = changed(TSC, HPET, visited(8, 35.0, 600, [5.0], launch=1))
    assert other.severity == WARNING, "each launch chooses its samples for the clock that it finds"


@pytest.mark.parametrize(
    "yardsticks",
    [
        (TSC, yardstick(6.0, "tsc", 1200)),
        (yardstick(4.0, None, 20), HPET),
        (TSC, yardstick(6.0, "hpet", 1200, launch=1)),
        (),
    ],
)
def test_without_a_change_within_a_launch_nothing_is_said(yardsticks: tuple[Yardstick, ...]) -> None:
    assert changed(*yardsticks, SHORT) == []


def test_a_run_that_is_read_without_samples_says_the_same(tmp_path: Path) -> None:
    made = examples.run(TSC, HPET, SHORT, LONG, variants=["shm"])
    path = tmp_path / "run.jsonl"
    assert made.header is not None
    assert made.end is not None
    path.write_bytes(b"".join(map(encode, (made.header, *made.body(), made.end))))
    read = Run.read(path, samples=False)
    assert list(clock_changed.judge(Reading(read))) == changed(TSC, HPET, SHORT, LONG)


def test_pauses_are_said_with_their_launch_and_what_they_cost() -> None:
    visit = {"variant": "tcp", "pattern": "pingpong", "size_bytes": 64}
    pauses = [
        Pause(launch=1, at_s=12.0, seconds=37.0, cause="suspended", **visit),
        Pause(launch=1, at_s=30.0, seconds=2.5, cause="stopped", **visit),
        Pause(launch=1, at_s=50.0, seconds=60.0, cause="suspended"),
        *(Pause(launch=1, at_s=60.0, seconds=1.0, cause="stopped", **visit) for _ in range(2)),
    ]
    points = [examples.point("tcp", 64, 1000.0, launch=launch) for launch in range(2)]
    (found,) = paused.judge(Reading(examples.run(*pauses, *points)))
    assert found.what == (
        "The machine was suspended for 37 s, 12 s into launch 1: the visit of tcp at 64 B that it fell into does not "
        "count. The processes of the run stood still for 2.5 s, 30 s into launch 1: the visit of tcp at 64 B that it "
        "fell into does not count. The machine was suspended for 60 s, 50 s into launch 1, between two visits. There "
        "were 2 more pauses."
    )
    assert found.evidence["visits that do not count"].value == 4
    assert found.evidence["paused"].value == 101.5


def test_launches_on_other_processors_are_named_once() -> None:
    def opened(variant: str, launch: int, cpus: tuple[int | None, ...]) -> Variant:
        ranks = [Rank(rank=rank, host="a", cpu=cpu) for rank, cpu in enumerate(cpus)]
        return Variant(launch=launch, variant=variant, module=variant, ranks=ranks)

    launched = [
        opened(variant, launch, (0, 1) if launch < 2 else (1, 1))
        for variant in ("shm", "tcp")
        for launch in range(3)
    ]
    free = [opened("pipe", launch, (None, launch)) for launch in range(3)]
    points = [examples.point("shm", 8, 100.0, launch=launch) for launch in range(3)]
    (found,) = placed_apart.judge(Reading(examples.run(*launched, *free, *points, variants=["shm"])))
    assert found.what == (
        "Not all launches ran on the same processors: the ranks of shm had processors 0, 1 in 2 launches and "
        "processors 1, 1 in 1 launch, and so for 1 other variant."
    )
