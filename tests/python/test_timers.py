# SPDX-License-Identifier: Apache-2.0
"""Messages that wait for a timer: which one, and what else may explain their times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from netpipe.findings import Finding, examples, judge
from netpipe.findings.curves.links import between_hosts
from netpipe.reading import Reading
from netpipe.records import Environment, PlannedVariant, Rank, Run

RULE = "timer-interval"
DEFERRED = {"gro_flush_timeout_ns": 500_000, "defer_hard_irqs": 10}
KEPT = Path(__file__).resolve().parents[1] / "kept/link-timer.jsonl"


def found_by(rule: str, made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == rule]


def within_a_host(
    half_trips_ns: Mapping[int, float],
    options: Mapping[str, str] | None = None,
    tick_hz: int | None = 250,
    wakeup_ns: float = 5000.0,
    counters: dict[str, int] | None = None,
    **more: Any,
) -> Run:
    """A layer of two ranks on one host with two processors; `options`: with the values that its ranks recorded."""
    yardstick = examples.yardstick(0.0)
    yardstick.wakeup_ns = wakeup_ns
    made = examples.run(
        yardstick,
        Environment(host="node17", facts={"clock": {"tick_hz": tick_hz}} if tick_hz else {}),
        *(
            examples.point("x", size, ns, counters=counters or {}, **more)
            for size, ns in half_trips_ns.items()
        ),
        variants=("x",),
    )
    for plan in made.plans:
        plan.variants[:] = [PlannedVariant(variant="x", module="x", options=dict(options or {}))]
    for variant in made.variants:
        variant.ranks[:] = [
            Rank(rank=rank, host="node17", cpu=rank, processors=str(rank), settings=dict(options or {}))
            for rank in (0, 1)
        ]
    return made


# ------------------------------------------------------------------------------------------------- that of an interface


@pytest.mark.parametrize(
    ("trip_us", "said"),
    [
        (400, None),
        (500, "1.00 times the 500 µs after which eth0 looks for packets"),
        (560, "1.12 times the 500 µs"),
        (600, None),  # something else takes this time
        (1020, "2.04 times the 500 µs"),
        (1600, None),
    ],
)
def test_a_round_trip_of_one_or_two_periods_waits_for_the_timer_of_its_interface(
    trip_us: float, said: str | None
) -> None:
    found = found_by(RULE, between_hosts(DEFERRED, {}, {8: trip_us * 500, 1024: trip_us * 500}))
    assert [said in one.what for one in found if said] == ([True] if said else [])
    assert bool(found) == bool(said)
    for one in found:
        assert one.confirm is None
        assert "/sys/class/net/eth0/napi_defer_hard_irqs" in one.remedy


@pytest.mark.parametrize(
    "interface",
    [
        {"gro_flush_timeout_ns": 500_000, "defer_hard_irqs": 0},  # the next packet interrupts
        {"gro_flush_timeout_ns": 0, "defer_hard_irqs": 10},
        {"gro_flush_timeout_ns": 20_000, "defer_hard_irqs": 10},
        {},
    ],
)
def test_an_interface_that_interrupts_or_looks_often_is_not_waited_for(interface: dict[str, int]) -> None:
    assert not found_by(RULE, between_hosts(interface, {}, {8: 2.5e5}))


def test_small_messages_that_differ_do_not_wait_for_a_timer() -> None:
    assert not found_by(RULE, between_hosts(DEFERRED, {}, {8: 2.6e5, 1024: 3.1e5}))
    large = between_hosts(DEFERRED, {}, {8: 2.6e5, 1024: 2.6e5, 65536: 3.1e5})
    assert found_by(RULE, large), "of large ones the bytes count"
    both = between_hosts(DEFERRED, {}, {8: 2.6e5, 1024: 5.2e5})
    assert found_by(RULE, both), "where both ends wait, one period or two"


def test_the_timer_of_an_interface_is_no_long_path() -> None:
    """TCP's own acknowledgements wait for it too."""
    counters = {"min_rtt_us": 510}
    made = between_hosts(DEFERRED, counters, {8: 2.6e5})
    assert found_by(RULE, made)
    assert not found_by("path-delay", made)
    plain = between_hosts({}, counters, {8: 2.6e5})
    assert not found_by(RULE, plain)
    assert found_by("path-delay", plain)


# ------------------------------------------------------------------------------------------------- the kernel's tick


