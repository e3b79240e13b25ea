# SPDX-License-Identifier: Apache-2.0
"""Goals, scores and verdicts of `netpipe tune`: what counts how much, and when a gain is one."""

from __future__ import annotations

import math
import random
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from profiled import profile_of
from test_prediction import traced

from netpipe import profiles
from netpipe.failure import Failure
from netpipe.findings import examples
from netpipe.findings.curves import broken_guideline
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import Run, Visits
from netpipe.tuning.collectives import PerSize, choice
from netpipe.tuning.effects import NO_EFFECT, READ, UNKNOWN, effects
from netpipe.tuning.measuring.ratios import Scores, scores, verdict
from netpipe.tuning.search.goals import Goal, goal
from netpipe.tuning.search.variants import Changes
from netpipe.tuning.tune import Outcome

SIZES = (1, 8, 64)
LATENCY = goal("latency")


def measured(times: dict[str, float], launches: int = 3, spread: float = 0.01, seed: int = 1) -> Run:
    """A run of these variants, whose times are these at all sizes, with what blocks have in common and what not."""
    noise = random.Random(seed)
    points = []
    for launch in range(launches):
        shared = {(size, block): noise.gauss(0, 0.3) for size in SIZES for block in range(8)}
        for variant, time in times.items():
            for size in SIZES:
                logs = [shared[size, block] + noise.gauss(0, spread) for block in range(8)]
                visits = Visits(
                    block=[size * 100 + block for block in range(8)],
                    at_s=[0.1 * block for block in range(8)],
                    state=[0] * 8,
                    samples=[10] * 8,
                    median_ns=[1e4 * time * math.exp(one) for one in logs],
                )
                made = examples.point(variant, size, 1e4 * time)
                points.append(msgspec.structs.replace(made, visits=visits, launch=launch))
    return examples.run(*points, variants=tuple(times))


def scored(run: Run, reference: str = "tcp") -> dict[str, Estimate]:
    places = [("pingpong", size) for size in SIZES]
    return dict(scores(run, reference, ("pingpong",), LATENCY, places).of)


def test_a_score_is_the_ratio_within_blocks_whatever_the_machine_does_to_both() -> None:
    made = scored(measured({"tcp": 1.0, "tcp#2": 1.0, "tcp:x=1": 0.8}))
    assert made["tcp:x=1"].value == pytest.approx(0.8, rel=0.02)
    assert made["tcp:x=1"].high < 0.83
    assert made["tcp#2"].covers(1)


def test_a_gain_is_one_when_the_start_beside_itself_shows_less() -> None:
    assert verdict(Estimate(0.8, 0.78, 0.82), Estimate(1.0, 0.97, 1.03)).gains
    assert not verdict(Estimate(0.8, 0.78, 0.82), Estimate(1.3, 0.9, 1.6)).gains
    assert not verdict(Estimate(0.8, 0.78, 0.82), Estimate(1.0, 0.9, 1.1), apart=1.25).gains
    assert not verdict(Estimate(0.8, 0.6, 1.01), Estimate(1.0, 0.99, 1.01)).gains


def test_a_start_lies_from_itself_as_far_as_its_sizes_do_in_the_mean() -> None:
    times = {("pingpong", size): 1e4 for size in (1, 8)}
    places = {("pingpong", 1): Estimate(0.8, 0.7, 0.9), ("pingpong", 8): Estimate(1.25, 1.0, 1.5)}
    made = Scores({}, {"tcp#2": places}, times)
    assert made.apart("tcp#2", LATENCY) == pytest.approx(1.25)
    assert made.apart("other", LATENCY) == 1.0


def test_with_enough_launches_their_own_scores_make_the_interval() -> None:
    """Sizes that are off by themselves do not add up as if all were off together, and launches that lie apart show."""
    few, many = (scored(measured({"tcp": 1.0, "tcp:x=1": 0.8}, launches, 0.2)) for launches in (3, 8))
    assert many["tcp:x=1"].half_width < 0.6 * few["tcp:x=1"].half_width
    assert many["tcp:x=1"].covers(0.8)


@pytest.mark.deep
@pytest.mark.parametrize("launches", [3, 6, 8])
def test_the_intervals_of_scores_hold_what_they_promise(launches: int) -> None:
    missed = 0
    for seed in range(100):
        made = scored(measured({"tcp": 1.0, "tcp:x=1": 1.0}, launches, 0.1, seed))["tcp:x=1"]
        missed += not made.covers(1)
    assert missed <= 10


