# SPDX-License-Identifier: Apache-2.0
"""The machine changed while it was measured, according to the yardsticks (docs/method.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from netpipe.findings import NOTE, WARNING, Finding, Quantity, again, examples, rule
from netpipe.reading import Reading
from netpipe.reading.explained.decision import InStates, OtherState
from netpipe.reading.machine.states import Change, MachineState, States, Tolerances, alike
from netpipe.records import Run
from netpipe.units import capital, counted, listed, percent_text, rate_text, size_text, time_text, times_text

MOST_CHANGES = 3  # named; the report has all
MOST_NAMED = 6  # curves in one sentence
PROCESSOR_TOLERANCE = 1.05  # of its own speed, by the yardstick of multiplications


@rule("machine-changed", "Several machine states", needs=("yardsticks",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires if the yardsticks tell more than one state (the worker's tolerances decide), curves come in states, or the
    processor itself was faster and slower.
    """
    states = reading.states
    if len(states.states) < 2 and not reading.in_states and not unsteady(reading)[0]:
        return
    if not states.split or reading.in_states or len(states.states) < 2:
        yield from _wandered(reading, states)
        return
    said = state_sentences(states)
    shown = said if not states.changes else said[: min(len(states.changes), MOST_CHANGES)]
    more = len(states.changes) - len(shown)
    if states.changes and more > 0:
        shown = (*shown, f"There {'was' if more == 1 else 'were'} {counted(more, 'more change')}.")
    apart = sum(loss.other_state_sizes for loss in reading.losses)
    if apart:
        sizes = counted(apart, "size")
        shown = (
            *shown,
            f"{sizes} of two layers {'was' if apart == 1 else 'were'} measured in different states and not compared.",
        )
    bounces = [state.bounce_ns for state in states.states if state.bounce_ns is not None]
    copies = [state.copy_bytes_per_s for state in states.states if state.copy_bytes_per_s is not None]
    evidence = {
        "states": Quantity(len(states.states), "states"),
        "changes": Quantity(len(states.changes), "changes"),
        "samples_left_out": Quantity(states.left_out_samples, "samples"),
    }
    if bounces:
        evidence["cache_line_bounce"] = Quantity(bounces[0], "ns", min(bounces), max(bounces))
    if copies:
        evidence["memory_copy_rate"] = Quantity(copies[0], "bytes/s", min(copies), max(copies))
    yield Finding(
        severity=WARNING,
        what=f"The machine changed during the run. {' '.join(shown)}",
        evidence=evidence,
        certainty=(
            f"States differ by more than {states.tolerances.bounce:g}× in cache-line bounce or "
            f"{states.tolerances.copy:g}× in copy rate; low and high are the extremes over the states."
        ),
        cause="Something outside the run moved the cores or took their memory bandwidth, as hypervisors do.",
        remedy="compare points of one state only, or measure on a quieter machine",
        experiment=again(reading),
    )


def unsteady(reading: Reading) -> tuple[tuple[str, ...], dict[str, Quantity]]:
    """How far each yardstick went, in words and numbers; nothing of one that stayed within the worker's tolerance and
    explains no curve.
    """
    yardsticks, tolerances = reading.run.yardsticks, reading.states.tolerances
    explains = {state.yardstick for state in reading.in_states.values()}
    said, evidence = [], {}
    bounces = sorted(y.bounce_ns for y in yardsticks if y.bounce_ns is not None)
    if "bounce_ns" in explains or (bounces and not alike(bounces[0], bounces[-1], tolerances.bounce)):
        said.append(f"a cache-line bounce took {time_text(bounces[0])} to {time_text(bounces[-1])}")
        evidence["cache_line_bounce"] = Quantity(median(bounces), "ns", bounces[0], bounces[-1])
    copies = sorted(y.copy_bytes_per_s for y in yardsticks if y.copy_bytes_per_s is not None)
    if "copy_bytes_per_s" in explains or (copies and not alike(copies[0], copies[-1], tolerances.copy)):
        said.append(f"memory was copied at {rate_text(copies[0])} to {rate_text(copies[-1])}")
        evidence["memory_copy_rate"] = Quantity(median(copies), "bytes/s", copies[0], copies[-1])
    speeds = sorted(y.multiply_ns for y in yardsticks if y.multiply_ns is not None)
    few = len(speeds) // 20  # at either end, which may have met an interrupt
    if speeds and not alike(least := speeds[few], most := speeds[-1 - few], PROCESSOR_TOLERANCE):
        said.append(f"the processor took {time_text(least)} to {time_text(most)} for a multiplication")
        evidence["multiplication"] = Quantity(median(speeds), "ns", least, most)
    if "wakeup_ns" in explains:
        wakeups = sorted(y.wakeup_ns for y in yardsticks if y.wakeup_ns is not None)
        said.append(f"waking a blocked process took {time_text(wakeups[0])} to {time_text(wakeups[-1])}")
        evidence["wake_up"] = Quantity(median(wakeups), "ns", wakeups[0], wakeups[-1])
    return tuple(said), evidence


