# SPDX-License-Identifier: Apache-2.0
"""What a run says, in sentences: the same ones on the terminal, in the report and under the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from netpipe.reading.cells import CLOCK_ERROR, Slowest
from netpipe.reading.curves import Curve, curves, shown_point
from netpipe.reading.estimate import Estimate
from netpipe.reading.launches import LaunchSpread
from netpipe.reading.losses import Loss
from netpipe.reading.measures import measures_of
from netpipe.reading.merge import name_of
from netpipe.reading.modes import SeveralModes
from netpipe.reading.openings import openings
from netpipe.reading.states import BOUNCE_TOLERANCE, COPY_TOLERANCE, Change, MachineState, States, alike
from netpipe.reading.summary import Summary
from netpipe.reading.sweeps import families
from netpipe.records import Point, Run
from netpipe.render.units import (
    percent_text,
    rate_text,
    size_text,
    span_text,
    time_text,
    times_text,
    width_text,
)

FLOOR = "null"  # the module that does nothing: its curve is the floor of the harness, a bound and no layer


def is_floor(variant: str) -> bool:
    return name_of(variant).partition(":")[0] == FLOOR


# --------------------------------------------------------------------------------------------- what was
# measured


def fact(facts: object, path: str) -> str | None:
    """The fact with this dotted name as text; None where it is not known."""
    for word in path.split("."):
        facts = facts.get(word) if isinstance(facts, dict) else None
    return str(facts) if facts not in (None, "") and not isinstance(facts, (dict, list)) else None


def where(run: Run) -> str | None:
    """The hosts and their processors, "node17, AMD EPYC 9454"; None where the record does not know."""
    hosts = [e.host for e in run.environments if e.host]
    if not hosts and run.header and run.header.host:
        hosts = [run.header.host]
    models = [model for e in run.environments if (model := fact(e.facts, "cpu.model"))]
    return ", ".join(dict.fromkeys([*hosts, *models])) or None


def when(run: Run) -> str | None:
    """The start, as "2026-03-01 12:00 UTC"; None where the record does not know."""
    if run.header is None or not run.header.started:
        return None
    try:
        started = datetime.fromisoformat(run.header.started.replace("Z", "+00:00"))
    except ValueError:
        return run.header.started
    return f"{started:%Y-%m-%d %H:%M} UTC"


def measured(run: Run) -> str:
    """What was measured and where, in one sentence."""
    found = curves(run)
    if not found and (opened := openings(run)):
        libraries = listed(dict.fromkeys(opening.variant for opening in opened))
        numbers = sorted({opening.ranks for opening in opened})
        many = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        return f"What opening {libraries} costs, with {many} processes."
    if not found:
        return "No size was finished: there is nothing to report but what stands below."
    sizes = sorted({spot.size_bytes for curve in found for spot in curve.spots})
    patterns = listed(_pattern_names(run, dict.fromkeys(curve.pattern for curve in found)))
    starts = len({point.launch for point in run.points})
    ending = f", in {starts} launches" if starts > 1 else ""
    place = f" on {where(run)}" if where(run) else ""
    names = dict.fromkeys(curve.variant for curve in found)
    variants = listed([name for name in names if not is_floor(name)] or names)
    took = f", in {span_text(run.end.seconds)}" if run.end and run.end.seconds else ""
    return f"{variants} by {patterns} at {sizes_text(sizes)}{ending}{place}{took}."


def _pattern_names(run: Run, patterns: Iterable[str]) -> list[str]:
    """A pattern that was measured with many settings has one name: "pingpong with 9 settings of send_offset"."""
    many = {
        pattern: f"{family.name} with {len(family.members)} settings of {listed(family.options)}"
        for family in families(run)
        if len(family.members) > 2
        for pattern in family.members
    }
    return list(dict.fromkeys(many.get(pattern, pattern) for pattern in patterns))


def listed(words: Iterable[str]) -> str:
    """Words as people list them: a, b and c."""
    several = list(words)
    return " and ".join([", ".join(several[:-1]), several[-1]] if len(several) > 1 else several)


# -------------------------------------------------------------------------------------------------------
# answers


WIDE = 0.05  # a relative half width above this is said with the number


def answer(summary: Summary) -> str:
    """What a curve comes to, without its name. The module that moves nothing has no throughput."""
    if is_floor(summary.variant):
        floor = summary.latency_ns
        return (
            f"{time_text(floor.value)}: what the harness itself takes."
            if floor
            else "no point that says anything."
        )
    parts = []
    if summary.latency_ns is not None:
        time = summary.latency_ns
        sure = f" ({interval(time, time_text)})" if time.known and time.half_width > WIDE else ""
        parts.append(f"{time_text(time.value)}{sure} for {size_text(summary.latency_size_bytes)}")
    if summary.peak_bytes_per_s is not None:
        peak, size = rate_text(summary.peak_bytes_per_s.value), size_text(summary.peak_size_bytes)
        parts.append(
            f"up to {peak} (at {size}; half of it from {size_text(summary.half_size_bytes)})"
            if summary.points > 1
            else f"{peak} at {size}"
        )
    return ", ".join(parts) + "." if parts else "no point that says anything."


def interval(estimate: Estimate, text: Callable[[float], str]) -> str:
    """The limits of an estimate in the words of a units function: "24.5 to 24.8 µs"; a unit of both is said once."""
    low, high = text(estimate.low), text(estimate.high)
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low} to {high}"


def share_text(fraction: float) -> str:
    """0.1234 -> "12.3 %", beside limits that round percents would make the same."""
    return f"{100 * fraction:.1f} %"


def loss_sentence(loss: Loss) -> str:
    """What a layer loses of the one below, without its name: where it is slower, and where it keeps how much."""
    parts = []
    if loss.small is not None:
        added = loss.small.added_ns.value
        what = (
            f"{time_text(abs(added))} {'more' if added > 0 else 'less'} ({times_text(loss.small.times.value)})"
            if loss.small.seen
            else "no difference seen"
            if loss.small.times.known
            else "too few samples to compare"
        )
        parts.append(f"{what} at {size_text(loss.small.size_bytes)}")
    if loss.peak is not None and len(loss.sizes) > 1:  # a single size has no peak
        kept = f"{'keeps' if loss.peak.kept.value < 1 else 'reaches'} {percent_text(loss.peak.kept.value)} of its peak"
        if loss.peak.kept.known:
            parts.append(kept if loss.peak.seen else "no difference seen between the peaks")
    text = f"against {loss.below}: {'; '.join(parts) or 'no size in common'}"
    if loss.waits is not None:
        text += f" (it waits by {loss.waits[0]}, {loss.below} by {loss.waits[1]})"
    return text + "."


def largest_losses(losses: tuple[Loss, ...]) -> tuple[str, ...]:
    """Which layer costs the most: in latency, and in throughput. Nothing where nothing is lost."""
    sentences = []
    several = len({loss.pattern for loss in losses}) > 1
    slower = [(loss.small.added_ns.value, loss) for loss in losses if loss.small and loss.small.seen]
    added, slowest = max(slower, key=lambda item: item[0], default=(0.0, None))
    if slowest is not None and added > 0 and slowest.small is not None:
        what = f" ({slowest.adds})" if slowest.adds else ""
        sentences.append(
            f"Most latency is added by {slowest.variant}{what}: {time_text(added)} "
            f"({interval(slowest.small.added_ns, time_text)}) over {slowest.below} "
            f"at {size_text(slowest.small.size_bytes)}{f' under {slowest.pattern}' if several else ''}."
        )
    narrower = [
        (loss.peak.kept.value, loss)
        for loss in losses
        if loss.peak and loss.peak.seen and len(loss.sizes) > 1
    ]
    kept, narrowest = min(narrower, key=lambda item: item[0], default=(1.0, None))
    if narrowest is not None and kept < 1 and narrowest.peak is not None:
        sentences.append(
            f"Most throughput is lost by {narrowest.variant}: it keeps {share_text(kept)} "
            f"({interval(narrowest.peak.kept, share_text)}) of the peak of {narrowest.below}"
            f"{f' under {narrowest.pattern}' if several else ''}."
        )
    return tuple(sentences)


# ------------------------------------------------------------------------------------------- what is missing


def left_out(run: Run) -> dict[tuple[str, str | None, str], tuple[int, ...]]:
    """What was skipped: (variant, pattern, reason) -> at which sizes; at all of them where it names none. A pattern of
    None is every one.
    """
    found: dict[tuple[str, str | None, str], set[int]] = {}
    for skip in run.skipped:
        sizes = found.setdefault((skip.variant, skip.pattern, skip.reason.rstrip(".")), set())
        if skip.size_bytes is not None:
            sizes.add(skip.size_bytes)
    return {key: tuple(sorted(sizes)) for key, sizes in found.items()}


def sizes_text(sizes: Sequence[int]) -> str:
    """ "12 B", "3 sizes from 12 B to 64 KiB"."""
    if len(sizes) == 1:
        return size_text(sizes[0])
    return f"{len(sizes)} sizes from {size_text(sizes[0])} to {size_text(sizes[-1])}"


def skipped_sentences(run: Run) -> list[str]:
    """One for each reason, and for the sizes that it holds at."""
    names: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (variant, pattern, reason), sizes in left_out(run).items():
        names.setdefault((reason, sizes), []).append(f"{variant} {pattern}" if pattern else variant)
    return [
        f"Skipped {f'{sizes_text(sizes)} of ' if sizes else ''}{listed(several)}: {reason}."
        for (reason, sizes), several in names.items()
    ]


# ------------------------------------------------------------------------------------------- states and
# launches


def state_sentences(states: States) -> tuple[str, ...]:
    """What the yardsticks say."""
    if not states.states:
        return ("No yardstick was taken: nothing says whether the machine changed while it was measured.",)
    if not states.changes and len(states.states) == 1:
        return (f"The machine stayed in one state: {_described(states.states[0])}.",)
    sentences = [_change(change) for change in states.changes]
    if not states.changes:
        sentences.append(
            f"The launches saw the machine in {len(states.states)} states: "
            + "; ".join(_described(state) for state in states.states)
            + "."
        )
    if states.mixed_points:
        sentences.append(
            f"{_count(states.mixed_points, 'point')} had samples from more than one state: {states.left_out_samples} "
            f"samples from the rarer one were left out."
        )
    used = [state for state in states.states if state.points]
    if len(used) > 1:
        shares = listed(f"{state.points} in state {state.number}" for state in used)
        sentences.append(f"Points stand in {len(used)} states ({shares}) and are compared only within one.")
    return tuple(sentences)


def _described(state: MachineState) -> str:
    parts = []
    if state.bounce_ns is not None:
        parts.append(f"a cache-line bounce took {time_text(state.bounce_ns)}")
    if state.copy_bytes_per_s is not None:
        parts.append(f"memory was copied at {rate_text(state.copy_bytes_per_s)}")
    if state.wakeup_ns is not None:
        parts.append(f"waking a blocked process took {time_text(state.wakeup_ns)}")
    return ", ".join(parts) or "nothing of it is known"


def _change(change: Change) -> str:
    before, after = change.before, change.after
    parts = []
    if (
        before.bounce_ns
        and after.bounce_ns
        and not alike(before.bounce_ns, after.bounce_ns, BOUNCE_TOLERANCE)
    ):
        moved = "apart" if after.bounce_ns > before.bounce_ns else "together"
        parts.append(
            f"the cores moved {moved}: a cache-line bounce went from {time_text(before.bounce_ns)} to "
            f"{time_text(after.bounce_ns)}"
        )
    copies = (before.copy_bytes_per_s, after.copy_bytes_per_s)
    if copies[0] and copies[1] and not alike(copies[0], copies[1], COPY_TOLERANCE):
        parts.append(f"memory was copied at {rate_text(copies[1])} instead of {rate_text(copies[0])}")
    text = " and ".join(parts) or f"the machine went from state {before.number} to state {after.number}"
    place = f" at {change.at_s:.1f} s" if change.at_s is not None else ""
    launch = f" of launch {change.launch}" if change.launch else ""
    return f"{_capital(text)}{place}{launch}."


def launch_sentence(spread: LaunchSpread) -> str:
    """How far launches lie apart, beside what varies inside one; with the name of the curve."""
    inside = (
        f", where a launch itself is sure to ±{percent_text(spread.typical_inside)}"
        if spread.typical_inside is not None
        else ""
    )
    return (
        f"{spread.variant}: {spread.launches} launches lie {percent_text(spread.typical_spread - 1)} apart at a "
        f"typical size{inside}; most at {size_text(spread.worst.size_bytes)}, {percent_text(spread.worst.spread - 1)}."
    )


# ------------------------------------------------------------------------------------- what patterns say beside


def slowest_sentence(slowest: Slowest) -> str:
    """Which rank, or pair, holds up the others, without the name of the curve."""
    if slowest.peer is None:
        who, what = f"rank {slowest.rank}", "ranks"
    else:
        who, what = f"the pair of ranks {slowest.rank} and {slowest.peer}", "pairs"
    sizes = f"; so it was at {slowest.sizes} of {slowest.all_sizes} sizes" if slowest.sizes > 1 else ""
    return (
        f"{who} was the slowest of {slowest.of} {what} in {percent_text(slowest.share)} of the operations at "
        f"{size_text(slowest.size_bytes)}, {times_text(slowest.times)} the median of the others{sizes}."
    )


SKEWED = 0.1  # of the time of a sample: ranks that begin so far apart are said with a warning


@dataclass(frozen=True, slots=True)
class Begun:
    """How well the ranks began together, over the curves of one variant: where they did so worst."""

    variant: str
    pattern: str
    size_bytes: int
    skew_ns: float
    clock_error_ns: float | None
    share: (
        float  # that the skew has of the time from one beginning to the next: of all operations of a sample
    )


def begun_together(found: Iterable[Curve]) -> tuple[Begun, ...]:
    worst: dict[str, Begun] = {}
    for curve in found:
        said = {measure.name: measure.values for measure in measures_of(curve)}
        for spot in curve.spots:
            skew = said.get("start_skew", {}).get(spot.size_bytes)
            error = said.get(CLOCK_ERROR, {}).get(spot.size_bytes)
            if skew is None or spot.time_ns.value <= 0:
                continue
            begun = Begun(
                curve.variant,
                curve.pattern,
                spot.size_bytes,
                skew.value,
                error.value if error else None,
                skew.value / (spot.time_ns.value * (shown_point(spot).ops or 1)),
            )
            if curve.variant not in worst or begun.share > worst[curve.variant].share:
                worst[curve.variant] = begun
    return tuple(worst.values())


def begun_sentence(begun: Begun) -> str:
    clocks = (
        f"; their clocks agree to {time_text(begun.clock_error_ns)}"
        if begun.clock_error_ns is not None
        else ""
    )
    where_most = f"{begun.pattern} at {size_text(begun.size_bytes)}"
    return (
        f"The ranks of {begun.variant} began within {time_text(begun.skew_ns)} of each other (median), at most "
        f"{percent_text(begun.share)} of the time of a sample: {where_most}{clocks}."
    )


def modes_sentence(several: SeveralModes) -> str:
    """Two ways of going of one curve, without its name."""
    point = several.point
    each = listed(f"{time_text(mode.at_ns)} ({percent_text(mode.share)})" for mode in several.modes)
    number = NUMBERS.get(len(several.modes), str(len(several.modes)))
    also = f" Also at {listed(map(size_text, several.other_sizes))}." if several.other_sizes else ""
    return f"at {size_text(point.size_bytes)} has {number} modes: {each}, of {samples_text(point)}.{also}"


NUMBERS = {2: "two", 3: "three", 4: "four"}


def samples_text(point: Point) -> str:
    """What a histogram counts: "4000 operations", "240 batches of 100 operations"."""
    number = sum(point.histogram.count) if point.histogram else 0
    if point.single:
        return f"{number} operations"
    return f"{number} batches of {point.ops} operations" if point.ops else f"{number} batches"


# ------------------------------------------------------------------------------------------------ what to
# distrust


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason to distrust a number. `severity` is severe, warning or note, in the worker's sense."""

    severity: str
    what: str
    why: str
    fix: str


