# SPDX-License-Identifier: Apache-2.0
"""A rule that has nothing to judge says what it lacks. It is not silent, as a rule is that has found nothing."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import msgspec
import pytest

from netpipe.findings import examples, floor, judge, placed_apart
from netpipe.findings.curves import cache_cliff, path_delay, rate_limit, segment_step
from netpipe.findings.curves.thresholds import late_switch
from netpipe.findings.curves.waiting import asleep
from netpipe.reading import Reading
from netpipe.records import Rank, Run


def why(rule: str, made: Run) -> str | None:
    """Why the rule could not judge the run; None: it judged it."""
    return next((one.reason for one in judge(Reading(made)).skipped if one.rule == rule), None)


def without_visits(made: Run) -> Run:
    made.points[:] = [msgspec.structs.replace(point, visits=None) for point in made.points]
    return made


def of_module(made: Run, module: str) -> Run:
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, module=module) for one in plan.variants]
    return made


def with_points(made: Run, *sizes: int) -> Run:
    made.points[:] = [point for point in made.points if point.size_bytes in sizes]
    return made


def with_pattern(made: Run, pattern: str) -> Run:
    made.points[:] = [msgspec.structs.replace(point, pattern=pattern) for point in made.points]
    return made


def with_ranks(made: Run, *ranks: Rank) -> Run:
    for variant in made.variants:
        variant.ranks[:] = [
            msgspec.structs.replace(rank, settings=variant.ranks[0].settings) for rank in ranks
        ]
    return made


def among_three(made: Run) -> Run:
    return with_ranks(made, *(Rank(rank=n, host=f"node{17 + n}") for n in range(3)))


def on_one_processor(made: Run) -> Run:
    return with_ranks(made, *(Rank(rank=n, host="node17", processors="3") for n in range(2)))


def beside_another_size(made: Run) -> Run:
    made.points[0].size_bytes += 1
    return made


def shaped_by(made: Run, kind: str, **more: object) -> Run:
    """The run, whose interfaces have this queue discipline."""
    for environment in made.environments:
        environment.facts["network"]["interfaces"][0]["qdisc"] = {"kind": kind, **more}
    return made


def nowhere(made: Run) -> Run:
    for variant in made.variants:
        for rank in variant.ranks:
            rank.cpu = None
    return made


CASES: list[tuple[str, Callable[[], Run], Callable[[Run], Run], str]] = [
    ("late-switch", late_switch.fires, without_visits, "did not record its visits"),
    ("segment-step", segment_step.fires, without_visits, "did not record its visits"),
    (
        "cache-cliff",
        cache_cliff.fires,
        lambda made: of_module(made, "tcp"),
        "no layer that only copies memory",
    ),
    ("cache-cliff", cache_cliff.fires, lambda made: with_points(made, 8, 1 << 16), "inside and outside of"),
    ("path-delay", path_delay.fires, lambda made: with_pattern(made, "stream"), "no pingpong of a layer"),
    ("rate-limit", rate_limit.fires, among_three, "more than two hosts"),
    ("sleeps", asleep.fires, on_one_processor, "where polling does not help"),
    ("harness-floor", floor.fires, beside_another_size, "no layer was measured at a size"),
    ("launches-on-other-processors", placed_apart.fires, nowhere, "did not record their processors"),
]


@pytest.mark.parametrize(("rule", "made", "lacking", "reason"), CASES)
def test_what_a_rule_lacks_it_says(
    rule: str, made: Callable[[], Run], lacking: Callable[[Run], Run], reason: str
) -> None:
    assert why(rule, made()) is None
    said = why(rule, lacking(made()))
    assert said is not None
    assert reason in said


def test_a_curve_that_can_be_judged_is_judged_beside_one_that_cannot() -> None:
    """One layer whose ranks share a processor, and one that has two."""
    made = asleep.fires()
    (plan,), (variant,), (point,) = made.plans, made.variants, made.points
    plan.variants.append(msgspec.structs.replace(plan.variants[0], variant="unix"))
    made.variants.append(msgspec.structs.replace(variant, variant="unix", ranks=list(variant.ranks)))
    made.points.append(msgspec.structs.replace(point, variant="unix"))
    for rank in variant.ranks:
        rank.processors = "3"
    made.variants[1].ranks[:] = [msgspec.structs.replace(rank, processors="0-1") for rank in variant.ranks]
    assert why("sleeps", made) is None
    found = [one.variant for one in judge(Reading(made)).findings if one.rule == "sleeps"]
    assert found == ["unix"]


def test_among_many_hosts_without_a_shaper_nothing_limits_and_nothing_is_lacking() -> None:
    assert why("rate-limit", shaped_by(among_three(rate_limit.fires()), "fq_codel")) is None


@pytest.mark.parametrize(
    ("kind", "shows"), [("htb", "class"), ("hfsc", "class"), ("cake", "qdisc"), ("netem", "qdisc")]
)
def test_a_shaper_whose_rate_is_not_recorded_is_said(kind: str, shows: str) -> None:
    said = why("rate-limit", shaped_by(rate_limit.fires(), kind)) or ""
    assert said.startswith(f"{kind} may limit the rate of eth0")
    assert f"tc {shows} show dev eth0" in said
    assert why("rate-limit", shaped_by(among_three(rate_limit.fires()), kind)) == rate_limit.AMONG_MANY
    assert why("rate-limit", shaped_by(rate_limit.fires(), kind, bits_per_s=1e9)) is None


def test_beside_a_shaper_that_was_read_another_one_may_be_lower() -> None:
    """The second host has htb: the first one's limit is a finding where the curve comes near it, and no answer else."""

    def with_htb(made: Run) -> Run:
        (first,) = made.environments
        made.environments.append(msgspec.structs.replace(first, host="node18", facts=deepcopy(first.facts)))
        made.environments[1].facts["network"]["interfaces"][0]["qdisc"] = {"kind": "htb"}
        return made

    near = with_htb(rate_limit.fires())
    assert why("rate-limit", near) is None
    assert [one.rule for one in judge(Reading(near)).findings if one.rule == "rate-limit"]
    far = with_htb(rate_limit.silent())
    assert (why("rate-limit", far) or "").startswith("htb may limit the rate of eth0")


def test_a_run_of_nothing_but_the_idle_module_has_no_floor_to_tell() -> None:
    made = examples.run(examples.point("null", 8, 2.0), variants=["null"])
    assert "idle module" in (why("harness-floor", made) or "")
