# SPDX-License-Identifier: Apache-2.0
"""The library families. A family is one file in this folder, or one folder where it brings a C header as well:

    libraries/NAME.py           how the library is recognised, and what starts its processes
    libraries/NAME/__init__.py  the same
    libraries/NAME/family.h     how the library takes its settings (src/modules/mpi/library/mpi_family.h)

Nothing else changes when one is added: docs/how-to/add-a-family.md. `adding` holds the machinery, which knows no family
by name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd
from typing import BinaryIO, ClassVar

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries.settings import Setting
from netpipe.libraries.starting.description import Description
from netpipe.libraries.starting.hosts import BLOCK, CYCLIC, Host, order
from netpipe.libraries.tunables import Tunables

ANY_INTERFACE = "any"
MPI = "mpi"  # the layer (src/modules) of families and libraries of which nobody says another one, and of programs


@dataclass(frozen=True, slots=True)
class Job:
    """The processes of one program that a launcher starts together."""

    description: Description
    program: tuple[str, ...]
    ranks: int
    hosts: tuple[Host, ...]  # empty: all ranks run on this host
    variables: Mapping[str, str]  # environment of every rank; never put on a command line
    extra: tuple[str, ...]  # --launcher-args
    remote_shell: Path | None  # one program that reaches other hosts; None: the launcher's default
    scratch: Path  # a folder of this run that every user may read
    mapping: str = BLOCK  # how the ranks are dealt to the hosts
    # more of the environment of the ranks of one host, by the host's name
    of_host: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def cyclic(self) -> bool:
        """Whether each next rank is on the next host. Raises Failure (2) where these hosts cannot have that."""
        return self.mapping == CYCLIC and len(self.order) > 0

    @property
    def order(self) -> tuple[int, ...]:
        """The host of each rank, as a place in `hosts`; empty: all run here."""
        return order(self.hosts, self.mapping)

    def file(self, name: str, text: str) -> Path:
        """Writes a file for the launcher into the scratch folder."""
        path = self.scratch / name
        path.write_text(text)
        path.chmod(0o644)
        return path


@dataclass(frozen=True, slots=True)
class Command:
    """What to run, as which user, with what environment besides ours."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: struct_passwd | None = None
    folder: Path | None = None  # to start in
    name: str = ""  # in sentences; "": the program and the module
    # to its standard input, at most what a pipe holds; nothing: the input is as given to popen
    said: bytes = b""

    def whole_environment(self) -> dict[str, str]:
        """Our environment without what another launcher set for its ranks. netpipe itself may be such a rank in a batch
        job, and a second launcher would take itself for one of them.
        """
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith(RANK_VARIABLES)},
            **self.environment,
        }

    def popen(self, stdin: int, output: int | BinaryIO) -> subprocess.Popen[bytes]:
        """Starts it in a session of its own. Raises Failure (3)."""
        identity = {}
        if self.user is not None:
            groups = os.getgrouplist(self.user.pw_name, self.user.pw_gid)
            identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": groups}
        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
                self.argv,
                stdin=subprocess.PIPE if self.said else stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.whole_environment(),
                cwd=self.folder,
                start_new_session=True,
                **identity,
            )
        except OSError as error:
            raise Failure(UNAVAILABLE, f"cannot start {self.argv[0]}: {error.strerror}") from None
        if self.said and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended, which is noticed elsewhere
                process.stdin.write(self.said)
                process.stdin.close()
        return process