def _wandered(reading: Reading, states: States) -> Iterator[Finding]:
    """Of a run in which every sample counts, whatever the state: how far the yardsticks went."""
    said, ranges = unsteady(reading)
    evidence = {"changes": Quantity(len(states.changes), "changes"), **ranges}
    apart = in_states_sentences(reading)
    certainty = "The extremes of all yardsticks. Every sample counts, and intervals include the change."
    if apart:
        evidence["curves_in_states"] = Quantity(len(reading.in_states), "curves")
        certainty = (
            "The extremes of all yardsticks. Times are set apart only where the change explains them beyond doubt "
            "(Student's t over stretches of time); elsewhere every sample counts, and intervals include the change."
        )
    if said or apart:
        yield Finding(
            severity=NOTE,
            what=" ".join([f"The machine was not steady: {listed(said)}."] * bool(said) + list(apart)),
            evidence=evidence,
            certainty=certainty,
            cause="Something outside the run moved the cores, took their memory bandwidth or changed their speed, as "
            "hypervisors do.",
            remedy="compare layers by their losses, which are measured back to back, or use a quieter machine",
            experiment=again(reading, "--aa"),
        )


def level_text(yardstick: str, level: float) -> str:
    """A level of a yardstick: "a cache line took 250 ns"."""
    if yardstick == "copy_bytes_per_s":
        return f"memory was copied at {rate_text(level)}"
    return f"{'a cache line' if yardstick == 'bounce_ns' else 'a wake-up'} took {time_text(level)}"


def other_text(state: InStates, other: OtherState) -> str:
    """What tells another state of a curve from the curve, behind its name: "while a cache line took 250 ns"."""
    return f"while {level_text(state.yardstick, other.level)}"


def in_states_sentences(reading: Reading) -> tuple[str, ...]:
    """Which curves come in states, and that the others do not; nothing if none does."""
    if not reading.in_states:
        return ()
    several = len(reading.patterns) > 1
    alike: dict[tuple[str, float, tuple[float, ...]], list[InStates]] = {}
    for curve in reading.curves:
        state = reading.in_states.get((curve.variant, curve.pattern))
        if state:
            told = (state.yardstick, state.level, tuple(other.level for other in state.others))
            alike.setdefault(told, []).append(state)
    sentences = []
    for same in alike.values():
        first = same[0]
        names = [_curve_name(state.variant, state.pattern, several) for state in same]
        sentences.append(
            f"The times of {_some(names)} depend on this: "
            f"{listed(_took(first, [state.others[place] for state in same]) for place in range(len(first.others)))}. "
            f"{'The curve is' if len(same) == 1 else 'The curves are'} of the {percent_text(first.share)} of the time "
            f"in which {level_text(first.yardstick, first.level)}."
        )
    others = [
        _curve_name(curve.variant, curve.pattern, several)
        for curve in reading.curves
        if (curve.variant, curve.pattern) not in reading.in_states
    ]
    if others:
        sentences.append(f"The times of {_some(others)} do not: every sample counts.")
    return tuple(sentences)