SEVERITIES = ("severe", "warning", "note")


def doubts(
    run: Run, summaries: tuple[Summary, ...], losses: tuple[Loss, ...], states: States
) -> tuple[Doubt, ...]:
    """Everything in the record that speaks against its own numbers, the worst first."""
    found = [*ending_doubts(run), *_of_the_points(run, summaries), *_of_the_machine(run, losses, states)]
    return tuple(sorted(dict.fromkeys(found), key=lambda doubt: SEVERITIES.index(doubt.severity)))


def ending_doubts(run: Run) -> tuple[Doubt, ...]:
    """Why the run may be less than was asked for; nothing where it went to its end, or was imported."""
    if run.end is None:
        imported = bool(run.points) and not run.plans and not run.launches
        unfinished = run.header is not None and not imported
        why = "It was cut off, or it is still going on."
        return (Doubt("warning", "The run has no end", why, "run it again"),) if unfinished else ()
    if run.end.reason == "interrupted":
        why = "What was finished until then stands here."
        return (Doubt("warning", "The run was interrupted", why, "run it again"),)
    return ()


def by_variant(counts: Iterable[tuple[Summary, int]]) -> dict[str, int]:
    """Over the patterns."""
    total: Counter[str] = Counter()
    for summary, count in counts:
        total[summary.variant] += count
    return total


