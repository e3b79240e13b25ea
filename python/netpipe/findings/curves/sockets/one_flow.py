# SPDX-License-Identifier: Apache-2.0
"""One connection does not fill the way: the same layer with several is certainly faster for large messages.

One TCP flow takes one queue of a card, one processor and one of several links (ucx#4221, iperf#289).
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import Opened, beside, opened
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, size_text

NAMES = ("streams", "qps")  # options that say how many
LEAST_BYTES = 65536
FASTER = 1.1  # that several must certainly be


@rule("one-flow", "One connection is too few", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the run has a variant with more connections, else the same, that is certainly 10 % faster from
    64 KiB on. Of several the one that gains most.
    """
    single = [one for one in opened(reading) if any(_with_more(reading, one))]
    if not single:
        raise CannotJudge("no layer was measured with one connection and with several")
    for one in single:
        found = faster_with_more(reading, one)
        if found is None:
            continue
        size, times, pair = found
        confirm = Confirm(pair.variant, pair.remedied, pair.pattern, [size])
        yield Finding(
            severity=WARNING,
            variant=confirm.variant,
            pattern=confirm.pattern,
            size_bytes=size,
            what=f"{confirm.variant} uses one connection; {confirm.remedied} is {digits(times.value)} times as fast at "
            f"{size_text(size)}.",
            evidence={"times": quantity(times, "1")},
            certainty="Both were measured in turn; the interval is certain to 95 %.",
            cause="One connection is served by one processor and takes one way through the network.",
            remedy=f"several connections, as in {confirm.remedied}; for a program: one for each thread",
            gain=quantity(times, "1"),
            confirm=confirm,
        )


def faster_with_more(reading: Reading, one: Opened) -> tuple[int, Estimate, Confirm] | None:
    """The variant of the run that is certainly faster than this one by more connections, of several the one that gains
    most: the size where, how many times as fast, and the two variants. None: there is none.
    """
    best: tuple[int, Estimate, Confirm] | None = None
    for other in _with_more(reading, one):
        confirm = Confirm(one.curve.variant, other, one.curve.pattern, [])
        found = beside(reading, confirm, LEAST_BYTES)
        if found and found[1].low > FASTER and (best is None or found[1].low > best[1].low):
            best = (*found, confirm)
    return best


def _with_more(reading: Reading, one: Opened) -> Iterator[str]:
    """The variants of the run with more connections and else the same options."""
    seen = set()
    for name in NAMES:
        if one.options.get(name) != "1":
            continue
        for plan in reading.run.plans:
            for other in plan.variants:
                many = other.options.get(name, "")
                same = other.module == one.module and {**one.options, name: many} == dict(other.options)
                if same and many.isdigit() and int(many) > 1 and other.variant not in seen:
                    seen.add(other.variant)
                    yield other.variant


def _run(four_ns: float) -> Run:
    times = {"tcp": 2e5, "tcp:streams=4": four_ns}
    points = [
        examples.visited(name, 1 << 20, ns, launch) for launch in range(4) for name, ns in times.items()
    ]
    made = examples.run(*points, variants=tuple(times))
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=name, module="tcp", options={"streams": name[-1] if ":" in name else "1"})
            for name in times
        ]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, host="node17", settings={})]
    return made


def fires() -> Run:
    return _run(8e4)


def silent() -> Run:
    return _run(1.95e5)
