# SPDX-License-Identifier: Apache-2.0
"""Measure from Python: plan, launch, measure and record, without a terminal.

The commands `netpipe run`, `memory` and `doctor` measure through this module, and so can a notebook, a tuner or a
suite. A request names variants and patterns as the command line does, and settings by the keys of a plan
(`netpipe-worker keys`, docs/reference/worker.md):

    >>> from netpipe.session import Request, Session
    >>> session = Session(Request(["tcp:wait=poll|block"], settings={"sizes": "8,64k", "budget": "1"}))
    >>> session.variants, session.plan.sizes
    (['tcp:wait=poll', 'tcp:wait=block'], [8, 65536])

Nothing has been measured so far, but the worker has checked the plan. `measure` takes about `session.longest_s`, writes
a run file when it is given one, and returns the run:

    >>> result = session.measure("run.jsonl")
    >>> result.exit_code, len(result.run.points), str(result.path)
    (0, 4, 'run.jsonl')
    >>> sorted({point.variant for point in result.run.points if point.converged})
    ['tcp:wait=block', 'tcp:wait=poll']

`netpipe.load("run.jsonl")` reads its points as a data frame. An interrupt (Ctrl-C, or "interrupt kernel") ends the
measurement early, with exit code 130 and what was measured until then. To see more while it measures, pass a function
as `watch`; it is called with a `Progress` between the passes, never during one.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from netpipe import launch, native, version
from netpipe.events import Progress
from netpipe.failure import DONE, FAILED, INTERRUPTED, UNSTABLE, USAGE, Failure
from netpipe.launch import jobs, token
from netpipe.launch.discontinued import about as about_discontinued
from netpipe.launch.interrupt import Interrupt
from netpipe.launch.lists import apart, copies, expand
from netpipe.launch.plan import Plan
from netpipe.launch.variants import (
    EVERY,
    available,
    by_default,
    name_of,
    others,
    reaching,
    wants_expansion,
    with_every,
)
from netpipe.launch.variants import expand as expand_libraries
from netpipe.libraries.starting.description import find
from netpipe.libraries.starting.hosts import Hosts, check_name, own_address
from netpipe.measurement import Measurement, Watch, only_opens
from netpipe.records import SCHEMA, End, Header, Run, Theory
from netpipe.records import Plan as ResolvedPlan
from netpipe.run_file import Recording, now
from netpipe.theory import apart as theories_apart

if TYPE_CHECKING:
    from netpipe.reading import Reading

__all__ = ["Progress", "Request", "Result", "Session"]

ANY_RANKS = 2**31 - 1  # the limit of a module without one (INT32_MAX)
REASONS = {DONE: "done", INTERRUPTED: "interrupted", UNSTABLE: "unstable"}


@dataclass(frozen=True)
class Request:
    """What to measure, and how. Texts are as on the command line; the worker checks them.

    A variant or pattern with several values of a setting (`tcp:sndbuf=64k|1M`) is several, and `mpi` is every MPI
    library that was added. No variants: those of `defaults` that are available here, and every added library; `all`:
    those, and every other module that is available here.
    """

    variants: Sequence[str] = ()
    patterns: Sequence[str] = ()  # none: pingpong
    # of the plan; `sizes` alone implies `schedule` list
    settings: Mapping[str, str] = field(default_factory=dict)
    modules: Sequence[str | os.PathLike[str]] = ()  # files of modules outside the installation
    launches: int = 1  # share the budget
    # every variant twice, as tcp and tcp#2: shows what a comparison can tell apart
    beside_itself: bool = False
    process_counts: Sequence[int] = ()  # each launch measures with each of these numbers of ranks
    hosts: str | None = None  # "A,B" or "A:2,B:2", where all processes are started
    launcher: str | None = None  # srun or ssh; none: the library's own
    launcher_args: str | None = None
    remote_shell: str | None = None
    # without variants; None: what the modules here say of themselves
    defaults: Sequence[str] | None = None
    completes: Sequence[str] = ()  # `run` of the runs that lack these curves


@dataclass(frozen=True)
class Result:
    reading: Reading  # of the run: all that is printed, judged and drawn of it is computed once
    exit_code: int  # as of `netpipe run`
    # of the run file; None: none was asked for, or nothing was measured and an older run was kept
    path: Path | None
    kept: Path | None  # the new name of the run that was there before

    @property
    def run(self) -> Run:
        return self.reading.run

    @property
    def unsettled(self) -> int:
        """Points of the whole run that are not within the target."""
        return unsettled(self.reading)


class Session:
    """A checked plan, ready to be measured. Raises Failure: 2 when the request is not valid, 3 when something that it
    needs is not available here.

    `plan` is the plan as the worker understood it, `answer` all that the worker said about it, and `notes` are
    sentences about modules and libraries that were left out, and variants with another number of ranks.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.notes: list[str] = []
        self.theories: tuple[Theory, ...] = ()  # drawn beside what is measured
        settings = dict(request.settings)
        if "sizes" in settings and settings.setdefault("schedule", "list") != "list":
            raise Failure(
                USAGE,
                f"sizes are for the schedule list, and the schedule is {settings['schedule']}; give --sizes or "
                "--schedule, not both",
            )
        _check_bounds(settings)
        for name in ("host", "bind"):
            check_name(f"--{name}", settings.get(name, ""))
        hosts = jobs.parse_hosts(request.hosts, settings.get("ranks"))
        if "ranks" not in settings and (ranks := hosts.ranks()) is not None:
            settings["ranks"] = str(ranks)
        if "bind" not in settings and (address := own_address(hosts)) is not None:
            settings["bind"] = address
        if hosts.given and not settings.get(
            "host"
        ):  # else netpipe's own layers are measured with the server there
            settings["hosts"] = ",".join(hosts.names)
        self._job_settings = jobs.settings(
            hosts,
            request.launcher,
            request.launcher_args,
            request.remote_shell,
            settings.get("bind", "") if hosts.given else "",
        )
        served = bool(settings.get("host"))  # netpipe's own layers: then one rank on each side
        found = self._variants(served or bool(hosts.given), len(hosts.names) > 1, served)
        variants, settings = self._with_ranks(found, settings, served)
        if request.beside_itself:
            variants = (*variants, *(f"{one}#2" for one in variants if not apart(one)[1]))
        counts = [{"ranks": str(count)} for count in request.process_counts] or [{}]
        self._plans = [_plan(request, variants, {**settings, **count}) for count in counts]
        # a fault in any shows before the start
        self.answers = [_answer(plan, variants) for plan in self._plans]
        self.answer: dict[str, Any] = self.answers[0]
        self.plan: ResolvedPlan = _resolved(self.answer)
        if "ranks" in request.settings:
            self.notes += _other_ranks(self.answer, settings.get("ranks", ""), served)
        if hosts.given and not served:
            _spread(hosts, self.answers)
        self.notes += self._without_effect()

    @property
    def variants(self) -> list[str]:
        return [planned.variant for planned in self.plan.variants]

    @property
    def started(self) -> dict[str, list[str]]:
        """The hosts of `--hosts`, and what starts processes there; empty: all are forked here, or served."""
        of = self._job_settings
        library = "srun" if of.launcher == "srun" else "the library's launcher"
        own = "netpipe serve" if self.request.settings.get("host") else of.own_by
        by = dict.fromkeys(library if "@" in one.module else own for one in self.plan.variants)
        return {"hosts": list(of.hosts.names), "started_by": list(by)} if of.hosts.given else {}

    @property
    def longest_s(self) -> float | None:
        """The budgets of all curves, in seconds, if the worker can tell: starts and slow sizes take longer."""
        times = [answer.get("expected_s") for answer in self.answers]
        return None if None in times else self.request.launches * sum(filter(None, times))

    def check_libraries(self) -> None:
        """What `measure` asks before it starts anything. Raises Failure (3) where a library or its launcher has gone,
        or the launcher cannot start processes here.
        """
        self._launchers().check_all(one.module for one in self.plan.variants)

    def measure(
        self,
        output: str | os.PathLike[str] | None = None,
        watch: Watch = lambda _: None,
        *,
        strict: bool = False,
        argv: Sequence[str] = (),
        onto: bool = False,
        confirms: str | None = None,
        check: Callable[[Run, int], None] | None = None,
        keep_reasons: bool = True,
    ) -> Result:
        """Measures, and records to `output`. An older run there is renamed when the first result has been measured; a
        measurement without any result leaves it where it is. Where no run is there, such a measurement leaves its
        records, which say why, unless `keep_reasons` is False. `onto`: the launches are added to the run in `output`,
        whose plan this one must be (`netpipe.command.continued`). `argv` goes into the record, and so does `confirms`:
        the run that has the finding for which this is the experiment. `check` is called with the run and the number of
        the first launch when that has opened its variants; where it raises Failure nothing is measured, and a run that
        was to go on is as it was. `strict`: the exit code is 5 when a point of the
        whole run, all launches together, is not within the target. Raises Failure when nothing could be measured, and
        OSError when `output` cannot be written.
        """
        from netpipe.reading import Reading

        recording = Recording(None if output is None else Path(output), onto)
        so_far = Run(record for _, record in recording.new()) if onto else Run()
        measurement = Measurement(
            self._plans[0],
            self.plan,
            recording,
            launch.find("local"),
            self.request.launches,
            watch,
            site=self._launchers(),
            others=tuple(self._plans[1:]),
            run=so_far,
            first_launch=1 + max((plan.launch for plan in so_far.plans), default=-1),
            check=check,
        )
        reading = Reading(
            measurement.run
        )  # looks at the run when it is asked, which is after the last launch
        try:
            if not onto:
                recording.append(_header(argv, confirms, self.request.completes))
                for one in self.theories:
                    recording.append(one)
            code = self._record(measurement, reading if strict else None, keep_reasons)
            measurement.report(launch=max((one.launch for one in measurement.run.launches), default=0))
        finally:
            recording.close(discard=not has_results(measurement.run))
        measurement.run.path = recording.path if recording.in_place else None
        return Result(reading, code, measurement.run.path, recording.kept)

    # ------------------------------------------------------------------------------------------- inside

    def _files(self) -> list[str]:
        """Of modules outside the installation."""
        return [os.fspath(Path(file).absolute()) for file in self.request.modules]

    def _launchers(self) -> jobs.Launchers:
        return jobs.Launchers(self._job_settings, describe=partial(find, files=self._files()))

    def _record(self, measurement: Measurement, strict: Reading | None, keep_reasons: bool) -> int:
        """Measures and writes the last line, whatever happens. Returns the exit code. `strict`: what the run says, if
        all points have to be within the target.
        """
        code = FAILED
        started_s = time.monotonic()
        before_s = (measurement.run.end and measurement.run.end.seconds) or 0.0  # of a run that is continued
        try:
            with Interrupt() as interrupt:
                code = measurement.measure(interrupt)
            if code == DONE and strict is not None and unsettled(strict):
                code = UNSTABLE
        except Failure as failure:
            code = failure.exit_code
            raise
        finally:
            if measurement.refused:
                measurement.recording.withdraw()
            elif measurement.started:
                seconds = round(time.monotonic() - started_s + before_s, 3)
                end = End(exit=code, reason=REASONS.get(code, "failed"), seconds=seconds)
                code = _finish(measurement, end, keep_reasons)
        return code

    def _without_effect(self) -> list[str]:
        """A sentence where an option is about launchers and there is none: all processes are forked here."""
        given = (
            ("--launcher", self.request.launcher),
            ("--launcher-args", self.request.launcher_args),
            ("--remote-shell", self.request.remote_shell),
        )
        if self.request.hosts or any("@" in one.module for one in self.plan.variants):
            return []
        return [
            f"{option} has no effect: these variants are forked on this host; name others with --hosts"
            for option, value in given
            if value
        ]

    def _variants(self, far: bool, spread: bool, served: bool) -> tuple[str, ...]:
        """far: netpipe's own layers are measured between hosts; spread: so are the libraries; served: with a server."""
        variants, self.theories = theories_apart(copies(self.request.variants))
        if not variants or EVERY in variants:
            listing = native.list_()
            self.notes += [f"left out: {one['reason']}" for one in listing.get("refused", ())]
            usual = by_default(listing) if self.request.defaults is None else self.request.defaults
            names = (*usual, *(others(usual, listing) if variants else ()))
            every = available(names, listing, far, spread, served)
            variants = with_every(variants or (EVERY,), every)
        if wants_expansion(variants):
            variants, notes = expand_libraries(variants, native.list_(), far=spread)
            self.notes += notes
        return reaching(variants, named=True)[0] if spread else variants

    def _with_ranks(
        self, variants: Sequence[str], settings: dict[str, str], served: bool
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """`ranks` of 2,4 as a variant with each number of ranks, for modules that take all of them."""
        text = settings.get("ranks", "")
        if "," not in text:
            return tuple(variants), settings
        counts = process_counts(text)
        modules = {module["name"]: module for module in native.list_(self._files())["modules"]}
        found: list[str] = []
        fixed: list[str] = []  # their own number of ranks: in one process, or one on each side of a server
        for variant in variants:
            module = modules.get(name_of(variant), {})
            least, most = module.get("min_ranks", 1), module.get("max_ranks", 0)
            if most == 1 or (served and not module.get("launched")):
                found.append(variant)
                fixed.append(variant)
            elif least <= counts[0] and counts[-1] <= most:
                bare, copy = apart(variant)
                between = "," if ":" in bare else ":"
                found += [f"{bare}{between}ranks={count}{copy}" for count in counts]
            else:
                to = "" if least == most else f" to {most}" if most < ANY_RANKS else " or more"
                takes = f"{least}{to} ranks"
                raise Failure(
                    USAGE,
                    f"--ranks {text}: {variant} takes {takes}; leave it out, or give numbers that it takes",
                )
        if found == list(variants):
            raise Failure(USAGE, _nothing_has(text, variants, served))
        if fixed:
            self.notes.append(
                f"although --ranks {text} was given, these variants keep their own number of ranks: "
                f"{', '.join(fixed)}"
            )
        return tuple(found), {key: value for key, value in settings.items() if key != "ranks"}


def _spread(hosts: Hosts, answers: Sequence[Mapping[str, Any]]) -> None:
    """Raises Failure (2) where the ranks of a variant do not spread over the hosts."""
    for curve in (one for answer in answers for one in answer.get("curves", ())):
        try:
            hosts.spread(curve["ranks"])
        except Failure as failure:
            raise Failure(failure.exit_code, f"variant {curve['variant']}: {failure.sentence}") from None


def _nothing_has(text: str, variants: Sequence[str], served: bool) -> str:
    one = len(variants) == 1
    stay = "it stays in one process" if one else "they stay in one process"
    why = "netpipe's own layers have one on each side" if served else stay
    who = f"{variants[0]} cannot" if one else f"none of {', '.join(variants)} can"
    return f"--ranks {text}: {who} have these ranks, because {why}; leave --ranks out"


def _other_ranks(answer: Mapping[str, Any], asked: str, served: bool) -> list[str]:
    """Sentences about the variants that do not have the number of ranks that was asked for. Raises Failure (2) if none
    of them has it, and it is not what every run asks for.
    """
    if not asked.isdecimal():
        return []
    ranks_of = {one["variant"]: one.get("ranks") for one in answer.get("curves", ())}
    chosen = {one["variant"] for one in answer.get("curves", ()) if "ranks=" in one["variant"]}
    found: dict[int, list[str]] = {}
    for variant, ranks in ranks_of.items():
        if ranks not in (None, int(asked)):
            found.setdefault(ranks, []).append(variant)
    if (
        found
        and int(asked) != int(native.default_of("ranks") or 0)
        and not chosen
        and sum(map(len, found.values())) == len(ranks_of)
    ):
        raise Failure(USAGE, _nothing_has(asked, list(ranks_of), served))
    return [
        f"although --ranks {asked} was given, these variants have {number}: {', '.join(names)}"
        for ranks, names in found.items()
        for number in ["1 rank" if ranks == 1 else f"{ranks} ranks"]
    ]


def process_counts(text: str) -> list[int]:
    """Numbers with commas between them, rising and each once. Raises Failure (2)."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 19 and int(word) > 0 for word in words):
        raise Failure(
            USAGE, f"--ranks {text}: write numbers of processes with commas between them, such as 2,4,8"
        )
    return sorted({int(word) for word in words})


def unsettled(reading: Reading) -> int:
    """How many points are not within the target: each by the interval that all launches give it."""
    return sum(point.converged is False for curve in reading.curves for point in curve.points)


def has_results(run: Run) -> bool:
    """Whether anything was measured, be it that variants were opened and closed again (`netpipe memory`)."""
    opened = any(map(only_opens, run.plans)) and run.launches and run.variants
    return bool(run.samples or run.points or opened)


def _check_bounds(settings: Mapping[str, str]) -> None:
    """Raises Failure (2) for bounds of the sizes that the schedule has no use for: they would be labels of nothing."""
    bounds = ("start", "end-size", "perturbation")
    given = [name for name in bounds if name in settings]
    kind = (settings.get("schedule") or native.default_of("schedule") or "") if given else ""
    without = {"list": bounds, "classic": ()}.get(kind, ("perturbation",))
    for name in given:
        if name in without:
            option = f"--{name.removesuffix('-size')}"
            other = "--sizes names all sizes" if "sizes" in settings else f"the schedule is {kind}"
            raise Failure(USAGE, f"{option} has no effect, because {other}; leave it out")


def _plan(request: Request, variants: Sequence[str], settings: Mapping[str, str]) -> Plan:
    lines = [("variant", variant) for variant in variants]
    lines += [("pattern", pattern) for pattern in expand(request.patterns)]
    lines += [("module-file", os.fspath(Path(file).absolute())) for file in request.modules]
    lines += [(key, str(value)) for key, value in settings.items()]
    if request.launches > 1:
        lines.append(("launches", str(request.launches)))
    own_token = token.default_path()
    unset = "token-file" not in settings and token.VARIABLE not in os.environ
    if settings.get("host") and unset and own_token.is_file():
        lines.append(("token-file", str(own_token)))
    return Plan(tuple(lines))


def _resolved(answer: Mapping[str, Any]) -> ResolvedPlan:
    try:
        return msgspec.convert(answer, ResolvedPlan)
    except msgspec.ValidationError as error:
        raise Failure(
            FAILED,
            f"netpipe-worker returned an invalid plan ({error}); is {native.worker()} the same version as netpipe?",
        ) from None


def _answer(plan: Plan, variants: Sequence[str]) -> dict[str, Any]:
    """What the worker says about a plan. Raises Failure."""
    try:
        return native.plan(plan.text())
    except Failure as failure:
        for name in map(name_of, variants):
            why, unknown = about_discontinued(name), f"there is no module '{name}'"
            if why and failure.sentence.startswith(unknown):
                raise Failure(failure.exit_code, f"{unknown}: {why}") from None
        raise


def _header(argv: Sequence[str], confirms: str | None = None, completes: Sequence[str] = ()) -> Header:
    return Header(
        schema=SCHEMA,
        run=uuid.uuid4().hex,
        netpipe=version(),
        started=now(),
        host=socket.gethostname(),
        argv=list(argv),
        confirms=confirms,
        completes=list(completes),
    )


def _finish(measurement: Measurement, end: End, keep_reasons: bool) -> int:
    """Writes the last line, and returns the exit code. On a full disk the run file stays valid without that line. A
    file that another program removed, renamed or truncated is saved as far as possible.
    """
    recording = measurement.recording
    if keep_reasons and recording.output is not None and not recording.output.exists():
        # Nothing was measured, but there is no older run to protect, and this one says why.
        measurement.report(note=recording.keep())
    damage = recording.damage()
    if damage is not None:
        end = End(exit=FAILED, reason="failed", seconds=end.seconds)
    try:
        recording.append(end)
    except OSError as error:
        note = f"{error.filename}: {error.strerror}; what was measured so far is kept, free some space"
        measurement.report(note=note)
        end = End(exit=FAILED, reason="failed", seconds=end.seconds)
    if damage is not None:
        measurement.report()
        run = measurement.run
        records = [one for one in (run.header, *run.body(), end) if one is not None]
        measurement.report(note=recording.rescue(damage, records))
    return end.exit