def test_what_is_not_worth_a_setting_is_no_gain() -> None:
    assert not verdict(Estimate(0.985, 0.984, 0.986), Estimate(1.0, 0.999, 1.001)).gains


def test_without_an_interval_nothing_is_a_gain() -> None:
    assert not verdict(unsure(0.1), Estimate(1.0, 0.99, 1.01)).gains
    assert not verdict(Estimate(0.5, 0.4, 0.6), unsure(1.0)).gains
    assert not verdict(Estimate(0.5, 0.4, 0.6), None).gains


@pytest.mark.parametrize("seed", range(100))
def test_a_start_that_is_tuned_shows_no_gain(seed: int) -> None:
    made = scored(measured({"tcp": 1.0, "tcp#2": 1.0, "tcp:x=1": 1.0}, spread=0.05, seed=seed))
    assert not verdict(made["tcp:x=1"], made["tcp#2"]).gains


def test_a_variant_without_a_size_has_no_score() -> None:
    run = measured({"tcp": 1.0, "tcp:x=1": 0.8})
    less = [one for one in run.points if not (one.variant == "tcp:x=1" and one.size_bytes == 64)]
    assert scored(examples.run(*less, variants=("tcp", "tcp:x=1"))) == {}


def test_goals_count_every_size_alike_by_the_geometric_mean() -> None:
    ratios = {("pingpong", 1): Estimate(0.5, 0.4, 0.6), ("pingpong", 8): Estimate(2.0, 1.9, 2.1)}
    score = LATENCY.score(ratios, dict.fromkeys(ratios, 1e3))
    assert score is not None
    assert score.value == pytest.approx(1.0)
    assert score.low == pytest.approx(math.sqrt(0.4 * 1.9))


def test_a_profile_counts_each_size_by_the_time_that_it_takes() -> None:
    places = (("pingpong", 8), ("pingpong", 1 << 20))
    made = Goal("profile=x", places, places, (8, 1 << 20), {places[0]: 900.0, places[1]: 100.0})
    times = {places[0]: 1e3, places[1]: 1e6}  # 0.9 ms and 100 ms of the program
    ratios = {places[0]: Estimate(0.1, 0.1, 0.1), places[1]: Estimate(0.9, 0.9, 0.9)}
    score = made.score(ratios, times)
    assert score is not None
    assert score.value == pytest.approx((0.9 * 0.1 + 100 * 0.9) / 100.9)


def test_sizes_that_take_the_start_too_long_are_left_out() -> None:
    less = goal("throughput").without(lambda place: place[1] > 1 << 20)
    assert max(size for _, size in less.counted) == 1 << 20
    assert max(size for _, size in less.probes) == 512 << 10


@pytest.mark.parametrize("text", ["collective", "profile", "collective=", "profile="])
def test_a_goal_without_its_name_is_told_how_to_write_it(text: str) -> None:
    kind = text.removesuffix("=")
    with pytest.raises(Failure, match=f"--goal {kind} needs a name; write {kind}="):
        goal(text)


@pytest.mark.parametrize("text", ["", "speed", "latency=1"])
def test_what_is_no_goal_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(Failure, match="choose one of latency"):
        goal(text)


def test_a_profile_gives_its_messages_and_collectives(tmp_path: Path) -> None:
    whole = traced(
        [("Send", 0, 10, 64, 1, 0), ("Send", 20, 10, 64, 1, 0), ("Allreduce", 40, 10, 8, -1, 0)],
        [("Recv", 0, 10, 64, 0, 0), ("Recv", 20, 10, 64, 0, 0), ("Allreduce", 40, 10, 8, -1, 0)],
    )
    path = tmp_path / "profile.jsonl"
    profiles.write(whole, path)
    made = goal(f"profile={path}")
    assert made.calls == {("pingpong", 64): 2.0, ("collective:what=allreduce", 8): 1.0}
    assert made.ranks == 2


def test_of_a_long_profile_the_first_part_is_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = traced(
        [("Send", 20 * place, 10, 64, 1, 0) for place in range(50)],
        [("Recv", 20 * place, 15, 64, 0, 0) for place in range(50)],
    )
    path = tmp_path / "profile.jsonl"
    profiles.write(whole, path)
    assert goal(f"profile={path}").calls == {("pingpong", 64): 50.0}
    monkeypatch.setattr("netpipe.profiles.trace.chosen.MOST_EVENTS", 20)
    (many,) = goal(f"profile={path}").calls.values()
    assert 8 <= many <= 11


