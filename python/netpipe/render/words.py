# SPDX-License-Identifier: Apache-2.0
"""What was measured, where and when, and what a curve comes to: the same sentences on the terminal, in the report and
under the figures.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING

from netpipe.findings.machine_state import other_text
from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.reading.estimate import Estimate
from netpipe.reading.summary import Summary, summarise
from netpipe.records import Promises, Run
from netpipe.render.losses import ROUGHLY
from netpipe.units import (
    counted,
    limits_text,
    listed,
    percent_text,
    rate_text,
    size_text,
    sizes_text,
    span_text,
    time_text,
)

if TYPE_CHECKING:
    from netpipe.profiles.tables import Facts

WIDE = 0.05  # a relative half width above this is printed with the number
UNSETTLED = 0.2  # a curve whose intervals are wider than this is marked, and of such a peak no size is said


def where(run: Run) -> str | None:
    """The hosts and their processors, "node17, AMD EPYC 9454"; None if that is not recorded."""
    hosts = [e.host for e in run.environments if e.host]
    if not hosts and run.header and run.header.host:
        hosts = [run.header.host]
    models = [model for e in run.environments if (model := _model(e.facts))]
    return ", ".join(dict.fromkeys([*hosts, *models])) or None


def _model(facts: dict[str, object]) -> str | None:
    cpu = facts.get("cpu")
    model = cpu.get("model") if isinstance(cpu, dict) else None
    return str(model) if model and not isinstance(model, (dict, list)) else None


def when(run: Run) -> str | None:
    """The start, as "2026-03-01 12:00 UTC"; None if that is not recorded."""
    return moment_text(run.header.started) if run.header is not None else None


def moment_text(started: str | None) -> str | None:
    """ISO 8601 as people read it; what is not ISO 8601 as it is, None for nothing."""
    if not started:
        return None
    try:
        return f"{datetime.fromisoformat(started.replace('Z', '+00:00')):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return started


def ranks_on_hosts(facts: Facts) -> str:
    """The ranks of a profiled program: "2 ranks on node0"."""
    ranks = counted(facts.ranks, "rank")
    if not facts.hosts:
        return ranks
    if len(facts.hosts) == 1:
        return f"{ranks} on {facts.hosts[0].host}"
    if len(facts.hosts) > 4:
        return f"{ranks} on {len(facts.hosts)} hosts"
    return f"{ranks}, " + listed(f"{len(one.ranks)} on {one.host}" for one in facts.hosts)


def programs_text(facts: Facts) -> str:
    """The names of the profiled programs, without their folders."""
    return listed(dict.fromkeys(PurePath(program).name for program in facts.programs)) or "A program"


def library_text(facts: Facts) -> str:
    """The MPI library; empty: not known. Open MPI appends who has built it."""
    return " ".join(facts.library.partition(",")[0].split()) if facts.library else ""


def promises_text(of: Promises) -> str:
    """What a layer promises of messages, "messages may be lost and overtake each other; at most 4 KiB"."""
    if not of.delivers:
        arrives = "nothing arrives anywhere"
    elif of.lossy:
        arrives = "messages may be lost" + (" and overtake each other" if of.unordered else "")
    else:
        arrives = "every message arrives, in order"
    said = [arrives, *([] if of.empty else ["no message is empty"])]
    if of.max_message_bytes is not None:
        said.append(f"at most {size_text(of.max_message_bytes)}")
    if of.max_inline_bytes > 0:
        said.append(f"up to {size_text(of.max_inline_bytes)} inside the request")
    if of.alignment_bytes > 1:
        said.append(f"at multiples of {size_text(of.alignment_bytes)}")
    return "; ".join(said)


def measured(reading: Reading, most_named: int | None = None) -> str:
    """What was measured and where, in one sentence. More variants than `most_named` are a number."""
    run = reading.run
    if not reading.curves and (opened := reading.openings):
        libraries = listed(dict.fromkeys(opening.variant for opening in opened))
        numbers = sorted({opening.ranks for opening in opened})
        many = counted(numbers[0], "process", "processes")
        if len(numbers) > 1:
            many = f"{numbers[0]} to {numbers[-1]} processes"
        return f"The cost of opening {libraries} with {many}."
    if not reading.curves:
        return "No size was finished, so there are no numbers to report."
    sizes = sorted({size for curve in reading.curves for size in curve.points.size.tolist()})
    patterns = listed(_pattern_names(reading, reading.patterns))
    starts = len({point.launch for point in run.points})
    ending = f", in {starts} launches" if starts > 1 else ""
    place = f" on {where(run)}" if where(run) else ""
    names = dict.fromkeys(curve.variant for curve in reading.curves)
    named = [name for name in names if not reading.is_idle(name)] or list(names)
    counts = most_named is not None and len(named) > most_named
    variants = counted(len(named), "layer") if counts else listed(named)
    took = f", in {span_text(run.end.seconds)}" if run.end and run.end.seconds else ""
    return f"{variants} with {patterns} at {sizes_text(sizes)}{ending}{place}{took}."


def _pattern_names(reading: Reading, patterns: Iterable[str]) -> list[str]:
    """A pattern that was measured with many settings is named once: "pingpong with 9 settings of send_offset"."""
    many = {
        pattern: f"{settings.name} with {len(settings.values)} settings of {listed(settings.options)}"
        for settings in reading.pattern_settings
        if len(settings.values) > 2
        for pattern in settings.values
    }
    return list(dict.fromkeys(many.get(pattern, pattern) for pattern in patterns))


def variant_text(reading: Reading, variant: str, pattern: str) -> str:
    """The variant, and where it has more ranks or threads than processors under this pattern how many of each."""
    crowd = reading.crowding_of(variant, pattern)
    return f"{variant}, {crowd}" if crowd else variant


def pattern_text(reading: Reading, pattern: str) -> str:
    """The pattern, with its operation where the name alone does not say it: "collective, allreduce"."""
    operation = reading.operations.get(pattern)
    return f"{pattern}, {operation}" if operation and operation not in pattern else pattern


def other_answers(reading: Reading, curve: Curve) -> list[tuple[str, str]]:
    """The name of a curve in each other state of the machine, and what it comes to there."""
    name = (curve.variant, curve.pattern)
    return [
        (
            f"{curve.variant} {other_text(reading.in_states[name], other)}, {percent_text(other.share)} of the time",
            answer(summarise(there), reading.is_idle(curve.variant)),
        )
        for other, there in reading.other_states.get(name, ())
    ]


def answer(summary: Summary, idle: bool) -> str:
    """What a curve comes to, without its name. A module that moves nothing has no throughput."""
    if idle:
        floor = summary.latency_ns
        return f"{time_text(floor.value)}: the time of netpipe itself." if floor else "no usable point."
    parts = []
    if summary.latency_ns is not None:
        time = summary.latency_ns
        loose = time.known and time.half_width > WIDE
        limits = f" ({limits_text(time.low, time.high, time_text)})" if loose else ""
        mark = "" if time.known else ROUGHLY
        parts.append(f"{mark}{time_text(time.value)}{limits} for {size_text(summary.latency_size_bytes)}")
    if summary.peak_bytes_per_s is not None:
        peak = rate_text(summary.peak_bytes_per_s.value)
        if rough(summary.peak_bytes_per_s):
            peak = ROUGHLY + peak
        if summary.points == 1:
            parts.append(f"{peak} at {size_text(summary.peak_size_bytes)}")
        else:
            size, half, _ = sizes_of_peak(summary)
            known = [] if size is None else [f"at {size_text(size)}"]
            known += [] if half is None else [f"half of it from {size_text(half)}"]
            parts.append(f"up to {peak}" + (f" ({'; '.join(known)})" if known else ""))
    return ", ".join(parts) + "." if parts else "no usable point."


def rough(rate: Estimate) -> bool:
    """Is a rate known so little that those of other sizes may be as high? Nothing is known of one without interval."""
    return not rate.known or rate.half_width > UNSETTLED


def sizes_of_peak(summary: Summary) -> tuple[int | None, float | None, int | None]:
    """The size of the peak, n½ and the knee. Of a peak with a wide interval, or none, they are not known; of an
    imported curve they are those of its numbers, which never have any.
    """
    peak = summary.peak_bytes_per_s
    imported = summary.converged is None
    if peak is not None and rough(peak) and (peak.known or not imported):
        return None, None, None
    return summary.peak_size_bytes, summary.half_size_bytes, summary.knee_size_bytes
