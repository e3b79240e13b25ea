# SPDX-License-Identifier: Apache-2.0
"""Does `netpipe tune` find what an exhaustive search finds, with how few of its measurements, and does it
report no gain where there is none? Its peer is the exhaustive search over the same settings.

A measurement is one variant at one size in one launch. An exhaustive search that proves as much measures every
combination of the values that the tuner may try, over the whole curve, with as many launches; that number is counted
and not measured. What it would find is measured here at the sizes of the goal: every combination where there is time
for all, else those that differ from the answer in one setting, and then others drawn by lot, and the row says so.

Each provoked case is a comparison of its own, of at most two minutes with `--rounds 1`; more rounds give the
exhaustive search more time.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from measured import MissingError, Result

from netpipe import native
from netpipe.failure import FAILED
from netpipe.libraries.adding import added
from netpipe.reading.blocks.visits import FEWEST_LAUNCHES
from netpipe.reading.estimate import Estimate
from netpipe.session import Request
from netpipe.tuning import placement
from netpipe.tuning.library import library
from netpipe.tuning.library.parameters import parameters, texts_here
from netpipe.tuning.measuring.bench import Bench
from netpipe.tuning.search.goals import OCTAVES, goal
from netpipe.tuning.search.space import Knob, Space, space
from netpipe.tuning.search.variants import START, Changes, Start

TUNE_S = 60.0
FALSE_S = 10.0  # of a search that has nothing to find
# so many searches with so many rounds, which is what compare.py gives by itself
FALSE_RUNS, PLAIN_ROUNDS = (20, 15)
LOOK_S = 35.0  # of the exhaustive search, for each round,
MOST_LOOK_S = 600.0
EACH_S = 0.3  # and of a curve of it
# Its best are measured again, in so many fresh launches as the tuner has to prove its answer in, and so long each.
AGAIN, AGAIN_LAUNCHES, AGAIN_S = 5, 5, 5.0
MORE_S = 60.0  # for what a command needs besides
RATE = "1g"  # of the link in the lab
LAB = "tuning"
COLLECTIVES = tuple(f"collective={name}" for name in ("allreduce", "alltoall", "bcast", "reduce"))
FACTOR = 5.0  # that the paper of 2002 gained over a slow card with small buffers


@dataclass(frozen=True)
class Case:
    name: str
    variant: str
    goal: str
    only: str  # settings of both searches
    more: tuple[str, ...] = ()  # options of the command
    settings: dict[str, str] = field(default_factory=dict)  # the same, as a request has them
    hosts: tuple[str, ...] = ()


def netpipe(*words: str) -> list[str]:
    return [sys.executable, "-m", "netpipe", *words]


def answer(words: Sequence[str], limit_s: float, ends: Sequence[int] = (0,)) -> Any:
    """The JSON that a command prints, which ends with one of these exit codes. Raises RuntimeError."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(words)} did not end within {limit_s:g} s") from None
    if done.returncode not in ends:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def tuned(case: Case, folder: str, where: Sequence[str] = (), seconds: float = TUNE_S) -> dict[str, Any]:
    """The outcome of the command. `where`: words before it."""
    words = ["tune", case.variant, "--goal", case.goal, "--time", f"{seconds:g}", *case.more]
    words += ["--only", case.only] if case.only else []
    words += ["--hosts", ",".join(case.hosts)] if case.hosts else []
    words += ["-o", f"{folder}/tune", "--json"]
    told = answer([*where, *netpipe(*words)], seconds + MORE_S, ends=(0, FAILED))  # or it found nothing
    (outcome,) = told["outcomes"]
    found: dict[str, Any] = outcome
    return found


# --------------------------------------------------------------------------------------------------------- exhaustive


def values(knob: Knob) -> tuple[str, ...]:
    """All that the tuner may try: the coarse values, and what it refines them to."""
    return tuple(dict.fromkeys([*knob.values, *(near for one in knob.values for near in knob.around(one))]))


def combinations(of: Space) -> list[Changes]:
    """Every one of them that its transport obeys, the start among them."""
    each = [[None, *values(knob)] for knob in of.knobs]
    made = (
        Changes.of(
            {knob.name: value for knob, value in zip(of.knobs, chosen, strict=True) if value is not None}
        )
        for chosen in product(*each)
    )
    return [one for one in made if of.applies(one)]


def space_of(case: Case) -> Space:
    start = Start.of(case.variant)
    listed = {one["name"]: one for one in native.list_()["modules"]}
    module = listed[start.module]
    only = [name for name in case.only.split(",") if name not in ("", placement.NAME)]
    return space(module["options"], start, texts_here(start), parameters(library(module)), only)