def test_a_profile_without_messages_weighs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "profile.jsonl"
    profiles.write(profile_of([], []), path)
    with pytest.raises(Failure, match="profile="):
        goal(f"profile={path}")


def test_each_size_gets_the_algorithm_that_is_certainly_faster_there() -> None:
    def at(size: int, value: float, half: float = 0.02) -> tuple[tuple[str, int], Estimate]:
        return ("collective:what=bcast", size), Estimate(value, value * (1 - half), value * (1 + half))

    told = {"1": dict([at(8, 0.5), at(64, 1.2)]), "2": dict([at(8, 0.7), at(64, 0.95, 0.2)])}
    assert choice(told, (8, 64)) == {8: "1", 64: ""}


def test_settings_are_looked_for_in_what_the_layer_records() -> None:
    before = {"sndbuf_kernel_bytes": "16384", "environment": "A=1"}
    after = {"sndbuf_kernel_bytes": "131072", "rcvbuf_kernel_bytes": "5", "environment": "A=1 B=2"}
    changes = Changes.of({"sndbuf": "64k", "rcvbuf": "64k", "eager": "8k", "X_LINKS": "4", "X_WRONG": "5"})
    asked = {"X_LINKS": ("1", "4"), "X_WRONG": ("unknown to the library",) * 2}
    found = {one.name: one for one in effects(changes, {**before, "rcvbuf_kernel_bytes": "5"}, after, asked)}
    assert (found["sndbuf"].word, found["sndbuf"].said) == (READ, "sndbuf_kernel_bytes=131072")
    assert found["rcvbuf"].word == NO_EFFECT
    assert found["eager"].said == "given to the library as B=2"
    assert (found["X_LINKS"].word, found["X_WRONG"].word) == (READ, NO_EFFECT)
    assert effects(Changes.of({"ring": "1M"}), {}, {}, {})[0].word == UNKNOWN


def test_settings_of_ucx_show_in_its_transports_and_protocols() -> None:
    before = {"transports": "cma/memory (rma_bw), posix/memory (am)", "protocols_tag": "egr/short from 0"}
    after = {
        "transports": "tcp/lo (am)",
        "protocols_tag": "egr/short from 0, rndv from 65536",
        "UCX_TLS": "tcp",
    }
    changes = Changes.of({"tls": "tcp", "rndv": "64k"})
    tls, rndv = sorted(effects(changes, before, after, {}), key=lambda one: one.name, reverse=True)
    assert (tls.word, tls.said) == (READ, "transports=tcp/lo (am)")
    assert (rndv.word, rndv.said) == (READ, "protocols_tag=egr/short from 0, rndv from 65536")
    (same,) = effects(Changes.of({"rndv": "8k"}), before, {**before, "UCX_RNDV_THRESH": "8k"}, {})
    assert (same.word, same.said) == (NO_EFFECT, "protocols_tag=egr/short from 0, as without it")
    (given,) = effects(Changes.of({"rndv": "8k"}), {}, {"UCX_RNDV_THRESH": "8k"}, {})
    assert given.said == "given to the library as UCX_RNDV_THRESH=8k"


@pytest.mark.parametrize(
    ("made", "note"),
    [
        (broken_guideline.silent(), "allreduce is not certainly slower than reduce and bcast at any size"),
        (broken_guideline.fires(), "mpi@x: allreduce is slower than reduce and bcast at 1 size"),
        (
            examples.run(examples.point("mpi@x", 8, 1e3, pattern="collective:what=allreduce")),
            "allreduce was not held against reduce and bcast: no variant was measured with ",
        ),
    ],
)
def test_a_collective_is_held_against_others_only_where_they_were_measured(made: Run, note: str) -> None:
    found = Outcome("mpi@x", "collective=allreduce")
    bench = SimpleNamespace(session=lambda *_: SimpleNamespace(run=made), measurements=1)
    tuner = SimpleNamespace(bench=bench, watch=lambda _: None)
    PerSize._check_guideline(tuner, found, 1.0, 2.0)  # type: ignore[arg-type]
    (said,) = found.notes
    assert said.startswith(note)
