# SPDX-License-Identifier: Apache-2.0
"""A layer that registers the memory of each message while the clock runs: pinning pages is a call of the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, NOTE, CannotJudge, Confirm, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import Opened, beside, opened, variant_with
from netpipe.reading import Reading
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, size_text

OPTION, EACH, ONCE = "register", "each", "once"
COUNTER = "registrations"
SLOWER = 1.05  # that registering each time must certainly be, where the run has both
OFTEN = 0.5  # registrations for each operation


@rule("registration-cost", "Registering memory", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires for register=each where the run has register=once beside it and that is certainly 5 % faster; without it:
    where the layer counted a registration for every second operation.
    """
    having = [one for one in opened(reading) if OPTION in one.has and len(one.curve.points)]
    if not having:
        raise CannotJudge("no layer can register the memory of each message")
    for one in having:
        if one.options[OPTION] != EACH:
            continue
        variant, pattern = one.curve.variant, one.curve.pattern
        once = variant_with(reading, one, OPTION, ONCE)
        size = one.curve.points[0].size_bytes
        measured = beside(reading, Confirm(variant, once, pattern, [size]))
        count = _registrations(one)
        evidence = {COUNTER: Quantity(count, "1")}
        gain = None
        if measured is not None:
            size, times = measured
            if times.low <= SLOWER:
                continue
            said = f"{once} is {digits(times.value)} times as fast at {size_text(size)}"
            gain = evidence["times"] = quantity(times, "1")
        elif count >= OFTEN:
            said = f"{digits(count)} registrations for each operation"
        else:
            continue
        confirm = Confirm(variant, once, pattern, [size])
        yield Finding(
            severity=NOTE,
            variant=variant,
            pattern=pattern,
            size_bytes=size,
            what=f"{variant} registers the memory of each message while the clock runs: {said}.",
            evidence=evidence,
            certainty="When it registers is certain; what that costs is shown by the experiment.",
            cause="Registering pins the pages and writes their addresses into the card, by a call of the kernel.",
            remedy=f"{OPTION}={ONCE}; in a program: use the same buffers again, or a cache of registrations",
            gain=gain,
            confirm=confirm,
        )


def _registrations(one: Opened) -> float:
    """For each operation, over all sizes; samples and operations that were not counted are none."""
    records = [record for point in one.curve.points for record in point.by_launch]
    operations = sum((record.samples or 0) * (record.ops or 0) for record in records)
    counted = sum(record.counters.get(COUNTER, 0) for record in records)
    return counted / operations if operations else 0.0


def _run(once_ns: float) -> Run:
    times = {"verbs:register=each": 4000.0, "verbs": once_ns}
    points = [examples.visited(name, 4096, ns, launch) for launch in range(4) for name, ns in times.items()]
    made = examples.run(*points, variants=tuple(times))
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=name, module="verbs", options={OPTION: EACH if ":" in name else ONCE})
            for name in times
        ]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, host="node17", settings={})]
    return made


def fires() -> Run:
    return _run(2000.0)


def silent() -> Run:
    return _run(3990.0)