def _took(state: InStates, others: Sequence[OtherState]) -> str:
    """How long several curves took in one other state."""
    factors = sorted(other.times for other in others)
    ends = dict.fromkeys((times_text(factors[0]), times_text(factors[-1])))
    first, last = min(other.first_bytes for other in others), max(other.last_bytes for other in others)
    sizes = f"at {size_text(first)}" if first == last else f"from {size_text(first)} to {size_text(last)}"
    share = percent_text(others[0].share)
    return f"{' to '.join(ends)} as long {sizes} {other_text(state, others[0])} ({share} of the time)"


def _curve_name(variant: str, pattern: str, several: bool) -> str:
    return f"{variant} ({pattern})" if several else variant


def _some(names: Sequence[str]) -> str:
    return listed(names) if len(names) <= MOST_NAMED else f"{len(names)} curves"


def state_sentences(states: States) -> tuple[str, ...]:
    """Everything the yardsticks say: first one sentence for each change, in order of time."""
    if not states.states:
        return ("No yardstick was recorded: nothing says whether the machine changed during the run.",)
    if not states.changes and len(states.states) == 1:
        return (f"The machine stayed in one state: {_described(states.states[0])}.",)
    sentences = [change_sentence(change, states.tolerances) for change in states.changes]
    if not states.changes:
        described = "; ".join(_described(state) for state in states.states)
        sentences.append(f"The launches saw the machine in {len(states.states)} states: {described}.")
    if states.mixed_points:
        sentences.append(
            f"{counted(states.mixed_points, 'point')} had samples from more than one state: "
            f"{counted(states.left_out_samples, 'sample')} from the rarer one "
            f"{'was' if states.left_out_samples == 1 else 'were'} left out."
        )
    used = [state for state in states.states if state.points]
    if len(used) > 1:
        shares = listed(f"{state.points} in state {state.number}" for state in used)
        sentences.append(f"The points are in {len(used)} states ({shares}) and are compared only within one.")
    return tuple(sentences)


def _described(state: MachineState) -> str:
    parts = []
    if state.bounce_ns is not None:
        parts.append(f"a cache-line bounce took {time_text(state.bounce_ns)}")
    if state.copy_bytes_per_s is not None:
        parts.append(f"memory was copied at {rate_text(state.copy_bytes_per_s)}")
    if state.wakeup_ns is not None:
        parts.append(f"waking a blocked process took {time_text(state.wakeup_ns)}")
    return ", ".join(parts) or "its yardsticks are not known"


def change_sentence(change: Change, tolerances: Tolerances) -> str:
    """What changed, and when."""
    before, after = change.before, change.after
    parts = []
    if (
        before.bounce_ns
        and after.bounce_ns
        and not alike(before.bounce_ns, after.bounce_ns, tolerances.bounce)
    ):
        moved = "apart" if after.bounce_ns > before.bounce_ns else "together"
        parts.append(
            f"the cores moved {moved}: a cache-line bounce went from {time_text(before.bounce_ns)} to "
            f"{time_text(after.bounce_ns)}"
        )
    copies = (before.copy_bytes_per_s, after.copy_bytes_per_s)
    if copies[0] and copies[1] and not alike(copies[0], copies[1], tolerances.copy):
        parts.append(f"memory was copied at {rate_text(copies[1])} instead of {rate_text(copies[0])}")
    text = " and ".join(parts) or f"the machine went from state {before.number} to state {after.number}"
    place = f" at {change.at_s:.1f} s" if change.at_s is not None else ""
    launch = f" of launch {change.launch}" if change.launch else ""
    return f"{capital(text)}{place}{launch}."


def fires() -> Run:
    return examples.run(
        examples.yardstick(0),
        examples.yardstick(12.3, state=1, bounce_ns=278),
        examples.point("tcp", 8, 1000.0),
    )


def silent() -> Run:
    return examples.run(
        examples.yardstick(0), examples.yardstick(12.3, bounce_ns=55), examples.point("tcp", 8, 1000.0)
    )
