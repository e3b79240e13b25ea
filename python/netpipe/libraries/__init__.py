# SPDX-License-Identifier: Apache-2.0
"""What starts the processes of an MPI job. A family of launchers is one file in this folder with one class:

    @family("openmpi")
    class OpenMpi(Family):
        "mpirun of Open MPI 4 and 5"

        def command(self, task: Task) -> Start: ...

It knows the options of that launcher and its traps, and nothing of libraries' settings: those are the module's own.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pwd import struct_passwd
from typing import BinaryIO, ClassVar

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.launch.description import Description
from netpipe.launch.hosts import Host


@dataclass(frozen=True, slots=True)
class Task:
    """One job: so many processes of one program."""

    description: Description
    program: tuple[str, ...]
    ranks: int
    hosts: tuple[Host, ...]  # none: all on this host
    variables: Mapping[str, str]  # that every rank finds in its environment; never on a command line
    extra: tuple[str, ...]  # --launcher-args
    remote_shell: Path | None  # one program that reaches other hosts; None: the launcher's own choice
    scratch: Path  # a folder of this run that everybody may read

    def file(self, name: str, text: str) -> Path:
        """A file for the launcher to read, in the scratch folder."""
        path = self.scratch / name
        path.write_text(text)
        path.chmod(0o644)
        return path


@dataclass(frozen=True, slots=True)
class Start:
    """What is started: as which user, with what in its environment besides ours."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    user: struct_passwd | None = None
    folder: Path | None = None  # to start in

    def whole_environment(self) -> dict[str, str]:
        """Without what another launcher has put into ours for the ranks that it started, such as netpipe itself in a
        batch job: a second launcher would take itself for one of them.
        """
        return {**{k: v for k, v in os.environ.items() if not k.startswith(OF_A_RANK)}, **self.environment}

    def popen(self, stdin: int, output: int | BinaryIO) -> subprocess.Popen[bytes]:
        """In a session of its own. Raises Failure (3)."""
        identity = {}
        if self.user is not None:
            groups = os.getgrouplist(self.user.pw_name, self.user.pw_gid)
            identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": groups}
        try:
            return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
                self.argv,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.whole_environment(),
                cwd=self.folder,
                start_new_session=True,
                **identity,
            )
        except OSError as error:
            raise Failure(UNAVAILABLE, f"{self.argv[0]} cannot be started: {error.strerror}") from None


# What launchers set for their ranks. OMPI_MCA_* stays but for the ones with which orted tells a rank who it is.
OF_A_RANK = (
    *("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX_", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX"),
    *("OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix", "OMPI_FILE_LOCATION", "PRTE_LAUNCHED"),
    *("PMI_", "PMI2_", "PMIX_", "HYDI_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "LAMRANK", "LAMWORLD"),
)


class Family:
    """One for each module of a run, or one for all of them, from the first job to the end of the run."""

    shared: ClassVar[bool] = False  # one for all modules of a run

    def check(self, description: Description, program: tuple[str, ...]) -> None:  # noqa: ARG002
        """Is everything here that it takes? Raises Failure (3) with a sentence that says what is not."""
        path = description.launcher
        if not path.is_file() or not os.access(path, os.X_OK):
            raise Failure(
                UNAVAILABLE,
                f"{description.name}: its launcher {path} is not there any more; install the library again, or "
                f"netpipe modules remove {description.name}",
            )

    def command(self, task: Task) -> Start:
        """What starts the job. Raises Failure with a sentence where it cannot."""
        raise NotImplementedError

    def boot(self, task: Task, given_up: Callable[[], bool]) -> None:
        """Before the first job of each module. What waits here ends when it is given up. Raises Failure."""

    def halt(self) -> None:
        """At the end of the run, whatever came before; a shared one is halted once for each module."""


_families: dict[str, type[Family]] = {}


def family(name: str) -> Callable[[type[Family]], type[Family]]:
    """Registers a family under the name that descriptions and --launcher use."""

    def register(kind: type[Family]) -> type[Family]:
        _families[name] = kind
        return kind

    return register


def families() -> Mapping[str, type[Family]]:
    """All of them, by name: every file of this folder is loaded once."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _families


# `--launcher`: what takes the place of a library's own launcher. ssh is none by itself: it is how that one gets to
# other hosts, also in a batch job, where it would take the batch system's way.
INSTEAD = ("srun",)
CHOICES = (*INSTEAD, "ssh")


def find(description: Description, instead: str | None) -> type[Family]:
    """Raises Failure: 2 for a launcher that there is not, 3 for a description of a family that is not known here."""
    known = families()
    if instead is not None and instead not in CHOICES:
        raise Failure(
            USAGE, f"there is no launcher '{instead}'; there are {', '.join(CHOICES)} and each library's own"
        )
    if instead in INSTEAD:
        return known[instead]
    if description.family not in known:
        raise Failure(
            UNAVAILABLE,
            f"{description.name} is launched by '{description.family}', which this netpipe does not know; "
            f"it knows {', '.join(sorted(known))}",
        )
    return known[description.family]
