# SPDX-License-Identifier: Apache-2.0
"""netpipe's own layers on other hosts: what starts their processes there, and what a process is told."""

from __future__ import annotations

import os
import secrets
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Netpipe

from netpipe.events import Launch
from netpipe.failure import UNAVAILABLE, Failure
from netpipe.launch.jobs import Jobs, Launchers, settings
from netpipe.libraries import Command, Job
from netpipe.libraries.daemons import HERE as THIS_HOST
from netpipe.libraries.daemons import Contact, Daemon, Daemons, Site
from netpipe.libraries.srun import Srun
from netpipe.libraries.starting.hosts import Host, parse
from netpipe.libraries.starting.own import SSH, Ssh, is_here, own, under_srun, wants_srun
from netpipe.libraries.starting.processes import all_with

SECRET = "5ec4e75ec4e7"
VARIABLES = {"NETPIPE_JOIN": "[fe80::1%eth0]:7", "NETPIPE_JOB": "0", "NETPIPE_JOIN_SECRET": SECRET}
ELSEWHERE = ("node1.invalid", "node2.invalid")

# A remote shell without a network: the words after the host, to a shell as sshd does it.
HERE = '#!/bin/sh\necho "$1" >>"$0.called"\nshift\nexec /bin/sh -c "$*"\n'


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def job(tmp_path: Path, *hosts: str, program: str = "/opt/netpipe worker", shell: Path | None = None) -> Job:
    return Job(
        description=own(Path(program)),
        program=(program, "join"),
        ranks=2,
        hosts=tuple(Host(name, 1) for name in hosts),
        variables=VARIABLES,
        extra=(),
        remote_shell=shell,
        scratch=tmp_path,
    )


def output(command: Command) -> str:
    process = command.popen(subprocess.DEVNULL, subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    process.wait(20)
    process.stdout.close()
    return said


def test_each_host_gets_one_ssh_and_the_secret_on_standard_input_alone(tmp_path: Path) -> None:
    commands = Ssh().commands(job(tmp_path, *ELSEWHERE))
    assert [one.argv[: len(SSH) + 1] for one in commands] == [(*SSH, host) for host in ELSEWHERE]
    for rank, one in enumerate(commands):
        assert f"NETPIPE_JOIN_RANK={rank}" in one.argv[-1]
        assert not any(SECRET in word for word in one.argv)
        assert SECRET not in "".join(one.environment.values())
        assert one.said == f"{SECRET}\n".encode()
        assert one.name == f"the start of rank {rank} on {ELSEWHERE[rank]}"


def test_a_host_that_is_this_one_needs_no_ssh_and_an_address_loses_its_brackets(tmp_path: Path) -> None:
    here, there = Ssh().commands(job(tmp_path, "localhost", "[2001:db8::7]"))
    assert here.argv[0] == "/bin/sh"
    assert there.argv[len(SSH)] == "2001:db8::7"
    assert is_here("127.0.0.1")
    assert not is_here("no-such-host.invalid")
    assert not is_here("192.0.2.1")  # RFC 5737: nobody has it


def test_ranks_of_one_host_may_have_more_variables_than_those_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PVMSOCK", raising=False)  # of a daemon that another test has here
    here, there = ELSEWHERE
    given = replace(job(tmp_path, here, there), of_host={there: {"PVMSOCK": "/a folder/socket"}})
    first, second = Ssh().commands(given)
    assert "PVMSOCK" not in first.argv[-1]
    program = script(tmp_path / "worker", '#!/bin/sh\necho "$PVMSOCK"\n')
    shell = script(tmp_path / "rsh", HERE)
    first, second = Ssh().commands(replace(given, program=(str(program), "join"), remote_shell=shell))
    assert [output(first), output(second)] == ["\n", "/a folder/socket\n"]


def test_without_ssh_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match="ssh was not found; install it, name another command") as refused:
        Ssh().commands(job(tmp_path, *ELSEWHERE))
    assert refused.value.exit_code == UNAVAILABLE


@pytest.mark.parametrize(
    "login_shell",
    ["sh", "bash", *(pytest.param(other, marks=pytest.mark.deep) for other in ("csh", "zsh", "fish"))],
)
def test_the_process_gets_what_it_needs_whatever_the_login_shell(tmp_path: Path, login_shell: str) -> None:
    if not any((Path(place) / login_shell).exists() for place in os.environ["PATH"].split(":")):
        pytest.skip(f"{login_shell} is not here")
    shell = script(tmp_path / "rsh", f'#!/bin/sh\nshift\nexec {login_shell} -c "$*"\n')
    program = script(
        tmp_path / "the worker's",
        '#!/bin/sh\necho "$1 $NETPIPE_JOIN $NETPIPE_JOB $NETPIPE_JOIN_RANK $NETPIPE_JOIN_SECRET"\n'
        "tr '\\0' ' ' </proc/$$/cmdline\n",
    )
    commands = Ssh().commands(job(tmp_path, *ELSEWHERE, program=str(program), shell=shell))
    for rank, one in enumerate(commands):
        told, line = output(one).splitlines()
        assert told == f"join [fe80::1%eth0]:7 0 {rank} {SECRET}"
        assert SECRET not in line


