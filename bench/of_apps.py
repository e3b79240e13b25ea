# SPDX-License-Identifier: Apache-2.0
"""Applications: how near a prediction comes to what they then take. of_profiler.py has what the profiler costs them.

The peer of a prediction is the kernel over the library that it was made for; the profiles are from another one, and
none of the launches that it is held against. Launches of both kinds take turns. Each rank has a processor of its own,
as those that measure the curves have: ranks that the system moves about share one for some of the time, and then the
time in MPI differs by several times from launch to launch.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from measured import MissingError, Result, shown

from netpipe.applications.contact import first_contacts
from netpipe.applications.plan import Request, Task, plan
from netpipe.applications.running import Runner
from netpipe.cli.predict.measured import add_first
from netpipe.kernels import Result as Ran
from netpipe.libraries import MPI
from netpipe.libraries.adding import added, programs
from netpipe.prediction import predict, processors
from netpipe.prediction.predict import Predicted, wanted
from netpipe.prediction.ranking import Pair
from netpipe.profiles import Profile, merge
from netpipe.profiles.lines import SCHEMA, End, Header
from netpipe.profiles.trace.calls import calls
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.session import Request as Measuring
from netpipe.session import Session


def asked_ranks(default: str) -> tuple[int, ...]:
    return tuple(map(int, os.environ.get("NETPIPE_BENCH_RANKS", default).split(",")))


RANKS = asked_ranks("2,4")
CLASS = os.environ.get("NETPIPE_BENCH_CLASS", "W")  # A where there is time: it takes ten times as long
SWEEP = "sweep3d"
EP = "ep"  # has next to no messages: it has to cost nothing to profile, and there is nothing to predict
EVERY = ("is", "cg", "mg", "ft", "lu", "sp", "bt", SWEEP)
SWEEP_CLASS = "50"
EVENTS = 1_000_000
TIMEOUT_S = 300.0
BUDGET_S = "1"
LEAST = 5  # rounds, each with a launch whose profile is of the source, and one of every variant
DIFFER = 1.1  # pairs of variants that differ by more are to be ranked
MOST_ERROR = 0.25  # of a prediction


def libraries() -> list[str]:
    """One Open MPI and one MPICH, the newest that were added."""
    found: dict[str, str] = {}
    for one in added.all_(layer=MPI):
        family = one.facts.get("family", "")
        if family in ("openmpi", "mpich") and (
            family not in found or one.version > added.one(found[family]).version
        ):
            found[family] = one.name
    if len(found) < 2:
        raise MissingError("one Open MPI and one MPICH have to be added: netpipe modules add mpi")
    return [found["openmpi"], found["mpich"]]


def chosen(kernels: Sequence[str]) -> tuple[str, ...]:
    """Those of NETPIPE_BENCH_KERNELS, where there is no time for all: LU takes longer than all others together. Raises
    MissingError if it names none of them; a kernel that there is not is refused by the plan.
    """
    asked = os.environ.get("NETPIPE_BENCH_KERNELS", ",".join(kernels)).split(",")
    found = tuple(name for name in asked if name in kernels or name not in (*EVERY, EP))
    if not found:
        raise MissingError(f"NETPIPE_BENCH_KERNELS names none of {', '.join(kernels)}")
    return found


def problem_of(kernel: str) -> str:
    return SWEEP_CLASS if kernel == SWEEP else CLASS


def planned(
    variants: list[str],
    kernels: Sequence[str] = EVERY,
    ranks: Sequence[int] = RANKS,
    of: Callable[[str], str] = problem_of,
) -> tuple[list[Task], list[str]]:
    """Every kernel, in its class `of`, over each variant with each number of ranks, and sentences about what is left
    out. Ranks that share processors are: the system's scheduler rules there, and no curve knows of it.
    """
    tasks: list[Task] = []
    reasons: list[str] = []
    by_class: dict[str, list[str]] = {}
    for name in chosen(kernels):
        by_class.setdefault(of(name), []).append(name)
    for problem, names in by_class.items():
        made = plan(Request(names, variants, (problem,), ranks))
        tasks += [task for task in made.tasks if not task.oversubscribed]
        reasons += made.notes
        reasons += dict.fromkeys(
            f"{task.cell.kernel} class {problem} is left out on {task.cell.ranks} ranks: this machine has "
            f"{len(os.sched_getaffinity(0))} processors for them"
            for task in made.tasks
            if task.oversubscribed
        )
    return tasks, reasons


def left_out(name: str, reasons: list[str]) -> list[Result]:
    """A row for each, which is only said."""
    return [Result(name, reason, "", "", "left out", "none", True) for reason in reasons]


@contextmanager
def under(task: Task) -> Iterator[tuple[dict[str, str], Path]]:
    """The environment in which a run leaves its profile in a folder."""
    library = programs.profiler(programs.builder(added.one(task.description.name)))
    with tempfile.TemporaryDirectory() as folder:
        yield (
            {
                "NETPIPE_PROFILE": folder,
                "NETPIPE_PROFILE_EVENTS": str(EVENTS),
                "LD_PRELOAD": str(library),
            },
            Path(folder),
        )


def ran(runner: Runner, task: Task, more: dict[str, str] | None = None) -> Ran:
    result = runner.run(replace(task, environment={**task.environment, **(more or {})}), 1)
    if result.seconds is None or not result.verified:
        raise RuntimeError(f"{task.cell}: {result}")
    return result


def profiled(runner: Runner, task: Task) -> tuple[Profile, float]:
    """A profile, and the seconds that the kernel says it took."""
    with under(task) as (more, folder):
        result = ran(runner, task, more)
        whole = merge.merge(
            merge.find(folder),
            Header(schema=SCHEMA, profile="", module=task.description.name),
            End(),
        )
    assert result.seconds is not None
    return whole, result.seconds


def seconds(runner: Runner, task: Task) -> float:
    value = ran(runner, task).seconds
    assert value is not None
    return value


@dataclass(frozen=True)
class Compared:
    """One kernel over one variant."""

    kernel: str  # and its ranks
    variant: str
    measured: float  # seconds in MPI, mean over ranks, median over rounds
    predicted: float
    low: float
    high: float
    itself: float  # how far a launch is from the median of the others, in the middle

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Judged:
    """What was said of two variants, and what was measured then."""

    pair: Pair
    measured: float  # times as long as the one that is called the faster takes the other

    @property
    def differ(self) -> bool:
        return not 1 / DIFFER < self.measured < DIFFER

    @property
    def verdict(self) -> str:
        if not self.pair.decided:
            return "undecided"
        return "right" if self.measured > 1 else "wrong"


def judged(said: Predicted, measured: Mapping[str, float]) -> list[Judged]:
    """All pairs of a prediction; `measured`: seconds in MPI, by variant."""
    return [Judged(pair, measured[pair.slower] / measured[pair.faster]) for pair in said.pairs]


def in_mpi(whole: Profile) -> float:
    return sum(rank.mpi_s for rank in whole.ranks) / len(whole.ranks)


def curves(profile: Profile, variants: list[str], ranks: int, folder: Path) -> Reading:
    """What this kernel's prediction needs, over all variants at once."""
    need = wanted(calls(profile))
    sizes = sorted({size for some in need.values() for size in some if size > 0})
    session = Session(
        Measuring(
            variants,
            patterns=list(need),
            settings={
                "schedule": "list",
                "sizes": ",".join(map(str, sizes)),
                "budget": BUDGET_S,
                "ranks": str(ranks),
            },
        )
    )
    path = folder / "run.jsonl"
    session.measure(path)
    add_first(path, first_contacts(variants))
    return Reading(Run.read(path, samples=False))


