# SPDX-License-Identifier: Apache-2.0
"""A message that waits for a timer: its receiver, or a network card, looks for messages only when a timer fires.

The first round trip sets the pace: whoever has answered waits for the next time that the other one looks. So a round
trip of a ping-pong takes one period of the timer, whatever the size, until the message itself takes longer than that;
then it takes two, and so on. Three timers can be told so:

* that of a network card whose interrupts are deferred (`napi_defer_hard_irqs` and `gro_flush_timeout`: the kernel looks
  into the card by a timer instead; Documentation/networking/napi.rst);
* the tick of the kernel, of which the sleeps of many drivers and schedulers are multiples;
* one that nobody recorded, such as a library that sleeps between two looks: by round trips that take whole multiples of
  the shortest one and nothing in between, over sizes, or over the samples of small ones (where both ranks sleep, it is
  chance whether a round trip takes one period or two).

The last two need a path that is known to be short, or a rendezvous and the first windows of TCP, which take whole round
trips, would look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, Quantity, quantity, rule
from netpipe.findings.curves import Opened, opened, variant_with
from netpipe.findings.curves.links import between_hosts, interfaces, shortest_round_trip_us
from netpipe.findings.curves.waiting import delayed_acknowledgement, interrupt_coalescing
from netpipe.findings.machine import Facts
from netpipe.reading import Reading, waiting
from netpipe.reading.curves import CurvePoint
from netpipe.reading.summary import latency_place
from netpipe.records import Run
from netpipe.units import digits, listed, percent_text, size_text, time_text

PATTERN = "pingpong"  # an operation is half of a round trip
# A sleep of a Linux process ends up to 50 us late (timer slack; man 2 PR_SET_TIMERSLACK), so no process that sleeps
# looks more often. Timers of cards may be shorter: then the rest of a message hides them.
LEAST_NS = 50e3
WAKE_UPS = (
    5  # of a blocked process, that are less than a period: a layer that sleeps until it is woken takes some
)
SMALL_BYTES = 1024  # up to here the bytes count for nothing
EARLY = 0.03  # parts of a period: a timer does not fire early, but clocks and medians are not exact
LATE = {"interface": 0.15, "tick": 0.05}  # by which a timer fires late and its messages are handled
MOST_PERIODS = {"interface": 2, "tick": 3}  # with more, any time is near a multiple

# Of a timer that nobody recorded, in parts of the shortest round trip:
NEAR = 0.08  # a multiple
HIGHEST = 4.5  # round trips up to here count
FLAT = 16  # times the smallest size, of which a message takes as long
FEWEST_LONGER = 3  # sizes, of two multiples or more

# The same by the samples of small messages, in parts of all of them:
FEWEST_SAMPLES = 200
ONE, TWO = 0.2, 0.1  # that take one period, and two, at least
MOST_BETWEEN = 0.1  # that take none of one to three
SPREAD = 0.1  # of a period, by which a sleep ends late

WATCH = "strace -f -T -e trace=clock_nanosleep,poll,ppoll,epoll_wait,select -p PID"


@dataclass(frozen=True, slots=True)
class Timer:
    """What a round trip of a small message waits for."""

    period_ns: float
    said: str  # behind "a round trip of 8 B takes 4.02 ms, "
    certainty: str
    cause: str
    remedy: str
    by_waiting: bool  # may another way of waiting end it?


@rule("timer-interval", "Waiting for a timer", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where round trips take one or a few periods of a timer, and neither shared processors, delayed
    acknowledgements, interrupt coalescing nor the path explain that.
    """
    judged, least_ns = False, _least_ns(reading)
    for one in opened(reading):
        at = _small(one)
        if at is None:
            continue
        judged = True
        timer = of_interface(reading, one)
        if timer is None and 2 * at.time_ns.value >= least_ns and not _explained(reading, one, at):
            timer = _of_tick(reading, one) or _of_steps(one, at) or _of_samples(one)
        if timer is None:
            continue
        variant, trip = one.curve.variant, at.time_ns.scaled(2)
        polls = waiting.alike(one.settings.get("wait")) == waiting.POLL
        polling = timer.by_waiting and "wait" in one.has and not polls
        confirm = None
        if polling:
            remedied = variant_with(reading, one, "wait", waiting.POLL)
            confirm = Confirm(variant, remedied, one.curve.pattern, [at.size_bytes])
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=at.size_bytes,
            what=f"{variant}: a round trip of {size_text(at.size_bytes)} takes {time_text(trip.value)}, {timer.said}.",
            evidence={"round trip": quantity(trip, "ns"), "period": Quantity(timer.period_ns, "ns")},
            certainty=timer.certainty,
            cause=timer.cause,
            remedy=f"wait={waiting.POLL}; or {timer.remedy}" if polling else timer.remedy,
            confirm=confirm,
        )
    if not judged:
        raise CannotJudge("no pingpong of small messages was measured over a layer whose settings are known")


