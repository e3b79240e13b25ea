# SPDX-License-Identifier: Apache-2.0
"""Which findings matter most, in one order everywhere; and whether to believe the run."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from rich.console import Console

from netpipe.cli.show import to_json
from netpipe.findings import (
    CURVES,
    NOTE,
    SEVERE,
    WARNING,
    Finding,
    Judgement,
    Quantity,
    Rule,
    examples,
    judge,
    most_important,
    order,
    rules,
)
from netpipe.findings.curves import small_buffers
from netpipe.findings.trust import trust
from netpipe.reading import Reading
from netpipe.records import Error, Run
from netpipe.render.page.findings import section
from netpipe.render.page.page import page
from netpipe.render.terminal.summary import print_summary
from pages import Page


def one_line(text: str) -> str:
    return " ".join(text.split())


def finding(
    severity: str = NOTE,
    gain: tuple[float, float | None] | None = None,
    remedy: str = "do it",
    rule: str = "step",
    what: str = "It is so.",
) -> Finding:
    """gain: the value, and the lower end of its interval."""
    made = Quantity(gain[0], "1", gain[1], gain[1] and 2 * gain[0]) if gain else None
    return Finding(rule=rule, severity=severity, what=what, certainty="Certain.", remedy=remedy, gain=made)


def test_what_is_severe_goes_first_then_what_certainly_gains_most_then_the_rest() -> None:
    ordered = [
        ("severe", finding(SEVERE), "step"),
        ("severe, of the machine", finding(SEVERE), "load"),
        ("surely twice as fast", finding(NOTE, (2.1, 2.0)), "step"),
        ("perhaps ten times", finding(WARNING, (10.0, 1.2)), "step"),
        ("no interval", finding(WARNING, (10.0, None)), "step"),
        ("a warning about the machine", finding(WARNING), "load"),
        ("a warning without a remedy", finding(WARNING, remedy=""), "step"),
        ("perhaps nothing", finding(NOTE, (3.0, 0.9)), "step"),
        ("a note without a remedy", finding(NOTE, remedy=""), "step"),
    ]
    keys = [order(found, rules()[rule]) for _, found, rule in ordered]
    assert sorted(keys) == keys
    assert len({key[:-1] for key in keys}) == len(keys)


def test_three_findings_of_three_rules_are_the_most_important() -> None:
    first, second, third, fourth = (finding(NOTE, (9.0 - n, 8.0 - n), rule=f"rule-{n}") for n in range(4))
    again = finding(NOTE, (8.9, 7.9), rule="rule-0")
    assert most_important([first, again, second, third, fourth]) == (first, second, third)
    assert most_important([first, again]) == (first,)


@pytest.mark.parametrize(
    ("found", "worth"),
    [
        (finding(SEVERE), True),
        (finding(WARNING), True),
        (finding(WARNING, rule="load"), False),  # about the machine
        (finding(SEVERE, rule="load"), True),
        (finding(NOTE, (1.5, 1.1)), True),
        (finding(NOTE), False),
        (finding(NOTE, (1.5, 0.9)), False),
        (finding(NOTE, (1.5, None)), False),
        (finding(SEVERE, remedy=""), False),
        (finding(NOTE, (1.5, 1.1), remedy=""), False),
    ],
)
def test_what_has_no_remedy_or_changes_nothing_for_certain_is_not_worth_acting_on(
    found: Finding, worth: bool
) -> None:
    assert most_important([found]) == ((found,) if worth else ())


@pytest.mark.parametrize("rule", list(rules().values()), ids=lambda rule: rule.id)
def test_only_a_rule_about_curves_knows_a_gain_and_then_a_remedy_too(rule: Rule) -> None:
    for found in judge(Reading(rule.fires())).findings:
        if found.rule == rule.id:
            assert found.gain is None or (rule.about == CURVES and found.remedy and found.gain.value > 1)


def test_terminal_page_and_json_have_the_findings_in_one_order() -> None:
    """A run with something severe, something that gains, a warning and notes."""
    made = Reading(small_buffers.fires())
    made.run.errors.append(Error(variant="tcp:sndbuf=8k", code=4, message="lost"))
    made.run.environments += examples.with_facts({"clock.source": "hpet"}).environments
    found = judge(made).findings
    assert [one.rule for one in found[:3]] == ["measurement-failed", "slow-clock", "small-buffers"]
    assert len(found) > 4
    answer = json.loads(to_json(made, [], points=False))
    assert answer["findings"] == list(msgspec.to_builtins(found))
    assert answer["most_important"] == [0, 1, 2]
    written = Page(page(made)).text
    places = [written.index(one_line(one.what)) for one in found]
    assert places == sorted(places)
    assert places[2] < written.index("Plots") < places[3]
    stream = io.StringIO()
    print_summary(Console(file=stream, width=200), made)
    said = one_line(stream.getvalue())
    places = [said.index(one_line(one.what)) for one in found if one_line(one.what) in said]
    assert places == sorted(places)
    assert len(places) >= 3
    assert said.count(f"to confirm: {found[2].experiment}") == 1


def test_the_page_says_a_cause_once_and_each_remedy_with_its_curve() -> None:
    def limit(variant: str, remedy: str) -> Finding:
        made = finding(remedy=remedy, rule="eager-limit", what=f"{variant} steps.")
        return msgspec.structs.replace(made, title="Eager limit", variant=variant, cause="A handshake.")

    first, other, again = limit("a", "eager=16384"), limit("b", "eager=65536"), limit("c", "eager=65536")
    between = finding(rule="load", what="It is loaded.")
    (limits, load) = section(Judgement((first, between, other, again), ()), several_hosts=False).others
    assert [shown.finding for shown in limits] == [first, other, again]
    assert [shown.finding for shown in load] == [between]


def test_where_nothing_is_worth_acting_on_the_page_says_so() -> None:
    assert (
        "Nothing that was found in this run is worth acting on." in Page(page(Reading(examples.run()))).text
    )
    assert "is worth acting on" not in Page(page(Reading(small_buffers.fires()))).text


# ------------------------------------------------------------------------------------------------ whether to believe it


def believed(*widths: float, facts: Mapping[str, Any] | None = None, launches: int = 1) -> str:
    """The sentence about a run with points of these half widths."""
    points = [
        examples.point("tcp", 8 << n, 1000.0, half_width=width, launch=launch)
        for n, width in enumerate(widths)
        for launch in range(launches)
    ]
    hosts = examples.with_facts(facts).environments if facts else []
    made = Reading(examples.run(*points, *hosts))
    return trust(made, judge(made).findings)


def test_times_are_believed_as_far_as_half_of_the_intervals_reach() -> None:
    assert (
        believed(0.01, 0.02, 0.3)
        == "Trust these times to ±2.0 %: in 1 launch half of the intervals are narrower."
    )
    assert believed(0.05, 3.0, 4.0).startswith(
        "Trust these times to their order of magnitude: in 1 launch half"
    )
    assert "in 2 launches" in believed(0.01, launches=2)


def test_losses_are_believed_as_far_as_theirs_reach() -> None:
    """Two layers wander by 20 % from launch to launch, together: their ratio does not, unless one has its own pace."""

    def said(own: float) -> str:
        points = [
            examples.visited(
                variant, size, ns * pace * (own ** (launch % 2) if variant == "tcp" else 1), launch
            )
            for launch, pace in enumerate((1.0, 1.2, 0.9, 1.1))
            for variant, ns, sizes in (("unix", 1000.0, (8, 64, 512, 4096)), ("tcp", 2000.0, (8, 64, 512)))
            for size in sizes
        ]
        made = Reading(examples.run(*points, variants=("unix", "tcp"), stack={"tcp": "unix"}))
        return trust(made, judge(made).findings)

    match = re.match(
        r"Trust these times to ±(\d+) %, and losses to ±([\d.]+) %: in 4 launches half", said(own=1)
    )
    assert match
    assert float(match[1]) > 10 > 2 > float(match[2])
    assert said(own=10_000).startswith("Trust these times to ±"), "most are of unix"
    assert "losses" not in said(own=10_000), "of which nothing is known"


def test_what_the_yardsticks_saw_stands_with_it_once() -> None:
    def made(second_ns: float) -> Reading:
        yardsticks = examples.yardstick(0), examples.yardstick(12.3, bounce_ns=second_ns)
        return Reading(examples.run(*yardsticks, examples.point("tcp", 8, 1000.0, state=None)))

    moved, steady = made(278), made(55)
    said = trust(moved, judge(moved).findings)
    assert said.endswith("are narrower; meanwhile a cache-line bounce took 54.0 ns to 278 ns.")
    assert "meanwhile" not in trust(steady, judge(steady).findings)
    stream = io.StringIO()
    print_summary(Console(file=stream, width=200), moved)
    assert one_line(stream.getvalue()).count("a cache-line bounce took 54.0 ns to 278 ns") == 1
    assert "; meanwhile a cache-line bounce took 54.0 ns to 278 ns." in Page(page(moved)).text


def test_warnings_speak_against_the_times_and_what_is_severe_comes_before_them() -> None:
    odd = believed(0.01, facts={"cpu.virtual.is_virtual": True, "cpu.frequency.governor": "powersave"})
    assert odd.endswith("; reasons for doubt: frequency governor and virtual machine (see netpipe doctor).")
    assert believed(0.01, facts={"clock.source": "hpet"}) == (
        "Do not trust these numbers until this is fixed: slow clock source. They repeat to ±1.0 %: in 1 launch half of "
        "the intervals are narrower."
    )


def test_load_makes_times_wide_and_not_wrong() -> None:
    """The sentence keeps how far they reach, and names the load once."""
    busy = {"load.average_1": 17.2, "cpu.logical": 2, "load.other_busy_processes": 3}
    assert believed(0.2, facts=busy) == (
        "Trust these times to ±20 %: in 1 launch half of the intervals are narrower; reasons for doubt: load (see "
        "netpipe doctor)."
    )
    assert believed(0.2, facts={"limits.cgroup.cpu_quota": 1.0, "pinning.count": 2}).startswith("Trust these")
    shared = believed(0.2, facts={**busy, "pinning.count": 4, "pinning.sharing_cpu": 2})
    assert shared.startswith(
        "Do not trust these numbers until this is fixed: oversubscribed. They repeat to ±20 %"
    )


def test_the_load_is_the_worst_of_the_launches() -> None:
    loads = ((1.2, 3), (5.3, 3), (9.0, 0), (2.0, 3))  # before the third one nobody else was at work
    hosts = [
        environment
        for average, others in loads
        for environment in examples.with_facts(
            {"load.average_1": average, "cpu.logical": 2, "load.other_busy_processes": others}
        ).environments
    ]
    made = Reading(examples.run(examples.point("tcp", 8, 1000.0), *hosts))
    (load,) = [one for one in judge(made).findings if one.rule == "load"]
    assert load.what.startswith("The load average of the last minute reached 5.3 on 2 processors: ")


def test_the_floor_of_comparisons_is_said_where_it_was_measured() -> None:
    """Half of the sizes of tcp beside itself differ by nothing, and all by at most 4 %."""
    points = [
        examples.visited(name, 8 << place, ns, launch)
        for launch in range(4)
        for place, off in enumerate((0.0, 0.0, 0.0, 0.04))
        for name, ns in (("tcp", 1000.0), ("tcp#2", 1000.0 * (1 + off)))
    ]
    made = examples.run(*points, variants=["tcp", "tcp#2"])
    assert "floor" not in trust(Reading(made), ())
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, copy_of="tcp" if one.variant == "tcp#2" else None)
            for one in plan.variants
        ]
    said = trust(Reading(made), ())
    assert said.endswith("; comparisons have a floor of 4.0 % (tcp beside itself, at nine in ten sizes).")


def test_what_failed_for_one_variant_does_not_take_the_others_with_it() -> None:
    made = Reading(
        examples.run(examples.point("shm", 8, 100.0), Error(variant="tcp", code=4, message="lost"))
    )
    said = trust(made, judge(made).findings)
    assert said.startswith("Trust these times to ±")
    assert said.endswith("; reasons for doubt: measurement failed (tcp).")


def test_what_a_setting_gets_back_says_nothing_against_the_times() -> None:
    made = Reading(small_buffers.fires())
    assert "buffers" not in trust(made, judge(made).findings)


def test_without_points_there_is_nothing_to_believe() -> None:
    assert trust(Reading(Run()), ()) == ""


def test_without_intervals_nothing_says_how_far_to_trust() -> None:
    made = Reading(rules()["no-intervals"].fires())
    assert trust(made, judge(made).findings).startswith("Nothing says how far to trust these times")