def in_turn(variants: Sequence[str], turn: int) -> list[str | None]:
    """A launch of each, and None for the one whose profile is the source, in an order by lot: a machine differs from
    minute to minute, and a launch after one of the same program from a launch after another one.
    """
    order: list[str | None] = [None, *variants]
    random.Random(turn).shuffle(order)
    return order


def itself(times: list[float]) -> float:
    """How well a launch predicts the others: its distance from their median, in the middle."""
    return median(abs(one / median(times[:at] + times[at + 1 :]) - 1) for at, one in enumerate(times))


def predicted(rounds: int) -> list[Result]:
    """The profile of each kernel is taken over Open MPI in shared memory, and says what it takes over the others."""
    variants = [f"{name}:transport={how}" for name in libraries() for how in ("shm", "tcp")]
    tasks, reasons = planned(variants)
    rows: list[Compared] = []
    verdicts: list[Judged] = []
    results = []
    with Runner(TIMEOUT_S) as runner, tempfile.TemporaryDirectory() as folder:
        for kernel, ranks in dict.fromkeys((task.cell.kernel, task.cell.ranks) for task in tasks):
            some = {
                task.cell.variant: task
                for task in tasks
                if (task.cell.kernel, task.cell.ranks) == (kernel, ranks)
            }
            first = profiled(runner, some[variants[0]])[0]  # what is to be measured; no part of the source
            reading = curves(first, variants, ranks, Path(folder))
            source: list[Profile] = []
            taken: dict[str, list[float]] = {variant: [] for variant in variants}
            for turn in range(max(LEAST, rounds)):
                for variant in in_turn(variants, turn):
                    whole = profiled(runner, some[variant or variants[0]])[0]
                    if variant is None:
                        source.append(whole)
                    else:
                        taken[variant].append(in_mpi(whole))
            said: Predicted = predict(source, reading, variants[0], most_events=sys.maxsize)
            by_variant = {one.variant: one for one in said.variants}
            verdicts += judged(said, {variant: median(times) for variant, times in taken.items()})
            for variant in variants:
                one = by_variant[variant]
                rows.append(
                    Compared(
                        f"{kernel}, {ranks} ranks",
                        variant,
                        median(taken[variant]),
                        one.seconds,
                        one.low,
                        one.high,
                        itself(taken[variant]),
                    )
                )
                row = rows[-1]
                results.append(
                    Result(
                        "predict",
                        f"{row.kernel} over {variant}: seconds in MPI, predicted and measured",
                        f"{row.predicted:.4f} s [{row.low:.4f} {row.high:.4f}]",
                        shown(taken[variant], 4, " s"),
                        f"{row.error:+.0%}",
                        f"within {100 * MOST_ERROR:g} %",
                        abs(row.error) <= MOST_ERROR,
                    )
                )
    return [
        *results,
        *(summary(rows) + ranked(verdicts) if rows else []),
        oversubscribed(variants),
        *left_out("predict", reasons),
    ]


