# SPDX-License-Identifier: Apache-2.0
"""netpipe check: limits for measures of patterns and in both directions, and what it takes to tell a limit that the
runs cannot tell. Runs are made up; their truth is known.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from repeated import made, same
from test_comparing import call, written

from netpipe.command.more import MOST_LAUNCHES, Untold, more
from netpipe.failure import GATE, UNSTABLE, USAGE
from netpipe.findings.examples import measure
from netpipe.reading import Reading
from netpipe.reading.across.differences import Pace
from netpipe.reading.across.gate import LESS, MORE, Result, gate, gate_measures, judged
from netpipe.reading.across.measured import in_both, measures_between
from netpipe.reading.across.merge import merged
from netpipe.reading.blocks.more import more_launches, more_of_two
from netpipe.reading.estimate import Estimate
from netpipe.records import Measure, Run, Skipped

Truth = Callable[[int], float]  # a measure at a size


def measuring(seed: int, unit: str = "1", noise: float = 0.01, launches: int = 4, **measures: Truth) -> Run:
    """Launches of `shm` under one pattern, whose measures lie so far apart: of a share that much, else that part."""
    source = random.Random(seed)
    run = made({"shm": same}, seed, launches=launches)
    for point in run.points:
        for name, truth in measures.items():
            value = truth(point.size_bytes)
            value += source.gauss(0, noise) * (1 if unit == "1" else value)
            point.measures = [*point.measures, measure(name, unit, value, 0.001)]
    return run


def results(before: Run, after: Run, worse: str = MORE, limit: float = 0.05) -> dict[int, Result]:
    (name,) = {one.name for point in before.points for one in point.measures}
    found = measures_between(in_both(before, after), [name])
    return {one.size_bytes: one.result for one in gate_measures(found, {name: worse}, {name: limit})}


# ------------------------------------------------------------------------------------------------------- measures


def test_equal_runs_fail_in_at_most_one_of_twenty_gates_on_a_measure() -> None:
    failed = 0
    for seed in range(200):
        two = [measuring(2 * seed + n, noise=0.05, fraction=lambda _: 0.5) for n in (0, 1)]
        failed += Result.FAILED in results(*two, worse=LESS, limit=0.0).values()
    assert failed <= 10


def test_less_overlap_fails_where_it_is_and_more_of_it_does_not() -> None:
    before = measuring(1, fraction=lambda _: 0.9)
    after = measuring(2, fraction=lambda size: 0.6 if size >= 4096 else 0.9)
    found = results(before, after, worse=LESS)
    assert {size for size, result in found.items() if result is Result.FAILED} == {
        size for size in found if size >= 4096
    }
    assert Result.FAILED not in results(after, before, worse=LESS).values()
    assert Result.FAILED in results(after, before, worse=MORE).values()


def test_a_rate_and_a_time_are_held_to_a_part_of_what_they_were() -> None:
    before, after = measuring(1, unit="1/s", rate=lambda _: 1e6), measuring(2, unit="1/s", rate=lambda _: 8e5)
    assert set(results(before, after, worse=LESS, limit=0.1).values()) == {Result.FAILED}
    assert Result.FAILED not in results(before, after, worse=LESS, limit=0.3).values()


def test_a_loss_where_there_was_none_is_told_also_of_a_size_that_lost_everything() -> None:
    before, after = (measuring(seed, noise=0.0, loss=lambda _: 0.0) for seed in (1, 2))
    assert set(results(before, after, limit=0.0).values()) == {Result.PASSED}
    largest = max(point.size_bytes for point in after.points)
    gone = [point for point in after.points if point.size_bytes == largest]
    after.points[:] = [point for point in after.points if point.size_bytes != largest]
    for point in gone:
        whole = Measure(name="loss", unit="1", median=1.0)
        after.add(
            Skipped(
                launch=point.launch,
                variant=point.variant,
                pattern=point.pattern,
                size_bytes=largest,
                reason="all messages were lost",
                measures=[whole],
            )
        )
    found = results(before, after, limit=0.01)
    assert [size for size, result in found.items() if result is Result.FAILED] == [largest]


def test_two_launches_do_not_tell_how_far_a_measure_wanders() -> None:
    before = measuring(1, launches=2, loss=lambda _: 0.1)
    after = measuring(2, launches=2, loss=lambda _: 0.2)
    assert set(results(before, after).values()) == {Result.UNDECIDED}


@pytest.fixture
def overlapping(tmp_path: Path, fake: Path) -> tuple[Path, Path]:
    """Two runs, of which the second overlaps less at large sizes."""
    before = measuring(1, fraction=lambda _: 0.9, degree=lambda _: 2.0)
    after = measuring(2, fraction=lambda size: 0.6 if size > 4096 else 0.9, degree=lambda _: 2.0)
    return (
        written(before, tmp_path / "before.jsonl"),
        written(after, tmp_path / "after.jsonl", started="2026-11-02T10:00:00Z"),
    )


def test_check_gates_a_measure_and_names_it_with_both_values(overlapping: tuple[Path, Path]) -> None:
    before, after = overlapping
    done = call("check", after, "--baseline", before, "--slower", "fraction=5%")
    assert done.exception is None, done.exception
    assert done.return_value == GATE
    said = " ".join(done.stdout.split())
    assert re.search(
        r"shm: fraction at 1 MiB: 0\.[56]\d* \(0\.\d+ to 0\.\d+\), in the baseline 0\.\d+ "
        r"\(0\.\d+ to 0\.\d+\): worse by 0\.[23]\d* \(0\.\d+ to 0\.\d+\); the limit is 0\.0500",
        said,
    ), said
    assert "time over that in" not in said, "no metric was asked for"
    assert "sizes at which a measure is outside its limit" in said
    answer: dict[str, Any] = json.loads(
        call("check", after, "--baseline", before, "--slower", "all=5%,fraction=5%", "--json").stdout
    )
    assert answer["exit"] == GATE
    failed = {one["size_bytes"] for one in answer["measures"] if one["result"] == "failed"}
    assert failed == {one["size_bytes"] for one in answer["measures"] if one["size_bytes"] > 4096}
    assert {one["metric"] for one in answer["metrics"]} == {"all"}
    # More overlap is no failure, unless it is asked for.
    assert call("check", before, "--baseline", after, "--slower", "fraction=5%").return_value == 0
    better = call("check", before, "--baseline", after, "--slower", "fraction=5%", "--faster", "10%")
    assert better.return_value == GATE
    assert "better by 0." in " ".join(better.stdout.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--slower", "loss=1%"),
            "latency, throughput, all, any, and both runs have the measures degree, fraction",
        ),
        (("--faster", "loss=1%"), "--faster loss=1%: there is no metric 'loss'"),
        (("--slower", "fraction=5%", "--variant", "shm", "--faster", "gap=1%"), "there is no metric 'gap'"),
        (("--slower", "degree=1%"), "more of degree is neither better nor worse"),
    ],
)
def test_a_measure_that_is_not_there_or_has_no_direction_is_refused(
    overlapping: tuple[Path, Path], words: tuple[str, ...], sentence: str
) -> None:
    before, after = overlapping
    done = call("check", after, "--baseline", before, *words)
    assert getattr(done.exception, "exit_code", None) == USAGE, done.exception
    assert sentence in str(done.exception)


def test_runs_without_measures_say_so(tmp_path: Path) -> None:
    file = written(made({"shm": same}, 1), tmp_path / "run.jsonl")
    done = call("check", file, "--baseline", file, "--slower", "loss=1%")
    assert "and both runs have no measures" in str(done.exception)


# ------------------------------------------------------------------------------------------------- both directions


def test_a_metric_may_have_a_limit_in_one_direction_alone() -> None:
    much, little = Estimate(0.80, 0.75, 0.85), Estimate(1.0, 0.97, 1.03)
    assert judged(much, None, 0.1) is Result.BETTER
    assert judged(little, None, 0.1) is Result.PASSED
    assert judged(little, None, 0.01) is Result.UNDECIDED
    assert judged(Estimate(1.5, 1.4, 1.6), None, 0.1) is Result.PASSED


def test_faster_takes_a_limit_for_each_metric_or_one_for_all(tmp_path: Path) -> None:
    slow = {"shm": lambda size: 1.5 if size > 4096 else 1.0}
    fast = written(made({"shm": same}, 1), tmp_path / "fast.jsonl")
    was = written(made(slow, 2), tmp_path / "was.jsonl")

    def code(*words: str) -> int:
        done = call("check", fast, "--baseline", was, *words)
        assert done.exception is None, done.exception
        return int(done.return_value)

    assert code() == 0
    assert code("--faster", "10%") == GATE
    assert code("--faster", "throughput=10%") == GATE
    assert code("--faster", "latency=10%") == 0
    assert code("--slower", "latency=5%", "--faster", "10%") == 0, "for what --slower checks"
    assert code("--slower", "latency=5%", "--faster", "throughput=10%") == GATE
    assert call("check", was, "--baseline", fast, "--slower", "20%").return_value == GATE, "of each metric"


# ------------------------------------------------------------------------------------------------ what it takes


def test_more_launches_narrow_the_interval_of_a_ratio_as_promised() -> None:
    for ours, theirs, narrower in ((4, 4, 1.2), (4, 16, 1.5), (4, 4, 4.0), (3, 40, 2.0)):
        found = more_of_two(ours, theirs, narrower)
        assert found is not None
        mine, other = found
        reached = (1 / ours + 1 / theirs) / (1 / (ours + mine) + 1 / (theirs + other))
        assert reached >= narrower**2
        assert (1 / ours + 1 / theirs) / (1 / (ours + mine - 1) + 1 / (theirs + other)) < narrower**2
    assert more_of_two(4, 40, 1.5) == (7, 0), "where the other one has many, this run alone does it"
    assert more_of_two(4, 4, 4.0, alone=True) is None, "its four launches alone are too few"
    assert more_launches(4, 2.0) == 12


def noisy(seed: int, launches: int = 4) -> Run:
    return made({"tcp": same, "shm": same, "pipe": same}, seed, launches=launches, launch_noise=0.01)


def test_equal_runs_pass_with_the_launches_that_were_promised(tmp_path: Path) -> None:
    """Of whichever runs did not at first: a limit of 2 %, which four launches cannot tell on this machine."""
    limit, told, passed = {"all": 0.02}, 0, 0
    for seed in range(6):
        files = [written(noisy(2 * seed + n), tmp_path / f"{n}.jsonl") for n in (0, 1)]
        done = call("check", files[1], "--baseline", files[0], "--slower", "all=2%", "--json")
        needed = json.loads(done.stdout)["more"]
        if needed is None:
            continue
        told += 1
        added = {Path(file).stem: int(count) for file, count in _commands(needed["commands"])}
        longer = [noisy(2 * seed + n, 4 + added.get(str(n), 0)) for n in (0, 1)]
        passed += all(one.result is Result.PASSED for one in gate(Reading(merged(longer)).between, limit))
    assert told >= 4
    assert passed >= told - 1


def _commands(commands: list[str]) -> list[tuple[str, str]]:
    return [re.findall(r"^netpipe run --continue (\S+) --launches (\d+)$", one)[0] for one in commands]


def continuable(run: Run, path: Path, seconds: float = 8.0) -> Run:
    """As measured by `netpipe run`, in a file."""
    run.path = path
    assert run.header is not None
    assert run.end is not None
    run.header = msgspec.structs.replace(run.header, argv=["run", "tcp"])
    run.end = msgspec.structs.replace(run.end, seconds=seconds)
    return run


@pytest.fixture
def both(tmp_path: Path) -> list[Run]:
    return [continuable(noisy(seed), Path(f"{name}.jsonl")) for seed, name in ((1, "before"), (2, "after"))]


def test_what_it_takes_is_a_complete_command_with_its_time(both: list[Run]) -> None:
    needed = more([Untold(0.03, 1.5), Untold(0.05, 1.1)], both)
    assert needed is not None
    assert needed.limit == 0.03
    assert needed.commands == (
        "netpipe run --continue after.jsonl --launches 5",
        "netpipe run --continue before.jsonl --launches 5",
    )
    assert (needed.launches, needed.seconds) == (10, 20.0)
    assert needed.sentence == "to tell a limit of 3.0 % takes 10 launches more (about 20 s)"
    assert more([Untold(0.3, 2.0)], both, [Pace("memory copy", "bytes/s", 1e10, 1.2e10)]) == more(
        [Untold(0.3, 2.0)], both
    ), "20 % are within the limit"
    assert more([], both) is None
    variants = more([Untold(0.03, 2.0)], both[1:])
    assert variants is not None
    assert variants.commands == ("netpipe run --continue after.jsonl --launches 12",)


def test_what_takes_more_than_an_hour_is_not_offered(both: list[Run], tmp_path: Path) -> None:
    """Of short runs: of one that took an hour itself ten times as much may be worth it."""
    untold = Untold(0.03, 25.0)
    needed = more([untold], both)
    assert needed is not None
    assert (needed.commands, needed.launches, needed.seconds) == ((), 0, None)
    assert needed.sentence == (
        "a limit of 3.0 % cannot be told here: it would take 4992 launches more (about 166 min 24 s)"
    )
    long = [continuable(noisy(seed), tmp_path / f"{seed}.jsonl", 3600.0) for seed in (1, 2)]
    offered = more([Untold(0.03, 2.0)], long)
    assert offered is not None
    assert offered.seconds is not None
    assert offered.seconds > 3600
    assert offered.commands


@pytest.mark.parametrize(
    ("untold", "change", "said"),
    [
        (
            Untold(0.03, 4.0),
            {"fixed": True},
            "the 4 launches of the first run do not, whatever the other one has",
        ),
        (
            Untold(0.03, 4.0),
            {"paces": [Pace("memory copy", "bytes/s", 1e10, 1.2e10)]},
            "the runs differ by more than launches do (memory copy, which measures the machine itself, by 20 %)",
        ),
        (Untold(0.03, 0.9), {}, "lies between no difference and the limit"),
        (Untold(0.0, float("inf")), {}, "equal runs differ by something"),
        (Untold(0.001, 100.0), {}, f"netpipe run takes {MOST_LAUNCHES}"),
    ],
)
def test_where_no_number_of_launches_suffices_it_says_why(
    both: list[Run], untold: Untold, change: dict[str, Any], said: str
) -> None:
    needed = more([untold], both, **change)
    assert needed is not None
    assert (needed.commands, needed.launches) == ((), 0)
    assert needed.sentence.startswith("no number of launches tells a limit of ")
    assert said in needed.sentence


def test_an_imported_run_cannot_be_continued(both: list[Run]) -> None:
    assert both[1].header is not None
    both[1].header = msgspec.structs.replace(both[1].header, argv=[])
    needed = more([Untold(0.03, 2.0)], both)
    assert needed is not None
    assert "after.jsonl cannot be continued, because it was imported" in needed.sentence


def test_fewer_than_three_launches_are_continued_to_three_first() -> None:
    two = [continuable(noisy(seed, launches=2), Path("run.jsonl")) for seed in (1, 2)]
    needed = more([Untold(0.03, 2.0)], two[1:])
    assert needed is not None
    assert needed.commands == ("netpipe run --continue run.jsonl --launches 1",)


def test_check_and_compare_say_what_it_takes(tmp_path: Path) -> None:
    files = [
        written(made({"tcp": same}, seed, launch_noise=0.1), tmp_path / f"{seed}.jsonl") for seed in (1, 2)
    ]
    check = call("check", files[1], "--baseline", files[0], "--slower", "3%", "--strict")
    assert check.return_value == UNSTABLE
    compare = call("compare", *files)
    for done, limit in ((check, "3.0"), (compare, "5.0")):
        assert f"to tell a limit of {limit} % takes" in " ".join(done.stdout.split())
        commands = [line for line in done.stdout.splitlines() if line.startswith("  netpipe run --continue ")]
        assert all(re.search(r"[12]\.jsonl --launches \d+$", line) for line in commands), commands
        assert commands
