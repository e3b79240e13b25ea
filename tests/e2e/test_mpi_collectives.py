# SPDX-License-Identifier: Apache-2.0
"""What no pattern asks of the MPI module yet: its collectives, blocking, with a request and persistent, messages in
flight among three ranks, how it waits where they share a processor, and memory that is opened often. A driver calls
the module's table in processes of the library's launcher.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from machines import open_folder  # noqa: F401
from mpi import EVERYDAY, SIX, Mpis

from netpipe import libraries
from netpipe.libraries.starting import description

ROOT = Path(__file__).resolve().parents[2]
RANKS = 3  # no power of two
LIMIT_S = 60.0
# Those that have persistent collectives. Intel's leave out a rank's own part when they are started again, which the
# module refuses to measure.
PERSISTENT = (("openmpi", ""), ("mpich", ""), ("impi", ",reuse=no"))


@pytest.fixture(scope="module")
def driver(open_folder: Path) -> Path:  # noqa: F811
    """It binds no MPI: the module does. LAM runs as an ordinary user, who cannot look into pytest's own folders."""
    program = open_folder / "mpi_driver"
    source = ROOT / "tests" / "modules" / "launched" / "mpi_driver.c"
    command = ["cc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include")]
    subprocess.run([*command, "-o", str(program), str(source), "-ldl"], check=True, timeout=LIMIT_S)
    return program


@pytest.fixture
def scratch(open_folder: Path) -> Path:  # noqa: F811
    folder = Path(tempfile.mkdtemp(dir=open_folder))
    folder.chmod(0o755)
    return folder


def run(
    driver: Path, scratch: Path, mpis: Mpis, name: str, options: str, what: str, ranks: int = RANKS
) -> str:
    (added,) = mpis.need(name)
    known = description.read(added.path)
    # Three ranks on two processors: whoever waits has to give his away.
    variables = {**known.environment, "OVERSUBSCRIBED": "1"}
    program = (str(driver), str(known.file), options, what)
    job = libraries.Job(known, program, ranks, (), variables, (), None, scratch)
    launcher = libraries.find_launcher(known, None)()
    try:
        launcher.boot(job, lambda: False)
        command = launcher.command(job)
        process = command.popen(subprocess.DEVNULL, subprocess.PIPE)
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
    finally:
        launcher.halt()
    text = said.decode(errors="replace")
    assert process.returncode == 0, text
    return text


@pytest.mark.parametrize("library", SIX)
def test_collectives_come_to_the_right_numbers(driver: Path, mpis: Mpis, scratch: Path, library: str) -> None:
    said = run(driver, scratch, mpis, library, "transport=shm", "collectives")
    found = re.search(r"verified (\d+) collective operations", said)
    assert found, said
    # All of them at three sizes, twice each, and twice with a request; LAM has 16 and none with a request.
    assert int(found[1]) == 3 * (16 * 2 if library == "lam" else 22 * 4)


@pytest.mark.parametrize(("library", "more"), PERSISTENT)
def test_persistent_collectives_come_to_the_right_numbers(
    driver: Path, mpis: Mpis, scratch: Path, library: str, more: str
) -> None:
    said = run(driver, scratch, mpis, library, f"transport=shm,op=persistent{more}", "collectives")
    found = re.search(r"verified (\d+) collective operations", said)
    assert found, said
    assert int(found[1]) == 22 * 3 * 4


@pytest.mark.parametrize("library", SIX)
def test_messages_in_flight_among_three_ranks_arrive(
    driver: Path, mpis: Mpis, scratch: Path, library: str
) -> None:
    # Over TCP three ranks of MPICH 4 do not always come out of MPI_Finalize (docs/modules/mpi.md).
    assert "verified" in run(driver, scratch, mpis, library, "transport=shm", "flight")


@pytest.mark.parametrize("library", EVERYDAY)
@pytest.mark.parametrize(
    ("option", "word"), [("yield=auto", "yield"), ("yield=yes", "yield"), ("yield=no", "poll")]
)
def test_a_library_that_polls_says_whether_it_was_told_to_yield(
    driver: Path, mpis: Mpis, scratch: Path, library: str, option: str, word: str
) -> None:
    # Of three ranks on two processors one may not get its processor for half of the time, and seem to sleep.
    said = run(driver, scratch, mpis, library, f"transport=shm,{option}", "describe", ranks=2)
    assert set(re.findall(r"rank \d wait: (\w+)", said)) == {word}, said


@pytest.mark.parametrize("library", EVERYDAY)
def test_memory_can_be_opened_again_and_again(driver: Path, mpis: Mpis, scratch: Path, library: str) -> None:
    assert "opened memory 12 times" in run(driver, scratch, mpis, library, "transport=shm", "windows")
