# SPDX-License-Identifier: Apache-2.0
"""Jobs of MPI processes: every launcher gets what it needs, what it says becomes a sentence, and nothing stays."""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netpipe import libraries
from netpipe.events import Launch
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.launch import jobs
from netpipe.launch.jobs import Jobs, Launchers, Settings, settings
from netpipe.libraries import Command, Job, Launcher
from netpipe.libraries.starting.condense import LONGEST, condense
from netpipe.libraries.starting.description import Description, find, launched, read
from netpipe.libraries.starting.hosts import Host, Hosts, joined, own_address, parse
from netpipe.libraries.starting.processes import all_with

VARIABLES = {"NETPIPE_JOIN": "127.0.0.1:7", "NETPIPE_JOB": "0", "NETPIPE_JOIN_SECRET": "5ec4e7"}
TWO_HOSTS = (Host("a", 2), Host("b", 2))


def description(family: str, version: str = "1.0", launcher: Path = Path("/opt/bin/mpirun")) -> Description:
    return Description(f"mpi@{family}", Path("/opt/mpi@x.so"), version, family, family, launcher)


def job(family: str, tmp_path: Path, version: str = "1.0", **changes: object) -> Job:
    given = {
        "description": description(family, version),
        "program": ("/opt/netpipe-worker", "join"),
        "ranks": 4,
        "hosts": (),
        "variables": VARIABLES,
        "extra": (),
        "remote_shell": None,
        "scratch": tmp_path,
    }
    return Job(**{**given, **changes})  # type: ignore[arg-type]


def command(family: str, tmp_path: Path, version: str = "1.0", **changes: object) -> Command:
    return libraries.launchers()[family]().command(job(family, tmp_path, version, **changes))


# ------------------------------------------------------------------------------------------------ command lines


@pytest.mark.parametrize("family", ["openmpi", "mpich", "intel", "srun"])
def test_the_secret_is_in_the_environment_and_never_on_a_command_line(family: str, tmp_path: Path) -> None:
    whose = "openmpi" if family == "srun" else family
    start = libraries.launchers()[family]().command(job(whose, tmp_path, extra=("--verbose",)))
    assert not any("5ec4e7" in word for word in start.argv)
    assert VARIABLES.items() <= start.environment.items()
    assert start.argv[-3:] == ("--verbose", "/opt/netpipe-worker", "join")


def test_open_mpi_is_told_not_to_bind_and_that_root_and_too_many_ranks_are_meant(tmp_path: Path) -> None:
    for version, oversubscribed in (
        ("Open MPI 4.1.4", "--oversubscribe"),
        ("Open MPI 5.0.11", "slot:OVERSUBSCRIBE"),
    ):
        start = command("openmpi", tmp_path, version)
        words = " ".join(start.argv)
        assert "-n 4 --bind-to none" in words
        assert oversubscribed in start.argv
        assert "-x NETPIPE_JOIN -x NETPIPE_JOB -x NETPIPE_JOIN_SECRET" in words
        assert start.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] == "1"


def test_the_simulators_program_is_the_module_and_its_machine_has_a_host_for_each_rank(
    tmp_path: Path,
) -> None:
    start = command("smpi", tmp_path, extra=("--verbose",))
    argv = start.argv
    assert argv[-2:] == ("--verbose", "/opt/mpi@x.so")
    assert not any("5ec4e7" in word for word in argv)
    assert VARIABLES.items() <= start.environment.items()
    assert argv[argv.index("-np") + 1] == "4"
    assert 'radical="0-3"' in Path(argv[argv.index("-platform") + 1]).read_text()
    hosts = Path(argv[argv.index("-hostfile") + 1]).read_text().split()
    assert hosts == ["node-0", "node-1", "node-2", "node-3"]


def test_the_simulator_takes_another_machine_and_no_hosts(tmp_path: Path) -> None:
    argv = command("smpi", tmp_path, extra=("-platform", "mine.xml")).argv
    assert argv.count("-platform") == 1
    assert "-hostfile" not in argv
    with pytest.raises(Failure, match="leave --hosts out"):
        command("smpi", tmp_path, hosts=TWO_HOSTS)


