# SPDX-License-Identifier: Apache-2.0
"""How candidates stopped that were not measured to their end, and what to do about it: for people, where a search
compared nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netpipe.failure import DONE, FAILED, INTERRUPTED, UNAVAILABLE
from netpipe.tuning.search.halving import Failed
from netpipe.tuning.search.variants import Changes, Start
from netpipe.tuning.tune import Outcome
from netpipe.units import counted, listed

# In what the engine and the session say of a module that did not come back (src/engine/visit.cpp, opening.cpp,
# src/worker/workers/launched_workers.cpp, launch/worker.py); a record has no other mark of it.
HUNG = ("did not complete within", "did not return", "processes joined within", "it sent nothing for")


@dataclass(frozen=True)
class Stops:
    """Candidates without a comparison, by how they stopped. Each stands in one of them."""

    began: int  # of all
    compared: int
    refused: tuple[Changes, ...]
    hung: tuple[Changes, ...]
    failed: tuple[Changes, ...]  # crashed, or reported an error
    slow: tuple[Changes, ...]
    cut: tuple[Changes, ...]  # begun, and time was over before anything is known of them
    avoided: tuple[Changes, ...]  # they failed in an earlier search
    waiting: tuple[Changes, ...]  # for these there was no time to begin

    @property
    def total(self) -> int:
        return self.compared + sum(map(len, (*self.bad, self.slow, self.cut, self.waiting)))

    @property
    def bad(self) -> tuple[tuple[Changes, ...], ...]:
        """Those that more time does not help."""
        return self.refused, self.hung, self.failed, self.avoided


def stops(outcome: Outcome) -> Stops:
    """Of the values of every setting one at a time, and of what else was begun."""
    space, failed = outcome.space, outcome.failed
    values = [one for one in space.candidates if space.applies(one)] if space is not None else []
    known = outcome.compared - failed.keys()
    left = [one for one in dict.fromkeys([*values, *outcome.began]) if one not in known and one not in failed]

    def of(word: str) -> tuple[Changes, ...]:
        return tuple(one for one, why in failed.items() if how(why) == word)

    return Stops(
        began=len(outcome.began),
        compared=len(known),
        refused=of("refused"),
        hung=of("hung"),
        failed=of("failed"),
        slow=of("slow"),
        cut=tuple(one for one in left if one in outcome.began),
        avoided=tuple(one for one in left if one not in outcome.began and one in outcome.avoided),
        waiting=tuple(one for one in left if one not in outcome.began and one not in outcome.avoided),
    )


def how(why: Failed) -> str:
    """refused, slow, hung or failed."""
    hung = why.kind == "failed" and any(words in why.why for words in HUNG)
    return "hung" if hung else why.kind


def nothing_compared(outcome: Outcome) -> bool:
    """Did the search end without a verdict, by itself?"""
    return outcome.verdict is None and not outcome.placements and not outcome.interrupted


def exit_code(outcome: Outcome) -> int:
    """0 for an answer, and nothing to gain is one; 3 where this layer has nothing to tune here, or refuses all of it; 4
    where nothing was compared, or nothing in the end; 130 where it was interrupted.
    """
    if outcome.interrupted:
        return INTERRUPTED
    of = stops(outcome)
    no_faster_algorithm = of.compared > 0 and outcome.run is None
    if not nothing_compared(outcome) or outcome.system_tried or no_faster_algorithm:
        return DONE
    return UNAVAILABLE if len(of.refused) == of.total else FAILED


def what_happened(outcome: Outcome) -> str:
    """In a clause, of an outcome in which nothing was compared in the end."""
    of, goal = stops(outcome), outcome.what
    if not of.total:
        return f"there is nothing to try ({goal}): no setting that is searched has another value here"
    if of.compared and outcome.run is None:
        return f"no algorithm was faster than the library's own choice at any size ({goal})"
    if of.compared:
        return (
            f"of {counted(of.total, 'candidate')} {of.compared} {_were(of.compared)} compared, but the confirmation on "
            f"fresh launches ended without a comparison ({goal})"
        )
    began = f"of {counted(of.total, 'candidate')} {of.began or 'none'} began"
    none = " and none was measured to its end" if of.began else ""
    return f"{began}{none} ({goal}): {listed(_parts(of))}"


def _parts(of: Stops) -> Iterator[str]:
    for some, said in (
        (of.refused, "{were} refused"),
        (of.hung, "hung"),
        (of.failed, "crashed or failed"),
        (of.slow, "{were} too slow"),
        (of.cut, "did not end in time"),
        (of.avoided, "failed in an earlier search"),
    ):
        if some:
            yield f"{len(some)} {said.format(were=_were(len(some)))}"
    if of.waiting:
        yield f"for {len(of.waiting)} there was no time"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def what_to_do(outcome: Outcome) -> Iterator[str]:
    """A sentence for each remedy, the likeliest first; none where the answer needs none."""
    of, space = stops(outcome), outcome.space
    if not of.total:
        module = Start.of(outcome.variant).module
        yield f"netpipe list {module} shows what can be tuned; --only also searches what is left out otherwise."
        return
    if of.compared:
        if outcome.run is not None:
            yield from _unconfirmed(outcome)
        return
    names = [knob.name for knob in space.knobs] if space is not None else []
    stopped = {name for some in of.bad for one in some for name in one.names}
    good = [name for name in names if name not in stopped]
    short = bool(of.slow or of.cut or of.waiting)
    if short:
        yield "Give more --time."
    if good and stopped:
        yield f"--only {','.join(good)} leaves out the settings that {_why_bad(of)}."
    elif short and len(names) > 1:
        yield f"--only searches fewer settings than these {len(names)}, such as --only {names[0]}."
    elif stopped and not short:
        module = Start.of(outcome.variant).module
        yield f"Each setting that was searched is among them: netpipe list {module} shows others for --only."
    if of.hung and short:
        yield "Each candidate that hangs takes all of --timeout: a shorter one leaves more time for the others."
    if of.avoided:
        yield "Remove failures.json in the folder to try again what failed in an earlier search."


def _why_bad(of: Stops) -> str:
    """Of settings: they "hang, crash, fail or are refused"."""
    words = [
        *(["hang"] if of.hung else []),
        *(["crash", "fail"] if of.failed or of.avoided else []),
        *(["are refused"] if of.refused else []),
    ]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _unconfirmed(outcome: Outcome) -> Iterator[str]:
    errors = outcome.run.errors if outcome.run is not None else []
    if errors:
        yield f"It stopped because {errors[0].variant or 'the run'} failed: {errors[0].message.rstrip('.')}."
    yield "Give more --time, or search fewer settings with --only."