def of_interface(reading: Reading, one: Opened) -> Timer | None:
    """Of an interface that looks for packets by a timer, if a round trip takes one period of it, or two: both ends may
    wait.
    """
    if _small(one) is None:
        return None
    for name, facts in interfaces(reading, one):
        period_ns, defers = facts.number("gro_flush_timeout_ns"), facts.number("defer_hard_irqs")
        if not period_ns or not defers or period_ns < LEAST_NS or not _fits(one, period_ns, "interface"):
            continue
        return Timer(
            period_ns,
            f"{_times(one, period_ns)} the {time_text(period_ns)} after which {name} looks for packets",
            "The setting is certain; that messages wait for it follows from how long they take.",
            f"The interrupts of {name} are deferred: after each packet the kernel looks for the next ones by a timer. "
            "A lone small message waits for it.",
            f"echo 0 | sudo tee /sys/class/net/{name}/napi_defer_hard_irqs on each host, and measure again",
            by_waiting=False,
        )
    return None


def _of_tick(reading: Reading, one: Opened) -> Timer | None:
    ticks = {
        1e9 / hz
        for environment in reading.run.environments
        if environment.host in one.hosts and (hz := Facts(environment.facts).number("clock.tick_hz"))
    }
    for tick_ns in sorted(ticks):
        if _fits(one, tick_ns, "tick"):
            return Timer(
                tick_ns,
                f"{_times(one, tick_ns)} the {time_text(tick_ns)} between two ticks of the kernel's timer",
                "The tick is recorded; that messages wait for it follows from how long all small ones take.",
                "Something on the way of a message, in the library or in the kernel, sleeps for ticks of the timer "
                "instead of being woken when the message comes.",
                f"a way of waiting that does not sleep for a fixed time; {WATCH} shows what a process sleeps in",
                by_waiting=True,
            )
    return None


def _of_steps(one: Opened, at: CurvePoint) -> Timer | None:
    """By round trips of a curve that are whole multiples of that of a small message."""
    period_ns = 2 * at.time_ns.value
    longer: dict[int, int] = {}  # multiple -> the smallest size that takes it
    flat = count = 0
    for point in one.curve.points:
        periods = 2 * point.time_ns.value / period_ns
        if point.size_bytes < at.size_bytes or periods > HIGHEST:
            continue
        multiple = round(periods)
        if multiple < 1 or abs(periods - multiple) > NEAR:
            return None
        if multiple == 1:
            flat = max(flat, point.size_bytes)
        else:
            count += 1
            longer.setdefault(multiple, point.size_bytes)
    if flat < FLAT * at.size_bytes or len(longer) < 2 or count < FEWEST_LONGER:
        return None
    steps = listed(
        f"{multiple} times as long from {size_text(size)} on" for multiple, size in sorted(longer.items())
    )
    return _unrecorded(
        period_ns, f"and so does one of {size_text(flat)}; longer ones take whole multiples of that: {steps}"
    )


