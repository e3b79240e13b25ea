# SPDX-License-Identifier: Apache-2.0
"""Which runs a request stands for, checked before the first one starts: the kernel knows which numbers of ranks it can
have and how much memory it takes, and says so without MPI.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.applications import listing
from netpipe.applications.listing import Kernel
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.kernels import Cell
from netpipe.kernels.lines import Pin, bound
from netpipe.launch.jobs import Settings
from netpipe.launch.lists import apart, expand
from netpipe.launch.variants import expand as expand_libraries
from netpipe.launch.variants import name_of, reaching
from netpipe.libraries import MPI, family_of, find_launcher
from netpipe.libraries.adding import added, compiler, programs
from netpipe.libraries.adding.programs import Builder
from netpipe.libraries.starting.description import Description, read
from netpipe.libraries.starting.hosts import BLOCK, Host, Hosts, order
from netpipe.remembered import once
from netpipe.units import counted, listed, size_text

ANSWER_S = 20.0  # that a program may take to say what it needs
ALL = "all"
PLACEMENT = "auto"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to run, in the words of the user."""

    kernels: Sequence[str]  # cg, or sweep3d:mk=10,mmi=3; all is every one
    variants: Sequence[str] = ()  # none: every library that was added, over each transport
    classes: Sequence[str] = ()  # none: the smallest one of each kernel
    ranks: Sequence[int] = (2, 4)
    # the processors of the ranks, as `netpipe run --pin` takes them; on several hosts, of each
    pin: str = PLACEMENT
    launching: Settings = field(default_factory=Settings)  # on which hosts, and by what
    mappings: Sequence[str] = (BLOCK,)  # of ranks to these hosts; each is measured


@dataclass(frozen=True, slots=True)
class Task:
    """One cell, ready to be started."""

    cell: Cell
    options: Mapping[str, int]
    program: Path
    description: Description
    environment: Mapping[str, str]  # in which the program has the settings of the variant
    memory_bytes: int  # that all ranks allocate together
    pin: Pin = ()  # the processor of each rank, None for one that is not bound
    oversubscribed: bool = False  # ranks share processors
    launching: Settings = field(default_factory=Settings)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Empty: all ranks run on this one."""
        return self.launching.hosts.spread(self.cell.ranks)

    @property
    def order(self) -> tuple[int, ...]:
        """The host of each rank, as a place in `hosts`; empty: this one."""
        return order(self.hosts, self.cell.mapping) if self.hosts else ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line of each rank."""
        pinned = ("--pin", ",".join(map(str, self.pin))) if bound(self.pin) else ()
        return (str(self.program), "--class", self.cell.problem, *pinned, *_words(self.options))


@dataclass(frozen=True, slots=True)
class Planned:
    tasks: tuple[Task, ...]
    notes: tuple[str, ...] = ()  # what was left out, and why
    libraries: Mapping[str, str] = field(default_factory=dict)  # version by module
    placement: str = PLACEMENT  # what was asked of the pinning
    hosts: tuple[str, ...] = ()  # as they were named; empty: this one alone