def in_order(every: Sequence[Changes], chosen: Changes) -> list[Changes]:
    """Those that differ from `chosen` in one setting, and then the others by lot."""
    there = dict(chosen.items)

    def differences(one: Changes) -> int:
        other = dict(one.items)
        return sum(there.get(name) != other.get(name) for name in {**there, **other})

    others = [one for one in every if one != chosen]
    random.Random(1).shuffle(others)
    return sorted(others, key=lambda one: min(differences(one), 2))


@dataclass(frozen=True)
class Looked:
    """What an exhaustive search found."""

    best: float  # the time of its best over that of the answer, at most 1
    best_is: str
    measured: int  # combinations, with the answer
    whole: int  # all that there are


def exhaustive(case: Case, winner: dict[str, str], pin: str, rounds: int) -> Looked:
    """Every combination against the answer, and not against the start, which may be a thousand times as slow. Those
    that were fastest are measured again in launches of their own: the least of many numbers is low by chance, and what
    a setting does may differ from launch to launch.
    """
    every = combinations(space_of(case))
    chosen = Changes.of(winner)
    settings = {"timeout": "5", **case.settings, **({"pin": pin} if pin else {})}
    start = Start.of(case.variant)
    hosts = ",".join(case.hosts) or None
    bench = Bench(
        start, goal(case.goal), Request([case.variant], settings=settings, hosts=hosts), "@" in start.module
    )
    with bench.guard:
        until_s = bench.clock() + min(LOOK_S * rounds, MOST_LOOK_S)
        told, _ = bench.round(chosen, in_order(every, chosen), EACH_S, until_s)
        times = {one: told_of.value for one, told_of in told.items() if isinstance(told_of, Estimate)}
        best = sorted(times, key=lambda one: times[one])[:AGAIN]
        again: dict[Changes, list[float]] = {one: [] for one in best}
        for _ in range(AGAIN_LAUNCHES):
            told, _ = bench.round(chosen, best, EACH_S, bench.clock() + AGAIN_S)
            for one, at in told.items():
                if isinstance(at, Estimate):
                    again[one].append(at.value)
    faster = {one: median(seen) for one, seen in again.items() if len(seen) == AGAIN_LAUNCHES}
    faster = {one: at for one, at in faster.items() if at < 1}
    least = min(faster, key=lambda one: faster[one], default=None)
    words = str(chosen) if least is None else str(least)
    return Looked(1.0 if least is None else faster[least], words, len(times) + 1, len(every))


# --------------------------------------------------------------------------------------------------------------- rows