@pytest.mark.parametrize(
    ("family", "version", "words"),
    [
        ("openmpi", "Open MPI 4.1.4", "--host a:2,b:2 --mca plm rsh --mca plm_rsh_agent /s/rsh"),
        ("openmpi", "Open MPI 5.0.11", "--host a:2,b:2 --prtemca plm ssh --prtemca plm_ssh_agent /s/rsh"),
        ("mpich", "4.0", "-launcher ssh -launcher-exec /s/rsh -f {scratch}/hydra-hosts"),
        ("intel", "2021", "-launcher ssh -launcher-exec /s/rsh -machine {scratch}/hydra-hosts"),
    ],
)
def test_other_hosts_are_reached_by_the_remote_shell(
    family: str, version: str, words: str, tmp_path: Path
) -> None:
    start = command(family, tmp_path, version, hosts=TWO_HOSTS, remote_shell=Path("/s/rsh"))
    assert words.format(scratch=tmp_path) in " ".join(start.argv)
    if family != "openmpi":
        assert (tmp_path / "hydra-hosts").read_text() == "a:2\nb:2\n"


def test_slurm_places_every_rank_where_it_was_asked_for(tmp_path: Path) -> None:
    hosts = (Host("a", 1), Host("b", 3))
    start = libraries.launchers()["srun"]().command(job("mpich", tmp_path, hosts=hosts))
    assert "--mpi=pmi2" in start.argv
    assert "--distribution=arbitrary" in start.argv
    assert Path(start.environment["SLURM_HOSTFILE"]).read_text() == "a\nb\nb\nb\n"


def test_what_another_launcher_left_in_the_environment_does_not_reach_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PMI_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess_base_jobid"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMPI_MCA_btl", "self,tcp")  # a setting of the user
    environment = Command(("mpirun",), {"A": "b"}).whole_environment()
    assert not [name for name in environment if name.startswith(("PMI", "OMPI_COMM", "OMPI_MCA_ess"))]
    assert (environment["OMPI_MCA_btl"], environment["A"]) == ("self,tcp", "b")


def test_a_launcher_that_there_is_not_is_a_sentence() -> None:
    with pytest.raises(Failure, match="there is no launcher 'rsh'; choose one of srun, ssh") as refused:
        settings(Hosts(), "rsh", None, None)
    assert refused.value.exit_code == USAGE
    with pytest.raises(
        Failure, match="'prun', which this netpipe does not know; it knows intel, lam"
    ) as unknown:
        libraries.find_launcher(description("prun"), None)
    assert unknown.value.exit_code == UNAVAILABLE
    with pytest.raises(Failure, match="--launcher-args: no closing quotation"):
        settings(Hosts(), None, "--x 'y", None)
    assert settings(Hosts(), "ssh", "--x 'y z'", None).arguments == ("--x", "y z")


def test_slurm_cannot_start_lam() -> None:
    with pytest.raises(Failure, match="srun cannot start mpi@lam"):
        libraries.find_launcher(description("lam"), "srun")().check(description("lam"), ("x",))


def test_a_launcher_that_was_removed_is_a_sentence(tmp_path: Path) -> None:
    gone = description("openmpi", launcher=tmp_path / "mpirun")
    with pytest.raises(
        Failure, match=r"mpirun, does not exist any more; .*netpipe modules remove mpi@openmpi"
    ):
        Launchers(program=("x",), describe=lambda _: gone).check("mpi@openmpi")


# ----------------------------------------------------------------------------------------------------- the hosts


def test_ranks_spread_over_hosts_in_blocks() -> None:
    assert parse("a,b").spread(4) == TWO_HOSTS
    assert parse("a:1,b:3").spread(4) == (Host("a", 1), Host("b", 3))
    assert (parse("a,b,c").ranks(), parse("a:2,b").ranks(), parse("a").ranks()) == (3, 3, 2)
    assert parse(None).ranks() is None
    assert parse("10.0.0.1:2,[fe80::1],[fe80::2]:3").given == (
        ("10.0.0.1", 2),
        ("[fe80::1]", None),
        ("[fe80::2]", 3),
    )
    assert joined(TWO_HOSTS) == "a:2,b:2"