def plan(request: Request, tell: Tell = lambda _: None, build: bool = True) -> Planned:
    """`tell` hears what is done. Without `build` nothing is compiled: of kernels that were not compiled before there
    are no tasks, and a note says so. Raises Failure: 2 for what cannot be run at all, 3 for a library or memory that is
    missing.
    """
    problems = _problems(request)
    hosts = request.launching.hosts
    spread, uneven = _spread(hosts, request.ranks)
    for mapping, some in itertools.product(request.mappings, spread.values()):
        order(some, mapping)  # whether these hosts can have it
    mappings = request.mappings if hosts.given else ("",)
    libraries = _Libraries(request.variants, request.launching, tell, build)
    places = {ranks: _places(request.pin, some or (Host("", ranks),)) for ranks, some in spread.items()}
    most = {ranks: max((host.ranks for host in some), default=ranks) for ranks, some in spread.items()}
    environments = libraries.settings(most, request.pin)
    free = available_memory()
    tasks: list[Task] = []
    refused: dict[tuple[str, str], list[int]] = {}  # by the kernel with its class, and why
    unbuilt: dict[str, None] = {}
    for kernel, options, classes in problems:
        first = libraries.first(kernel.name)
        if first is None:
            unbuilt[kernel.name] = None
            continue
        fitting: list[tuple[str, int, int]] = []
        for problem, ranks in itertools.product(classes, spread):
            said = _ask_once(kernel.name, first, problem, ranks, options)
            what = f"{Cell(kernel.name, _text(options), problem, '', ranks).kernel} class {problem}"
            memory = int(said["memory_bytes"]) * ranks
            if not said["fits"]:
                refused.setdefault((what, said["why"]), []).append(ranks)
            elif (needed := memory // ranks * most[ranks]) > free:
                on = f" on {counted(ranks, 'rank')}" + (", on each host," if hosts.given else "")
                raise Failure(
                    UNAVAILABLE,
                    f"{what}{on} needs {memory_text(needed)} of memory, and there are {memory_text(free)}; choose a "
                    "smaller class",
                )
            else:
                fitting.append((problem, ranks, memory))
        built = libraries.programs(kernel.name) if fitting else {}
        tasks += [
            Task(
                Cell(kernel.name, _text(options), problem, variant, ranks, mapping),
                options,
                built[name_of(variant)],
                libraries.descriptions[name_of(variant)],
                environments[variant, ranks],
                memory,
                _pin_of(spread[ranks], mapping, places[ranks]),
                places[ranks].oversubscribed,
                request.launching,
            )
            for problem, ranks, memory in fitting
            for variant in libraries.variants
            for mapping in mappings
            if build or name_of(variant) in built
        ]
    # a compiler may have failed later
    tasks = [one for one in tasks if one.cell.variant in libraries.variants]
    left_out = uneven + [
        f"{what} is left out on {listed(map(str, some))} rank{'' if some == [1] else 's'}: {why}"
        for (what, why), some in refused.items()
    ]
    if not tasks and not unbuilt:
        raise Failure(USAGE, "; ".join(left_out))
    if unbuilt:
        are = "is" if len(unbuilt) == 1 else "are"
        left_out.append(
            f"{listed(list(unbuilt))} {are} compiled when measured, and only then known to fit here"
        )
    versions = {name: one.version for name, one in libraries.descriptions.items()}
    return Planned(tuple(tasks), (*libraries.notes(), *left_out), versions, request.pin, hosts.names)


def _spread(hosts: Hosts, ranks: Sequence[int]) -> tuple[dict[int, tuple[Host, ...]], list[str]]:
    """The hosts of each number of ranks, and sentences about those that do not spread. Raises Failure (2) if none
    does.
    """
    spread: dict[int, tuple[Host, ...]] = {}
    refused: list[Failure] = []
    for number in ranks:
        try:
            spread[number] = hosts.spread(number)
        except Failure as failure:
            refused.append(failure)
    if not spread and refused:
        raise refused[0]
    return spread, [f"left out: {failure.sentence}" for failure in refused]


@dataclass(frozen=True, slots=True)
class _Places:
    """The processors of the ranks of each host, as this one has them."""

    pins: tuple[Pin, ...]
    oversubscribed: bool


def _places(pin: str, hosts: Sequence[Host]) -> _Places:
    said = [native.place(pin, host.ranks) for host in hosts]
    return _Places(tuple(tuple(one["pin"]) for one in said), any(one["oversubscribed"] for one in said))


def _pin_of(hosts: Sequence[Host], mapping: str, places: _Places) -> Pin:
    """By rank."""
    if not hosts:
        return places.pins[0]
    left = [iter(pin) for pin in places.pins]
    return tuple(next(left[place]) for place in order(hosts, mapping))


# --------------------------------------------------------------------------------------------------------- kernels


def _problems(request: Request) -> list[tuple[Kernel, dict[str, int], tuple[str, ...]]]:
    """The kernels with their options and classes. Raises Failure (2)."""
    known = listing.kernels()
    some: dict[tuple[str, str], tuple[Kernel, dict[str, int], bool]] = {}
    for text in request.kernels:
        name, _, settings = text.partition(":")
        if name != ALL and name not in known:
            raise listing.unknown(name, known)
        for one in known if name == ALL else (name,):
            for expanded in expand([f"{one}:{settings}" if settings else one]):
                options = _options(known[one], expanded)
                some.setdefault((one, _text(options)), (known[one], options, name != ALL))
    every = {problem for kernel, _, _ in some.values() for problem in kernel.classes}
    wanted = tuple(dict.fromkeys(one if one in every else one.upper() for one in request.classes))
    for problem in wanted:
        if problem not in every:
            has = "; ".join(
                f"{kernel.name} has {' '.join(kernel.classes)}"
                for kernel in {kernel.name: kernel for kernel, _, _ in some.values()}.values()
            )
            raise Failure(USAGE, f"there is no class '{problem}'; {has}")
    found = []
    for kernel, options, named in some.values():
        classes = tuple(one for one in wanted if one in kernel.classes) if wanted else kernel.classes[:1]
        if classes:
            found.append((kernel, options, classes))
        elif named:
            raise Failure(
                USAGE,
                f"{kernel.name} has no class {' or '.join(wanted)}; it has {' '.join(kernel.classes)}",
            )
    return found


def _options(kernel: Kernel, text: str) -> dict[str, int]:
    options: dict[str, int] = {}
    for setting in filter(None, text.partition(":")[2].split(",")):
        key, equals, value = setting.partition("=")
        if key not in kernel.settings:
            has = f"it has {', '.join(kernel.settings)}" if kernel.settings else "it has none"
            raise Failure(USAGE, f"{kernel.name} has no setting '{key}'; {has}")
        if not equals or not value.isdecimal() or len(value) > 9:
            raise Failure(USAGE, f"{text}: '{setting}' is not {key}=NUMBER")
        options[key] = int(value)
    return options


def _text(options: Mapping[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())


def _words(options: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(word for name, value in options.items() for word in (f"--{name}", str(value)))


def ask(
    program: Path, environment: Mapping[str, str], problem: str, ranks: int, options: Mapping[str, int]
) -> dict[str, Any]:
    """What the program says of this class and number of ranks, without MPI: `fits`, `why` not, and `memory_bytes` of
    one rank. Raises Failure: 2 for what it does not have, 3 if it does not work.
    """
    words = [str(program), "--class", problem, "--plan", str(ranks), *_words(options)]
    done = compiler.run(words, environment, limit_s=ANSWER_S)
    if done.returncode == 0:
        try:
            said: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise Failure(UNAVAILABLE, f"{program} returned invalid JSON: {done.stdout[:80]!r}") from None
        return said
    why = " ".join(done.stderr.split()) or f"{program} ended with exit code {done.returncode}"
    raise Failure(USAGE if done.returncode == USAGE else UNAVAILABLE, why)


def _ask_once(
    kernel: str,
    program: tuple[Path, Mapping[str, str]],
    problem: str,
    ranks: int,
    options: Mapping[str, int],
) -> dict[str, Any]:
    """The programs of all libraries say the same, because MPI has no part in it."""
    question = ("kernel", kernel, problem, ranks, *options.items())
    return once(question, lambda: ask(*program, problem, ranks, options))


# ------------------------------------------------------------------------------------------------------- libraries


def refuse_other_layers(variants: Sequence[str], why: str) -> None:
    """Raises Failure (2) for the first variant that is not of MPI."""
    for text in variants:
        module = name_of(text)
        if module.partition("@")[0] != MPI:
            meant = f"{MPI}@{module}"
            there = meant in {one["name"] for one in native.list_()["modules"]}
            hint = f"did you mean '{meant}'?" if there else "choose one such as mpi@openmpi:transport=tcp"
            raise Failure(USAGE, f"'{text}' is no MPI library that was added, and {why}; {hint}")


class _Libraries:
    """The libraries of a request. One that the user has named must work; of those that `mpi` stands for, one that does
    not is left out. Raises Failure when none is left.
    """

    def __init__(self, texts: Sequence[str], launching: Settings, tell: Tell, build: bool) -> None:
        self._launcher = launching.launcher
        self.variants: list[str] = []
        self.descriptions: dict[str, Description] = {}  # by module
        self._notes: list[str] = []
        self._dropped: dict[str, list[str]] = {}  # by why
        self._named: set[str] = set()
        self._builders: dict[str, Builder] = {}
        self._tell = tell
        self._build = build
        known = native.list_()
        for text in dict.fromkeys(texts or (MPI,)):
            refuse_other_layers([text], "the kernels are MPI programs")
            _, at, _ = name_of(text).partition("@")
            far = len(launching.hosts.names) > 1
            found, notes = expand_libraries(expand([text]), known, far=far)
            if far:
                found, more = reaching(found, named=bool(at))
                notes += more
            self._named |= {name_of(text)} if at else set()
            self._notes += notes
            self.variants += [one for one in found if one not in self.variants]
        if not self.variants:
            raise Failure(
                UNAVAILABLE, f"{'; '.join(self._notes)}; choose another transport, or leave --hosts out"
            )
        for variant in self.variants:
            _check_settings(variant)
        for module in dict.fromkeys(map(name_of, self.variants)):
            self._open(module)

    def _open(self, module: str) -> None:
        try:
            one = added.one(module)
            description = read(one.path)
            family = family_of(description)
            if family is not None and family.simulates:
                raise Failure(
                    USAGE,
                    f"{description.version} simulates its machine, where all ranks are one process; the kernels are "
                    "not made for that",
                )
            find_launcher(description, self._launcher)().check(description, (str(native.worker()),))
            self._builders[module] = programs.builder(one)
            self.descriptions[module] = description
        except Failure as failure:
            self._drop(module, failure)

    def _drop(self, module: str, failure: Failure, variant: str = "") -> None:
        """This variant, or all of the module."""
        what = variant or module
        if module in self._named:
            named = what in failure.sentence
            raise type(failure)(
                failure.exit_code, failure.sentence if named else f"{what}: {failure.sentence}"
            )
        self.variants = [one for one in self.variants if one != what and (variant or name_of(one) != module)]
        if not any(name_of(one) == module for one in self.variants):
            self.descriptions.pop(module, None)
        self._dropped.setdefault(failure.sentence, []).append(what)
        if not self.variants:
            raise Failure(failure.exit_code, "; ".join(self.notes()))

    def notes(self) -> list[str]:
        """Sentences about what was left out."""
        dropped = [
            f"{listed(some)} {'is' if len(some) == 1 else 'are'} left out: {why}"
            for why, some in self._dropped.items()
        ]
        return [*self._notes, *dropped]

    def settings(self, ranks: Mapping[int, int], pin: str) -> dict[tuple[str, int], dict[str, str]]:
        """The environment for each variant and number of ranks, of which `ranks` has how many are on one host: it may
        depend on whether they share processors.
        """
        found: dict[tuple[str, int], dict[str, str]] = {}
        for variant in list(self.variants):
            module = name_of(variant)
            try:
                for number, near in ranks.items():
                    found[variant, number] = settings(self.descriptions[module], variant, near, pin)
            except Failure as failure:
                self._drop(module, failure, variant)
        return found

    def first(self, kernel: str) -> tuple[Path, Mapping[str, str]] | None:
        """A program of this kernel, of any library, and the environment that it needs; None where none was built, and
        none shall be.
        """
        for module in list(self.descriptions):
            if path := self._program(module, kernel):
                return path, self._builders[module].environment
        assert not self._build  # the last one that fails raises
        return None

    def programs(self, kernel: str) -> dict[str, Path]:
        """The program for each library that is left, by module."""
        found = {module: self._program(module, kernel) for module in list(self.descriptions)}
        return {module: path for module, path in found.items() if path is not None}

    def _program(self, module: str, kernel: str) -> Path | None:
        if not self._build:
            return programs.built_application(self._builders[module], kernel)
        try:
            self._tell(f"compiling {kernel} for {module}")  # unless it was built before
            return programs.application(self._builders[module], kernel)
        except Failure as failure:
            self._drop(module, failure)
            return None


def _check_settings(variant: str) -> None:
    """Raises Failure (2) for the one option that does not set the library."""
    for setting in apart(variant)[0].partition(":")[2].split(","):
        if setting.partition("=")[0] == "ranks":
            raise Failure(USAGE, f"{variant}: --ranks says how many processes there are; leave {setting} out")


def settings(description: Description, variant: str, ranks: int, pin: str) -> dict[str, str]:
    """The environment in which a program has the variant's settings, which may depend on whether its ranks share
    processors. Raises Failure (2) for a setting that only netpipe's own calls can have.
    """
    words = (str(native.worker()), "settings", str(description.file), variant, str(ranks), pin)
    said: str = once(
        (*words, *description.environment.items()), lambda: _settings(words, description.environment)
    )
    found: dict[str, str] = json.loads(said)["environment"]
    return found


def _settings(words: Sequence[str], environment: Mapping[str, str]) -> str:
    done = compiler.run(words, environment)
    if done.returncode != 0:
        said = native.said(done.stderr) or f"{native.WORKER} ended with exit code {done.returncode}"
        raise Failure(done.returncode if done.returncode > 0 else UNAVAILABLE, said)
    return done.stdout


def memory_text(size_bytes: int) -> str:
    """With three digits."""
    return size_text(size_bytes if size_bytes < 1 << 10 else float(size_bytes >> 10 << 10))


def available_memory() -> int:
    """Bytes that new programs can have on this host without swapping, within the limit of their control group."""
    facts = native.environment()
    free = facts.get("memory", {}).get("available_bytes")
    limit = facts.get("limits", {}).get("cgroup", {}).get("memory_max_bytes")
    return min(one if one is not None else 1 << 62 for one in (free, limit))