def row(case: Case, rounds: int, where: Sequence[str] = (), least: float = 0.0) -> list[Result]:
    """One provoked case. `where`: words before the commands. `least`: times as fast that it is to become; 0: any."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = tuned(case, folder, where)
    placed = next((word for word, one in outcome["placements"].items() if one["gains"]), "")
    asked = json.dumps({"case": asdict(case), "winner": outcome["settings"], "pin": placed, "rounds": rounds})
    limit_s = min(LOOK_S * rounds, MOST_LOOK_S) + AGAIN_LAUNCHES * AGAIN_S + MORE_S
    looked = Looked(**answer([*where, sys.executable, __file__, asked], limit_s))
    whole = looked.whole * len(OCTAVES) * FEWEST_LAUNCHES * (1 + len(outcome["placements"]))
    share = outcome["measurements"] / whole
    gained = [outcome["times_as_fast"]] if outcome["gains"] else []
    gained += [
        {"value": one["times_as_fast"], "low": None}  # the answer has no more of a placement
        for word, one in outcome["placements"].items()
        if word == placed
    ]
    times = math.prod(one["value"] for one in gained)
    lows = [one["low"] for one in gained]
    gain = f"{times:.3g} times as fast" + (f" (at least {math.prod(lows):.3g})" if all(lows) else "")
    everything = looked.measured >= looked.whole
    of = (
        f"all {looked.whole} combinations"
        if everything
        else f"{looked.measured} of {looked.whole} combinations"
    )
    settings = [f"{name}={value}" for name, value in outcome["settings"].items()]
    settings += [f"--pin {placed}"] if placed else []
    # Of a gain from 1 to times / best, so much was reached: 100 % where nothing is faster than the answer.
    reached = math.log(times) / math.log(times / looked.best) if times > 1 else 0.0
    factor = Result(
        "tuning", f"{case.name}: the paper's factor", f"{times:.3g}", "", "", f">= {least:g}", times >= least
    )
    return [
        Result(
            "tuning",
            f"{case.name} ({case.variant}, {case.goal}): {' '.join(settings) or 'nothing to gain'}",
            gain,
            f"best of {of}: {looked.best_is}",
            f"{looked.best:.1%} of its speed, {reached:.1%} of its gain",
            ">= 95 %",
            bool(gained) and looked.best >= 0.95,
        ),
        Result(
            "tuning",
            f"{case.name}: measurements of a size",
            str(outcome["measurements"]),
            f"{whole} (every combination and octave, {FEWEST_LAUNCHES} launches)",
            f"{share:.1%}",
            "<= 5 %",
            share <= 0.05,
        ),
        *([factor] if least else []),
    ]


def module_of(title: str) -> str:
    """The module of the newest version of a library that was added, such as mpi@openmpi."""
    found = [one for one in added.all_() if one.version.startswith(title) and one.name.startswith("mpi@")]
    if not found:
        raise MissingError(f"no {title} was added: netpipe modules add mpi")
    return max(
        found,
        key=lambda one: [int(part) if part.isdigit() else 0 for part in one.version.split()[-1].split(".")],
    ).name


def need(module: str) -> str:
    listed = {one["name"]: one for one in native.list_()["modules"]}
    if module not in listed or not listed[module]["available"]:
        raise MissingError(f"the layer {module} is not available here: netpipe list")
    return module


def buffers(rounds: int) -> list[Result]:
    """Socket buffers of 8 KiB."""
    only = "sndbuf,rcvbuf,nodelay,quickack,congestion"
    return row(Case("8 KiB socket buffers", "tcp:sndbuf=8k,rcvbuf=8k", "throughput", only), rounds)


def eager(rounds: int) -> list[Result]:
    """An eager limit of 1 KiB."""
    start = f"{module_of('Open MPI')}:transport=tcp,eager=1k"
    return row(Case("1 KiB eager limit", start, "curve", "eager,rndv,sndbuf,rcvbuf"), rounds)


def daemon_route(rounds: int) -> list[Result]:
    """PVM's way through its daemons, which is its default."""
    return row(Case("PVM's daemon route", need("pvm"), "latency", "route,encoding,fragment"), rounds)


def lamd(rounds: int) -> list[Result]:
    """LAM's way through its daemons."""
    start = f"{module_of('LAM/MPI')}:rpi=lamd"
    return row(Case("LAM's lamd", start, "latency", ""), rounds)


def transport(rounds: int) -> list[Result]:
    """TCP between two ranks of one host."""
    start = f"{module_of('Open MPI')}:transport=tcp"
    return row(Case("wrong transport", start, "latency", "transport,eager,rndv,single_copy"), rounds)


def one_core(rounds: int) -> list[Result]:
    """Both ranks on one processor."""
    only = "placement,eager,chunk,ring,slots,handover"
    case = Case("one core for both ranks", "shm", "latency", only, ("--pin", "0,0"), {"pin": "0,0"})
    return row(case, rounds)


@contextlib.contextmanager
def lab(delay: str) -> Iterator[tuple[str, ...]]:
    """Two hosts with a slow link between them that delays packets so long each way, such as 50us. Raises MissingError
    where none can be made.
    """
    if shutil.which("ip") is None:
        raise MissingError("a lab needs ip: apt install iproute2")
    done = subprocess.run(
        netpipe("lab", "up", "--hosts", "2", "--name", LAB, "--rate", RATE, "--delay", delay, "-q"),
        capture_output=True,
        text=True,
        timeout=MORE_S,
        check=False,
    )
    if done.returncode != 0:
        raise MissingError(done.stderr.strip().removeprefix("netpipe: "))
    try:
        yield (f"{LAB}1", f"{LAB}2")
    finally:
        subprocess.run(netpipe("lab", "down", LAB, "-q"), timeout=MORE_S, check=False)


def link(delay: str, size: str, least: float = 0.0) -> Callable[[int], list[Result]]:
    """Buffers of this size over a link with this delay."""

    def compare(rounds: int) -> list[Result]:
        """A slow card with small buffers, as in the paper of 2002: a link of 1 Gb/s with a delay."""
        with lab(delay) as hosts:
            only = "sndbuf,rcvbuf,nodelay,quickack,congestion"
            start = f"tcp:sndbuf={size},rcvbuf={size}"
            case = Case(f"1 Gb/s, {delay} away", start, "throughput", only, (), {}, hosts)
            return row(case, rounds, netpipe("lab", "exec", hosts[0], "--"), least)

    return compare


