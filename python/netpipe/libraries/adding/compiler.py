# SPDX-License-Identifier: Apache-2.0
"""What an mpicc is: whose, and of which version. Its header says it, so only the preprocessor runs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.launch.description import SIMULATOR

LIMIT_S = 120.0  # of one compiler call: a first one over a network file system takes long


@dataclass(frozen=True, slots=True)
class Kind:
    """A family of libraries, by the macros of its mpi.h."""

    name: str  # what its module is called unless told otherwise
    family: str  # whose launcher starts it; "" where the header does not say
    title: str
    macro: str
    version: str  # macros that together are the version


# The first whose macro is there: Intel MPI and MVAPICH also say that they are an MPICH.
KINDS = (
    Kind("impi", "intel", "Intel MPI", "I_MPI_VERSION", "I_MPI_VERSION"),
    Kind("mvapich", "mpich", "MVAPICH", "MVAPICH_VERSION", "MVAPICH_VERSION"),
    Kind("mvapich", "mpich", "MVAPICH", "MVAPICH2_VERSION", "MVAPICH2_VERSION"),
    Kind("mpich", "mpich", "MPICH", "MPICH_VERSION", "MPICH_VERSION"),
    Kind(
        "openmpi",
        "openmpi",
        "Open MPI",
        "OMPI_MAJOR_VERSION",
        "OMPI_MAJOR_VERSION OMPI_MINOR_VERSION OMPI_RELEASE_VERSION",
    ),
    Kind(
        "lam",
        "lam",
        "LAM/MPI",
        "LAM_MPI",
        "LAM_MAJOR_VERSION LAM_MINOR_VERSION LAM_RELEASE_VERSION",
    ),
    Kind("simgrid", SIMULATOR, "SimGrid", "SMPI_H", "SIMGRID_VERSION_MAJOR SIMGRID_VERSION_MINOR"),
    Kind("abi", "", "MPI standard ABI", "MPI_ABI_VERSION", "MPI_ABI_VERSION MPI_ABI_SUBVERSION"),
    Kind("mpi", "", "an MPI that is not known here, MPI", "MPI_VERSION", "MPI_VERSION MPI_SUBVERSION"),
)
# Of GCC, Clang and Intel's: that it is mpi.h itself which is missing.
NO_HEADER = re.compile(r"mpi\.h: No such file|'mpi\.h' file not found|open source file \"mpi\.h\"")
WORD = "netpipe_found_mpi"  # marks our line among those of the header


@dataclass(frozen=True, slots=True)
class Library:
    mpicc: Path
    kind: Kind
    version: str  # "4.1.4"
    environment: Mapping[str, str] = field(default_factory=dict)  # that this mpicc works in

    @property
    def title(self) -> str:
        return f"{self.kind.title} {self.version}"


def probe() -> str:
    """C whose preprocessed text names the first of KINDS."""
    # SimGrid's mpi.h does not say its version.
    lines = ["#include <mpi.h>", "#ifdef SMPI_H", "#include <simgrid/version.h>", "#endif"]
    for place, kind in enumerate(KINDS):
        lines += [f"#{'el' if place else ''}if defined {kind.macro}", f"{WORD} {place} {kind.version}"]
    return "\n".join([*lines, "#endif", ""])


def settle(mpicc: Path) -> Path:
    """An absolute path that goes on to mean this MPI when the host's alternatives are set to another one:
    /usr/bin/mpicc becomes /usr/bin/mpicc.openmpi, but not opal_wrapper, which would not know what to compile.
    """
    path = settled = mpicc.absolute()
    for _ in range(16):  # a longer chain is a loop
        if not path.is_symlink():
            break
        path = Path(os.path.normpath(path.parent / path.readlink()))
        if path.name.startswith(("mpicc", "smpicc")):
            settled = path
    return settled


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, limit_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """A compiler's or another tool's output. Raises Failure (3) where it cannot be started or does not end."""
    limit_s = limit_s or LIMIT_S
    words = [str(word) for word in command]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {}), "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{words[0]} cannot be started: {error.strerror}") from None
    with process:
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise Failure(UNAVAILABLE, f"{words[0]} was still running after {limit_s:g} s") from None
        finally:
            # Most are scripts: what they started holds our pipes, and would go on after an interrupt.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def condensed(stderr: str) -> str:
    """What matters of what a tool said: its first error, else its last line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    signs = ("error:", "cannot find", "undefined reference", "not found", "No such file")
    errors = [line for line in lines if any(sign in line for sign in signs)]
    return (errors or lines[-1:] or ["it said nothing"])[0][:300]


def identify(
    mpicc: Path, environment: Mapping[str, str] | None = None, limit_s: float | None = None
) -> Library:
    """Raises Failure (2) for what is no MPI compiler, and (3) for one that does not work."""
    if not mpicc.exists():
        raise Failure(
            USAGE, f"there is no {mpicc}; name the mpicc of an MPI library (netpipe doctor finds them)"
        )
    if not mpicc.is_file() or not os.access(mpicc, os.X_OK):
        raise Failure(USAGE, f"{mpicc} is no program; name the mpicc of an MPI library")
    environment = {**whereabouts(mpicc), **(environment or {})}
    # Not from standard input: LAM's wrapper hands only files on to the compiler.
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="netpipe-mpicc-") as folder:
        source = Path(folder) / "probe.c"
        source.write_text(probe())
        done = run([mpicc, "-E", source], environment, limit_s)
    # A macro of a header in a system folder stands in a line of its own, behind one that says so.
    text = " ".join(line for line in done.stdout.splitlines() if not line.startswith("#"))
    found = text.partition(WORD)[2].replace('"', "").split()
    if found:
        place, *parts = found
        return Library(settle(mpicc), KINDS[int(place)], ".".join(parts), environment)
    if done.returncode != 0 and NO_HEADER.search(done.stderr):
        raise Failure(
            USAGE,
            f"{mpicc} compiles, but finds no mpi.h: it is no MPI compiler, or its headers are not installed",
        )
    if done.returncode != 0:
        raise Failure(UNAVAILABLE, f"{mpicc} does not work: {condensed(done.stderr)}")
    raise Failure(USAGE, f"{mpicc} is no MPI compiler: it was given C to preprocess and wrote nothing of it")


def whereabouts(mpicc: Path) -> dict[str, str]:
    """What an mpicc has to be told of where it is: Intel's, when it was installed by pip, does not know."""
    prefix = mpicc.absolute().parent.parent
    return {"I_MPI_ROOT": str(prefix)} if (prefix / "bin" / "impi_info").is_file() else {}


def shown(library: Library) -> list[str]:
    """The command that this mpicc stands for; [] where it does not say."""
    import shlex

    for question in ("-show", "-showme"):
        done = run([library.mpicc, question], library.environment)
        words = shlex.split(done.stdout.strip()) if done.returncode == 0 else []
        if len(words) > 1:
            return words
    return []
