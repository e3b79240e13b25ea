# SPDX-License-Identifier: Apache-2.0
"""Runs of a suite that measure a fleet: each host alone (`kind = "nodes"`), and each two of them (`kind = "pairs"`).

Pairs are measured in rounds in which nobody is twice (rounds.py), each pair as a run of its own: a host that dies in
the middle costs its own pairs, of which two are tried (given_up.py), and the others go on. `rounds` of the run bounds
how many others each host meets: all of N hosts take time that grows with N^2 where N / 2 pairs are more than this host
starts at once. Without `--hosts` the members are ranks of this host, whose pairs one run measures one after another.
The fleet itself says who is slow (netpipe.reading.across.outliers).
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from netpipe.cli.suite.parts import NODES
from netpipe.cli.suite.runs.base import Done, Planned, fault
from netpipe.cli.suite.runs.given_up import GivenUp
from netpipe.cli.suite.runs.judged import NOT_TRIED, Fleet, Who
from netpipe.cli.suite.runs.kernels import end
from netpipe.cli.suite.runs.rounds import rounds
from netpipe.failure import DONE, FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Site
    from netpipe.cli.suite.runs.measured import Measured

RANKS = 4  # members of one host, where there are no other hosts
ALL_PAIRS = "pairs:pairing=all,together=no"
MOST_AT_ONCE = 32  # runs that this host starts at the same time
STARTING_S = 120.0  # that a run may take besides measuring
LOOK_S = 0.1
WORDS = 400  # characters kept of what a failed run said

# ------------------------------------------------------------------------------------------------------------- a plan


class OfHosts(Planned):
    """A run of the suite on each host, or between each two."""

    def __init__(self, run: Part, site: Site, hosts: Sequence[str], checked: Measured) -> None:
        super().__init__(run)
        self.site = site
        self.hosts = tuple(hosts)
        self.checked = checked  # the same run of one pair, or on this host: its plan
        self.left_out = checked.left_out

    @property
    def available(self) -> bool:
        return self.checked.available

    @functools.cached_property
    def turns(self) -> list[list[Who]]:
        """What is measured at the same time."""
        if self.run.does == NODES:
            whole: list[list[Who]] = [[(host,) for host in self.hosts]]
        else:
            whole = [[tuple(pair) for pair in some] for some in rounds(self.hosts, self.run.rounds)]
        return [some[at : at + MOST_AT_ONCE] for some in whole for at in range(0, len(some), MOST_AT_ONCE)]

    @property
    def longest_s(self) -> float | None:
        one = self.checked.longest_s
        return None if one is None else one * len(self.turns)

    @property
    def bounded(self) -> bool:
        return True

    @property
    def others(self) -> int | None:
        """How many others each host meets at most; None: all of them."""
        most, whole = self.run.rounds, len(self.hosts) - 1 + len(self.hosts) % 2
        return most if self.run.does != NODES and most and most < whole else None

    @property
    def notes(self) -> tuple[str, ...]:
        if self.others is None:
            return ()
        some, whole = sum(map(len, self.turns)), math.comb(len(self.hosts), 2)
        said = f"{some} of {whole} pairs are measured, each host with at most {self.others} others"
        return (f"{said} (rounds = {self.others})",)

    def possible(self) -> Planned:
        one = self.checked.possible()
        return self if one is self.checked else one

    def print_plan(self, out: Console) -> None:
        from netpipe.units import counted

        self.checked.print_plan(out)
        what = "hosts" if self.run.does == NODES else "pairs"
        number = sum(map(len, self.turns))
        out.print(f"{what}     {number}, in {counted(len(self.turns), 'round')}")
        for note in self.notes:
            out.print(f"          {note}", soft_wrap=True)

    def file(self, folder: Path, who: Who) -> Path:
        return folder / self.run.name / f"{'--'.join(who)}.jsonl"

    def measure(self, folder: Path, quiet: bool) -> Done:
        from netpipe.launch.interrupt import Interrupt
        from netpipe.units import counted, listed

        (folder / self.run.name).mkdir(exist_ok=True)
        failed: dict[Who, str] = {}
        given_up = GivenUp()
        gone: set[str] = set()
        with Interrupt() as interrupt:
            for number, some in enumerate(self.turns, start=1):
                there = {who for who in some if self.goes_on and _whole(self.file(folder, who))}
                left = [who for who in some if who not in there and not gone & {*who}]
                failed |= {who: NOT_TRIED for who in some if who not in there and gone & {*who}}
                if not quiet and left:
                    names = counted(len(left), "host" if self.run.does == NODES else "pair")
                    say(f"run {self.run.name}: round {number} of {len(self.turns)}, {names}")
                failed |= self._round(folder, left, interrupt)
                if interrupt.count:
                    return Done(INTERRUPTED, "interrupted")
                if self.run.does == NODES:
                    continue
                for who in (*there, *left):
                    given_up.tell(number, who, who not in failed or _measured(self.file(folder, who)))
                if not quiet and (new := given_up.members - gone):
                    say(f"run {self.run.name}: {listed(sorted(new))} failed with two others: not tried again")
                gone |= given_up.members
        return self._done(folder, failed, gone)

    def _round(self, folder: Path, some: Sequence[Who], interrupt: Any) -> dict[Who, str]:
        """Why some of them could not be measured."""
        deadline = time.monotonic() + STARTING_S + 3 * (self.checked.longest_s or 0.0)
        going = [(who, *self._start(folder, who)) for who in some]
        failed: dict[Who, str] = {}
        try:
            while any(process.poll() is None for _, process, _ in going):
                if interrupt.count or time.monotonic() > deadline:
                    break
                time.sleep(LOOK_S)
        finally:
            for _, process, _ in going:  # all at once: each may take its time to end
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGINT)
            for who, process, said in going:
                late = process.poll() is None
                end(process)
                if late:
                    failed[who] = f"it did not end within {deadline_text(self.checked.longest_s)}"
                elif process.returncode != DONE:
                    failed[who] = _last(said, process.returncode)
                said.close()
        return failed

    def _start(self, folder: Path, who: Who) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        said = tempfile.TemporaryFile()  # noqa: SIM115  (the round closes it)
        target = self.file(folder, who)
        words = words_of(self.run.given)
        command = [sys.executable, "-m", "netpipe", "run", *words, "--quiet"]
        if self.run.does != NODES:
            command += ["--hosts", ",".join(who), "--output", str(target), *self.site.words()]
            output: Any = subprocess.DEVNULL
            record = None
        else:
            command = [*_shell(self.site), who[0], remote([*command, "--output", "-"])]
            _set_aside(target)
            record = target.open("wb")
            output = record
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=said, start_new_session=True
        )
        if record is not None:
            record.close()
        return process, said

    def _done(self, folder: Path, failed: Mapping[Who, str], gone: Collection[str] = ()) -> Done:
        from netpipe.reading.across.odd import odd_facts
        from netpipe.records import NotARun, Run

        together = self.run.does != NODES
        fleet = Fleet(self.hosts, together, failed=dict(failed), given_up={*gone}, others=self.others)
        fleet.optional = self.run.optional
        files = []
        hosts: dict[str, Run] = {}
        for who in (one for some in self.turns for one in some):
            path = self.file(folder, who)
            try:
                run = Run.read(path, samples=False)
            except (NotARun, OSError):
                fleet.failed.setdefault(who, "there is no record")
                continue
            # Where a layer is optional, one that a host lacks takes nothing away from the others.
            if run.points and (self.run.optional or who not in failed):
                fleet.add(who, run)
                hosts[who[0]] = run
            files.append(f"{self.run.name}/{path.name}")
        fleet.judge()
        if self.run.does == NODES:
            fleet.odd = odd_facts(hosts)
        if not fleet.times:
            why = fleet.failed_texts()
            return Done(FAILED, "; ".join(why) or "nothing was measured", files=tuple(files))
        return Done(
            FAILED if fleet.failed else DONE,
            errors=tuple(fleet.failed_texts()),
            files=tuple(files),
            fleet=fleet,
        )

    def found(self, folder: Path) -> Done | None:
        every = [who for some in self.turns for who in some]
        if not all(_whole(self.file(folder, who)) for who in every):
            return None
        return self._done(folder, {})


class OfRanks(Planned):
    """All pairs of ranks of this host, one after another."""

    def __init__(self, run: Part, measured: Measured) -> None:
        super().__init__(run)
        self.measured = measured
        self.left_out = measured.left_out

    @property
    def available(self) -> bool:
        return self.measured.available

    @property
    def longest_s(self) -> float | None:
        return self.measured.longest_s

    @property
    def bounded(self) -> bool:
        return True

    def possible(self) -> Planned:
        one = self.measured.possible()
        return self if one is self.measured else one

    def print_plan(self, out: Console) -> None:
        self.measured.print_plan(out)

    def measure(self, folder: Path, quiet: bool) -> Done:
        return self._judged(self.measured.measure(folder, quiet))

    def found(self, folder: Path) -> Done | None:
        done = self.measured.found(folder)
        return None if done is None else self._judged(done)

    def _judged(self, done: Done) -> Done:
        """Each pair's own time, over the launches; its lower limit is the least of them."""
        from statistics import median

        if done.reading is None:
            return done
        fleet = Fleet(tuple(f"rank {rank}" for rank in range(RANKS)), True)
        for curve in done.reading.curves:
            for point in curve.points:
                of: dict[Who, list[float]] = {}
                for record in point.by_launch:
                    for cell in record.cells:
                        if cell.peer is not None and cell.median_ns:
                            ends = sorted((cell.rank, cell.peer))
                            of.setdefault((f"rank {ends[0]}", f"rank {ends[1]}"), []).append(cell.median_ns)
                if of:
                    key = (curve.variant, curve.pattern, point.size_bytes)
                    fleet.times[key] = {who: (median(times), min(times)) for who, times in of.items()}
        fleet.judge()
        done.fleet = fleet
        return done


