# SPDX-License-Identifier: Apache-2.0
"""A layer that sleeps until a message arrives: the processor has to be woken, and that is most of its latency."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from netpipe.findings import CURVES, NOTE, CannotJudge, Confirm, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import opened, variant_with
from netpipe.reading import Reading, waiting
from netpipe.reading.summary import latency_place
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, percent_text, size_text, time_text

SHARE = 0.3  # of the time of a message: a wake-up that is less is not what costs
FASTER = 1.1  # that polling must certainly be, where the run has both


@rule("sleeps", "Sleeping for messages", about=CURVES, needs=("yardsticks",), brief=False)
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a layer blocks although it could poll, its ranks have a processor each, and one wake-up of a blocked
    process takes 30 % of the time of a small ping-pong message. Where the run has the polling variant too, the two are
    compared instead. Such a run was made to compare them, so there is no gain that its reader does not know of, and the
    finding is none of the most important.
    """
    woken = [one.wakeup_ns for one in reading.run.yardsticks if one.wakeup_ns is not None]
    if not woken:
        raise CannotJudge("no yardstick measured the time to wake a process up")
    wakeup = median(woken)
    able = [one for one in opened(reading) if "wait" in one.has and one.curve.pattern == "pingpong"]
    if not able:
        raise CannotJudge("no layer that could poll was measured with pingpong")
    sleeping = {one.curve.variant for one in able if waiting.sleeps(one.settings.get("wait"))}
    if sleeping and sleeping <= set(reading.crowded):
        raise CannotJudge(
            "the ranks of every layer that sleeps share processors, where polling does not help"
        )
    for one in able:
        place = latency_place(one.curve.points)
        asleep = waiting.sleeps(one.settings.get("wait"))
        if not asleep or place is None or one.curve.variant in reading.crowded:
            continue
        at = one.curve.points[place]
        variant = one.curve.variant
        confirm = Confirm(
            variant, variant_with(reading, one, "wait", waiting.POLL), one.curve.pattern, [at.size_bytes]
        )
        times = reading.times_of(variant, confirm.remedied, one.curve.pattern).get(at.size_bytes)
        share = wakeup / at.time_ns.value
        evidence = {"wake-up": Quantity(wakeup, "ns"), "time": quantity(at.time_ns, "ns")}
        if times is not None and times.known:
            if times.low <= FASTER:
                continue
            said = f"{confirm.remedied} is {digits(times.value)} times as fast"
            evidence["times"] = quantity(times, "1")
        elif share >= SHARE:
            said = f"waking a process takes {time_text(wakeup)} here, {percent_text(min(share, 1))} of that or so"
        else:
            continue
        yield Finding(
            severity=NOTE,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=at.size_bytes,
            what=f"{variant} sleeps until a message arrives: {time_text(at.time_ns.value)} for "
            f"{size_text(at.size_bytes)}, and {said}.",
            evidence=evidence,
            certainty="How it waits is certain; what polling gains is shown by the experiment.",
            cause="The kernel has to wake the receiver for each message, on a processor that may have gone to sleep.",
            remedy="wait=poll, or hybrid, where each rank has a processor of its own; in a program: non-blocking calls "
            "in a loop, or SO_BUSY_POLL",
            confirm=confirm,
        )


def _run(wait: str, time_ns: float) -> Run:
    made = examples.run(
        examples.yardstick(0.0), examples.yardstick(1.0), examples.point("tcp", 8, time_ns), variants=("tcp",)
    )
    for plan in made.plans:
        plan.variants[:] = [PlannedVariant(variant="tcp", module="tcp", options={"wait": wait})]
    for variant in made.variants:
        variant.ranks[:] = [
            Rank(rank=rank, host="node17", cpu=rank, settings={"wait": wait}) for rank in (0, 1)
        ]
    return made


def fires() -> Run:
    return _run("block", 27_000.0)


def silent() -> Run:
    return _run("block", 400_000.0)  # most of it is something else