@pytest.mark.parametrize(
    ("text", "ranks", "says"),
    [
        ("-x", None, "'-x' is not a host"),
        ("a b", None, "'a b' is not a host"),
        (",", None, "--hosts names no host"),
        ("", None, "--hosts names no host"),
        ("a:0", None, "'a:0': a host needs at least one rank"),
        ("a,a", None, "host a is named twice; write a:2"),
        ("a,b,c", 4, "4 ranks do not spread evenly over 3 hosts; say how many each has: a:2,b:1,c:1"),
        ("a,b", 1, "1 rank does not spread evenly over 2 hosts; say how many each has: a:1"),
        ("a:2,b:2", 6, "the hosts have 4 ranks together and 6 were requested"),
        ("a:1", 2, "the hosts have 1 rank together and 2 were requested"),
        ("a:2,b:2", 1, "the hosts have 4 ranks together and 1 was requested"),
    ],
)
def test_hosts_that_make_no_sense_are_a_sentence(text: str, ranks: int | None, says: str) -> None:
    with pytest.raises(Failure) as refused:
        parse(text, ranks)
    assert (refused.value.exit_code, says in refused.value.sentence) == (USAGE, True), refused.value.sentence


# ----------------------------------------------------------------------------------------------- the description

TEXT = """netpipe-module 1
name mpi@mine
file /somewhere/mpi@mine.so
version Open MPI 5.0.11
operations bootstrap send recv
option\tlauncher\ttext\t\t0\t0\t\t\tno\tan option of this name is no line of ours
launcher openmpi /opt/with space/mpirun
environment LD_LIBRARY_PATH=/opt/lib=x
mpicc /opt/mpicc
"""


def test_a_description_says_how_its_processes_are_started(tmp_path: Path) -> None:
    path = tmp_path / "mpi@mine.module"
    path.write_text(TEXT)
    found = read(path)
    assert (found.name, found.family, found.launched_by, found.major) == ("mpi@mine", "openmpi", "openmpi", 5)
    assert (found.launcher, found.environment) == (
        Path("/opt/with space/mpirun"),
        {"LD_LIBRARY_PATH": "/opt/lib=x"},
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, ": No such file or directory"),
        (TEXT.replace("module 1", "module 2"), "is not a module description that this netpipe can read"),
        (TEXT.replace("launcher openmpi", "launched openmpi"), "does not name the launcher of its processes"),
        (TEXT.replace("openmpi /opt/with", "openmpi opt"), "does not name the launcher of its processes"),
    ],
)
def test_a_bad_description_says_how_to_make_it_anew(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "mpi@mine.module"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Failure) as refused:
        read(path)
    assert refused.value.exit_code == UNAVAILABLE
    assert says in refused.value.sentence
    assert refused.value.sentence.endswith("netpipe modules add mpi --name mine")


