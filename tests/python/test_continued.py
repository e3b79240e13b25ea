# SPDX-License-Identifier: Apache-2.0
"""netpipe run --continue: what would be measured differently now is refused, and what the end promises is reached.
tests/e2e/test_continue.py measures, also between hosts.
"""

from __future__ import annotations

import copy
import math
import random
import re
import socket
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec
import pytest
from conftest import Netpipe

from netpipe.cli.run import more_text, points_text
from netpipe.command.continued import FACTS, check_same, check_started
from netpipe.failure import USAGE, Failure
from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.blocks.visits import width_for
from netpipe.reading.curves import CurvePoints
from netpipe.records import Environment, Header, Rank, Run, Variant
from netpipe.session import Result

HOST = socket.gethostname()
LIBRARY = "MPICH 5.0.2"


def nested(facts: dict[str, Any]) -> dict[str, Any]:
    (environment,) = examples.with_facts(facts).environments
    return environment.facts


NOW = nested({name: f"this {name}" for name in FACTS})


def measured(first: dict[str, Any] = NOW, last: dict[str, Any] = NOW, library: str | None = LIBRARY) -> Run:
    """Two launches on this host, of which each recorded its environment, and one more beside the last elsewhere."""
    points = [examples.visited("mpi@mpich", 8, 1000.0, launch) for launch in range(2)]
    made = examples.run(*points, variants=["mpi@mpich"])
    records = [
        Header(schema=1, run="0" * 32, host=HOST, netpipe="1.0", argv=["run", "mpi@mpich"]),
        *made.plans,
        Environment(launch=0, host=HOST, facts=first),
        Variant(launch=0, variant="mpi@mpich", module="mpi@mpich", version="MPICH 4.0"),
        Environment(launch=1, host=HOST, facts=last),
        Environment(launch=1, rank=1, host="elsewhere", facts={}),
        Variant(launch=1, variant="mpi@mpich", module="mpi@mpich", version=library),
        *points,
    ]
    return Run(records)


def check(run: Run, library: str | None = LIBRARY) -> None:
    check_same(run, run.plans[0], "1.0", NOW, {"mpi@mpich": library})


def refused(run: Run, library: str | None = LIBRARY) -> str:
    with pytest.raises(Failure) as caught:
        check(run, library)
    assert caught.value.exit_code == USAGE
    return caught.value.sentence


def test_the_same_conditions_are_continued() -> None:
    check(measured())
    check(measured(library=None), "MPICH 4.0")  # the last launch that said a version counts


@pytest.mark.parametrize("name", FACTS)
def test_another_condition_is_refused_and_named(name: str) -> None:
    facts = copy.deepcopy(NOW)
    *groups, last = name.split(".")
    inside = facts
    for group in groups:
        inside = inside[group]
    inside[last] = "another"
    expected = f"it was measured with {name} another, and now it would be this {name}"
    assert expected in refused(measured(last=facts))
    check(measured(first=facts))  # the run was continued before, and its last launches count


def test_facts_that_decide_about_times_are_among_them() -> None:
    assert {
        "network.tcp.congestion_control",
        "cpu.frequency.governor",
        "cpu.frequency.boost",
        "kernel.release",
        "limits.allowed_cpus",
    } <= set(FACTS)


def test_a_library_that_was_upgraded_since_its_module_was_added_is_compared_by_that_module() -> None:
    """Before anything is launched, only the version in its description is known."""
    run = measured(library="MPICH 5.0.3")
    run.variants[-1].added_for = LIBRARY
    check(run, LIBRARY)
    assert "MPICH 5.0.3" in refused(run, "MPICH 5.0.3")  # the module was added again


def test_another_version_of_a_library_is_refused() -> None:
    said = refused(measured(), "MPICH 5.0.3")
    assert "with the library of mpi@mpich MPICH 5.0.2, and now it would be MPICH 5.0.3" in said
    assert "with the library of mpi@mpich MPICH 5.0.2, and now it would be unknown" in refused(
        measured(), None
    )


def test_a_run_whose_ranks_are_all_elsewhere_has_no_facts_of_this_host_to_compare() -> None:
    run = measured()
    run.environments[:] = [
        Environment(launch=launch, rank=rank, host=f"node{rank}", facts={})
        for launch in (0, 1)
        for rank in (0, 1)
    ]
    check(run)


