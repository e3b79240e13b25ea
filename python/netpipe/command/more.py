# SPDX-License-Identifier: Apache-2.0
"""What it takes to tell a limit that runs cannot tell: how many launches more, and the commands that measure them; or
why no number of launches does.

The intervals are to be so narrow that equal runs pass. Their ratio is off by as much as their launches explain, which
is 1 / RUNS_APART of how far the interval reaches, and the interval reaches on from there. So it may reach 1 / ROOM as
far as the limit. Of 32 pairs of equal made-up runs 28 passed then; of pairs whose intervals reached the limit, 16 did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.findings.experiments import going_on
from netpipe.reading.across.between import RUNS_APART

if TYPE_CHECKING:
    from netpipe.reading.across.differences import Pace
    from netpipe.reading.across.gate import Tested, TestedMeasure
    from netpipe.reading.estimate import Estimate
    from netpipe.records import Run

ROOM = 1 + 1 / RUNS_APART  # a limit over how far an interval may reach that tells it
# An offer may take an hour, or ten times as long as the runs: nobody takes a longer one.
MOST_S, MOST_TIMES = 3600.0, 10.0
MOST_LAUNCHES = 10_000  # that `netpipe run --launches` takes


@dataclass(frozen=True, slots=True)
class More:
    limit: float  # of what could not be told the one that takes most launches; 0.03: 3 %
    commands: tuple[str, ...]  # that add launches; none: no number of launches tells it
    launches: int  # that they add
    seconds: float | None  # that they take; None: the runs do not say how long a launch takes
    sentence: str  # that, or why there is none


@dataclass(frozen=True, slots=True)
class Untold:
    """Something that could not be told."""

    limit: float
    narrower: (
        float  # how many times as narrow its interval has to be; infinite: it has none, or its limit is 0
    )


def of_times(times: Estimate, limit: float) -> Untold:
    """A ratio of times."""
    reach = math.log(times.high / times.value) if times.known else math.inf
    return Untold(limit, ROOM * reach / math.log1p(limit) if limit else math.inf)


def of_gate(results: Sequence[Tested], measures: Sequence[TestedMeasure]) -> list[Untold]:
    """What a gate could not tell."""
    from netpipe.reading.across.gate import Result

    found = [
        of_times(one.times, one.limit)
        for one in results
        if one.result is Result.UNDECIDED and one.limit is not None
    ]
    for one in measures:
        if one.result is Result.UNDECIDED and one.limit is not None:
            reach = one.worse.high - one.worse.value if one.worse.known else math.inf
            found.append(Untold(one.limit, ROOM * reach / one.limit if one.limit else math.inf))
    return found


def more(
    untold: Sequence[Untold], runs: Sequence[Run], paces: Sequence[Pace] = (), fixed: bool = False
) -> More | None:
    """None where nothing is untold. `runs`: the first run and the one that is held against it, or one run whose
    variants are compared; `fixed`: the first one cannot be continued.
    """
    if not untold:
        return None
    from netpipe.units import counted, percent_text, span_text

    widest = max(untold, key=lambda one: one.narrower)
    run, base = runs[-1], runs[0] if len(runs) > 1 else None
    needed = _needed(widest, run, base, paces, fixed)
    if isinstance(needed, str):
        sentence = f"no number of launches tells a limit of {percent_text(widest.limit)}: {needed}"
        return More(widest.limit, (), 0, None, sentence)
    commands, seconds = [], 0.0
    for of, launches in zip((run, base), needed, strict=True):
        if of is not None and launches:
            commands.append(going_on.command(of.path or "RUN", launches))
            whole = of.end.seconds if of.end else None
            seconds += launches * whole / _launches(of) if whole else math.nan
    time = None if math.isnan(seconds) else seconds
    about = f" (about {span_text(time)})" if time else ""
    spent = sum(of.end.seconds or 0.0 for of in (run, base) if of is not None and of.end)
    if time is not None and time > max(MOST_S, MOST_TIMES * spent):
        takes = f"{counted(sum(needed), 'launch', 'launches')} more{about}"
        sentence = f"a limit of {percent_text(widest.limit)} cannot be told here: it would take {takes}"
        return More(widest.limit, (), 0, None, sentence)
    sentence = (
        f"to tell a limit of {percent_text(widest.limit)} takes {counted(sum(needed), 'launch', 'launches')} more"
        f"{about}"
    )
    return More(widest.limit, tuple(commands), sum(needed), time, sentence)


def _needed(
    widest: Untold, run: Run, base: Run | None, paces: Sequence[Pace], fixed: bool
) -> tuple[int, int] | str:
    """How many launches more of the run and of the first one; or why no number of them suffices."""
    from netpipe.reading.blocks.more import more_launches, more_of_two
    from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
    from netpipe.units import counted, percent_text

    if run.path is None or (why := going_on.not_continued(run)):
        return (
            f"{run.path or 'this run'} cannot be continued, because {why if run.path else 'it is in no file'}"
        )
    fixed = fixed or (base is not None and (base.path is None or going_on.not_continued(base) is not None))
    had, base_had = _launches(run), _launches(base) if base else FEWEST_LAUNCHES
    for pace in paces:
        apart = abs(pace.after / pace.before - 1)
        if pace.differs and apart > widest.limit:
            return (
                f"the runs differ by more than launches do ({pace.name}, which measures the machine itself, by "
                f"{percent_text(apart)}); measure both anew, one right after the other"
            )
    if fixed and base_had < FEWEST_LAUNCHES:
        return (
            f"the first run has {counted(base_had, 'launch', 'launches')}, and fewer than three do not tell how far "
            "launches lie apart"
        )
    if min(had, base_had) < FEWEST_LAUNCHES:
        return max(0, FEWEST_LAUNCHES - had), max(0, FEWEST_LAUNCHES - base_had)
    if math.isinf(widest.narrower):
        return "there is no interval" if widest.limit else "equal runs differ by something"
    if widest.narrower <= 1:
        return "the intervals are narrow enough, and what cannot be told lies between no difference and the limit"
    if base is None:
        needed: tuple[int, int] | None = more_launches(had, widest.narrower), 0
    else:
        needed = more_of_two(had, base_had, widest.narrower, alone=fixed)
    if needed is None:
        return f"the {counted(base_had, 'launch', 'launches')} of the first run do not, whatever the other one has"
    if max(needed) > MOST_LAUNCHES:
        return f"it would take {max(needed)}, and netpipe run takes {MOST_LAUNCHES}"
    return needed


def _launches(run: Run) -> int:
    return len({point.launch for point in run.points})
