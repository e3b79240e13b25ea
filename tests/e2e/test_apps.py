# SPDX-License-Identifier: Apache-2.0
"""Application kernels over real MPI libraries: they verify, and whatever goes wrong with one of them is told, ends in
time, and leaves the others and their results alone. pretend.c is a kernel whose classes go wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import NATIVE, ROOT
from machines import wait_until
from mpi import Mpis

from netpipe import cli, native
from netpipe.applications import listing, plan, running
from netpipe.kernels import read
from netpipe.libraries.adding import programs
from netpipe.libraries.starting.processes import all_with

LIBRARY = "mpich"  # it starts ten times as fast as the other one
YIELDS = "openmpi"  # where ranks share processors
USUAL = programs.PROGRAM
# the optimiser takes half a minute for all kernels; class S runs well without it
FAST = ("-std=gnu11", "-O0")
SQUARE = ("bt", "sp")  # that need a square number of ranks
# Whether a kernel can have so many ranks, by the words in its first comment.
RANKS: dict[str, Callable[[int], bool]] = {
    "any number": lambda _: True,
    "a power of two": lambda ranks: ranks & (ranks - 1) == 0,
    "a square": lambda ranks: ranks in (1, 4, 9),
    "a x b, b <= a <= 2 b": lambda ranks: ranks in (1, 2, 4, 6, 8, 9),
}


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str
    folder: Path  # where it ran, with its results

    @property
    def results(self) -> dict[str, Any]:
        """By class of the kernel, or by variant where there is one class."""
        found = read(self.folder / "apps.jsonl").results
        classes = {one.problem for one in found}
        return {one.problem if len(classes) > 1 else one.variant: one for one in found}


Apps = Callable[..., Said]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, with a short name: sockets of MPI libraries lie in it. Nothing is left in it."""
    folder = Path(tempfile.mkdtemp(prefix="npa-"))
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    left = [(pid, command_of(pid)) for pid in all_with(str(folder)) if alive(pid)]
    for pid, _ in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == [], "these processes outlived their session"
    assert list(folder.iterdir()) == []
    shutil.rmtree(folder, ignore_errors=True)