# What launchers set for their ranks. Other OMPI_MCA_ variables are the user's settings and stay.
RANK_VARIABLES = (
    *("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX_", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX"),
    *("OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_FILE_LOCATION", "PRTE_LAUNCHED"),
    *("PMI_", "PMI2_", "PMIX_", "HYDI_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "LAMRANK", "LAMWORLD"),
)


class Launcher:
    """Starts the processes of a job. One object serves each module of a run, from its first job to the run's end."""

    name: ClassVar[str] = ""  # in descriptions: `launcher NAME PATH`
    title: ClassVar[str] = ""  # whose it is, for people
    says: ClassVar[str] = ""  # regular expression that its --version or -h matches
    precedence: ClassVar[int] = 0  # looked for before those of a lower one, whose `says` it matches as well
    programs: ClassVar[tuple[str, ...]] = ("mpiexec", "mpirun")  # its names beside the compiler, best first
    starts: ClassVar[tuple[str, ...]] = ()  # the process management interfaces that it offers
    ranks_option: ClassVar[str] = "-n"  # takes the number of ranks
    replaces_others: ClassVar[bool] = False  # it can be named with --launcher
    shared: ClassVar[bool] = False  # one object serves all modules of a run

    def check(self, description: Description, program: tuple[str, ...]) -> None:  # noqa: ARG002
        """Whether everything that it needs is here. Raises Failure (3) that says what is missing."""
        path = description.launcher
        if not path.is_file() or not os.access(path, os.X_OK):
            raise Failure(
                UNAVAILABLE,
                f"the launcher of {description.name}, {path}, does not exist any more; install the library again, or "
                f"run: netpipe modules remove {description.name}",
            )

    def command(self, job: Job) -> Command:
        """What starts the job. Raises Failure if it cannot."""
        raise NotImplementedError

    @classmethod
    def passing(cls, variables: Mapping[str, str]) -> list[str]:  # noqa: ARG003
        """Words behind the launcher's name, of a user's own command line, that put these variables into the environment
        of all ranks. None: it passes on its own environment.
        """
        return []

    def user(self) -> struct_passwd | None:
        """Who runs its ranks, where that is not us. Raises Failure."""
        return None

    @classmethod
    def with_variables(cls, words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
        """A user's words behind the launcher's name, such that all ranks get these variables too. The launcher is
        started with them.
        """
        return [*cls.passing(variables), *words]

    def commands(self, job: Job) -> tuple[Command, ...]:
        """The same, where that takes one for each host."""
        return (self.command(job),)

    def boot(self, job: Job, given_up: Callable[[], bool]) -> None:
        """Called before the first job of each module. Stops waiting when given_up() is true. Raises Failure."""

    def gone(self) -> bool:
        """Whether what `boot` started has ended, as with a kernel that fails. It is booted again then."""
        return False

    def halt(self) -> None:
        """Called at the end of the run, whatever happened; for a shared one once per module."""


@dataclass(frozen=True, slots=True)
class Header:
    """A macro by which the library's header tells whose it is, and the macros that make up the version."""

    macro: str
    version: tuple[str, ...]
    include: str = ""  # another header that defines the version


@dataclass(frozen=True, slots=True)
class Route:
    """An option besides `transport` that says which way messages take; some of its values lead through daemons."""

    option: str
    daemons: tuple[str, ...]  # these values
    daemon: str  # the program
    direct: str  # the value that avoids it


@dataclass(frozen=True, slots=True)
class Family:
    """What all versions of one library have in common."""

    name: str
    title: str  # "Open MPI"; a version of the library begins with it: "Open MPI 4.1.4"
    headers: tuple[Header, ...]
    layer: str = MPI  # the folder in src/modules that binds it
    module: str = ""  # its module is called LAYER@MODULE unless told otherwise; default: name
    precedence: int = 0  # looked for before those of a lower one, whose macros its header defines as well
    launcher: type[Launcher] | None = None  # its own; None: any
    interface: str = ""  # how its processes find each other: pmix, pmi2, ...; "": only by its own launcher
    compilers: tuple[str, ...] = ("mpicc",)  # names of its compiler, also with an ending: mpicc.openmpi
    files: tuple[str, ...] = ("libmpi*.so*",)  # how the library's files are called
    places: tuple[str, ...] = ()  # folders below / where its compiler is usually installed, with * and ?
    flags: Callable[[str], tuple[str, ...]] = lambda version: ()  # noqa: ARG005  for the compiler
    sources: tuple[str, ...] = ()  # in its folder, compiled into its module
    environment: Callable[[Path], Mapping[str, str]] = lambda prefix: {}  # noqa: ARG005  that it needs
    marker: str = ""  # a file below its prefix; where it is, the compiler needs `environment` too
    slurm: Callable[[], Mapping[str, str]] = dict  # that it needs under srun
    simulates: bool = False  # all ranks are one process, on a machine that does not exist
    is_abi: bool = False  # no library but a binary interface that several families have
    has_abi: bool = False  # it has that interface
    route: Route | None = None  # of its module; None: `transport` alone says it
    tunables: Tunables | None = None  # beside the options of its module
    # What its users can do about a finding, by the rule's id: a part of a sentence that names the library's setting.
    remedies: Mapping[str, str] = field(default_factory=dict)
    # The environment that a setting of its module becomes; empty: it has no such variable, or that is not known.
    settings: Callable[[Setting], Mapping[str, str]] = lambda one: {}  # noqa: ARG005

    @property
    def folder(self) -> Path:
        return Path(__file__).parent / self.name

    @property
    def header(self) -> Path | None:
        """The C header that knows its settings; without one the module has only the options of every library."""
        path = self.folder / "family.h"
        return path if path.is_file() else None

    @property
    def beneath(self) -> Path | None:
        """The C header that asks it what it stands on, also for layers above it; without one nobody asks."""
        path = self.folder / "beneath.h"
        return path if path.is_file() else None


_families: dict[str, Family] = {}
_launchers: dict[str, type[Launcher]] = {}


def family(one: Family) -> Family:
    """Registers a family."""
    _families[one.name] = one
    return one


def launcher(kind: type[Launcher]) -> type[Launcher]:
    """Registers a launcher, as a class decorator."""
    _launchers[kind.name] = kind
    return kind


def _load() -> None:
    """Imports every file of this folder, once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def families(layer: str | None = None) -> list[Family]:
    """Those of one layer, or all; the ones to look for first stand first."""
    _load()
    found = [one for one in _families.values() if layer in (None, one.layer)]
    return sorted(found, key=lambda one: (-one.precedence, one.name))


def launchers() -> Mapping[str, type[Launcher]]:
    """By name; the ones to look for first stand first."""
    _load()
    return dict(sorted(_launchers.items(), key=lambda each: (-each[1].precedence, each[0])))


def can_start(kind: type[Launcher], one: Family) -> bool:
    """Whether processes of this family find each other when this launcher starts them."""
    return kind is one.launcher or one.interface == ANY_INTERFACE or one.interface in kind.starts


def family_of(description: Description) -> Family | None:
    """Whose library a module binds; None for one of no family known here."""
    known = {one.name: one for one in families()}
    if description.family in known:
        return known[description.family]
    return family_of_version(description.version)


def family_of_version(version: str) -> Family | None:
    """By what the library calls itself: "Open MPI 4.1.4"."""
    return next((one for one in families() if re.match(rf"{re.escape(one.title)}\b", version)), None)


def choices() -> tuple[str, ...]:
    """What --launcher takes: launchers that can replace a library's own, and ssh, by which that one reaches hosts even
    in a batch job, where it would use the batch system.
    """
    return (*(name for name, one in launchers().items() if one.replaces_others), "ssh")


def check_choice(instead: str | None) -> None:
    """Raises Failure (2) for a launcher that does not exist."""
    if instead is not None and instead not in choices():
        raise Failure(
            USAGE,
            f"there is no launcher '{instead}'; choose one of {', '.join(choices())}, or leave --launcher out to use "
            "each library's own",
        )


def find_launcher(description: Description, instead: str | None) -> type[Launcher]:
    """Raises Failure: 2 for a launcher that does not exist, 3 for a description with one not known here."""
    check_choice(instead)
    known = launchers()
    if instead is not None and instead in known:
        return known[instead]
    if description.launched_by not in known:
        raise Failure(
            UNAVAILABLE,
            f"the launcher of {description.name} is of the kind '{description.launched_by}', which this netpipe does "
            f"not know; it knows {', '.join(sorted(known))}",
        )
    return known[description.launched_by]