def test_srun_starts_one_task_on_each_host_which_knows_its_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Srun().command(job(tmp_path, *ELSEWHERE))
    assert {"--mpi=none", "--ntasks=2", "--nodes=2", "--distribution=arbitrary"} <= set(start.argv)
    assert Path(start.environment["SLURM_HOSTFILE"]).read_text().split() == list(ELSEWHERE)
    assert not any(SECRET in word for word in start.argv)
    program = script(tmp_path / "worker", '#!/bin/sh\necho "$1 $NETPIPE_JOIN_RANK"\n')
    monkeypatch.setenv("SLURM_PROCID", "1")
    assert output(Command(under_srun((str(program), "join")))) == "join 1\n"


@pytest.mark.parametrize(
    ("launcher", "shell", "inside", "srun"),
    [
        (None, (), False, False),
        (None, (), True, True),
        ("srun", (), False, True),
        ("ssh", (), True, False),
        (None, ("ssh", "-p", "2222"), True, False),
    ],
)
def test_srun_is_chosen_inside_an_allocation(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    launcher: str | None,
    shell: tuple[str, ...],
    inside: bool,
    srun: bool,
) -> None:
    script(tmp_path / "srun", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if inside:
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert wants_srun(launcher, shell) is srun
    made = settings(parse("a,b"), launcher, None, " ".join(shell) or None)
    assert made.own_by == ("srun" if srun else "ssh")


# ------------------------------------------------------------------------------------------------ from start to end


class Bench:
    """In the worker's place: it asks for a job of netpipe's own layers."""

    def __init__(self, hosts: str, shell: Path, program: str) -> None:
        self.secret = secrets.token_hex(16)
        self.site = Launchers(settings(parse(hosts), None, None, str(shell)), (program, "join"))
        self.jobs = Jobs(self.site, lambda: 0)
        self.failed: list[str] = []

    def tell(self, _job: int, sentence: str) -> None:
        self.failed.append(sentence)

    def launch(self) -> None:
        event = Launch(job=0, variant="", module="", ranks=2, join="127.0.0.1:7", secret=self.secret)
        self.jobs.launch(event, self.tell)

    def until(self, condition: Callable[[], bool], limit_s: float = 20.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, self.failed
            select.select([self.jobs], [], [], min(0.05, self.jobs.wait_s()))
            self.jobs.attend(self.tell)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(program: str, hosts: str = ",".join(ELSEWHERE), shell: str = HERE) -> Bench:
        path = script(tmp_path / "rsh", shell)
        made.append(
            Bench(hosts, path, str(script(tmp_path / "worker", program)) if program else "/nowhere/w")
        )
        made[-1].launch()
        return made[-1]

    yield make
    for one in made:
        one.jobs.close(0)
        one.site.close()
        for pid in all_with(one.secret):
            os.kill(pid, signal.SIGKILL)


def test_both_ranks_are_started_however_many_a_library_has_there(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    one = bench(
        '#!/bin/sh\necho "$NETPIPE_JOIN_RANK" >>"$0.ranks"\nsleep 60\n', hosts="a.invalid:4,b.invalid:4"
    )
    ranks, called = tmp_path / "worker.ranks", tmp_path / "rsh.called"
    one.until(lambda: ranks.exists() and len(ranks.read_text().split()) == 2)
    assert sorted(ranks.read_text().split()) == ["0", "1"]
    assert sorted(called.read_text().split()) == ["a.invalid", "b.invalid"]
    one.jobs.stop(0)
    one.until(lambda: one.jobs.wait_s() == float("inf"))
    assert one.failed == []
    assert list(all_with(one.secret)) == []


class Quilld(Daemon):
    """A daemon that ranks find by another address on each host."""

    title = "the pretended daemon"
    sites: list[Site] = []  # noqa: RUF012  each test has its own

    def start(self, folder: Path, given_up: Callable[[], bool], site: Site) -> Contact:
        self.sites.append(site)
        return {THIS_HOST: {"QUILL": "here"}} | {host: {"QUILL": f"on {host}"} for host in site.hosts}

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        pass


def test_each_rank_is_told_where_the_daemon_of_its_host_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Quilld, "sites", [])
    shell = script(tmp_path / "rsh", HERE)
    made = settings(parse(",".join(ELSEWHERE)), None, None, str(shell), "192.0.2.9")
    with Launchers(made, (str(script(tmp_path / "worker", '#!/bin/sh\necho "$QUILL"\n')), "join")) as site:
        site.daemons = Daemons(lambda: {"quill": Quilld})
        assert site.start_daemons(["quill", "tcp"], lambda: False) == {"QUILL": "here"}
        (given,) = Quilld.sites
        assert (given.hosts, given.address, given.by_shell) == (ELSEWHERE, "192.0.2.9", True)
        event = Launch(job=0, variant="", module="", ranks=2, join="127.0.0.1:7", secret=SECRET)
        commands = site.commands(event, lambda: False)
        assert [output(one) for one in commands] == [f"on {host}\n" for host in ELSEWHERE]


def test_a_rank_that_ends_leaves_the_other_to_end_by_itself(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    one = bench(
        '#!/bin/sh\n[ "$NETPIPE_JOIN_RANK" = 1 ] && exit 0\nuntil [ -e "$0.go" ]; do sleep 0.05; done\n'
        'touch "$0.done"\n'
    )
    one.until(lambda: len(one.failed) == 1)
    assert one.failed == ["the start of rank 1 on node2.invalid ended with exit code 0 and said nothing"]
    (tmp_path / "worker.go").touch()
    one.until((tmp_path / "worker.done").exists)


def test_what_ssh_says_of_a_host_is_one_sentence(bench: Callable[..., Bench]) -> None:
    refused = "ssh: connect to host node2.invalid port 22: Connection refused"
    one = bench(
        "#!/bin/sh\nsleep 60\n",
        shell=f'#!/bin/sh\n[ "$1" = node1.invalid ] && exec sleep 60\necho "{refused}" >&2\nexit 255\n',
    )
    one.until(lambda: bool(one.failed))
    (sentence,) = one.failed
    assert sentence.startswith("the start of rank 1 on node2.invalid")
    assert sentence.endswith(refused)


def test_a_shell_that_is_a_script_leaves_nothing_that_it_waited_for(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    one = bench("#!/bin/sh\nexec sleep 60\n", shell='#!/bin/sh\nsleep 61 &\necho $! >>"$0.waits"\nwait\n')
    waits = tmp_path / "rsh.waits"
    one.until(lambda: waits.exists() and len(waits.read_text().split()) == 2)
    one.jobs.stop(0)
    one.until(lambda: one.jobs.wait_s() == float("inf"))
    one.until(lambda: not any(Path("/proc", pid).exists() for pid in waits.read_text().split()))


def test_a_shell_that_never_stops_writing_keeps_nothing_else_waiting(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench("#!/bin/sh\nexec sleep 60\n", shell="#!/bin/sh\nexec yes\n")
    reads: list[int] = []

    def always_more(file: int, most: int) -> bytes:
        reads.append(file)
        assert len(reads) < 10_000
        return b"y" * most

    with monkeypatch.context() as patch:
        patch.setattr("netpipe.launch.jobs.os.read", always_more)
        one.until(lambda: bool(reads))
    assert one.failed == []
    one.jobs.stop(0)
    one.until(lambda: one.jobs.wait_s() == float("inf"))


def test_a_host_without_netpipe_is_named_with_what_to_do(bench: Callable[..., Bench]) -> None:
    one = bench("")
    one.until(lambda: bool(one.failed))
    assert (
        f"/nowhere/w does not exist on {os.uname().nodename}; install the same netpipe at the same path on all hosts"
        in one.failed[0]
    )


def test_a_start_whose_input_ends_early_ends_too(tmp_path: Path) -> None:
    """As when netpipe is killed before it could say the secret."""
    command, _ = Ssh().commands(job(tmp_path, "localhost", "localhost", program=sys.executable))
    done = subprocess.run(
        command.argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 3


# ------------------------------------------------------------------------------------------------ the command line


def test_a_dry_run_shows_the_hosts_and_what_starts_the_ranks(netpipe: Netpipe, tmp_path: Path) -> None:
    said = netpipe("run", "tcp", "--hosts", "127.0.0.1,localhost", "--dry-run")
    assert said.code == 0, said.err
    assert "127.0.0.1, localhost; started by ssh" in said.out
    srun = netpipe(
        "run", "tcp", "--hosts", "127.0.0.1,localhost", "--launcher", "srun", "--dry-run", "--json"
    )
    assert '"started_by": ["srun"]' in srun.out
    assert '"hosts": ["127.0.0.1", "localhost"]' in srun.out
    assert "hosts" not in netpipe("run", "tcp", "--dry-run", "--json").out


def test_without_a_variant_only_layers_that_cross_hosts_are_measured(netpipe: Netpipe) -> None:
    said = netpipe("run", "--hosts", "127.0.0.1,localhost", "--dry-run")
    assert said.code == 0, said.err
    assert "tcp" in said.out
    assert "shm" not in said.out
    assert "memcpy" not in said.out


def test_nothing_with_a_secret_in_it_is_left_in_the_scratch_folder(bench: Callable[..., Bench]) -> None:
    one = bench("#!/bin/sh\nsleep 60\n")
    folder = one.site._scratch("bin").parent
    files = [path for path in folder.rglob("*") if stat.S_ISREG(path.stat().st_mode)]
    assert files, "the remote shell is a file"
    assert not any(one.secret in path.read_text() for path in files)