# --------------------------------------------------------------------------------------------------- nothing to gain


def no_false_gain(variant: Callable[[], str], goal_name: str, only: str) -> Callable[[int], list[Result]]:
    """A start that is the best of its own settings: those that are searched do nothing to it."""

    def compare(rounds: int) -> list[Result]:
        """Is nothing called a gain where the start is the best of the settings that are searched?"""
        case = Case("nothing to gain", variant(), goal_name, only)
        gains, seen = [], []
        for _ in range(max(2, math.ceil(rounds * FALSE_RUNS / PLAIN_ROUNDS))):
            with tempfile.TemporaryDirectory() as folder:
                outcome = tuned(case, folder, seconds=FALSE_S)
            gains.append(outcome["gains"])
            seen.append(outcome["least_gain_seen"] or math.inf)
        return [
            Result(
                "no_false_gain",
                f"{case.variant}, {case.goal}, {only}, {len(gains)} times: called a gain",
                f"{sum(gains)} of {len(gains)}",
                "",
                f"would have seen {median(seen) - 1:.1%}",
                "0",
                not any(gains),
            )
        ]

    return compare


def defaults(goals: Sequence[str], ranks: int = 2) -> Callable[[int], list[Result]]:
    """For these goals, with so many ranks."""

    def compare(_rounds: int) -> list[Result]:
        """What could be gained over the defaults of the libraries that were added?"""
        return [gained_over(name, what, ranks) for name in tunable_libraries() for what in goals]

    return compare


def tunable_libraries() -> Sequence[str]:
    """The modules of the Open MPIs and MPICHs that were added."""
    names = [one.name for one in added.all_() if one.name.startswith("mpi@")]
    listed = {one["name"]: one for one in native.list_()["modules"]}
    known: Sequence[str] = [name for name in names if name in listed and library(listed[name]).tunables.known]
    if not known:
        raise MissingError("no Open MPI or MPICH was added: netpipe modules add")
    return known


def of_a_file(value: str) -> str:
    """A setting that is the path of a file of the tuner's, without its temporary folder."""
    return Path(value).name if Path(value).is_absolute() else value


def gained_over(name: str, what: str, ranks: int) -> Result:
    """What the tuner gains over the defaults of a module, for a goal."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = tuned(Case("defaults", name, what, "", ("--ranks", str(ranks))), folder)
    times = outcome["times_as_fast"]
    settings = ",".join(f"{key}={of_a_file(value)}" for key, value in outcome["settings"].items())
    shown = "nothing to gain"
    if outcome["gains"] and times:
        shown = f"{times['value']:.3g} [{times['low']:.3g} {times['high']:.3g}] times as fast"
    seen = outcome["least_gain_seen"]
    return Result(
        "defaults",
        f"{name}, {what}, {ranks} ranks: {settings or START}",
        shown,
        "",
        f"would have seen {seen - 1:.1%}" if seen else "",
        "none",
        True,
    )


COMPARISONS: dict[str, Callable[[int], list[Result]]] = {
    "tuning_buffers": buffers,
    "tuning_eager": eager,
    "tuning_pvm": daemon_route,
    "tuning_lamd": lamd,
    "tuning_transport": transport,
    "tuning_one_core": one_core,
    "tuning_link": link("50us", "16k"),
    "tuning_far_link": link("500us", "8k", FACTOR),
    # `busy_poll` asks a device, and the loopback has none; messages in shared memory use no TCP of Open MPI.
    "no_false_gain_latency": no_false_gain(lambda: "tcp", "latency", "busy_poll"),
    "no_false_gain_throughput": no_false_gain(lambda: "tcp", "throughput", "busy_poll"),
    "no_false_gain_mpi": no_false_gain(
        lambda: module_of("Open MPI"), "latency", "OMPI_MCA_btl_tcp_links,OMPI_MCA_btl_tcp_endpoint_cache"
    ),
    "tunable_defaults": defaults(("latency", "throughput")),
    "tunable_collectives": defaults(COLLECTIVES),
    "tunable_collectives_of_4": defaults(COLLECTIVES, 4),
}


def main() -> None:
    """The exhaustive search alone, told by JSON, in a process that may run on a host of a lab."""
    told = json.loads(sys.argv[1])
    case = told["case"]
    asked = Case(**{**case, "more": tuple(case["more"]), "hosts": tuple(case["hosts"])})
    sys.stdout.write(
        json.dumps(asdict(exhaustive(asked, told["winner"], told["pin"], told["rounds"]))) + "\n"
    )


if __name__ == "__main__":
    main()