# ----------------------------------------------------------------------- what is known of other hosts after the start


def started(
    facts: dict[str, Any] = NOW, version: str = LIBRARY, far: str = "elsewhere"
) -> tuple[Run, Run, int]:
    """A run, and the same with a third launch that recorded this of the other host, and of the ranks of a library."""
    two = []
    for host in ("elsewhere", far):
        run = measured()
        run.variants[-1].ranks = [Rank(rank=0, host=HOST), Rank(rank=1, host=host)]
        run.environments[-1] = msgspec.structs.replace(run.environments[-1], host=host, facts=NOW)
        two.append(run)
    before, run = two
    run.add(Environment(launch=2, host=HOST, facts={}))  # of this host it is asked before the start
    run.add(msgspec.structs.replace(run.environments[2], launch=2, facts=facts))
    run.add(msgspec.structs.replace(run.variants[-1], launch=2, version=version))
    return before, run, 2


def refused_then(before: Run, run: Run, launch: int) -> str:
    with pytest.raises(Failure) as caught:
        check_started(before, run, launch)
    assert caught.value.exit_code == USAGE
    return caught.value.sentence


def test_other_hosts_that_are_as_they_were_are_continued() -> None:
    check_started(*started())


@pytest.mark.parametrize("name", FACTS)
def test_another_condition_of_another_host_is_refused_and_named(name: str) -> None:
    facts = copy.deepcopy(NOW)
    *groups, last = name.split(".")
    inside = facts
    for group in groups:
        inside = inside[group]
    inside[last] = "another"
    expected = f"{name} of host elsewhere (rank 1) this {name}, and now it would be another"
    assert expected in refused_then(*started(facts))


def test_ranks_on_another_host_and_another_library_in_the_ranks_are_refused() -> None:
    where = refused_then(*started(far="node9"))
    assert f"the hosts of mpi@mpich {HOST}, elsewhere, and now it would be {HOST}, node9" in where
    library = refused_then(*started(version="MPICH 6"))
    assert "the library of mpi@mpich MPICH 5.0.2, and now it would be MPICH 6" in library


QUICK = ("shm", "--sizes", "8", "--budget", "0.1", "-q")


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        ("visits", "visits", None),
        ("visits far=6.1", "visits far=6.1", None),
        (
            "visits far=6.1",
            "visits far=6.18",
            "kernel.release of host far (rank 1) 6.1, and now it would be 6.18",
        ),
        ("visits", "visits far=6.1", "the hosts of shm fake, fake, and now it would be fake, far"),
        ("visits", "visits answers=2.0", "the library of shm none, and now it would be 2.0"),
    ],
    ids=["here", "between-hosts", "another-kernel", "another-host", "another-library"],
)
def test_a_launch_that_is_refused_after_its_start_leaves_the_run_as_it_was(
    netpipe: Netpipe, first: str, then: str, said: str | None
) -> None:
    assert netpipe("run", *QUICK, fake=first).code == 0
    path = Path("run.jsonl")
    before = path.read_bytes()
    done = netpipe("run", "--continue", "run.jsonl", "-q", fake=then)
    if said is None:
        assert done.code == 0, done.err
        assert path.read_bytes().startswith(before)
        assert [plan.launch for plan in Run.read(path).plans] == [0, 1]
    else:
        assert done.code == USAGE
        assert (
            f"netpipe: run.jsonl cannot be continued: it was measured with {said}; measure anew" in done.err
        )
        assert path.read_bytes() == before
        assert netpipe("run", "--continue", "run.jsonl", "-q", fake=first).code == 0, "it can still go on"


# --------------------------------------------------------------------------------------------------- what it promises


