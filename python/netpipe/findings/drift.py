# SPDX-License-Identifier: Apache-2.0
"""The times of curves go one way during the run: its numbers depend on when they were measured. reading/blocks/drift.py
has the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from netpipe.findings import WARNING, CannotJudge, Finding, Quantity, again, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.reading.blocks.drift import LEAST_TIMES, MOST_CHANCE, PARTS, Drift
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.explained.levels import SLOW_IF_HIGH
from netpipe.records import Run, Visits
from netpipe.units import counted, listed, percent_text

# What a yardstick measures.
DOES = {
    "bounce_ns": "to move a cache line between two processors",
    "copy_bytes_per_s": "to copy memory",
    "wakeup_ns": "to wake a process",
}
WARM = "let the machine and the network work until their times are steady, and measure again"


@rule("drift", "Drift", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each way that times go: up or down, over the run or in each launch. The curve that changes most
    is its example, and the others are named.
    """
    if not any(point.visits for point in reading.run.points):
        raise CannotJudge("the run did not record its visits")
    if len({point.launch for point in reading.run.points}) < FEWEST_LAUNCHES:
        raise CannotJudge("a drift is told from what wanders by three launches or more")
    alike: dict[tuple[bool, bool], list[Drift]] = {}
    for one in reading.drifts:
        alike.setdefault((one.within, one.times.value > 1), []).append(one)
    for (within, rises), found in alike.items():
        found.sort(key=lambda one: -abs(math.log(one.times.value)))
        first, *others = found
        meanwhile = _meanwhile(reading, within, rises)
        yield Finding(
            severity=WARNING,
            variant=first.variant,
            pattern=first.pattern,
            what=_sentence(first, others) + _machine(meanwhile, rises),
            evidence={
                "change": _change(first),
                **{f"change of {_name(one)}": _change(one) for one in others},
                "launches": Quantity(first.launches, "launches"),
                "chance": Quantity(first.chance, "1"),
            },
            certainty=_certainty(first),
            cause=_cause(bool(meanwhile), rises),
            remedy=f"{WARM}; netpipe doctor says what the processors do (frequency, heat, other work)"
            + ("; or a larger --budget, so that the beginning of a launch counts less" if within else ""),
            experiment=again(reading, "--launches", str(2 * first.launches)),
        )


def _name(one: Drift) -> str:
    return f"{one.variant} {one.pattern}"


def _change(one: Drift) -> Quantity:
    found = quantity(one.times, "1")
    low, high = (None if limit is None else limit - 1 for limit in (found.low, found.high))
    return Quantity(found.value - 1, "1", low, high)


def _by(one: Drift) -> str:
    return percent_text(abs(one.times.value - 1))


def _sentence(first: Drift, others: Sequence[Drift]) -> str:
    way = "rises" if first.times.value > 1 else "falls"
    when = (
        "from the first to the last third of each launch"
        if first.within
        else "from the beginning of the run to its end"
    )
    also = f" So does that of {listed(f'{_name(one)} (by {_by(one)})' for one in others)}." if others else ""
    return f"The time of {_name(first)} {way} by {_by(first)} {when}.{also}"


def _certainty(one: Drift) -> str:
    test = (
        f"Student's t over {counted(one.launches, 'launch', 'launches')}"
        if one.within
        else f"A rank test over {counted(one.launches, 'launch', 'launches')}, each of which counts once"
    )
    return (
        f"{test}: of curves without a drift {percent_text(one.chance)} are as clear. Of all that are found in a run at "
        f"most {percent_text(MOST_CHANCE)} are chance."
    )


def _cause(machine: bool, rises: bool) -> str:
    if machine:
        return "The machine went the same way: heat, another frequency, or other work on it."
    if rises:
        return "Something filled up or became hot: memory, connections, queues, or a processor or a network card."
    return "Something became warm: caches, connections or buffers of the library, or the frequency of a processor."


def _meanwhile(reading: Reading, within: bool, rises: bool) -> dict[str, float]:
    """By how many times what each yardstick measures took longer in the last third of the run, or of its launches, than
    in the first one; those that went the same way by as much as a drift has to be.
    """
    found = {}
    for name, slow_if_high in SLOW_IF_HIGH.items():
        launches: dict[int, list[float]] = {}
        for one in reading.run.yardsticks:
            value = getattr(one, name)
            if value is not None and value > 0:
                launches.setdefault(one.launch, []).append(value)
        spans = list(launches.values()) if within else [[value for of in launches.values() for value in of]]
        changes = [
            median(of[-(len(of) // PARTS) :]) / median(of[: len(of) // PARTS])
            for of in spans
            if len(of) >= PARTS
        ]
        if not changes:
            continue
        times = median(changes) if slow_if_high else 1 / median(changes)
        if (times if rises else 1 / times) >= LEAST_TIMES:
            found[name] = times
    return found


def _machine(meanwhile: dict[str, float], rises: bool) -> str:
    if not meanwhile:
        return ""
    word = "longer" if rises else "less time"
    each = (f"{percent_text(abs(times - 1))} {word} {DOES[name]}" for name, times in meanwhile.items())
    return f" Meanwhile it took {listed(each)}."


def _run(of_a_visit: float) -> Run:
    """Four launches of twelve visits, each of which takes so much longer than the one before it, on logarithms."""
    points = []
    for launch in range(4):
        numbers = range(12 * launch, 12 * launch + 12)
        medians = [1000 * math.exp(of_a_visit * number + 0.01 * (number % 3 - 1)) for number in numbers]
        visits = Visits(
            block=list(range(12)),
            at_s=[float(place) for place in range(12)],
            state=[0] * 12,
            samples=[9] * 12,
            median_ns=medians,
        )
        made = examples.point("tcp", 8, median(medians), launch=launch)
        points.append(msgspec.structs.replace(made, visits=visits))
    return examples.run(*points)


def fires() -> Run:
    return _run(0.004)  # by 19 % over the run


def silent() -> Run:
    return _run(0.0008)  # by 4 %: certain, and too little