def test_a_round_trip_of_a_tick_waits_for_it_and_polling_is_tried() -> None:
    made = within_a_host({8: 2.02e6, 1024: 2.03e6}, {"wait": "block"})
    (found,) = found_by(RULE, made)
    assert "a round trip of 8 B takes 4.04 ms, 1.01 times the 4.00 ms between two ticks" in found.what
    assert found.confirm is not None
    assert (found.confirm.remedied, found.confirm.sizes) == ("x:wait=poll", [8])
    assert found.remedy.startswith("wait=poll; or ")


@pytest.mark.parametrize("wait", ["poll", "yield"])
def test_a_layer_that_polls_already_has_no_experiment(wait: str) -> None:
    (found,) = found_by(RULE, within_a_host({8: 2.02e6}, {"wait": wait}))
    assert found.confirm is None
    assert "wait=poll" not in found.remedy
    assert "strace" in found.remedy


@pytest.mark.parametrize(
    ("half_ns", "tick_hz", "fires"),
    [
        (2.02e6, 250, True),
        (4.1e6, 250, True),  # two ticks
        (6.05e6, 250, True),
        (8.1e6, 250, False),  # four: any time is near a multiple of a small part of it
        (2.3e6, 250, False),
        (1.9e6, 250, False),  # a timer does not fire early
        (2.02e6, 1000, False),  # 4.04 ms are four of these
        (0.505e6, 1000, True),
        (2.02e6, None, False),
    ],
)
def test_ticks_are_those_of_this_kernel(half_ns: float, tick_hz: int | None, fires: bool) -> None:
    assert bool(found_by(RULE, within_a_host({8: half_ns}, tick_hz=tick_hz))) == fires


# ------------------------------------------------------------------------------------------ one that nobody recorded

# Half round trips in us of a layer whose receiver sleeps for 150 us between two looks.
SLEEPY = {8: 78.0, 64: 78.2, 1024: 78.4, 16384: 78.0, 262144: 79.0}
SLEEPY |= {524288: 156.0, 786432: 156.4, 1 << 20: 233.5, 2 << 20: 388.0}


def in_us(times: Mapping[int, float]) -> dict[int, float]:
    return {size: 1e3 * us for size, us in times.items()}


def test_round_trips_of_whole_multiples_and_nothing_between_wait_for_a_timer() -> None:
    made = within_a_host(in_us(SLEEPY))
    (found,) = found_by(RULE, made)
    assert found.what == (
        "x: a round trip of 8 B takes 156 µs, and so does one of 256 KiB; longer ones take whole multiples of that: "
        "2 times as long from 512 KiB on and 3 times as long from 1 MiB on."
    )
    assert found.evidence["period"].value == pytest.approx(156e3)


@pytest.mark.parametrize(
    "changed",
    [
        {524288: 120.0},  # between two multiples
        {16384: 95.0},
        {262144: 156.0, 16384: 156.0, 1024: 156.0, 64: 156.0},  # only the smallest takes one
        {1 << 20: 156.0, 2 << 20: 156.0},  # one step is a protocol
        {786432: 234.0, 1 << 20: 500.0},  # two sizes may lie near multiples by chance
    ],
)
def test_times_between_or_a_single_step_are_no_timer(changed: dict[int, float]) -> None:
    assert not found_by(RULE, within_a_host(in_us(SLEEPY | changed)))


def test_bytes_that_are_moved_at_a_rate_are_no_timer() -> None:
    smooth = {8 << power: 78 + (8 << power) * 1e-4 for power in range(20)}
    assert not found_by(RULE, within_a_host(in_us(smooth)))


def test_two_sizes_of_equal_time_tell_nothing() -> None:
    assert not found_by(RULE, within_a_host(in_us({8: 78, 1024: 78})))


@pytest.mark.parametrize(("wakeup_us", "fires"), [(5, True), (30, True), (32, False)])
def test_wake_ups_may_take_as_long(wakeup_us: float, fires: bool) -> None:
    assert bool(found_by(RULE, within_a_host(in_us(SLEEPY), wakeup_ns=1e3 * wakeup_us))) == fires


def test_short_round_trips_are_not_judged_by_multiples() -> None:
    """23 us are one wake-up or two, and no process sleeps for less than the slack of its timer."""
    assert not found_by(RULE, within_a_host({size: us * 150 for size, us in SLEEPY.items()}))


def sampled(modes: Mapping[float, int], ops: int = 2) -> Run:
    """Half round trips in us of small messages, and how many take so long."""
    found = examples.histogram({1e3 * us: count for us, count in modes.items()})
    return within_a_host({8: 1e3 * min(modes)}, histogram=found, ops=ops)


