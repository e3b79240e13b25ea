# SPDX-License-Identifier: Apache-2.0
"""netpipe predict --measure: the curves that a program needs and the given runs lack, and what the first message takes.
They go into one run file, whose first line names the runs that it completes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from netpipe.command import measuring
from netpipe.failure import UNAVAILABLE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.events import Progress
    from netpipe.prediction.lacking import Part
    from netpipe.profiles import Profile
    from netpipe.records import Run
    from netpipe.render.terminal.live import Display
    from netpipe.session import Request, Session

SMALLEST = 4  # bytes of the first message that is timed


def measure(
    launches: Sequence[Profile],
    runs: Sequence[Run],
    variants: Sequence[str],
    output: Path,
    how: Mapping[str, str],
    times: int,
    check: Callable[[Sequence[str]], object] = lambda _: None,
    most_events: int | None = None,
) -> Run | None:
    """Just the curves that the runs lack over these variants, in so many launches, with these settings of a plan. None
    if they lack nothing. `check` may refuse the variants that there will be, before anything is measured.
    `most_events`: of the traces, as in `predict`. Raises Failure, and NotAProfile without a trace.
    """
    from netpipe.applications.contact import first_contacts
    from netpipe.applications.plan import refuse_other_layers
    from netpipe.prediction import lacking, one_run
    from netpipe.prediction.predict import SMALL
    from netpipe.profiles.trace.chosen import MOST_EVENTS
    from netpipe.profiles.trace.first_part import replayed
    from netpipe.reading import Reading
    from netpipe.records import Run
    from netpipe.render.terminal.apps import Line
    from netpipe.render.terminal.rows import console
    from netpipe.session import Request, Session

    reading = Reading(one_run(runs)) if runs else None
    programs, _ = replayed(launches, MOST_EVENTS if most_events is None else most_events)
    need = lacking.needed(programs)
    asked = list(dict.fromkeys(pattern for pattern, _ in need))
    plan = Session(
        Request(list(variants), patterns=asked)
    ).plan  # names without settings that are the default
    names = [one.variant for one in plan.variants]
    refuse_other_layers(names, "a program of MPI is predicted")
    check([*dict.fromkeys(curve.variant for curve in (reading.curves if reading else ())), *names])
    as_named = dict(zip(asked, plan.patterns, strict=True))
    need = {(as_named[pattern], ranks): sizes for (pattern, ranks), sizes in need.items()}
    parts = lacking.parts(lacking.lacking(need, reading, names))
    first = lacking.without_first(reading, names)
    if not parts and first:  # a run has at least one curve
        parts = [lacking.Part(tuple(first), ("pingpong",), (SMALL,), 2)]
    if not parts:
        say(f"the runs have all curves that this program needs over {', '.join(names)}")
        return None
    completed = [run.header.run for run in runs if run.header is not None]
    todo = _possible([(one, Session(request(one, how, times, completed))) for one in parts])
    _announce(todo, names, times)
    result = None
    for place, (part, session) in enumerate(todo, 1):
        if len(todo) > 1:
            say(f"{place} of {len(todo)}: {_part_text(part)}")
        given = {"output": str(output), "as_json": False, "onto": result is not None, "quiet": False}
        so_far = 0 if result is None else 1 + max((plan.launch for plan in result.run.plans), default=-1)
        result = measuring.measure(session, given, OfPart(measuring.display(given, session), so_far))
        if result.exit_code:
            why = next(
                (f"{one.variant}, {one.pattern}: {one.message}" for one in result.run.errors), "it was ended"
            )
            raise Failure(
                result.exit_code, f"the measurement failed ({why}); what was measured is in {output}"
            )
    if first:
        line = Line(console(sys.stderr), say)
        try:
            add_first(output, first_contacts(first, line.show))
        except Failure as failure:
            kept = f"the curves that were measured are in {output}, which netpipe predict takes as a run"
            raise Failure(failure.exit_code, f"{failure.sentence}; {kept}") from None
        finally:
            line.close()
    return Run.read(output, samples=False)


class OfPart:
    """Progress of a part, whose launches are counted from its own first one."""

    def __init__(self, shown: Display, so_far: int) -> None:
        self._shown = shown
        self._so_far = so_far  # launches of the run, of the parts before
        self.say = shown.say
        self.close = shown.close

    def show(self, progress: Progress) -> None:
        self._shown.show(replace(progress, launch=max(progress.launch - self._so_far, 0)))


def request(part: Part, how: Mapping[str, str], times: int, completed: Sequence[str]) -> Request:
    """To measure this part. A variant on other ranks than two says so in its name, which tells its curves apart."""
    from netpipe.prediction.lacking import on_ranks
    from netpipe.session import Request

    return Request(
        [on_ranks(variant, part.ranks) for variant in part.variants],
        patterns=part.patterns,
        settings={"schedule": "list", "sizes": ",".join(map(str, part.sizes)), **how},
        launches=times,
        completes=completed,
    )


def _possible(every: Sequence[tuple[Part, Session]]) -> list[tuple[Part, Session]]:
    """Those of which a variant can measure something; of the others it is said why not. Raises Failure (3) if none
    can.
    """
    found = []
    for part, session in every:
        curves = session.answer.get("curves", [])
        reasons = dict.fromkeys(str(one["reason"]) for one in curves if one.get("reason"))
        if curves and all(one.get("reason") for one in curves):
            say(f"left out: {_part_text(part)}: {'; '.join(reasons)}")
        else:
            found.append((part, session))
    if not found:
        raise Failure(UNAVAILABLE, "nothing that the runs lack can be measured over these variants")
    return found


def _announce(todo: Sequence[tuple[Part, Session]], names: Sequence[str], times: int) -> None:
    from netpipe.units import counted, span_text

    curves = sum(len(one.variants) * len(one.patterns) for one, _ in todo)
    seconds = [session.longest_s for _, session in todo]
    longest = "" if None in seconds else f", about {span_text(sum(filter(None, seconds)))}"
    launched = f"in {counted(times, 'launch', 'launches')}"
    say(f"measuring {counted(curves, 'curve')} over {', '.join(names)} {launched}{longest}")


def _part_text(part: Part) -> str:
    from netpipe.units import counted

    sizes = counted(len(part.sizes), "size")
    return f"{', '.join(part.patterns)} at {sizes} on {part.ranks} ranks over {', '.join(part.variants)}"


def add_first(path: Path, contacts: Mapping[str, Sequence[int]]) -> None:
    """Adds to a run what the first message between two ranks took in each launch, in nanoseconds, by variant. Raises
    OSError.
    """
    from netpipe.prediction.costs import FIRST
    from netpipe.records import Point
    from netpipe.run_file import append

    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        for variant, times in contacts.items():
            if times:
                middle = median(times)
                point = Point(
                    variant=variant,
                    pattern=FIRST,
                    size_bytes=SMALLEST,
                    samples=len(times),
                    ops=1,
                    single=True,
                    median_ns=middle,
                    low_ns=min(times),
                    high_ns=max(times),
                    half_width=(max(times) - min(times)) / 2 / middle,
                )
                append(file, point)
    finally:
        os.close(file)
