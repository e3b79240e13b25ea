# SPDX-License-Identifier: Apache-2.0
"""Do the numbers of a default run hold for the next one? The same command again and again: how wide its intervals are,
how often the next run lies outside, how far losses differ from run to run, and what a variant beside itself shows. The
peer of a run is the run after it; that of its losses are loops by hand in slices (losses_by_hand.py), in between.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from losses_by_hand import Losses, losses_by_hand
from measured import MissingError, Result, shown

from netpipe.libraries.adding import added
from netpipe.reading import Reading
from netpipe.reading.blocks.beside import Beside
from netpipe.reading.blocks.steps import CLOSE, Step
from netpipe.reading.blocks.verdicts import SizeVerdict, Verdict
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.records import Run
from netpipe.render.losses import headline
from netpipe.units import listed

MOST_S = 60.0
MOST_RUNS = 10  # that the target is about
PLACES = ("8 B", "the largest size")


def measured(folder: str, number: int, *words: str) -> tuple[Reading, float]:
    """One run, and the seconds of its measurement."""
    path = Path(folder) / f"{number}.jsonl"
    command = [sys.executable, "-m", "netpipe", "run", "-q", "-o", str(path), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])} ended with {done.returncode}: {done.stderr[-300:]}")
    run = Run.read(path, samples=False)
    return Reading(run), sum(launch.seconds or 0 for launch in run.launches)


def share(hits: list[bool]) -> float:
    return fmean(hits) if hits else math.nan


def runs(rounds: int) -> list[Result]:
    """The default run without options: all layers of this host."""
    count = max(2, min(rounds, MOST_RUNS))
    found = []
    with tempfile.TemporaryDirectory() as folder, losses_by_hand() as by_hand:
        for number in range(count):
            found.append(measured(folder, number))
            by_hand.measure()
    seconds = [one for _, one in found]
    readings = [one for one, _ in found]
    widths = [p.time_ns.half_width for reading in readings for curve in reading.curves for p in curve.points]
    within = [share([width <= most for width in widths]) for most in (0.1, 0.2)]
    results = [
        Result(
            "runs",
            f"default run, {count} times: measurement",
            shown(seconds, 1, " s"),
            "",
            "",
            f"<= {MOST_S:g} s",
            max(seconds) <= MOST_S,
        ),
        Result(
            "runs",
            "sizes within ±20 %",
            f"{within[1]:.1%}",
            "",
            f"typical ±{median(widths):.1%}",
            ">= 90 %",
            within[1] >= 0.9,
        ),
        Result("runs", "sizes within ±10 %", f"{within[0]:.1%}", "", "", ">= 60 %", within[0] >= 0.6),
    ]
    results += all_there(readings)
    for variant, outside, apart in next_runs(readings):
        results.append(
            Result(
                "runs",
                f"next run outside the interval: {variant}",
                f"{share(outside):.1%}",
                "",
                f"medians differ by {median(apart):.1%}",
                "<= 20 %",
                share(outside) <= 0.2,
            )
        )
    for place in PLACES:
        results += of_losses(place, readings, by_hand)
        results.append(of_verdicts(place, readings))
    results.append(of_headlines(readings))
    return results


def all_there(readings: list[Reading]) -> Iterator[Result]:
    """Is there a number for all that the plans name, and an interval for all that is said?"""
    missing = [name for reading in readings for name in missing_sizes(reading)]
    planned = sum(len(reading.run.plans[0].sizes) * len(planned_curves(reading)) for reading in readings)
    yield Result(
        "runs",
        "sizes of the plan that are missing",
        f"{len(missing)} of {planned}",
        "",
        listed(dict.fromkeys(missing)),
        "0",
        not missing,
    )
    for what, known in (
        ("headline numbers", [one for reading in readings for one in headline_known(reading)]),
        ("losses, at all sizes,", [one for reading in readings for one in losses_known(reading)]),
    ):
        yield Result(
            "runs",
            f"{what} that have an interval",
            f"{sum(known)} of {len(known)}",
            "",
            f"{share(known):.1%}",
            "all",
            bool(known) and all(known),
        )


def planned_curves(reading: Reading) -> list[tuple[str, str]]:
    plan = reading.run.plans[0]
    return [(variant.variant, pattern) for variant in plan.variants for pattern in plan.patterns]


def missing_sizes(reading: Reading) -> Iterator[str]:
    """The curve and the size of each that was planned and has no point, whatever the reason."""
    for name in planned_curves(reading):
        curve = reading.by_name.get(name)
        there = {point.size_bytes for point in curve.points} if curve else set()
        yield from (f"{name[0]} {size} B" for size in reading.run.plans[0].sizes if size not in there)


def headline_known(reading: Reading) -> Iterator[bool]:
    """Of the latency and the best rate of each curve: does it have an interval? Where nothing moves is no rate."""
    for one in reading.summaries:
        yield one.latency_ns is not None and one.latency_ns.known
        if not reading.is_idle(one.variant):
            yield one.peak_bytes_per_s is not None and one.peak_bytes_per_s.known


def losses_known(reading: Reading) -> Iterator[bool]:
    """Of each loss at each size; one without any size has no interval."""
    for loss in reading.losses:
        yield from [one.times.known for one in loss.sizes] or [False]


def of_verdicts(place: str, readings: list[Reading]) -> Result:
    """How wide the intervals are with which variants of a layer are compared. One without such a size has none."""
    wide = [
        size.times.half_width if (size := verdict_at(verdict, place)) else math.inf
        for reading in readings
        for verdict in reading.verdicts
    ]
    return Result(
        "runs",
        f"verdicts at {place} within ±5 %",
        f"{share([width <= 0.05 for width in wide]):.1%}",
        "",
        f"typical ±{median(wide):.1%}, all within ±{max(wide):.1%}" if wide else "no verdicts",
        "all",
        bool(wide) and max(wide) <= 0.05,
    )


def verdict_at(verdict: Verdict, place: str) -> SizeVerdict | None:
    if place == "8 B":
        return next((size for size in verdict.sizes if size.size_bytes == 8), None)
    return verdict.sizes[-1]


def of_headlines(readings: list[Reading]) -> Result:
    """In how many runs the headline names another layer than in most of the others. Where it is undecided between
    several, another one is one that is not among them.
    """
    said = [headline(reading.losses) for reading in readings]
    usual: dict[tuple[str, str], str] = {}
    for what in dict.fromkeys(what for one in said for what in one):
        alone = Counter(one[what][0] for one in said if len(one.get(what, ())) == 1)
        if alone:
            usual[what] = alone.most_common(1)[0][0]
    others = [any(what in one and name not in one[what] for what, name in usual.items()) for one in said]
    undecided = sum(len(names) > 1 for one in said for names in one.values())
    layers = listed(dict.fromkeys(usual.values())) or "none named"
    return Result(
        "runs",
        "runs whose headline names another layer",
        f"{sum(others)} of {len(others)}",
        "",
        f"{layers}; {undecided} of {sum(map(len, said))} sentences undecided",
        "0",
        not any(others),
    )


def of_losses(place: str, readings: list[Reading], by_hand: Losses) -> Iterator[Result]:
    """How wide the intervals of the losses are, and how far a loss is from that of the next run: netpipe's, and those
    of loops by hand in slices, in the same minutes.
    """
    wide = [one.times.half_width for reading in readings for one in losses_at(reading, place)]
    if wide:
        yield Result(
            "runs",
            f"losses at {place} within ±5 %",
            f"{share([width <= 0.05 for width in wide]):.1%}",
            f"typical ±{by_hand.half_width(place):.1%}",
            f"typical ±{median(wide):.1%}, all within ±{max(wide):.1%}",
            "all",
            max(wide) <= 0.05,
        )
    both = [abs(math.log(a.times.value / b.times.value)) for a, b in loss_pairs(readings, place)]
    if both:
        theirs = by_hand.run_to_run(place)
        yield Result(
            "runs",
            f"losses at {place}, run to run",
            f"{median(both):.1%}",
            f"{theirs:.1%}{'' if place == '8 B' else ' (1 MiB)'}",
            "",
            "<= 2 %, or no more than by hand",
            median(both) <= max(0.02, theirs),
        )


def next_runs(readings: list[Reading]) -> Iterator[tuple[str, list[bool], list[float]]]:
    """Of each variant: does each size of a run contain that of the next one, and how far apart are they?"""
    outside: dict[str, list[bool]] = defaultdict(list)
    apart: dict[str, list[float]] = defaultdict(list)
    for one, following in pairwise(readings):
        for name, curve in one.by_name.items():
            after = following.by_name.get(name)  # one that is not there is a missing size
            then = {p.size_bytes: p.time_ns.value for p in after.points} if after else {}
            for point in curve.points:
                if point.size_bytes in then and point.time_ns.known:
                    outside[curve.variant].append(not point.time_ns.covers(then[point.size_bytes]))
                    apart[curve.variant].append(abs(math.log(point.time_ns.value / then[point.size_bytes])))
    for variant, hits in outside.items():
        yield variant, hits, apart[variant]


def at(loss: Loss, place: str) -> SizeLoss | None:
    return loss.small if place == "8 B" else loss.sizes[-1]


def losses_at(reading: Reading, place: str) -> list[SizeLoss]:
    return [there for loss in reading.losses if (there := at(loss, place)) is not None]


def loss_pairs(readings: list[Reading], place: str) -> Iterator[tuple[SizeLoss, SizeLoss]]:
    """The same loss in one run and in the next."""
    for one, following in pairwise(readings):
        then = {(loss.variant, loss.below): loss for loss in following.losses}
        for loss in one.losses:
            other = then.get((loss.variant, loss.below))
            if other is None:
                continue
            pair = at(loss, place), at(other, place)
            if pair[0] is not None and pair[1] is not None:
                yield pair[0], pair[1]


def beside(rounds: int) -> list[Result]:
    """Every layer of the default run beside itself, in that run."""
    count = max(1, min(rounds, 5))
    with tempfile.TemporaryDirectory() as folder:
        readings = [measured(folder, number, "--aa")[0] for number in range(count)]
    floors: dict[str, list[Beside]] = {
        variant: [] for reading in readings for variant in reading.copies.values()
    }
    for reading in readings:
        for floor in reading.beside:
            floors[floor.variant].append(floor)
    return [row for variant, several in floors.items() for row in of_floor(variant, several)]


def of_floor(variant: str, several: list[Beside]) -> Iterator[Result]:
    """A variant beside itself in several runs."""
    if not several:
        yield Result(
            "beside", f"{variant} beside itself", "not measured", "", "no size of both", "all sizes", False
        )
        return
    typical, most = median(one.typical for one in several), median(one.most for one in several)
    yield Result(
        "beside",
        f"{variant} beside itself: half of the sizes within",
        f"{typical:.2%}",
        "",
        f"90 % within {most:.2%}",
        "<= 1 %, 3 %",
        typical <= 0.01 and most <= 0.03,
    )
    known = [one.holds for one in several if one.holds is not None]
    holds = fmean(known) if known else math.nan
    yield Result(
        "beside",
        f"{variant} beside itself: intervals that hold 1",
        f"{holds:.1%}" if known else "no interval",
        "",
        "",
        "92 to 98 %",
        0.92 <= holds <= 0.98,
    )


# ------------------------------------------------------------------------------------------------------- thresholds

# Seconds of each of the five variants: a transport takes somewhat less than the default run, both together twice that.
BUDGET_S = "6.5"
EAGER = {"1k": 1 << 10, "4k": 4 << 10, "16k": 16 << 10, "64k": 64 << 10}  # as it is set, and in bytes
ALL_EAGER = "160k"  # beside which a limit shows whether what lies above it costs anything today
LEAST_STEP = 1.07  # times as long at the first size above: `step` says what is certainly more than 5 %
# Of the limit, what Open MPI's own header takes. Seen with 4.1.4 and a limit of 4096 over shm and over tcp: 4040 bytes
# take 1.4 us and 5 us, 4044 bytes 2.6 us and 14 us.
HEADER_BYTES = 56


def at_limit(step: Step, limit: int) -> bool:
    """Is it the step from eager messages to others, with a limit of so many bytes?"""
    return step.below_bytes <= limit - HEADER_BYTES < step.above_bytes


def near(a: Step, b: Step) -> bool:
    """Are these the same step of two curves?"""
    return a.below_bytes <= CLOSE * b.above_bytes and b.below_bytes <= CLOSE * a.above_bytes


def costs(limit: int, ours: dict[int, float], eager: dict[int, float]) -> bool:
    """Does a message above this limit take longer than one that is still eager? `ours`, `eager`: times by size. Of what
    was not measured nothing says that it does not.
    """
    above = [size for size in ours if size > limit - HEADER_BYTES and size in eager]
    return not above or ours[min(above)] > LEAST_STEP * eager[min(above)]


def looked_at(step: Step, sizes: list[int]) -> bool:
    """Has a curve with these sizes two that lie as close, where another one steps?"""
    return any(
        b <= CLOSE * a and a <= step.above_bytes and step.below_bytes <= b for a, b in pairwise(sorted(sizes))
    )


def thresholds_of(
    found: dict[str, list[Step]], limits: dict[str, int], sizes: dict[str, list[int]]
) -> tuple[list[bool], list[Step]]:
    """Of each variant whether the step at its limit was found, and the steps that are false: that another variant,
    which has sizes as close there, does not have. A step that others have too, whatever their limit is, belongs to the
    layer: it copies, fragments or fills a cache there. Of one where no other variant has looked nobody knows.
    """
    hits = [any(at_limit(step, limit) for step in found.get(name, ())) for name, limit in limits.items()]
    false = [
        step
        for name, limit in limits.items()
        for step in found.get(name, ())
        if not at_limit(step, limit)
        and not any(near(step, one) for other, those in found.items() if other != name for one in those)
        and any(looked_at(step, there) for other, there in sizes.items() if other != name)
    ]
    return hits, false


def thresholds(rounds: int) -> list[Result]:
    """Open MPI's eager limit at four values that the run is not told: does `step` find each of them?"""
    module = next((one.name for one in added.all_() if one.version.startswith("Open MPI")), None)
    if module is None:
        raise MissingError("no Open MPI was added: netpipe modules add")
    results = []
    of_rounds: list[list[float]] = []  # seconds, of each transport
    for transport in ("shm", "tcp"):
        hits: list[bool] = []
        missing: list[str] = []
        false: list[Step] = []
        seconds = []
        variant = f"{module}:transport={transport},eager={{}}".format
        limits = {variant(text): limit for text, limit in EAGER.items()}
        without = 0
        with tempfile.TemporaryDirectory() as folder:
            for number in range(max(1, min(rounds, 3))):
                reading, took = measured(folder, number, "--budget", BUDGET_S, *limits, variant(ALL_EAGER))
                times = {
                    curve.variant: {at.size_bytes: at.time_ns.value for at in curve.points}
                    for curve in reading.curves
                }
                found: dict[str, list[Step]] = {name: [] for name in times}
                for step in reading.steps:
                    found[step.variant].append(step)
                sizes = {name: list(of) for name, of in times.items()}
                every, more = thresholds_of(found, limits, sizes)
                there = [
                    hit or costs(limit, times.get(name, {}), times.get(variant(ALL_EAGER), {}))
                    for hit, (name, limit) in zip(every, limits.items(), strict=True)
                ]
                without += there.count(False)
                hits += [hit for hit, real in zip(every, there, strict=True) if real]
                missing += [
                    text for text, hit, real in zip(EAGER, every, there, strict=True) if real and not hit
                ]
                false += more
                seconds.append(took)
        of_rounds.append(seconds)
        wrong = ", ".join(sorted({f"{step.below_bytes} to {step.above_bytes} B" for step in false}))
        results.append(
            Result(
                "thresholds",
                f"eager limits of {', '.join(EAGER)} over {transport}, found within a sixteenth of an octave",
                f"{sum(hits)} of {len(hits)}{f' (not {listed(missing)})' if missing else ''}",
                f"{without} cost nothing today" if without else "",
                f"{len(false)} false{f' ({wrong})' if wrong else ''}, {shown(seconds, 1, ' s')} a run",
                f"all, none false, <= {MOST_S:g} s",
                all(hits) and not false and max(seconds) <= MOST_S,
            )
        )
    both = [sum(one) for one in zip(*of_rounds, strict=True)]
    what = "eager limits over both transports: seconds of a round"
    return [*results, Result("thresholds", what, shown(both, 1, " s"), "", "", "none", True)]


COMPARISONS = {"runs": runs, "beside": beside, "thresholds": thresholds}