def _of_the_points(run: Run, summaries: tuple[Summary, ...]) -> list[Doubt]:
    found = []
    loose = [
        (s, s.points - s.converged) for s in summaries if s.converged is not None and s.converged < s.points
    ]
    if loose:
        target = next((plan.target for plan in run.plans if plan.target), None)
        goal = f"the target of ±{percent_text(target)}" if target else "their target"
        number, points = sum(count for _, count in loose), sum(summary.points for summary in summaries)
        each = listed(f"{count} of {variant}" for variant, count in by_variant(loose).items())
        worst = max((summary for summary, _ in loose), key=lambda summary: summary.worst_half_width or 0)
        few = sum(summary.unsure for summary, _ in loose)
        why = f"{each}."
        if few:
            why += f" {few} of them had too few samples for an interval, and say next to nothing."
        if worst.worst_half_width is not None:
            why += (
                f" The widest interval, {width_text(worst.worst_half_width)}, is that of {worst.variant} "
                f"at {size_text(worst.worst_size_bytes)}."
            )
        found.append(
            Doubt(
                "warning" if number > points / 10 else "note",
                f"{number} of {_count(points, 'point')} did not reach {goal}",
                why,
                "more time (--budget) or a quieter machine (netpipe doctor)",
            )
        )
    if run.points and all(point.low_ns is None for point in run.points):
        found.append(
            Doubt(
                "warning",
                "No point has an interval",
                "The file that it was imported from has none.",
                "measure anew",
            )
        )
    elif run.points and len({point.launch for point in run.points}) == 1:
        found.append(
            Doubt(
                "note",
                "There was one launch",
                "Two starts of the same program can differ more than all that varies inside one.",
                "--launches 5 shows by how much",
            )
        )
    return found