# -------------------------------------------------------------------------------------------------------- words, files


def words_of(given: Mapping[str, Any]) -> list[str]:
    """The command line of `netpipe run` with these options."""
    import click

    from netpipe.cli.run import command
    from netpipe.command.config import settable, takes_many

    words: list[str] = []
    for key, parameter in settable(command, click.Context(command, info_name="run")).items():
        value = given.get(parameter.name or "")
        if value in (None, False, ()) or isinstance(parameter, click.Argument) or key == "output":
            continue
        for one in value if takes_many(parameter) else [value]:
            words += [f"--{key}"] if one is True else [f"--{key}", str(one)]
    return [*given["variants"], *words]


def _shell(site: Site) -> list[str]:
    from netpipe.libraries.starting.own import SSH

    return shlex.split(site.remote_shell) if site.remote_shell else list(SSH)


def remote(command: Sequence[str]) -> str:
    """As a host's shell takes it, with what our own environment says about netpipe."""
    names = [name for name in os.environ if name.startswith("NETPIPE_") or name == "PYTHONPATH"]
    return shlex.join(["env", *(f"{name}={os.environ[name]}" for name in sorted(names)), *command])


def _whole(path: Path) -> bool:
    from netpipe.records import NotARun, Run

    try:
        run = Run.read(path, samples=False)
    except (NotARun, OSError):
        return False
    return run.end is not None and run.end.exit == DONE and bool(run.points)