def oversubscribed(variants: list[str]) -> Result:
    """More ranks than processors, each of which waits by polling: what a call takes is the scheduler's choice."""
    there = len(os.sched_getaffinity(0))
    ranks = 1 << there.bit_length()  # CG takes powers of two
    made = plan(Request(("cg",), variants[:1], ("S",), (ranks,)))
    with Runner(TIMEOUT_S) as runner, tempfile.TemporaryDirectory() as folder:
        whole = profiled(runner, made.tasks[0])[0]
        reading = curves(whole, variants[:1], ranks, Path(folder))
        said = predict(
            [whole], reading, variants[0], processors=processors(reading.run), most_events=sys.maxsize
        )
    return Result(
        "predict",
        f"cg on {ranks} ranks of {there} processors: what is said",
        said.unknown or "a prediction",
        "",
        "it cannot know" if said.unknown else "it predicts",
        "it cannot know",
        f"{ranks} ranks shared {there} processor" in said.unknown and not said.pairs,
    )


def ranked(verdicts: list[Judged]) -> list[Result]:
    """The verdicts as they are printed, not the order of the values: undecided is neither right nor wrong."""
    count = Counter(one.verdict for one in verdicts if one.differ)
    decided = count["right"] + count["wrong"]
    said = ", ".join(f"{count[verdict]} {verdict}" for verdict in ("right", "wrong", "undecided"))
    inside = sum(one.pair.times.covers(one.measured) for one in verdicts)
    return [
        Result(
            "predict",
            f"which of two is faster, as printed, where they differ by {DIFFER - 1:.0%} or more",
            f"{said} of {count.total()}",
            "",
            f"{count['right'] / decided:.0%} of those decided" if decided else "none decided",
            ">= 95 % of those decided",
            decided > 0 and count["right"] >= 0.95 * decided,
        ),
        Result(
            "predict",
            "intervals of ratios that hold the ratio that was measured",
            f"{inside} of {len(verdicts)}",
            "",
            f"{inside / len(verdicts):.0%}" if verdicts else "none",
            ">= 85 %",
            bool(verdicts) and inside >= 0.85 * len(verdicts),
        ),
    ]


def summary(rows: list[Compared]) -> list[Result]:
    errors = [abs(row.error) for row in rows]
    inside = [row.low <= row.measured <= row.high for row in rows]
    others = [row.itself for row in rows]
    return [
        Result(
            "predict",
            "the machine itself: how far a launch is from the median of the others",
            f"median {median(others):.0%}, most {max(others):.0%} (medians of each cell)",
            "",
            f"{median(others):.0%}",
            "none",
            True,
        ),
        Result(
            "predict",
            f"error of {len(rows)} predictions",
            f"median {median(errors):.0%}, most {max(errors):.0%}",
            "",
            f"{median(errors):.0%}",
            "median <= 10 %",
            median(errors) <= 0.1,
        ),
        Result(
            "predict",
            f"predictions that are off by more than {100 * MOST_ERROR:g} %",
            f"{sum(error > MOST_ERROR for error in errors)} of {len(rows)}",
            "",
            f"most {max(errors):.0%}",
            f"each <= {100 * MOST_ERROR:g} %",
            max(errors) <= MOST_ERROR,
        ),
        Result(
            "predict",
            "intervals that hold the measured value",
            f"{sum(inside)} of {len(inside)}",
            "",
            f"{sum(inside) / len(inside):.0%}",
            ">= 85 %",
            sum(inside) >= 0.85 * len(inside),
        ),
    ]


COMPARISONS = {"predict": predicted}