def _of_the_machine(run: Run, losses: tuple[Loss, ...], states: States) -> list[Doubt]:
    found = []
    if states.changes or len(states.states) > 1:
        found.append(
            Doubt(
                "warning",
                "The machine changed while it was measured",
                " ".join(state_sentences(states)),
                "see the yardsticks; compare points of one state only",
            )
        )
    elif run.points and not states.states:
        why = "Nothing says whether the machine changed while it was measured."
        found.append(Doubt("note", "No yardstick was taken", why, ""))
    for loss in losses:
        if loss.waits is not None:
            found.append(
                Doubt(
                    "note",
                    f"{loss.variant} waits otherwise than {loss.below}",
                    f"{loss.variant} waits by {loss.waits[0]}, {loss.below} by {loss.waits[1]}: their difference is "
                    "one of waiting as well as of the layer.",
                    f"measure {name_of(loss.below).partition(':')[0]}:wait={loss.waits[0]} too",
                )
            )
        if loss.other_state_sizes:
            found.append(
                Doubt(
                    "note",
                    f"{loss.variant} and {loss.below} were not compared at {_count(loss.other_state_sizes, 'size')}",
                    "Their points were taken in different states of the machine.",
                    "run it again",
                )
            )
    for environment in run.environments:
        spoilers = environment.facts.get("spoilers")
        for spoiler in spoilers if isinstance(spoilers, list) else []:
            if isinstance(spoiler, dict) and spoiler.get("what"):
                severity = str(spoiler.get("severity"))
                what, why, fix = (str(spoiler.get(key) or "") for key in ("what", "why", "fix"))
                severity = severity if severity in SEVERITIES else "warning"
                found.append(Doubt(severity, _capital(what.rstrip(".")), _capital(why), fix))
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