def command_of(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def is_rank(command: bytes) -> bool:
    return command.partition(b"\0")[0].endswith(b"-pretend")


def alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture
def apps(
    with_mpis: Mpis,
    scratch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Apps:
    """apps("is", "--ranks", "2") is one command line, with kernels that were compiled in no time."""
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Said:
        capfd.readouterr()
        code = cli.call(["apps", *words])
        return Said(code, *capfd.readouterr(), tmp_path)

    return call


@pytest.fixture
def pretending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the kernels has pretend.c alone."""
    folder = tmp_path / "prefix" / "share" / "netpipe" / "apps"
    folder.mkdir(parents=True)
    for file in (ROOT / "src" / "apps" / "app.h", Path(__file__).with_name("pretend.c")):
        shutil.copy(file, folder)
    monkeypatch.setattr(programs, "source_folder", lambda _: folder)
    return folder


# ----------------------------------------------------------------------------------------------------- they verify


def test_there_are_the_kernels_that_the_documentation_promises() -> None:
    assert len(programs.applications()) == 9


@pytest.mark.parametrize("name", programs.applications())
def test_every_kernel_verifies(apps: Apps, with_mpis: Mpis, name: str) -> None:
    library, ranks = (YIELDS, "4") if name in SQUARE else (LIBRARY, "2")
    with_mpis.need(library)
    said = apps(name, "--on", f"mpi@{library}", "--ranks", ranks, "--launches", "1", "-q")
    assert (said.code, said.err) == (0, "")
    (found,) = read(said.folder / "apps.jsonl").results
    assert (found.name, found.verified) == (name, True)
    assert found.seconds is not None
    assert found.mops is not None
    assert found.seconds > 0
    assert found.mops > 0


@pytest.mark.deep
@pytest.mark.parametrize(
    ("library", "ranks"),
    [(name, ranks) for name in ("openmpi", "mpich", "openmpi4", "mpich4") for ranks in ("1", "2")]
    + [("openmpi", "4"), ("openmpi4", "4")],  # MPICH's ranks do not yield: 4 on 2 processors may take minutes
)
def test_every_kernel_verifies_as_it_is_built_for_users(
    apps: Apps, with_mpis: Mpis, monkeypatch: pytest.MonkeyPatch, library: str, ranks: str
) -> None:
    with_mpis.need(library)
    monkeypatch.setattr(programs, "PROGRAM", USUAL)
    said = apps("all", "--on", f"mpi@{library}", "--ranks", ranks, "--launches", "1", "--timeout", "120")
    assert said.code == 0, said.err
    assert len(read(said.folder / "apps.jsonl").results) == (7 if ranks == "2" else 9)


def test_one_kernel_over_two_libraries_and_their_transports(apps: Apps, with_mpis: Mpis) -> None:
    with_mpis.need("openmpi", "mpich")
    on = ("--on", "mpi@openmpi:transport=shm|tcp", "--on", "mpi@mpich:transport=shm|tcp")
    said = apps("is", *on, "--ranks", "2", "--launches", "1", "--json")
    rows = json.loads(said.out)["rows"]
    assert said.code == 0, said.err
    assert {row["variant"] for row in rows} == {
        f"mpi@{library}:transport={transport}"
        for library in ("openmpi", "mpich")
        for transport in ("shm", "tcp")
    }
    assert all(row["verified"] == 1 and row["tied"] for row in rows), "one launch tells no difference"
    titles = read(said.folder / "apps.jsonl").header.libraries
    assert titles["mpi@openmpi"].startswith("Open MPI ")
    assert titles["mpi@mpich"].startswith("MPICH ")


@pytest.mark.parametrize("name", programs.applications())
def test_a_kernel_has_the_ranks_and_classes_that_its_source_says(
    mpis: Mpis, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (one,) = mpis.need(LIBRARY)
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    build = programs.builder(one)
    program = programs.application(build, name)
    said = listing.kernels()[name]
    for ranks in (2, 3, 4, 6, 9):
        answer = plan.ask(program, build.environment, said.classes[2], ranks, {})
        assert answer["fits"] == RANKS[said.ranks](ranks), f"{ranks} ranks: {answer['why']}"
        assert (answer["memory_bytes"] > 0) == answer["fits"]
        assert bool(answer["why"]) != answer["fits"]
    refused = subprocess.run(
        [program, "--class", "?"], capture_output=True, text=True, check=False, timeout=20
    )
    assert refused.returncode == 2
    assert refused.stderr.endswith(f"there is no class '?'; choose one of: {' '.join(said.classes)}\n")
    refused = subprocess.run([program, "--no-such"], capture_output=True, text=True, check=False, timeout=20)
    assert refused.returncode == 2
    assert refused.stderr.endswith(
        f" one of: {' '.join(said.settings)}\n" if said.settings else "--plan RANKS\n"
    )


# ------------------------------------------------------------------------------------------------- what goes wrong


def test_what_goes_wrong_with_one_leaves_the_others_alone(
    apps: Apps, with_mpis: Mpis, pretending: Path
) -> None:
    with_mpis.need(LIBRARY)
    on = f"mpi@{LIBRARY}"
    problems = "fine,wrong,silent,crash,hang,moved"
    said = apps(
        *("pretend", "--class", problems, "--on", on, "--ranks", "2,3", "--launches", "1", "--timeout", "2")
    )
    assert said.code == 4
    found = said.results
    assert set(found) == set(problems.split(","))
    assert (found["fine"].verified, found["fine"].seconds, found["fine"].mops) == (True, 0.25, 4.0)
    assert (found["fine"].pin, found["fine"].oversubscribed) == (native.place("auto", 2)["pin"], False)
    assert f"Bound: 2 ranks to processors {found['fine'].pin[0]} and {found['fine'].pin[1]}." in said.out
    for problem, words in {
        "wrong": "its result is wrong: answer is 41 and should be 42",
        "silent": "it has verified nothing",
        "crash": "it ended with exit code ",
        "hang": "it did not end within 2 s; --timeout gives it more",
        "moved": f"rank 1 was bound to processor {found['fine'].pin[1]} and could run on several processors at",
    }.items():
        assert not found[problem].verified
        assert words in found[problem].problem_text
        assert f"pretend class {problem} on 2 ranks over {on}: {found[problem].problem_text}\n" in said.err
        assert f"pretend class {problem} is left out on 3 ranks: it needs an even number of ranks" in said.err
    assert said.out.splitlines()[1].split()[:3] == ["pretend", "fine", "2"]


def test_a_launcher_that_dies_takes_its_ranks_along(apps: Apps, with_mpis: Mpis, pretending: Path) -> None:
    with_mpis.need("openmpi")
    said = apps("pretend", "--class", "orphan", "--on", "mpi@openmpi", "--ranks", "2", "--launches", "1")
    assert (said.code, said.results["mpi@openmpi"].verified) == (4, False)
    assert "its launcher was killed by SIGKILL, and said nothing" in said.err


@pytest.mark.deep
def test_daemons_are_booted_anew_after_a_kernel_that_failed(
    apps: Apps, with_mpis: Mpis, pretending: Path, scratch: Path
) -> None:
    with_mpis.need("lam")
    scratch.chmod(0o1777)  # LAM's own user has its sockets there
    on = ("--on", "mpi@lam:transport=tcp", "--ranks", "2", "--launches", "2", "--timeout", "4")
    said = apps("pretend", "--class", "crash,hang,fine", *on)
    assert said.code == 4
    assert {problem: one.verified for problem, one in said.results.items()} == {
        "crash": False, "hang": False, "fine": True
    }, said.err  # fmt: skip
    assert "no lamd" not in said.err


@pytest.mark.deep
@pytest.mark.parametrize("library", ["openmpi", "mpich", "openmpi4", "mpich4"])
def test_a_hang_after_the_result_loses_nothing(
    apps: Apps, with_mpis: Mpis, pretending: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    with_mpis.need(library)
    monkeypatch.setattr(running, "LEAVE_S", 1.0)
    on = ("--on", f"mpi@{library}", "--ranks", "2", "--launches", "1", "--timeout", "8")
    said = apps("pretend", "--class", "late,crash,hang,orphan", *on)
    assert said.code == 4
    assert {problem: one.verified for problem, one in said.results.items()} == {
        "late": True, "crash": False, "hang": False, "orphan": False
    }  # fmt: skip
    late, hang = (said.results[problem].wall_s or 0.0 for problem in ("late", "hang"))
    assert late < hang, "it was not given all of its time"


def test_too_little_memory_is_refused_before_it_starts(apps: Apps, with_mpis: Mpis, pretending: Path) -> None:
    with_mpis.need(LIBRARY)
    said = apps("pretend", "--class", "fine,huge", "--on", f"mpi@{LIBRARY}", "--ranks", "2")
    assert (said.code, said.out) == (3, "")
    assert "pretend class huge on 2 ranks needs 1820 TiB of memory, and there are " in said.err
    assert list(said.folder.glob("*.jsonl*")) == []


def test_ranks_are_bound_where_each_can_have_a_processor(
    apps: Apps, with_mpis: Mpis, pretending: Path
) -> None:
    with_mpis.need("openmpi", LIBRARY)
    usable = sorted(os.sched_getaffinity(0))
    on = ("--on", "mpi@openmpi", "--on", f"mpi@{LIBRARY}", "--launches", "1")
    two = f"{usable[1]},{usable[0]}"
    for words, pin, sentence in (
        (
            ("--ranks", "2", "--pin", two),
            [usable[1], usable[0]],
            f"Bound: 2 ranks to processors {usable[1]} and",
        ),
        (("--ranks", "2", "--pin", "none"), [None] * 2, "Not bound: 2 ranks."),
    ):
        said = apps("pretend", *on, *words)
        assert said.code == 0, said.err
        assert [one.pin for one in said.results.values()] == [pin, pin]
        assert sentence in said.out
    more = 2 * (len(usable) // 2 + 1)  # an even number
    said = apps("pretend", "--on", "mpi@openmpi", "--launches", "1", "--ranks", str(more))
    (found,) = said.results.values()
    assert (said.code, found.pin, found.oversubscribed) == (0, [None] * more, True)
    assert f"Oversubscribed: {more} ranks on {len(usable)} processor" in said.out
    said = apps("pretend", "--on", "mpi@openmpi", "--ranks", "2", "--pin", "4095,0")
    assert (said.code, said.out) == (2, "")
    assert "this process cannot use processor 4095" in said.err


@pytest.mark.parametrize("setting", ["op=isend", "memory=cuda"])
def test_a_setting_of_netpipes_own_calls_is_refused(
    apps: Apps, with_mpis: Mpis, pretending: Path, setting: str
) -> None:
    with_mpis.need(LIBRARY)
    said = apps("pretend", "--on", f"mpi@{LIBRARY}:{setting}", "--ranks", "2")
    assert (said.code, said.out) == (2, "")
    assert f"{setting} says how netpipe calls the library; a program makes its own calls" in said.err


def test_the_command_of_a_dry_run_does_what_a_run_does(apps: Apps, with_mpis: Mpis) -> None:
    with_mpis.need("openmpi")
    words = ("is", "--on", "mpi@openmpi:transport=tcp", "--ranks", "2,3", "--dry-run", "--json")
    said = apps(*words)
    made = json.loads(said.out)
    (task,) = made["tasks"]
    assert said.code == 0
    assert made["notes"] == ["is class S is left out on 3 ranks: it needs a power of two of ranks"]
    assert task["environment"]["OMPI_MCA_btl"] == "self,tcp"
    assert task["memory_bytes"] > 1 << 18
    assert list(said.folder.glob("*.jsonl*")) == []
    done = subprocess.run(
        task["command"], shell=True, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert " IS Benchmark Completed." in done.stdout
    assert " Verification    =               SUCCESSFUL\n" in done.stdout


# -------------------------------------------------------------------------------------------------- interrupted


@contextlib.contextmanager
def going(folder: Path, prefix: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`netpipe apps pretend` in a process of its own, with the kernels of this prefix."""
    for name in ("bin", "lib"):
        (prefix / name).symlink_to(NATIVE / name)
    process = subprocess.Popen(
        [sys.executable, "-m", "netpipe", "apps", "pretend", *words],
        cwd=folder,
        env={**os.environ, "NETPIPE_NATIVE": str(prefix)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def test_an_interrupt_keeps_what_ran(
    with_mpis: Mpis, scratch: Path, tmp_path: Path, pretending: Path
) -> None:
    with_mpis.need(LIBRARY)
    path = tmp_path / "apps.jsonl"
    words = ("--on", f"mpi@{LIBRARY}", "--ranks", "2", "--launches", "1000")
    with going(tmp_path, pretending.parents[2], *words) as process:
        wait_until(lambda: path.exists() and path.read_text().count('"type":"result"') >= 2, "nothing ran")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    found = read(path)
    assert len(found.results) >= 2
    assert found.end is not None
    assert found.end.exit_code == 130
    assert f"pretend fine      2  mpi@{LIBRARY}" in out
    assert "netpipe: interrupted\nnetpipe: the results are in apps.jsonl\n" in err


@pytest.mark.deep
@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_the_next_session_ends_what_a_killed_one_has_left(
    apps: Apps, with_mpis: Mpis, scratch: Path, tmp_path: Path, pretending: Path, library: str
) -> None:
    with_mpis.need(library)
    on = ("--on", f"mpi@{library}", "--ranks", "2", "--launches", "1")

    def ranks() -> list[int]:
        return [pid for pid in all_with(str(scratch)) if alive(pid) and is_rank(command_of(pid))]

    with going(tmp_path, pretending.parents[2], "--class", "hang", *on) as process:
        wait_until(lambda: len(ranks()) >= 2, "no rank runs")
        process.kill()
    assert len(ranks()) >= 2
    said = apps("pretend", "--class", "fine", *on)
    assert said.code == 0
    assert ranks() == []


# --------------------------------------------------------------------------------------------- the worker's command


def settings(mpis: Mpis, *words: str) -> subprocess.CompletedProcess[str]:
    worker = NATIVE / "bin" / "netpipe-worker"
    return subprocess.run(
        [worker, "settings", *words], capture_output=True, text=True, check=False, timeout=60
    )


def test_the_worker_shows_the_environment_for_programs(mpis: Mpis) -> None:
    file = str(mpis.need("openmpi")[0].file)
    done = settings(mpis, file, "mpi@openmpi:transport=tcp,eager=64k,env=OMPI_MCA_coll=^hcoll", "2")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["variant"].startswith("mpi@openmpi:transport=tcp,eager=64k")
    assert found["environment"]["OMPI_MCA_pml"] == "ob1"
    assert found["environment"]["OMPI_MCA_btl"] == "self,tcp"
    assert found["environment"]["OMPI_MCA_btl_tcp_eager_limit"] == "65536"
    assert found["environment"]["OMPI_MCA_coll"] == "^hcoll"
    assert json.loads(settings(mpis, file, "mpi@openmpi", "1").stdout)["environment"] == {}
    # Ranks that share a processor must not poll.
    crowd = json.loads(settings(mpis, file, "mpi@openmpi", str(4 * (os.cpu_count() or 1))).stdout)
    assert crowd["environment"]["OMPI_MCA_mpi_yield_when_idle"] == "1"


@pytest.mark.parametrize(
    ("variant", "ranks", "words"),
    [
        (
            "mpi@openmpi:op=isend",
            "2",
            "op=isend says how netpipe calls the library; a program makes its own calls",
        ),
        ("mpi@openmpi:thread=multiple", "2", "thread=multiple says how netpipe calls the library"),
        ("mpi@openmpi:colour=blue", "2", "has no option 'colour'"),
        ("mpi@openmpi:transport=shm,sndbuf=8k", "2", "there is no socket"),
        ("mpi@openmpi", "0", "write: netpipe-worker settings FILE VARIANT RANKS"),
        ("mpi@openmpi", "many", "write: netpipe-worker settings FILE VARIANT RANKS"),
        ("mpi@openmpi", "99999999", "write: netpipe-worker settings FILE VARIANT RANKS"),
    ],
)
def test_the_worker_refuses_what_programs_cannot_have(
    mpis: Mpis, variant: str, ranks: str, words: str
) -> None:
    done = settings(mpis, str(mpis.need("openmpi")[0].file), variant, ranks)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_the_worker_refuses_modules_without_programs(mpis: Mpis) -> None:
    modules = NATIVE / "lib" / "netpipe" / "modules"
    for words, sentence in (
        ((str(modules / "tcp.so"), "tcp", "2"), "tcp has no programs of its own"),
        (("/nowhere/mpi@mine.so", "mpi@mine", "2"), "/nowhere/mpi@mine.so does not exist"),
        ((), "write: netpipe-worker settings FILE VARIANT RANKS"),
    ):
        done = settings(mpis, *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert sentence in done.stderr
