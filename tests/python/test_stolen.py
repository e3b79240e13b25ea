# SPDX-License-Identifier: Apache-2.0
"""Time that was stolen during a run, from the shares since the start of the machine that its launches recorded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from netpipe.findings import Finding, examples, judge
from netpipe.reading import Reading
from netpipe.reading.machine.stolen import stolen
from netpipe.records import Environment, Launch, Run, Yardstick

UP_S = 30_000.0
LAUNCH_S = 10.0


def measured(
    shares: Sequence[float], before: float, pause_s: float = 1.0, hosts: Sequence[str] = ("a",)
) -> Run:
    """Launches of 10 s, each followed by a pause, in which these shares of the time were stolen, after `before` of all
    time since the start.
    """
    records: list[Environment | Launch] = []
    up_s, taken_s = UP_S, before * UP_S
    for launch in range(len(shares) + 1):
        facts = {"cpu": {"virtual": {"steal_share": taken_s / up_s}}, "load": {"uptime_s": up_s}}
        records += [Environment(launch=launch, host=host, facts=dict(facts)) for host in hosts]
        records.append(Launch(launch=launch, seconds=LAUNCH_S))
        if launch < len(shares):
            up_s += LAUNCH_S + pause_s
            taken_s += shares[launch] * (LAUNCH_S + pause_s)
    points = [examples.point("tcp", 8, 1000.0, launch=launch) for launch in range(len(shares) + 1)]
    made = examples.run(*records, *points, variants=["tcp"])
    made.launches[:] = [
        one for one in made.launches if one.seconds == LAUNCH_S
    ]  # and not those of the example
    return made


def found(run: Run) -> list[Finding]:
    return [one for one in judge(Reading(run)).findings if one.rule == "stolen-time"]


def test_the_shares_of_the_launches_are_what_was_stolen_in_them() -> None:
    shares = [0.2, 0.0, 0.05]
    (launches,) = stolen(measured(shares, before=0.01)).values()
    assert [one.share for one in launches] == pytest.approx(shares, abs=1e-9)
    assert [(one.launch, one.seconds) for one in launches] == [(n, pytest.approx(11)) for n in range(3)]


def test_what_was_stolen_before_the_run_is_not_held_against_it() -> None:
    assert not found(measured([0.0, 0.001, 0.002], before=0.3))


def test_what_was_stolen_during_the_run_is_found_whatever_was_before() -> None:
    (finding,) = found(measured([0.02, 0.1, 0.03], before=0.0))
    assert finding.what == (
        "During 3 of 4 launches, the host gave 5.0 % of the processor time to others, at most 10.0 % in launch 1."
    )
    assert finding.evidence["steal_share"].value == pytest.approx(0.05)


def test_the_only_launch_of_which_it_is_known_has_no_number() -> None:
    (finding,) = found(measured([0.02], before=0.0))
    assert finding.what == "During 1 of 2 launches, the host gave 2.0 % of the processor time to others."
    one = measured([0.02], before=0.0)
    one.plans[:] = one.plans[:1]
    assert found(one)[0].what == "During this run, the host gave 2.0 % of the processor time to others."


def test_yardsticks_know_every_launch_and_come_before_environments() -> None:
    run = measured([0.5], before=0.0)
    shares = {0: (None, 0.02, 0.08), 1: (None, 0.0, 0.02)}
    run.yardsticks[:] = [
        Yardstick(launch=launch, at_s=2.0 * at + (at == 2), stolen_share=share)
        for launch, known in shares.items()
        for at, share in enumerate(known)
    ]
    (launches,) = stolen(run).values()
    assert [(one.launch, one.seconds) for one in launches] == [(0, 5.0), (1, 5.0)]
    assert [one.share for one in launches] == pytest.approx([(2 * 0.02 + 3 * 0.08) / 5, 3 * 0.02 / 5])


def test_one_launch_tells_only_the_share_since_the_machine_started() -> None:
    (finding,) = found(measured([], before=0.05))
    assert finding.what.startswith(
        "Since this machine started, its host gave 5.0 % of its processor time to others; "
    )
    assert not found(measured([], before=0.005))


def test_time_between_two_commands_is_no_time_of_the_run() -> None:
    """A run that was continued an hour later, and a machine that was started anew in between."""
    assert stolen(measured([0.5], before=0.0, pause_s=3600.0)) == {}
    again = measured([0.5], before=0.0)
    again.environments[1].facts["load"]["uptime_s"] = 60.0
    assert stolen(again) == {}


def test_each_host_has_its_own_share() -> None:
    both = measured([0.04, 0.04], before=0.0, hosts=("a", "b"))
    for environment in both.environments:
        if environment.host == "a":
            environment.facts["cpu"] = {"virtual": {"steal_share": 0.0}}
    assert [one.host for one in found(both)] == ["b"]