def _of_samples(one: Opened) -> Timer | None:
    """By samples of small messages, each of one round trip, that take one or two periods and little in between."""
    counts: list[tuple[float, int]] = []
    for point in one.curve.points:
        for record in point.by_launch if 0 < point.size_bytes <= SMALL_BYTES else ():
            found = record.distribution() if (record.ops or 0) <= 2 else None
            counts += zip((2 * low_ns for low_ns in found.low_ns), found.count, strict=False) if found else ()
    counts.sort()
    total = sum(count for _, count in counts)
    if total < FEWEST_SAMPLES:
        return None
    seen = accumulate(count for _, count in counts)
    # The middle of the least that may take one period.
    period_ns = next(ns for (ns, _), so_far in zip(counts, seen, strict=True) if so_far >= ONE / 2 * total)

    def part(low: float, high: float) -> float:
        return sum(count for ns, count in counts if low * period_ns <= ns < high * period_ns) / total

    multiples = [part(times - EARLY, (1 + SPREAD) * times) for times in (1, 2, 3)]
    between = part(0, 3 * (1 + SPREAD)) - sum(multiples)
    if period_ns < LEAST_NS or multiples[0] < ONE or multiples[1] < TWO or between > MOST_BETWEEN:
        return None
    one_, two = (percent_text(share) for share in multiples[:2])
    return _unrecorded(
        period_ns,
        f"and {one_} of small ones take {time_text(period_ns)} and {two} twice that: {percent_text(between)} take "
        "a time between such multiples",
    )


def _unrecorded(period_ns: float, said: str) -> Timer:
    return Timer(
        period_ns,
        said,
        "Follows from the times: there are few or none between the multiples.",
        "The library, or something else on the way of a message, sleeps for a fixed time between two looks for it.",
        "a setting of the library by which it polls, sleeps shorter or is woken; "
        f"{WATCH} shows what a process sleeps in",
        by_waiting=True,
    )


def _small(one: Opened) -> CurvePoint | None:
    """The point whose time is the latency of a ping-pong."""
    place = latency_place(one.curve.points)
    if place is None or one.curve.pattern.partition(":")[0] != PATTERN:
        return None
    return one.curve.points[place]


def _fits(one: Opened, period_ns: float, kind: str) -> bool:
    """Do round trips of all small sizes take multiples of this period? Not all have to take the same: where both ends
    wait, it is one period or two, by chance.
    """
    trips = [2 * at.time_ns.value for at in one.curve.points if 0 < at.size_bytes <= SMALL_BYTES]
    return all(
        any(
            (times - EARLY) * period_ns <= trip <= (1 + LATE[kind]) * times * period_ns
            for times in range(1, MOST_PERIODS[kind] + 1)
        )
        for trip in trips
    )


def _times(one: Opened, period_ns: float) -> str:
    at = _small(one)
    assert at is not None
    return f"{digits(2 * at.time_ns.value / period_ns)} times"


def _least_ns(reading: Reading) -> float:
    """Of a round trip that is longer than what sleeping until a message comes, and being woken, takes. The shortest
    wake-up counts: other work on the processors makes it longer, and no sharper.
    """
    woken = (one.wakeup_ns for one in reading.run.yardsticks if one.wakeup_ns is not None)
    return max(LEAST_NS, WAKE_UPS * min(woken, default=0.0))


def _explained(reading: Reading, one: Opened, at: CurvePoint) -> bool:
    """Does another rule explain the time of small messages, or may it be that of the path?"""
    time_ns, rtt_us = at.time_ns.value, shortest_round_trip_us(one)
    nagle = one.settings.get("nodelay") == "no"
    far = len(one.hosts - {None}) > 1 if rtt_us is None else rtt_us * 1e3 > time_ns
    return (
        far
        or reading.crowding_of(one.curve.variant, one.curve.pattern) is not None
        or (nagle and delayed_acknowledgement.LEAST_NS <= time_ns <= delayed_acknowledgement.MOST_NS)
        or any(
            interrupt_coalescing.held_back_ns(facts, time_ns) is not None
            for _, facts in interfaces(reading, one)
        )
    )


def _run(median_ns: float) -> Run:
    deferred = {"gro_flush_timeout_ns": 500_000, "defer_hard_irqs": 10}
    return between_hosts(deferred, {}, {8: median_ns, 1024: median_ns})


def fires() -> Run:
    return _run(2.6e5)


def silent() -> Run:
    return _run(3e4)  # the interface has the timer, and these messages do not wait for it
