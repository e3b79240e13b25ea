# SPDX-License-Identifier: Apache-2.0
"""What a search found, for people: what gains and by how much, whether it was in force, what was tried and left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.render.verdicts import verdict_sentence
from netpipe.tuning.effects import NO_EFFECT, UNKNOWN
from netpipe.tuning.measuring.ratios import Verdict
from netpipe.tuning.search.halving import Failed
from netpipe.tuning.search.variants import START, Changes
from netpipe.tuning.stops import Stops, nothing_compared, stops, what_happened, what_to_do
from netpipe.tuning.tune import Outcome, least_seen
from netpipe.units import counted, digits, listed, percent_text, size_text

MOST_NAMED = 6  # failures; search.jsonl has all


def interval(times: Estimate) -> str:
    """1.31 (1.29 to 1.33)"""
    if not times.known:
        return f"{digits(times.value)} (no interval)"
    return f"{digits(times.value)} ({digits(times.low)} to {digits(times.high)})"


def headline(outcome: Outcome) -> str:
    """What came of it, in a sentence."""
    goal = outcome.what
    what = outcome.verdict
    if outcome.best != START and what is not None:
        return (
            f"{outcome.tuned} is {interval(what.times_as_fast)} times as fast as {outcome.variant} ({goal}), on "
            "fresh launches."
        )
    if outcome.interrupted:
        return f"{outcome.variant}: interrupted before anything was confirmed ({goal}).{_so_far(outcome)}"
    if what is None and outcome.placements:
        words = [word for word, one in outcome.placements.items() if one.gains]
        said = f"faster with --pin {' or '.join(words)}" if words else "no placement is certainly faster"
        return f"{outcome.variant}: {said} ({goal})."
    if what is None:
        return f"{outcome.variant}: {what_happened(outcome)}."
    seen = least_seen(what)
    if seen == math.inf:
        return f"{outcome.variant}: nothing is known to be faster ({goal}); give more --time."
    least = percent_text(seen - 1)
    return f"{outcome.variant}: nothing to gain ({goal}). A gain of {least} or more would have been seen."


def _so_far(outcome: Outcome) -> str:
    search = outcome.search
    if search is None or search.best == START:
        return " Nothing was faster until then."
    known = search.known[search.best]
    again = (
        "seen in one round" if known.rounds == 1 else f"seen in {known.rounds} rounds, each a fresh launch"
    )
    return (
        f" The best until then: {search.best}, {interval(known.times.inverse())} times as fast, {again}; it is not "
        "confirmed."
    )


def details(outcome: Outcome) -> Iterator[str]:
    """Everything else, a sentence each."""
    if nothing_compared(outcome):
        yield from what_to_do(outcome)
    if outcome.best == START and outcome.verdict is not None and outcome.tried != START:
        beside = f"the start beside itself shows up to {digits(outcome.verdict.floor)}"
        yield (
            f"Tried on fresh launches: {outcome.tried}, {interval(outcome.verdict.times_as_fast)} times as fast; "
            f"{beside if outcome.verdict.floor < math.inf else 'the start beside itself was not measured long enough'}."
        )
    for effect in outcome.effects:
        mark = {NO_EFFECT: "had no effect", UNKNOWN: "cannot be read back"}.get(effect.word, "read back")
        yield f"{effect.name}={effect.value} {mark}: {effect.said}."
    yield from _curve(outcome)
    for note in outcome.notes:
        yield f"{note[:1].upper()}{note[1:]}."
    if outcome.too_slow:
        sizes = [size_text(size) for _, size in outcome.too_slow]
        more = f" and {len(sizes) - 3} more" if len(sizes) > 3 else ""
        yield (
            f"{outcome.variant} takes too long at {', '.join(sizes[:3])}{more} to be measured there often enough; "
            "these sizes are not in the comparison."
        )
    yield from _searched(outcome)
    for word, what in outcome.placements.items():
        yield f"--pin {word} in place of {outcome.pin}: {_word(what)}, {interval(what.times_as_fast)} times as fast."
    yield from _system(outcome)


def _word(what: Verdict) -> str:
    return "a gain" if what.gains else "slower" if what.loses else "no gain seen"


def _system(outcome: Outcome) -> Iterator[str]:
    """Settings of the kernel, which are the machine's and not this layer's."""
    if outcome.system and not outcome.system_tried:
        yield "Settings of this machine that may matter, and that only --apply changes for a trial:"
        for _, same in groupby(outcome.system, key=lambda one: one.key):
            some = list(same)
            values = " or ".join(one.value for one in some)
            yield f"  {some[0].key} = {some[0].now}: {some[0].meaning} (--apply tries {values})"
    for tried in outcome.system_tried:
        one, what = tried.candidate, tried.verdict
        yield f"{one.key} = {one.value} (now {one.now}): {_word(what)}, {interval(what.times_as_fast)} times as fast."


def _curve(outcome: Outcome) -> Iterator[str]:
    """The whole curve, before and after, in the words of every comparison."""
    if outcome.run is None or outcome.best == START:
        return
    for verdict in Reading(outcome.run).verdicts:
        if (verdict.variant, verdict.against) == (outcome.tuned, outcome.variant):
            yield verdict_sentence(verdict)


def _searched(outcome: Outcome) -> Iterator[str]:
    space = outcome.space
    if space is not None and space.knobs:
        names = ", ".join(knob.name for knob in space.knobs) or "none"
        values = counted(len(space.candidates), "value")
        yield f"Searched: {names}; {values}, {counted(outcome.measurements, 'measurement')} of a size."
        by_reason: dict[str, list[str]] = {}
        for name, why in space.left_out.items():
            by_reason.setdefault(why, []).append(name)
        for why, some in by_reason.items():
            yield f"Not searched unless --only names it: {listed(some)} ({why})."
        if space.by_hand:
            yield (
                f"Not searched: {listed(space.by_hand)}, of which netpipe knows no values to try. Measure some beside "
                f"each other with netpipe run {space.several}, and tune the fastest."
            )
    if outcome.untried and not nothing_compared(outcome):
        yield f"For {counted(outcome.untried, 'candidate')} there was no time; give more --time."
    yield from _failures(outcome.failed)


def _failures(failed: dict[Changes, Failed]) -> Iterator[str]:
    bad = {one: why for one, why in failed.items() if why.kind == "failed"}
    for changes, why in list(bad.items())[:MOST_NAMED]:
        yield f"{changes} failed: {why.why}."
    if len(bad) > MOST_NAMED:
        yield f"{len(bad) - MOST_NAMED} more failed; search.jsonl names them."
    refused = {str(one): why.why for one, why in failed.items() if why.kind == "refused"}
    if refused:
        names = f"{', '.join(list(refused)[:MOST_NAMED])}{' …' if len(refused) > MOST_NAMED else ''}"
        first = "" if len(refused) == 1 else f"{next(iter(refused))}: "
        yield f"Refused by the layer: {names} ({first}{next(iter(refused.values())).rstrip('.')})."


def _counts(of: Stops) -> dict[str, int]:
    return {
        "all": of.total,
        "began": of.began,
        "compared": of.compared,
        "refused": len(of.refused),
        "hung": len(of.hung),
        "failed": len(of.failed),
        "too_slow": len(of.slow),
        "cut_off": len(of.cut),
        "avoided": len(of.avoided),
        "not_begun": len(of.waiting),
    }


def as_json(outcome: Outcome, written: Sequence[Path]) -> dict[str, Any]:
    what = outcome.verdict
    return {
        "variant": outcome.variant,
        "goal": outcome.goal,
        "ranks": outcome.ranks or None,
        "gains": outcome.best != START,
        "tuned": outcome.tuned if outcome.best != START else None,
        "settings": dict(outcome.best.items),
        "tried": dict(outcome.tried.items),
        "times_as_fast": None
        if what is None
        else {
            "value": what.times_as_fast.value,
            "low": what.times_as_fast.low if what.times_as_fast.known else None,
            "high": what.times_as_fast.high if what.times_as_fast.known else None,
        },
        "least_gain_seen": None if (seen := least_seen(what)) == math.inf else seen,
        "effects": [
            {"name": one.name, "value": one.value, "word": one.word, "said": one.said}
            for one in outcome.effects
        ],
        "failed": {str(one): why.why for one, why in outcome.failed.items() if why.kind == "failed"},
        "candidates": _counts(stops(outcome)),
        "measurements": outcome.measurements,
        "interrupted": outcome.interrupted,
        "notes": outcome.notes,
        "pin": outcome.pin,
        "placements": {
            word: {"times_as_fast": one.times_as_fast.value, "gains": one.gains}
            for word, one in outcome.placements.items()
        },
        "system": [{"key": one.key, "now": one.now, "meaning": one.meaning} for one in outcome.system],
        "system_tried": [
            {
                "key": one.candidate.key,
                "value": one.candidate.value,
                "times_as_fast": one.verdict.times_as_fast.value,
                "gains": one.verdict.gains,
            }
            for one in outcome.system_tried
        ],
        "files": [str(path) for path in written],
    }
