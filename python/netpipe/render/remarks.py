# SPDX-License-Identifier: Apache-2.0
"""What to know before one believes the numbers of a run, as few lines for a terminal; the report says it at length."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from netpipe.findings.floor import NOTABLE, Floor, floors
from netpipe.findings.offered import Shortfall, shortfalls
from netpipe.findings.posting import Posting, posting
from netpipe.reading.cells import slowest_of
from netpipe.reading.curves import curves
from netpipe.reading.launches import launches
from netpipe.reading.merge import name_of
from netpipe.reading.modes import several_modes
from netpipe.reading.states import states
from netpipe.render.sentences import (
    SKEWED,
    begun_sentence,
    begun_together,
    by_variant,
    launch_sentence,
    listed,
    modes_sentence,
    skipped_sentences,
    slowest_sentence,
    state_sentences,
)
from netpipe.render.units import percent_text, size_text, time_text, width_text

if TYPE_CHECKING:
    from netpipe.reading.losses import Loss
    from netpipe.reading.summary import Summary
    from netpipe.records import Run

# The last one explains the * in the table of losses.
SEVERE, WARNING, NOTE, WAIT = "severe", "warning", "note", "wait"
Remark = tuple[str, str]  # how severe, and a sentence
MOST_CHANGES = 3
MOST_NAMED = 4  # curves of which one thing is said


def remarks(run: Run, summaries: Iterable[Summary], losses: Iterable[Loss]) -> list[Remark]:
    """The worst first."""
    found = [
        *_of_the_end(run),
        *_of_precision(list(summaries)),
        *_of_the_machine(run, list(losses)),
        *_of_the_floor(run),
        *_of_the_rates(run),
        *_of_the_posting(run),
        *_of_the_launches(run),
        *_of_the_ranks(run),
        *_of_the_modes(run),
        *_of_what_is_missing(run),
    ]
    return sorted(found, key=lambda remark: (WAIT, SEVERE, WARNING, NOTE).index(remark[0]))


def _of_the_end(run: Run) -> list[Remark]:
    found = []
    # Two ranks that were stuck say the same.
    said = dict.fromkeys((error.variant, error.size_bytes, error.message) for error in run.errors)
    for variant, size_bytes, message in said:
        size = f" at {size_text(size_bytes)}" if size_bytes else ""
        found.append((SEVERE, f"{variant or 'The run'}{size} failed: {message.rstrip('.')}."))
    if run.end is not None and run.end.reason == "interrupted":
        found.append((WARNING, "The run was interrupted; this is what was measured until then."))
    elif run.end is None and run.launches and run.header is not None:
        found.append((WARNING, "The run has no end: it was cut off, or goes on."))
    return found


def _of_precision(summaries: list[Summary]) -> list[Remark]:
    loose = [
        (s, s.points - s.converged) for s in summaries if s.converged is not None and s.converged < s.points
    ]
    if not loose:
        return []
    count, points = sum(number for _, number in loose), sum(summary.points for summary in summaries)
    worst = max((s for s, _ in loose), key=lambda summary: summary.worst_half_width or 0)
    where = ""
    if worst.worst_half_width is not None:
        place = f"{worst.variant} at {size_text(worst.worst_size_bytes)}"
        where = f"; the widest interval is {width_text(worst.worst_half_width)}, of {place}"
    which = listed(f"{variant} {number}" for variant, number in by_variant(loose).items())
    sentence = (
        f"{count} of {points} points did not reach the target ({which}){where}. "
        "More --budget or a quieter machine helps: netpipe doctor."
    )
    return [(WARNING if count > points / 10 else NOTE, sentence)]


def _of_the_machine(run: Run, losses: list[Loss]) -> list[Remark]:
    found = []
    seen = states(run)
    if seen.changes:
        sentences = state_sentences(seen)[: min(len(seen.changes), MOST_CHANGES)]
        more = len(seen.changes) - len(sentences)
        apart = sum(loss.other_state_sizes for loss in losses)
        text = " ".join(sentences) + (f" And {more} more such changes." if more else "")
        if apart:
            text += f" {apart} sizes of two layers stand in different states and were not compared."
        found.append((WARNING, f"The machine changed under the run. {text}"))
    spoilers = [
        str(spoiler["what"])
        for environment in run.environments[:1]
        for spoiler in environment.facts.get("spoilers") or []
        if isinstance(spoiler, dict) and spoiler.get("what") and spoiler.get("severity") != NOTE
    ]
    if spoilers:
        found.append(
            (WARNING, f"This machine spoils measurements: {listed(spoilers)}. What to do: netpipe doctor.")
        )
    for upper, below, (wait, other) in dict.fromkeys(
        (x.variant, x.below, x.waits) for x in losses if x.waits
    ):
        module = name_of(below).partition(":")[0]
        sentence = (
            f"{upper} waits by {wait} and {below} by {other}: measure {module}:wait={wait} too, "
            "and it is the layers that are compared."
        )
        found.append((WAIT, sentence))
    return found


def _of_the_launches(run: Run) -> list[Remark]:
    spreads = launches(run)
    if len(spreads) < 2:
        return [(NOTE, launch_sentence(spread)) for spread in spreads]
    typical = median(spread.typical_spread for spread in spreads)
    worst = max(spreads, key=lambda spread: spread.worst.spread)
    inside = [spread.typical_inside for spread in spreads if spread.typical_inside is not None]
    beside = f", where a launch itself is sure to ±{percent_text(median(inside))}" if inside else ""
    count = max(spread.launches for spread in spreads)
    sentence = (
        f"{count} launches lie {percent_text(typical - 1)} apart at a typical size{beside}; "
        f"most {worst.variant} at {size_text(worst.worst.size_bytes)}, {percent_text(worst.worst.spread - 1)}."
    )
    return [(NOTE, sentence)]


def floor_sentence(floor: Floor) -> str | None:
    """Where one curve is so near to the harness that the harness shows; None where it is not."""
    if floor.to_bytes is None:
        return None
    return (
        f"{floor.variant} ({floor.pattern}): up to {size_text(floor.to_bytes)} more than {percent_text(NOTABLE)} of "
        f"the time is the harness itself ({time_text(floor.floor_ns)}), at most {percent_text(floor.share)}."
    )


def _of_the_floor(run: Run) -> list[Remark]:
    return [(NOTE, sentence) for floor in floors(run) if (sentence := floor_sentence(floor)) is not None]


def posting_sentence(posting: Posting) -> str:
    where = f"{posting.variant} at {size_text(posting.size_bytes)}"
    if not posting.told:
        return f"Of {where} no cost of posting receives was seen: pingpong and burst take the same time."
    cost = posting.cost_ns
    more = cost.value > 0
    low, high = sorted((abs(cost.low), abs(cost.high)))
    return (
        f"Receives that are posted before the clock starts make a ping-pong of {where} {time_text(abs(cost.value))} "
        f"({time_text(low)} to {time_text(high)}) {'shorter' if more else 'longer'}, of "
        f"{time_text(posting.pingpong_ns.value)}."
    )


def _of_the_posting(run: Run) -> list[Remark]:
    return [(NOTE, posting_sentence(one)) for one in posting(run)]


def shortfall_sentence(shortfall: Shortfall) -> str:
    """What became of a rate that could not be held."""
    worst = ""
    if shortfall.of_sizes > 1:
        worst = f" ({shortfall.sizes} of {shortfall.of_sizes} sizes fell behind, this one most)"
    return (
        f"Offered {_per_second(shortfall.offered_per_s)}, {shortfall.variant} held "
        f"{_per_second(shortfall.reached_per_s)} at {size_text(shortfall.size_bytes)}{worst}: messages queued there, "
        "and their latency is that of a queue that grows."
    )


def _per_second(rate: float) -> str:
    """312456.7 -> "312 000 /s"."""
    rounded = float(f"{rate:.2e}")
    return f"{rounded:,.0f} /s".replace(",", "\u202f") if rounded >= 100 else f"{rounded:g} /s"


def _of_the_rates(run: Run) -> list[Remark]:
    return [(WARNING, shortfall_sentence(shortfall)) for shortfall in shortfalls(run)]


def _of_the_ranks(run: Run) -> list[Remark]:
    found = curves(run)
    slowest = [slowest for curve in found for slowest in slowest_of(curve)[:1]]
    begun = begun_together(found)
    return [
        *(
            (NOTE, f"{one.variant} {one.pattern}: {slowest_sentence(one)}")
            for one in slowest[: MOST_NAMED if len(slowest) > MOST_NAMED + 1 else None]
        ),
        *_and_more(len(slowest), "curves have a rank or a pair that holds up the others"),
        *((WARNING if one.share > SKEWED else NOTE, begun_sentence(one)) for one in begun),
    ]


def _of_the_modes(run: Run) -> list[Remark]:
    found = several_modes(run)
    several = len({point.pattern for point in run.points}) > 1
    return [
        *(
            (NOTE, f"{one.variant}{f' {one.pattern}' if several else ''} {modes_sentence(one)}")
            for one in found[: MOST_NAMED if len(found) > MOST_NAMED + 1 else None]
        ),
        *_and_more(len(found), "curves have several modes"),
    ]


def _and_more(number: int, what: str) -> list[Remark]:
    return [(NOTE, f"{number - MOST_NAMED} more {what}: see the report.")] if number > MOST_NAMED + 1 else []


def _of_what_is_missing(run: Run) -> list[Remark]:
    return [(NOTE, sentence) for sentence in skipped_sentences(run)]