@pytest.mark.parametrize(
    ("modes", "fires"),
    [
        ({160.0: 500, 320.0: 220}, True),
        ({160.0: 500, 320.0: 220, 240.0: 40}, True),  # some meet the scheduler
        ({160.0: 500, 320.0: 220, 240.0: 200}, False),
        ({160.0: 500, 290.0: 220}, False),  # another way, and not twice the period
        ({160.0: 500, 320.0: 30}, False),
        ({160.0: 500}, False),
        ({160.0: 100, 320.0: 40}, False),  # too few samples
        ({16.0: 500, 32.0: 220}, False),  # one wake-up or two
    ],
)
def test_samples_of_one_or_two_periods_wait_for_a_timer(modes: dict[float, int], fires: bool) -> None:
    """As were measured of two ranks that sleep for 250 us between two looks."""
    found = found_by(RULE, sampled(modes))
    assert bool(found) == fires
    assert not found_by(RULE, sampled(modes, ops=12)), "a sample of several round trips is a mean"
    for one in found:
        assert "twice that" in one.what
        assert one.evidence["period"].value == pytest.approx(2 * 160e3, rel=0.03)


# ------------------------------------------------------------------------------------------------- what explains it


def on_two_hosts(made: Run) -> Run:
    for variant in made.variants:
        variant.ranks[:] = [
            Rank(rank=n, host=f"node{17 + n}", settings=variant.ranks[n].settings) for n in (0, 1)
        ]
    return made


@pytest.mark.parametrize("times", [in_us(SLEEPY), {8: 2.02e6}], ids=["steps", "tick"])
def test_whole_round_trips_of_a_path_are_no_timer(times: dict[int, float]) -> None:
    """A rendezvous takes three ways, and the windows of TCP take whole round trips."""
    assert not found_by(RULE, on_two_hosts(within_a_host(times))), "nobody counted how long the path is"
    long_us = int(min(times.values()) / 1e3 * 1.9)
    assert not found_by(RULE, on_two_hosts(within_a_host(times, counters={"min_rtt_us": long_us})))
    assert found_by(RULE, on_two_hosts(within_a_host(times, counters={"min_rtt_us": 40})))


def test_ranks_that_share_a_processor_wait_for_time_slices() -> None:
    made = within_a_host({8: 2.02e6}, {"wait": "poll"})
    for variant in made.variants:
        variant.ranks[:] = [
            Rank(rank=n, host="node17", processors="0", settings={"wait": "poll"}) for n in (0, 1)
        ]
    assert found_by("time-slice", made)
    assert not found_by(RULE, made)


def test_an_acknowledgement_that_is_delayed_is_no_timer_of_the_layer() -> None:
    made = within_a_host({8: 2.0e7}, {"nodelay": "no"}, tick_hz=25)  # 40 ms
    assert found_by("delayed-acknowledgement", made)
    assert not found_by(RULE, made)
    assert found_by(RULE, within_a_host({8: 2.0e7}, {"nodelay": "yes"}, tick_hz=25))


def test_a_card_that_gathers_packets_is_told_as_that() -> None:
    def made(rx_us: int) -> Run:
        counters = {"min_rtt_us": 40}
        run = between_hosts({"coalescing": {"rx_us": rx_us, "rx_frames": 64}}, counters, {8: 2.02e6})
        for environment in run.environments:
            environment.facts["clock"] = {"tick_hz": 250}
        return run

    assert found_by("interrupt-coalescing", made(1000))
    assert not found_by(RULE, made(1000))
    assert not found_by("interrupt-coalescing", made(30))
    assert found_by(RULE, made(30))


def test_of_another_pattern_nobody_knows_what_a_round_trip_is() -> None:
    made = within_a_host({8: 2.02e6}, pattern="stream")
    assert not found_by(RULE, made)
    (reason,) = [one.reason for one in judge(Reading(made)).skipped if one.rule == RULE]
    assert reason.startswith("no pingpong of small messages")


# ---------------------------------------------------------------------------------------------------------- measured


def test_a_measured_curve_whose_interface_was_deferred_is_told_by_its_facts() -> None:
    """Between two hosts of a lab (bench/labelled/cases.py, link-timer)."""
    run = Run.read(KEPT)
    found = found_by(RULE, run)
    assert {one.variant for one in found} == {"tcp"}
    assert all("after which eth0 looks for packets" in one.what for one in found)
    for environment in run.environments:
        for interface in environment.facts["network"]["interfaces"]:
            interface["defer_hard_irqs"] = 0
    assert not found_by(RULE, run), "without the setting the times alone are those of a path"
