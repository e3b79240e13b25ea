# SPDX-License-Identifier: Apache-2.0
"""A message that waits for time slices: a rank that polls keeps the processor that its sender needs, until the kernel's
timer takes it away.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import by_yielding, opened, variant_with
from netpipe.findings.library import own_remedy, setting
from netpipe.findings.machine import Facts
from netpipe.libraries.settings import YIELDS
from netpipe.reading import Reading, waiting
from netpipe.reading.summary import latency_place
from netpipe.records import Environment, PlannedVariant, Rank, Run
from netpipe.units import digits, size_text, time_text

# Of the kernel's timer, that a small message must take. A wake-up or a processor that is given away costs microseconds,
# and a tick is 1 to 10 ms.
TICKS = 0.5


@rule("time-slice", "Waiting for time slices", about=CURVES, needs=("environment",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where ranks, or their threads, share processors and a small message takes half of a tick or longer."""
    ticks = {
        one.host: 1e9 / hz
        for one in reading.run.environments
        if (hz := Facts(one.facts).number("clock.tick_hz"))
    }
    if not ticks:
        raise CannotJudge("no host recorded how often the kernel's timer ticks")
    if not reading.crowded and not reading.crowded_by_threads:
        raise CannotJudge("no ranks or threads of ranks share a processor")
    for one in opened(reading):
        variant = one.curve.variant
        crowd = reading.crowding_of(variant, one.curve.pattern)
        place = latency_place(one.curve.points)
        asleep = waiting.sleeps(one.settings.get("wait"))
        if crowd is None or place is None or crowd.host not in ticks or asleep:
            continue
        at, tick_ns = one.curve.points[place], ticks[crowd.host]
        slices = at.time_ns.value / tick_ns
        if slices < TICKS:
            continue
        confirm, own = by_yielding(reading, one), own_remedy(reading, variant, "oversubscribed-job")
        if confirm is not None:
            own = setting(reading, variant, *YIELDS)
        elif "wait" in one.has:
            blocking = variant_with(reading, one, "wait", waiting.BLOCK)
            confirm = Confirm(variant, blocking, one.curve.pattern, [at.size_bytes])
        blocks = f"wait={waiting.BLOCK}" if "wait" in one.has else ""
        who = "thread" if crowd.threads > 1 else "rank"
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=at.size_bytes,
            host=crowd.host,
            what=f"{variant} {one.curve.pattern}, {crowd}: {size_text(at.size_bytes)} takes "
            f"{time_text(at.time_ns.value)}, {digits(slices)} times the {time_text(tick_ns)} between two ticks of the "
            "kernel's timer.",
            evidence={"time": quantity(at.time_ns, "ns"), "tick": Quantity(tick_ns, "ns")},
            certainty=f"That {who}s share processors is certain; that they wait for time slices follows from how long "
            "a small message takes.",
            cause=f"A {who} that polls keeps its processor until its time slice ends. The {who} that would send the "
            "message waits for that processor.",
            remedy="; or ".join(filter(None, [f"a processor for each {who}", blocks, own])),
            confirm=confirm,
        )


def _run(median_ns: float) -> Run:
    made = examples.run(
        Environment(host="node17", facts={"clock": {"tick_hz": 250}}),
        examples.point("mpi@x", 8, median_ns),
        variants=("mpi@x",),
    )
    for plan in made.plans:
        plan.variants[:] = [PlannedVariant(variant="mpi@x", module="mpi@x", options={})]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=n, host="node17", processors="0-1", settings={}) for n in range(4)]
    return made


def fires() -> Run:
    return _run(7e6)


def silent() -> Run:
    return _run(11e3)