def test_descriptions_are_found_where_the_worker_says_or_in_the_folders(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(
        Failure, match="there is no description of mpi@mine; 'netpipe modules' shows"
    ) as refused:
        find("mpi@mine")
    assert refused.value.exit_code == UNAVAILABLE
    for place in (tmp_path / "data" / "netpipe" / "modules", fake.parents[1] / "lib" / "netpipe" / "modules"):
        place.mkdir(parents=True)
        (place / "mpi@mine.module").write_text(TEXT.replace("5.0.11", place.parts[-4]))
        assert find("mpi@mine").version == f"Open MPI {place.parts[-4]}"
    monkeypatch.setattr(
        "netpipe.native.keys", lambda: {"module_directories": [{"path": "/x", "kind": "user"}]}
    )
    with pytest.raises(Failure, match="there is no description of mpi@mine"):
        find("mpi@mine")  # the worker does not look where it is
    listing = {"modules": [{"name": "tcp"}, {"name": "mpi@mine", "launched": True, "description": "/x"}]}
    assert list(launched(listing)) == ["mpi@mine"]


# ------------------------------------------------------------------------------------------------ what was said


def test_our_own_sentence_is_what_matters() -> None:
    text = """[vm:00123] mca_base_component_repository_open: something
netpipe-worker: module mpi@x: transport ofi is not in this library
netpipe-worker: module mpi@x: transport ofi is not in this library
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status
"""
    assert condense(text) == "module mpi@x: transport ofi is not in this library"


def test_what_says_nothing_is_left_out_unless_there_is_nothing_else() -> None:
    assert condense("[mpiexec@vm] main (ui/mpich/mpiexec.c:326): error waiting") != ""
    assert condense("") == ""
    assert len(condense("word " * 1000)) <= LONGEST + 4
    died = "Aborted\nExecution failed with code 134.\n"
    assert condense("Bad config key: smpi/bogus\n" + died) == "Bad config key: smpi/bogus"
    assert condense(died) == "Aborted; Execution failed with code 134."


# -------------------------------------------------------------------------------------- a launcher from start to end

# A launcher that starts its ranks as mpirun does: each in a session of its own, so that no process group has them all.
MPIRUN = """#!{python} -SE
import os, signal, subprocess, sys, time
mode = sys.argv[1]
if mode == "silent": sys.exit(7)
if mode == "refuse": print("There are not enough slots", file=sys.stderr); sys.exit(1)
if mode == "chatty":
    print("first " + "x" * 3000000 + chr(10) + "the reason", flush=True)
    sys.exit(1)
if mode == "daemon":
    left = subprocess.Popen(["sleep", "60"], env={{}}, start_new_session=True)
    print("daemon", left.pid, flush=True); sys.exit(1)
if mode == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
ranks = [subprocess.Popen([sys.executable, "-SE", "-c", {rank!r}, str(rank), mode], start_new_session=True)
         for rank in range(int(sys.argv[2]))]
if mode == "crash": time.sleep(0.2); os.kill(os.getpid(), signal.SIGSEGV)
sys.exit(max(rank.wait() for rank in ranks))
"""
RANK = """
import os, socket, sys, time
host, _, port = os.environ["NETPIPE_JOIN"].rpartition(":")
near = socket.create_connection((host, int(port)))
who = [os.environ["NETPIPE_JOIN_SECRET"], os.environ["NETPIPE_JOB"], sys.argv[1], str(os.getpid())]
if sys.argv[2] == "memory":
    import mmap, time
    with open("/dev/shm/" + os.environ["NETPIPE_JOIN_SECRET"], "w+b") as file:
        file.truncate(4096)
        held = mmap.mmap(file.fileno(), 4096)
near.sendall(" ".join(who).encode())
while near.recv(1): pass
if sys.argv[2] in ("deaf", "stuck"): time.sleep(600)
"""


class FakeLauncher(Launcher):
    mode = "ok"
    booted: list[str] = []  # noqa: RUF012

    def boot(self, job: Job, given_up: Callable[[], bool]) -> None:
        self.booted.append(job.description.name)

    def halt(self) -> None:
        self.booted.append("halted")

    def command(self, job: Job) -> Command:
        return Command((str(job.description.launcher), self.mode, str(job.ranks)), job.variables)


class Bench:
    """In the worker's place: it asks for jobs and is joined."""

    def __init__(self, launchers: Launchers) -> None:
        self.interrupts = 0
        self.jobs = Jobs(launchers, lambda: self.interrupts)
        self.failed: list[tuple[int, str]] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(20)
        self.joined: list[socket.socket] = []
        self.secrets: list[str] = []

    def tell(self, job: int, sentence: str) -> None:
        self.failed.append((job, sentence))

    def launch(self, ranks: int = 2, job: int = 0, module: str = "mpi@x") -> None:
        self.secrets.append(secrets.token_hex(16))
        where = f"127.0.0.1:{self.listener.getsockname()[1]}"
        event = Launch(
            job=job, variant=module, module=module, ranks=ranks, join=where, secret=self.secrets[-1]
        )
        self.jobs.launch(event, self.tell)

    def accept(self, ranks: int) -> list[list[str]]:
        said = []
        for _ in range(ranks):
            one, _ = self.listener.accept()
            self.joined.append(one)
            said.append(one.recv(1000).decode().split())
        return said

    def until(self, condition: Callable[[], bool], limit_s: float = 10.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, self.failed
            select.select([self.jobs], [], [], min(0.05, self.jobs.wait_s()))
            self.jobs.attend(self.tell)

    def left(self) -> list[int]:
        return [pid for secret in self.secrets for pid in all_with(secret)]

    def release(self) -> None:
        for one in self.joined:
            one.close()
        self.joined.clear()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    """bench("deaf"): a launcher that behaves so."""
    monkeypatch.setattr(jobs, "END_S", 0.3)
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(MPIRUN.format(python=sys.executable, rank=RANK))
    mpirun.chmod(0o755)
    libraries.launchers()
    made: list[Bench] = []

    def make(mode: str = "ok", program: str = sys.executable, **given: object) -> Bench:
        kind = type("Kind", (FakeLauncher,), {"mode": mode, "booted": []})
        monkeypatch.setitem(libraries._launchers, "fake", kind)
        site = Launchers(
            program=(program,), describe=lambda name: description("fake", launcher=mpirun), **given
        )  # type: ignore[arg-type]
        made.append(Bench(site))
        return made[-1]

    yield make
    for one in made:
        one.release()
        one.jobs.close(0)
        one.listener.close()
        one.jobs._launchers.close()
        for pid in one.left():
            os.kill(pid, signal.SIGKILL)


def test_the_ranks_find_who_wants_them(bench: Callable[..., Bench]) -> None:
    one = bench()
    one.launch(ranks=3, job=5)
    said = one.accept(3)
    assert {(secret, job) for secret, job, _, _ in said} == {(one.secrets[0], "5")}
    assert sorted(rank for _, _, rank, _ in said) == ["0", "1", "2"]
    assert len(one.left()) == 4
    one.release()  # as a worker that ends
    one.jobs.close()
    assert (one.left(), one.failed) == ([], [])


def test_a_launcher_that_ends_unasked_is_told(bench: Callable[..., Bench]) -> None:
    for mode, says in (
        ("refuse", "mpirun of mpi@fake ended with exit code 1: There are not enough slots"),
        ("silent", "mpirun of mpi@fake ended with exit code 7 and said nothing"),
    ):
        one = bench(mode)
        one.launch(module="mpi@fake")
        one.until(lambda one=one: bool(one.failed))  # type: ignore[misc]
        assert one.failed == [(0, says)]


def test_a_launcher_that_dies_before_it_names_what_is_missing(bench: Callable[..., Bench]) -> None:
    one = bench("silent", "/nowhere/worker")
    one.launch()
    one.until(lambda: bool(one.failed))
    assert one.failed[0][1].endswith("; /nowhere/worker, which it was to start, does not exist on this host")


def test_a_launcher_that_crashes_takes_its_ranks_along(bench: Callable[..., Bench]) -> None:
    one = bench("crash")
    one.launch()
    one.accept(2)
    one.until(lambda: bool(one.failed))
    assert one.failed[0][1].startswith("mpirun of mpi@x was killed by SIGSEGV")
    assert one.left() == []


def test_a_launcher_that_cannot_be_started_is_told(bench: Callable[..., Bench], tmp_path: Path) -> None:
    one = bench()
    (tmp_path / "mpirun").write_bytes(b"\x7fELF")
    one.launch()
    assert one.failed == [(0, f"cannot start {tmp_path}/mpirun: Exec format error")]
    (tmp_path / "mpirun").unlink()
    one.launch(job=1)
    assert "does not exist any more" in one.failed[1][1]


def test_what_a_launcher_writes_is_bounded_and_its_end_is_kept(bench: Callable[..., Bench]) -> None:
    one = bench("chatty")
    one.launch()
    one.until(lambda: bool(one.failed))
    assert len(one.failed[0][1]) < LONGEST + 200
    assert "exit code 1" in one.failed[0][1]


@pytest.mark.parametrize("mode", ["ok", "stuck", "deaf"])
def test_a_stopped_job_is_gone_and_the_others_are_not(bench: Callable[..., Bench], mode: str) -> None:
    one = bench(mode)
    one.launch(job=0)
    one.accept(2)
    one.launch(job=1)
    one.accept(2)
    one.jobs.stop(0)
    one.until(lambda: not list(all_with(one.secrets[0])))
    assert len(list(all_with(one.secrets[1]))) == 3
    assert one.failed == []


@pytest.mark.parametrize("mode", ["stuck", "deaf"])
def test_at_the_end_nothing_stays(bench: Callable[..., Bench], mode: str) -> None:
    one = bench(mode)
    for job in range(3):
        one.launch(job=job)
        one.accept(2)
    one.release()
    one.jobs.close(0.3)
    assert one.left() == []
    one.jobs.close()  # and again, which does nothing


@pytest.mark.parametrize("how", ["stop", "close"])
def test_shared_memory_of_killed_ranks_is_removed(bench: Callable[..., Bench], how: str) -> None:
    one = bench("memory")
    one.launch(ranks=1)
    one.accept(1)
    file = Path("/dev/shm") / one.secrets[0]
    assert file.exists()
    if how == "stop":
        one.jobs.stop(0)
        one.until(lambda: not file.exists())
    else:
        one.jobs.close(0)
    assert (file.exists(), one.left()) == (False, [])


def test_an_impatient_user_waits_for_no_grace(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "END_S", 3600.0)
    one = bench("deaf")
    one.launch()
    one.accept(2)
    one.interrupts = 2
    one.jobs.close()  # would take an hour otherwise
    assert one.left() == []
    other = bench()
    other.interrupts = 1
    other.launch()
    assert other.failed == [(0, "interrupted before it was launched")]


def test_daemons_are_booted_once_a_run_and_halted_at_its_end(bench: Callable[..., Bench]) -> None:
    one = bench()
    launchers = one.jobs._launchers
    one.launch(job=0)
    one.launch(job=1)
    one.accept(4)
    one.release()
    one.jobs.close()
    (_, launcher) = launchers._launchers["mpi@x"]
    assert isinstance(launcher, FakeLauncher)
    launchers.close()
    assert launcher.booted == ["mpi@fake", "halted"]


def test_the_remote_shell_is_one_program_whatever_options_it_has(tmp_path: Path) -> None:
    given = settings(Hosts(), "ssh", None, "ssh -p 22 -i 'a key'")
    with Launchers(given) as launchers:
        path = launchers._remote_shell()
        assert path is not None
        assert path.read_text() == "#!/bin/sh\nexec ssh -p 22 -i 'a key' \"$@\"\n"
        assert os.access(path, os.X_OK)
    assert not path.exists()
    assert Launchers(Settings())._remote_shell() is None


def test_a_pipe_that_a_daemon_holds_open_is_not_waited_for(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    one = bench("daemon")
    one.launch()
    one.until(lambda: bool(one.failed))
    said = one.failed[0][1]
    assert said.startswith("mpirun of mpi@x ended with exit code 1: daemon ")
    os.kill(int(said.split()[-1]), signal.SIGKILL)


def test_others_reach_this_host_at_the_address_that_leads_to_them() -> None:
    assert own_address(parse(None)) is None
    assert own_address(parse("localhost:2")) is None
    assert own_address(parse("127.0.0.1,[::1]")) is None
    with pytest.raises(Failure, match="no way to host no-such-host") as unknown:
        own_address(parse("no-such-host.invalid"))
    assert unknown.value.exit_code == UNAVAILABLE


# ----------------------------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("tcp", "--launcher", "rsh"), USAGE, "there is no launcher 'rsh'; choose one of srun, ssh"),
        (("tcp", "--hosts", "a,a"), USAGE, "host a is named twice"),
        (("tcp", "--hosts", "a:2,b:2", "--ranks", "6"), USAGE, "the hosts have 4 ranks together and 6"),
        (("tcp", "--launcher-args", "'x"), USAGE, "--launcher-args: no closing quotation"),
        (("mpi",), UNAVAILABLE, "no library for MPI was added"),
    ],
)
def test_what_cannot_be_launched_is_one_sentence(
    netpipe: Callable[..., object], arguments: tuple[str, ...], code: int, says: str
) -> None:
    said = netpipe("run", *arguments)
    assert said.code == code, said  # type: ignore[attr-defined]
    assert says in said.err  # type: ignore[attr-defined]
    assert said.err.count("\n") == 1  # type: ignore[attr-defined]
    assert not Path("run.jsonl").exists()
