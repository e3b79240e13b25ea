# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""netpipe profile: real programs under real launchers, what cannot be profiled, and what is kept of a program that ends
badly. tests/e2e/test_profiler_library.py has what is counted.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import NATIVE
from machines import open_folder, slurm  # noqa: F401
from mpi import LIBRARIES, Mpis

from netpipe.libraries.srun import interface
from netpipe.libraries.starting import description
from netpipe.libraries.starting.processes import end_all_with
from netpipe.profiles import Profile, read

HERE = Path(__file__).parent
ROOT = {
    name: "1"
    for kind in ("OMPI", "PRTE")
    for name in (f"{kind}_ALLOW_RUN_AS_ROOT", f"{kind}_ALLOW_RUN_AS_ROOT_CONFIRM")
}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Bench:
    """A library, a program that is linked with it, and a folder."""

    name: str
    launcher: Path
    program: Path
    folder: Path
    environment: Mapping[str, str]  # that the library needs

    def run(self, *words: str | Path) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=self.folder,
            env=self._environment(),
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **ROOT, **self.environment, "NETPIPE_NATIVE": str(NATIVE)}

    def start(self) -> subprocess.Popen[str]:
        """The profile of a program that waits to be ended, in a session of its own, as of a terminal."""
        process = subprocess.Popen(
            [sys.executable, "-m", "netpipe", "profile", "--", *self.launch(self.program, "wait")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment(),
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        return process

    def launch(self, *words: str | Path) -> list[str]:
        return [str(self.launcher), "-n", "2", *map(str, words)]

    def profile(self, *words: str | Path, command: list[str] | None = None) -> Done:
        return self.run("profile", "--", *(command or self.launch(*(words or (self.program,)))))

    @property
    def result(self) -> Profile:
        return read(self.folder / "profile.jsonl")


Make = Callable[[str], Bench]
# Building the profiler takes ten seconds for each library, so `make test` has one.
LIBRARY = ["mpich", pytest.param("openmpi", marks=pytest.mark.deep), "impi"]


class Programs(dict[str, Path]):
    """The test program, by library. It is compiled when it is first needed."""

    def __init__(self, folder: Path, mpis: Mpis) -> None:
        super().__init__()
        self._folder = folder
        self._mpis = mpis

    def __missing__(self, name: str) -> Path:
        mpicc = LIBRARIES[name][0]
        rpath = f"-Wl,-rpath,{mpicc.parent.parent / 'lib'}"
        (module,) = self._mpis.need(name)
        subprocess.run(
            [mpicc, HERE / "profiled.c", "-o", self._folder / name, rpath],
            check=True,
            timeout=60,
            capture_output=True,
            env={**os.environ, **description.read(module.path).environment},
        )
        self[name] = self._folder / name
        return self[name]


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory, mpis: Mpis) -> Programs:
    return Programs(tmp_path_factory.mktemp("profiled"), mpis)


@pytest.fixture
def make(with_mpis: Mpis, programs: Programs, tmp_path: Path) -> Make:
    def one(name: str) -> Bench:
        (module,) = with_mpis.need(name)
        assert module.launcher is not None
        needs = description.read(module.path).environment
        return Bench(name, module.launcher[1], programs[name], tmp_path, needs)

    return one


def calls_of(profile: Profile, rank: int) -> dict[tuple[str, int], int]:
    entries = profile.entries[rank]
    found: dict[tuple[str, int], int] = {}
    for call, size, count in zip(entries.call, entries.bytes, entries.calls, strict=True):
        key = (profile.header.calls[call].name, size)
        found[key] = found.get(key, 0) + count
    return found


@pytest.mark.parametrize("name", LIBRARY)
def test_a_program_is_profiled_as_it_is(make: Make, name: str) -> None:
    bench = make(name)
    done = bench.profile()
    assert done.code == 0, done.err
    profile = bench.result
    assert profile.header.module == f"mpi@{name}"
    assert profile.header.ranks == 2
    assert profile.header.processors == len(os.sched_getaffinity(0))
    assert {rank.host for rank in profile.ranks} == {profile.header.host}, (
        "so that predict knows whose they are"
    )
    assert calls_of(profile, 0) == {("Send", 100): 10, ("Barrier", 0): 1}
    assert calls_of(profile, 1) == {("Recv", 100): 10, ("Barrier", 0): 1}
    assert [rank.state for rank in profile.ranks] == ["finalized", "finalized"]
    assert profile.traces[0].events == 11
    assert profile.end is not None
    assert profile.end.exit_code == 0
    assert not list(bench.folder.glob(".netpipe-profile-*"))  # nothing is left behind
    shown = bench.run("show", "profile.jsonl")
    assert shown.code == 0, shown.err


@pytest.mark.parametrize("name", LIBRARY)
def test_the_output_and_the_exit_code_are_those_of_the_program(make: Make, name: str) -> None:
    bench = make(name)
    done = bench.profile(bench.program, "code")
    assert done.code == 3
    assert calls_of(bench.result, 0)["Send", 100] == 10
    assert bench.result.end is not None
    assert bench.result.end.exit_code == 3


@pytest.mark.parametrize("how", ["exit", "abort", "kill"])
@pytest.mark.parametrize("name", LIBRARY)
def test_what_a_program_did_is_kept_whatever_ends_it(make: Make, name: str, how: str) -> None:
    bench = make(name)
    done = bench.profile(bench.program, how)
    # A rank that calls exit(0) without MPI_Finalize is an error to Open MPI's launcher, and none to MPICH's.
    assert done.code != 0 or (how, name) in {("exit", "mpich"), ("exit", "impi")}
    profile = bench.result
    assert calls_of(profile, 0)["Send", 100] == 10
    assert calls_of(profile, 1)["Recv", 100] == 10
    states = {rank.rank: rank.state for rank in profile.ranks}
    if how == "abort":
        assert (states[0], profile.ranks[0].exit_code) == ("aborted", 7)
        assert "MPI_Abort" in done.err
    else:
        assert "unfinished" in states.values()
        assert "did not reach MPI_Finalize" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
@pytest.mark.parametrize("name", LIBRARY)
def test_what_a_program_did_until_a_signal_is_kept(make: Make, name: str, number: signal.Signals) -> None:
    """An interrupt goes to all processes of the terminal, and a time limit ends netpipe alone."""
    bench = make(name)
    with bench.start() as process:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    profile = bench.result
    assert calls_of(profile, 0) == {("Send", 100): 10, ("Barrier", 0): 1}
    assert [rank.state for rank in profile.ranks] == ["unfinished", "unfinished"]
    assert "did not reach MPI_Finalize" in said
    assert not list(bench.folder.glob(".netpipe-profile-*"))


def test_a_profile_is_made_of_what_a_killed_netpipe_has_left(make: Make) -> None:
    bench = make("mpich")
    with bench.start() as process:
        (folder,) = bench.folder.glob(".netpipe-profile-*")
        process.kill()
        process.wait(20)
        end_all_with(str(folder))
    done = bench.profile()
    assert f"netpipe profile --from {folder} -o FILE makes a profile of it" in done.err
    done = bench.run("profile", "--from", folder.name, "-o", "killed.jsonl")
    assert done.code == 0, done.err
    killed = read(bench.folder / "killed.jsonl")
    assert calls_of(killed, 0) == {("Send", 100): 10, ("Barrier", 0): 1}
    assert killed.header.command == bench.launch(bench.program, "wait")
    assert killed.end is not None
    assert killed.end.exit_code is None
    assert not folder.exists()


def test_a_forked_child_is_no_rank(make: Make) -> None:
    bench = make("mpich")
    assert bench.profile(bench.program, "twice").code == 0
    assert calls_of(bench.result, 0) == {("Send", 100): 10, ("Barrier", 0): 1}


def test_without_a_trace(make: Make) -> None:
    bench = make("mpich")
    done = bench.run("profile", "--no-trace", "--", *bench.launch(bench.program))
    assert done.code == 0, done.err
    assert bench.result.traces == {}
    refused = bench.run("predict", "profile.jsonl", "profile.jsonl")
    assert refused.code == 2


def test_a_script_that_runs_two_programs(make: Make) -> None:
    bench = make("mpich")
    script = bench.folder / "both.sh"
    script.write_text(f"#!/bin/sh\n{bench.program} && {bench.program}\n")
    script.chmod(0o755)
    one = bench.folder / "one.sh"
    one.write_text(f"#!/bin/sh\nexec {bench.program}\n")
    one.chmod(0o755)
    assert bench.profile(one).code == 0
    assert calls_of(bench.result, 0)["Send", 100] == 10
    # MPI starts once in a job of Hydra, so the second program fails or is alone: either way the first one is kept.
    bench.profile(script)
    assert calls_of(bench.result, 0)["Send", 100] == 10


def test_the_second_program_of_a_process_of_the_job_is_named(make: Make) -> None:
    """Without a launcher each program is alone, so the second one starts too."""
    bench = make("mpich")
    script = bench.folder / "both.sh"
    script.write_text('"$1" && "$1"\n')
    done = bench.profile(command=["sh", str(script), str(bench.program)])
    assert done.code == 0, done.err
    assert "rank 0: this job ran a second MPI program: only the first one is profiled" in done.err
    assert calls_of(bench.result, 0) == {("Barrier", 0): 1}


@pytest.mark.deep
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_a_program_that_srun_starts_is_profiled(
    make: Make, mpis: Mpis, slurm: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bench = make(name)
    monkeypatch.setenv("SLURM_CONF", str(slurm))
    (module,) = mpis.need(name)
    how = interface(description.read(module.path))
    done = bench.profile(command=["srun", f"--mpi={how}", "--ntasks=2", str(bench.program)])
    assert done.code == 0, done.err
    assert bench.result.header.module == f"mpi@{name}"
    assert calls_of(bench.result, 0) == {("Send", 100): 10, ("Barrier", 0): 1}
    assert calls_of(bench.result, 1) == {("Recv", 100): 10, ("Barrier", 0): 1}
    assert [rank.state for rank in bench.result.ranks] == ["finalized", "finalized"]


@pytest.mark.deep
def test_a_program_of_the_standard_abi(make: Make) -> None:
    """MPICH has both interfaces, and its own compiler would build a profiler for the other one."""
    bench = make("mpich")
    compiler = bench.launcher.with_name("mpicc_abi")
    if not compiler.exists():
        pytest.skip("this MPICH has no mpicc_abi")
    program = bench.folder / "of-the-abi"
    subprocess.run([compiler, HERE / "profiled.c", "-o", program], check=True, timeout=60)
    done = bench.profile(program)
    assert done.code == 0, done.err
    assert calls_of(bench.result, 0) == {("Send", 100): 10, ("Barrier", 0): 1}
    assert (bench.result.header.library or "").startswith("MPICH 5.")


def test_a_job_script_is_told_where_to_put_the_profiler(make: Make) -> None:
    bench = make("mpich")
    script = bench.folder / "job.sh"
    run = " ".join(bench.launch(bench.program))
    script.write_text(f"#!/bin/sh\n{run}\n{run}\n")
    script.chmod(0o755)
    done = bench.profile(command=[str(script)])
    assert done.code == 2
    assert "is a script that starts launchers itself (lines 2, 3)" in done.err


# ------------------------------------------------------------------------------------------------------- refused


def test_a_program_of_another_library_is_refused(make: Make, programs: Programs) -> None:
    bench = make("mpich")
    make("openmpi")
    done = bench.profile(programs["openmpi"])
    assert done.code == 2
    assert "is the launcher of MPICH" in done.err
    assert "linked with Open MPI" in done.err
    assert not (bench.folder / "profile.jsonl").exists()


def test_a_program_of_another_library_in_a_script_is_named(make: Make, programs: Programs) -> None:
    """The command line does not show it, as with `mpirun python app.py`."""
    bench = make("mpich")
    make("openmpi")
    script = bench.folder / "app.sh"
    script.write_text(f"#!/bin/sh\nexec {programs['openmpi']}\n")
    script.chmod(0o755)
    done = bench.profile(script)
    assert done.code == 4
    assert "there is no profile: the program uses Open MPI (Open MPI v5." in done.err
    assert "but the profiler was built for MPICH; start it with the launcher of its own library" in done.err


def test_a_program_without_mpi(make: Make) -> None:
    bench = make("mpich")
    done = bench.profile("/bin/true")
    assert done.code == 4
    assert "no process called MPI_Init" in done.err
    alone = bench.profile(command=["/bin/true"])
    assert alone.code == 2
    assert "is not linked with an MPI library" in alone.err


def test_a_program_that_does_not_exist(make: Make) -> None:
    done = make("mpich").profile(command=["no-such-program"])
    assert done.code == 2
    assert "there is no program 'no-such-program'" in done.err


def test_a_program_with_its_owners_rights_is_refused(make: Make) -> None:
    bench = make("mpich")
    copy = bench.folder / "setuid"
    shutil.copy(bench.program, copy)
    copy.chmod(stat.S_ISUID | 0o755)
    if not copy.stat().st_mode & stat.S_ISUID:
        pytest.skip("this file system keeps no setuid bit")
    done = bench.profile(copy)
    assert done.code == 2
    assert "setuid" in done.err


@pytest.mark.parametrize("how", [("-static", "-no-pie"), ("-static-pie",)], ids=["at its address", "pie"])
def test_a_static_program_is_refused(make: Make, how: tuple[str, ...]) -> None:
    bench = make("mpich")
    source = bench.folder / "static.c"
    source.write_text('const char* name = "MPI_COMM_WORLD";\nint main(void) { return name[0] == 0; }\n')
    program = bench.folder / "static"
    built = subprocess.run(["cc", *how, source, "-o", program], check=False, capture_output=True, timeout=60)
    if built.returncode:
        pytest.skip("there is no static C library")
    done = bench.profile(program)
    assert done.code == 2
    assert "linked statically" in done.err


def test_a_file_that_is_no_profile_is_not_overwritten(make: Make) -> None:
    bench = make("mpich")
    other = bench.folder / "thesis.txt"
    other.write_text("ten years")
    done = bench.run("profile", "-o", other, "--", *bench.launch(bench.program))
    assert done.code == 2
    assert other.read_text() == "ten years"
    lost = bench.run("profile", "-o", bench.folder / "no" / "x.jsonl", "--", *bench.launch(bench.program))
    assert lost.code == 2
    assert "there is no folder" in lost.err


# ------------------------------------------------------------------------------------------------------ prediction


def test_a_profile_is_predicted_over_what_is_measured_for_it(make: Make) -> None:
    bench = make("mpich")
    assert bench.profile().code == 0
    done = bench.run(
        "predict",
        "profile.jsonl",
        "--measure",
        "mpi@mpich:transport=shm",
        "--budget",
        "0.3",
        "--what",
        "latency=1x",
    )
    assert done.code == 0, done.err
    assert "mpi@mpich:transport=shm" in done.out
    # On a machine that does other work netpipe says so in place of a verdict.
    assert "one variant" in done.out or "these numbers are no predictions" in done.out
    assert "4th of 4 launches" in done.err
    variant = "mpi@mpich:transport=shm"
    nothing = bench.run("predict", "profile.jsonl", "predict.jsonl", "--measure", variant, "-o", "more.jsonl")
    assert nothing.code == 0, nothing.err
    assert f"the runs have all curves that this program needs over {variant}" in nothing.err
    again = bench.run("predict", "profile.jsonl", "predict.jsonl", "--what", "speed=2x")
    assert again.code == 2
    assert "--what speed=2x is not understood" in again.err
    assert bench.run("predict", "profile.jsonl", "predict.jsonl", "--what", "latency=nanx").code == 2
    other = bench.run("predict", "profile.jsonl", "predict.jsonl", "--own", "mpi@mpich:transport=tcp")
    assert other.code == 2
    assert "is no variant of the runs; they have mpi@mpich:transport=shm" in other.err
    assert "predict.jsonl: No such file" in bench.run("predict", "profile.jsonl", "no/predict.jsonl").err