def _measured(path: Path) -> bool:
    """Whether anything of it was, though it failed: a layer that one host lacks does not make the host dead."""
    from netpipe.records import NotARun, Run

    try:
        return bool(Run.read(path, samples=False).points)
    except (NotARun, OSError):
        return False


def _set_aside(path: Path) -> None:
    """What an earlier time measured is kept beside it."""
    if path.exists() and path.stat().st_size:
        path.rename(path.with_name(f"{path.stem}.{time.time_ns()}{path.suffix}"))


def _last(said: IO[bytes], code: int) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("netpipe: ")[:WORDS] if lines else f"it ended with exit code {code}"


def deadline_text(longest_s: float | None) -> str:
    from netpipe.units import span_text

    return span_text(STARTING_S + 3 * (longest_s or 0.0))


# ---------------------------------------------------------------------------------------------------------- planning


def planned(run: Part, site: Site) -> Planned:
    """Raises Failure: 2 with the run whose options are wrong."""
    from dataclasses import replace

    from netpipe.cli.suite.runs import measured
    from netpipe.cli.suite.runs.base import Site as Here
    from netpipe.launch.lists import expand
    from netpipe.libraries.starting.hosts import parse

    if not run.given["variants"]:
        raise fault(run, Failure(USAGE, "variants is missing: which layers are measured between the members"))
    own: dict[str, Any] = {"hosts": None, "ranks": None, "pattern": ()}  # not for the file to say
    absent = _absent(expand(run.given["variants"]))
    variants = tuple(one for one in expand(run.given["variants"]) if one not in absent)
    if not variants:
        return _Nothing(run, "; ".join(dict.fromkeys(absent.values())))
    run = replace(run, given={**own, **run.given, "variants": variants})
    if site.hosts is None:
        if run.does == NODES:
            return _Nothing(run, "one host has no others to be held against; name them with --hosts A,B,C,D")
        options = {"pattern": (ALL_PAIRS,), "ranks": str(RANKS)}
        of_ranks = measured.planned(replace(run, does="run", given={**run.given, **options}), Here())
        of_ranks.left_out |= absent
        return OfRanks(run, of_ranks)
    hosts = parse(site.hosts).names
    if len(hosts) < 2:
        raise Failure(USAGE, f"--hosts {site.hosts}: a fleet has two hosts or more")
    here = replace(site, hosts=None if run.does == NODES else ",".join(hosts[:2]))
    if run.does == NODES:
        here = Here()
    checked = measured.planned(replace(run, does="run"), here)
    there = tuple(one for one in variants if one not in checked.left_out)
    checked.left_out |= absent
    return OfHosts(replace(run, given={**run.given, "variants": there}), site, hosts, checked)


def _absent(variants: Sequence[str]) -> dict[str, str]:
    """Those whose module cannot be used here, with the reason: each pair would fail because of it."""
    from netpipe import native
    from netpipe.launch.variants import name_of

    modules = {one["name"]: one for one in native.list_()["modules"]}
    of = {one: modules[name_of(one)] for one in variants if name_of(one) in modules}
    return {one: str(module["reason"]) for one, module in of.items() if not module["available"]}


class _Nothing(Planned):
    def __init__(self, run: Part, why: str) -> None:
        super().__init__(run)
        self.left_out = {"all members": why}

    @property
    def available(self) -> bool:
        return False

    def print_plan(self, out: Console) -> None:
        """There is none."""

    def found(self, folder: Path) -> Done | None:  # noqa: ARG002  (as its base class)
        return None

    def measure(self, folder: Path, quiet: bool) -> Done:  # noqa: ARG002
        return Done(UNAVAILABLE, self.reasons)
