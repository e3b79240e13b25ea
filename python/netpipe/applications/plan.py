# SPDX-License-Identifier: Apache-2.0
"""Which runs a request stands for, checked before the first one starts: the kernel knows which numbers of ranks it can
have and how much memory it takes, and says so without MPI.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.launch.lists import expand
from netpipe.launch.variants import expand as expand_libraries
from netpipe.launch.variants import name_of
from netpipe.libraries.adding import added, compiler, programs
from netpipe.libraries.adding.programs import Builder
from netpipe.libraries.starting.description import Description, read
from netpipe.units import size_text

PLAN_S = 20.0
DEFAULT_LAUNCHES = 6  # the fewest whose least and most are a 95 % interval of the median


@dataclass(frozen=True, slots=True)
class Request:
    """What to run."""

    kernels: Sequence[str]  # "cg", or "sweep3d:mk=10,mmi=3"; "all" is every one
    variants: Sequence[str] = ()  # none: every library that was added, over each transport
    classes: Sequence[str] = ("S",)
    ranks: Sequence[int] = (2, 4)
    launches: int = DEFAULT_LAUNCHES


@dataclass(frozen=True, slots=True)
class Cell:
    """One kernel over one library on some ranks."""

    name: str
    options: Mapping[str, int]
    problem: str
    variant: str
    ranks: int
    program: Path
    description: Description
    environment: Mapping[str, str]
    memory_bytes: int  # of all ranks

    @property
    def arguments(self) -> tuple[str, ...]:
        more = [word for name, value in self.options.items() for word in (f"--{name}", str(value))]
        return (str(self.program), "--class", self.problem, "--json", *more)

    @property
    def text(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        kernel = self.name + (f":{options}" if options else "")
        return f"{kernel} class {self.problem} on {self.ranks} ranks over {self.variant}"


@dataclass(slots=True)
class Planned:
    cells: list[Cell] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was left out, and why
    libraries: dict[str, str] = field(default_factory=dict)


def plan(request: Request) -> Planned:
    """Raises Failure: 2 for what cannot be run at all, 3 for a library or memory that is missing."""
    wanted = [_kernel(text) for text in kernels(request.kernels)]
    planned = Planned()
    variants, planned.notes = _variants(request.variants)
    builders: dict[str, Builder] = {}
    descriptions: dict[str, Description] = {}
    for variant in variants:
        module = name_of(variant)
        if module not in builders:
            one = added.one(module)
            builders[module] = programs.builder(one)
            descriptions[module] = read(one.path)
            planned.libraries[module] = descriptions[module].version
    free = available_memory()
    refused: list[str] = []
    for name, options in wanted:
        for problem in request.classes:
            for ranks in request.ranks:
                why = ""
                for variant in variants:
                    module = name_of(variant)
                    program = programs.application(builders[module], name)
                    said = ask(program, builders[module].environment, problem, ranks, options)
                    if not said["fits"]:
                        why = f"{name} class {problem} is left out on {ranks} ranks: {said['why']}"
                        break
                    memory = int(said["memory_bytes"]) * ranks
                    if memory > free:
                        raise Failure(
                            UNAVAILABLE,
                            f"{name} class {problem} on {ranks} ranks needs {size_text(memory)} and there are "
                            f"{size_text(free)}; choose a smaller class",
                        )
                    planned.cells.append(
                        Cell(
                            name,
                            options,
                            problem,
                            variant,
                            ranks,
                            program,
                            descriptions[module],
                            settings(descriptions[module], variant, ranks),
                            memory,
                        )
                    )
                refused += [why] if why else []
    if not planned.cells:
        raise Failure(USAGE, "; ".join(refused) or "nothing is left to run")
    planned.notes += refused
    return planned


def kernels(texts: Sequence[str]) -> list[str]:
    """With `all` and lists of values resolved. Raises Failure (2)."""
    known = programs.applications()
    found: list[str] = []
    for text in texts:
        name = text.partition(":")[0]
        if name == "all":
            found += [one + text[len(name) :] for one in known]
        elif name in known:
            found += expand([text])
        else:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise Failure(USAGE, f"there is no kernel '{name}'; {hint}")
    return list(dict.fromkeys(found))


def _kernel(text: str) -> tuple[str, dict[str, int]]:
    name, _, settings_ = text.partition(":")
    options: dict[str, int] = {}
    for setting in filter(None, settings_.split(",")):
        key, equals, value = setting.partition("=")
        if not equals or not value.isdecimal():
            raise Failure(USAGE, f"{text}: '{setting}' is not NAME=NUMBER")
        options[key] = int(value)
    return name, options


def _variants(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    found, notes = expand_libraries(expand(texts or ("mpi",)), native.list_())
    for variant in found:
        layer, at, _ = name_of(variant).partition("@")
        if layer != programs.LAYER or not at:
            raise Failure(
                USAGE,
                f"{variant} is no MPI library, and the kernels are MPI programs; choose one such as "
                "mpi@openmpi:transport=tcp",
            )
    return list(found), notes


def ask(
    program: Path, environment: Mapping[str, str], problem: str, ranks: int, options: Mapping[str, int]
) -> dict[str, Any]:
    """What the kernel says of this class and number of ranks, without MPI. Raises Failure: 2 for a class or an option
    that it does not have.
    """
    more = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = compiler.run(
        [program, "--class", problem, "--plan", str(ranks), *more], environment, limit_s=PLAN_S
    )
    if done.returncode != 0:
        raise Failure(USAGE, done.stderr.strip() or f"{program} ended with exit code {done.returncode}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def settings(description: Description, variant: str, ranks: int) -> dict[str, str]:
    """The environment in which a program has the variant's settings. Raises Failure (2) for a setting that only
    netpipe's own calls can have.
    """
    done = compiler.run(
        [native.worker(), "settings", description.file, variant, str(ranks)], description.environment
    )
    if done.returncode != 0:
        words = native.said(done.stderr) or f"netpipe-worker ended with exit code {done.returncode}"
        raise Failure(done.returncode if done.returncode > 0 else UNAVAILABLE, words)
    found: dict[str, str] = json.loads(done.stdout)["environment"]
    return found


def available_memory() -> int:
    """Bytes that a new program can have on this host without swapping, within the limit of its control group."""
    free = 1 << 62
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
    except OSError:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2].lstrip("/")
        folder = Path("/sys/fs/cgroup") / group
        limit, used = (folder / name for name in ("memory.max", "memory.current"))
        text = limit.read_text().strip()
        if text.isdecimal():
            free = min(free, int(text) - int(used.read_text()))
    except (OSError, ValueError):
        pass
    return max(free, 0)