def wandering(seed: int, launches: int, command: int = 4, spread: float = 0.015) -> Result:
    """A run whose launches differ by this much, by a command that has so many launches: the first of them are the same
    for a seed, however many follow.
    """
    points = [
        examples.visited(
            "tcp", size, 1000.0 * (1 + random.Random(f"{seed} {launch} {size}").gauss(0, spread)), 0
        )
        for launch in range(launches)
        for size in (8, 16, 32, 64, 128, 256)
    ]
    placed = [msgspec.structs.replace(one, launch=place // 6) for place, one in enumerate(points)]
    run = examples.run(*placed, variants=["tcp"])
    run.plans[:] = [msgspec.structs.replace(plan, launches=command, target=0.01) for plan in run.plans]
    return Result(Reading(run), 0, Path("run.jsonl"), None)


def typical(result: Result) -> float:
    return median(result.reading.half_widths.tolist())


@pytest.mark.parametrize("had", [3, 4])
def test_the_promised_width_is_reached_by_the_promised_launches(had: int) -> None:
    reached = []
    for seed in range(25):
        said = more_text(wandering(seed, had))
        if said is None:
            continue
        width, launches = re.findall(r", ±([\d.]+) % takes about .* --launches (\d+)", said)[0]
        reached.append(typical(wandering(seed, had + int(launches))) / (float(width) / 100))
    assert len(reached) >= 20
    assert 0.7 <= median(reached) <= 1.15


def test_no_run_promises_less_than_half_its_width() -> None:
    said = {seed: more_text(wandering(seed, 4)) for seed in range(10)}
    offers = {seed: text for seed, text in said.items() if text is not None}
    assert len(offers) >= 5
    for seed, text in offers.items():
        width, launches = re.findall(r", ±([\d.]+) % takes about .* --launches (\d+)$", text)[0]
        assert int(launches) <= 12
        assert float(width) / 100 >= 0.95 * typical(wandering(seed, 4)) / 2


def test_two_launches_promise_nothing() -> None:
    """Their intervals come from stretches of time, in which launches do not differ."""
    assert typical(wandering(1, 2)) > 0.01
    assert more_text(wandering(1, 2)) is None


def test_where_half_of_the_intervals_say_nothing_no_offer_is_made_and_it_says_why() -> None:
    def of(launches: int) -> Result:
        points = [
            examples.visited("tcp", size, 1000.0 * 40.0 ** (launch % 2), launch)
            for launch in range(launches)
            for size in (8, 64, 512)
        ]
        return Result(Reading(examples.run(*points, variants=["tcp"])), 0, Path("run.jsonl"), None)

    four = of(4)
    assert typical(four) > 1
    said = "What more launches would bring cannot be estimated: "
    assert more_text(four) == f"{said}these lie too far apart."
    wide = [examples.point("tcp", 8 << n, 1000.0, half_width=3.0) for n in range(3)]
    alone = Result(Reading(examples.run(*wide)), 0, Path("run.jsonl"), None)
    assert more_text(alone) == f"{said}there are too few."


def test_a_continued_run_says_of_which_next_run_its_intervals_are() -> None:
    half = typical(wandering(1, 16))
    (few,) = re.findall(
        r"of 16 launches, half of their intervals within ±[\d.]+ % for a run of as many "
        r"\(±([\d.]+) % for one of 4 launches\), are in run.jsonl",
        points_text(wandering(1, 16)),
    )
    assert float(few) / 100 == pytest.approx(half * 2.5**0.5, rel=0.05)  # 1/16 + 1/4, against 2/16
    assert "for a run of as many" not in points_text(wandering(1, 4))


def test_the_interval_of_a_continued_run_holds_for_one_of_as_many_launches_and_a_wider_one_for_the_command() -> (
    None
):
    wide = width_for(4, 16)
    many, few, widened = [], [], []
    for seed in range(40):
        made = {one.size_bytes: one.time_ns for one in _curve(wandering(seed, 16))}
        many += [made[one.size_bytes].covers(one.time_ns.value) for one in _curve(wandering(1000 + seed, 16))]
        for one in _curve(wandering(2000 + seed, 4)):
            of = made[one.size_bytes]
            off = abs(math.log(one.time_ns.value / of.value))
            few.append(off <= math.log(of.high / of.value))
            widened.append(off <= wide * math.log(of.high / of.value))
    assert 0.90 <= fmean(many) <= 0.99
    assert fmean(few) < 0.87
    assert 0.90 <= fmean(widened) <= 0.99


def _curve(result: Result) -> CurvePoints:
    (curve,) = Reading(result.run).curves
    return curve.points
