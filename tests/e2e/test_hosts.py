# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""netpipe run tcp --hosts A,B: ranks of netpipe's own layers on two namespaces with a link between them. A script
stands in for ssh: it runs the command in the namespace of the host. The deep tests have a real sshd. Three hosts, and
other layers than tcp, are in test_many_hosts.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import NATIVE, WORKER, Outcome, parse, wait_for_samples
from machines import TwoHosts, clear, open_folder, pids_on, two_hosts, wait_until  # noqa: F401
from test_two_hosts import two_namespaces  # noqa: F401

pytestmark = pytest.mark.module("tcp")

NEAR, FAR = "10.77.0.1", "10.77.0.2"
SECRET = "NETPIPE_JOIN_SECRET"
LIMIT_S = 90.0
QUICK = ("--sizes", "1,8,65536", "--budget", "0.2")

# `around` comes before the command: what is different on that host.
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>"$0.called"
host=$1
shift
exec ip netns exec {far} {around} unshare --uts sh -c 'hostname "$0" && exec /bin/sh -c "$1"' "$host" "$*"
"""


@dataclass
class Site:
    near: str
    far: str
    folder: Path

    @property
    def calls(self) -> list[str]:
        called = self.folder / "ssh.called"
        return called.read_text().splitlines() if called.exists() else []

    def ssh(self, around: str = "", text: str = SSH) -> Path:
        path = self.folder / "ssh"
        path.write_text(text.format(far=self.far, around=around))
        path.chmod(0o755)
        return path

    def start(self, *arguments: str, hosts: str = f"{NEAR},{FAR}", **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "netpipe", "run", "--launches", "1", *arguments, "--hosts", hosts]
        if not (self.folder / "ssh").exists():
            self.ssh()
        if "SLURM_JOB_ID" not in more:
            command += ["--remote-shell", str(self.folder / "ssh")]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.near, *command, "-o", str(self.folder / "run.jsonl")],
            cwd=self.folder,
            env={**os.environ, "TERM": "dumb", "COLUMNS": "160", **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, process: subprocess.Popen[str], limit_s: float = LIMIT_S) -> Outcome:
        with process:
            out, said = process.communicate(timeout=limit_s)
        path = self.folder / "run.jsonl"
        records = parse(path.read_text()) if path.exists() else []
        return Outcome(process.returncode, said + out, [], records)

    def run(self, *arguments: str, **more: Any) -> Outcome:
        return self.end(self.start(*arguments, **more))

    def ranks(self) -> dict[int, list[int]]:
        """The processes of the ranks, by rank."""
        found: dict[int, list[int]] = {}
        for name in (self.near, self.far):
            for pid in pids_on(name):
                with contextlib.suppress(OSError):
                    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    rank = [one for one in environment if one.startswith(b"NETPIPE_JOIN_RANK=")]
                    if rank and words[1:2] == [b"join"]:
                        found.setdefault(int(rank[0].partition(b"=")[2]), []).append(pid)
        return found

    def left(self) -> list[int]:
        return [*pids_on(self.near), *pids_on(self.far)]

    def sees_nothing_left(self) -> None:
        wait_until(lambda: self.left() == [], "nothing is left", 20)


@pytest.fixture
def site(two_namespaces: tuple[str, str], tmp_path: Path) -> Iterator[Site]:
    yield Site(*two_namespaces, tmp_path)
    for name in two_namespaces:
        clear(name)


@pytest.mark.gate
def test_two_hosts_are_measured_and_every_byte_is_checked(site: Site) -> None:
    variants = ("tcp", "tcp:wait=poll", "tcp:streams=3")
    done = site.run(*variants, "--pattern", "pingpong", "--pattern", "stream", "--verify", *QUICK)
    assert done.code == 0, done.said
    for variant in variants:
        for pattern in ("pingpong", "stream"):
            assert len(done.of("point", variant=variant, pattern=pattern)) == 3
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    # All variants share one pair of processes, and the host that is here needs no ssh.
    assert len(site.calls) == 1
    assert site.calls[0].startswith(FAR)
    for opened in done.of("variant"):
        assert [rank["rank"] for rank in opened["ranks"]] == [0, 1]
        assert opened["ranks"][1]["host"] == FAR  # as the stand-in of ssh names it
        addresses = json.dumps([rank["settings"] for rank in opened["ranks"]])
        assert NEAR in addresses
        assert FAR in addresses
    # The facts of both hosts, and where their ranks are pinned.
    environments = done.of("environment")
    assert [one["rank"] for one in environments] == [0, 1]
    assert environments[1]["host"] == FAR
    names = [{i["name"] for i in one["facts"]["network"]["interfaces"]} for one in environments]
    assert names[0] != names[1]
    (planned,) = done.of("plan")
    assert planned["pin"] == [rank["cpu"] for rank in done.of("variant")[0]["ranks"]]
    assert SECRET not in (site.folder / "run.jsonl").read_text()
    site.sees_nothing_left()


@pytest.mark.deep
def test_both_hosts_may_be_others_than_this_one(site: Site) -> None:
    done = site.run("tcp", *QUICK, "--bind", NEAR, "--pin", "1", hosts="node1,node2")
    assert done.code == 0, done.said
    assert [rank["cpu"] for rank in done.of("variant")[0]["ranks"]] == [1, 1], "the first of each host"
    assert sorted(call.split()[0] for call in site.calls) == ["node1", "node2"]
    (opened,) = done.of("variant")
    assert [rank["host"] for rank in opened["ranks"]] == ["node1", "node2"]
    assert [one["host"] for one in done.of("environment")] == ["node1", "node2"]


def test_the_secret_is_in_no_command_line(site: Site) -> None:
    process = site.start("tcp", "--budget", "30")
    wait_for_samples(next_part(site))
    ranks = site.ranks()
    assert sorted(ranks) == [0, 1]
    secrets = set()
    for (pid,) in ranks.values():
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        secrets |= {one.partition(b"=")[2] for one in environment if one.startswith(SECRET.encode())}
    (secret,) = secrets
    assert len(secret) == 64
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            assert secret not in file.read_bytes(), file
    process.send_signal(signal.SIGINT)
    assert site.end(process).code == 130


def next_part(site: Site) -> Path:
    """The run file while it is being written, whatever its name is by then."""

    class Either:
        def exists(self) -> bool:
            return bool(self._files())

        def read_text(self) -> str:
            return "".join(path.read_text() for path in self._files())

        def _files(self) -> list[Path]:
            return list(site.folder.glob("run.jsonl*"))

    return Either()  # type: ignore[return-value]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_process_on_either_host(site: Site, number: signal.Signals) -> None:
    process = site.start("tcp", "--budget", "60")
    wait_for_samples(next_part(site))
    process.send_signal(number)
    done = site.end(process)
    assert done.code == 130, done.said
    assert done.records[-1]["reason"] == "interrupted"
    assert done.of("sample")
    site.sees_nothing_left()


def test_a_front_that_is_killed_leaves_no_process_on_either_host(site: Site) -> None:
    process = site.start("tcp", "--budget", "60")
    wait_for_samples(next_part(site))
    process.kill()
    site.end(process)
    site.sees_nothing_left()


def test_an_interrupt_while_a_host_does_not_answer_ends_at_once(site: Site) -> None:
    site.ssh(text='#!/bin/sh\necho "$*" >>"$0.called"\nexec sleep 600\n')
    process = site.start("tcp")
    wait_until(lambda: bool(site.calls), "ssh is called")
    process.send_signal(signal.SIGINT)
    assert site.end(process, 20).code == 130
    site.sees_nothing_left()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_dies_ends_the_run_and_what_was_measured_is_kept(site: Site, rank: int) -> None:
    process = site.start("tcp", "tcp:nodelay=no", "--sizes", "1,8,64", "--budget", "60", "--timeout", "3")
    wait_for_samples(next_part(site), 20)
    os.kill(site.ranks()[rank][0], signal.SIGKILL)
    # The other variant is measured with new processes; that works too, and has been seen to begin.
    wait_until(lambda: next_part(site).read_text().count('"type":"plan"') == 2, "it goes on")
    process.send_signal(signal.SIGINT)
    done = site.end(process)
    assert done.code in (4, 130), done.said
    (error,) = done.of("error")
    assert error["code"] == 4
    assert f"rank {rank} on " in error["message"]
    assert "has gone" in error["message"]
    assert f"the start of rank {rank} on" in error["message"]
    assert len(done.of("sample", launch=0)) >= 20
    site.sees_nothing_left()


def test_a_rank_that_dies_gives_exit_code_4(site: Site) -> None:
    process = site.start("tcp", "--sizes", "1,8,64", "--budget", "60", "--target", "0.001%", "--timeout", "3")
    wait_for_samples(next_part(site), 20)
    os.kill(site.ranks()[1][0], signal.SIGKILL)
    done = site.end(process)
    assert done.code == 4, done.said
    assert "rank 1 on 10.77.0.2 has gone" in done.said
    assert done.of("sample")


def several(site: Site) -> dict[int, list[int]]:
    """The processes of the ranks, by the first rank of their host; the one that started them is not among them."""
    found: dict[int, list[int]] = {}
    for name in (site.near, site.far):
        for pid in pids_on(name):
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                rank = [one for one in environment if one.startswith(b"NETPIPE_JOIN_RANK=")]
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                above = Path(f"/proc/{parent}/cmdline").read_bytes().split(b"\0")
                if rank and words[1:2] == [b"join"] and above[1:2] == [b"join"]:
                    first = int(rank[0].partition(b"=")[2].partition(b"-")[0])
                    found.setdefault(first, []).append(pid)
    return found


@pytest.mark.gate
def test_several_ranks_on_each_host_are_started_by_one_shell(site: Site) -> None:
    done = site.run("tcp", "tcp:ranks=2", "--ranks", "4", "--verify", *QUICK)
    assert done.code == 0, done.said
    assert [call.split()[0] for call in site.calls] == [FAR, FAR], "a job for each number of ranks"
    opened = {one["variant"]: [rank["host"] for rank in one["ranks"]] for one in done.of("variant")}
    near = opened["tcp"][0]
    assert opened == {"tcp": [near, near, FAR, FAR], "tcp:ranks=2": [near, FAR]}
    assert {point["variant"]: len(point.get("cells", ())) for point in done.of("point")}["tcp"] == 2
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    assert [(one["rank"], one["host"]) for one in done.of("environment")] == [(0, near), (2, FAR)]
    site.sees_nothing_left()


def test_one_of_several_ranks_that_dies_ends_the_run_and_no_process_stays(site: Site) -> None:
    process = site.start(
        "tcp", "--ranks", "4", "--sizes", "1,8", "--budget", "60", "--target", "0.001%", "--timeout", "3"
    )
    wait_for_samples(next_part(site), 10)
    ranks = several(site)
    assert {first: len(pids) for first, pids in ranks.items()} == {0: 2, 2: 2}
    os.kill(ranks[2][1], signal.SIGKILL)
    done = site.end(process)
    assert done.code == 4, done.said
    assert "rank 3 on 10.77.0.2 has gone" in done.said
    assert "ranks 2 to 3 on 10.77.0.2 ended with exit code 4: a rank was ended by signal 9" in done.said
    assert done.of("sample")
    site.sees_nothing_left()


def test_a_variant_that_cannot_be_opened_leaves_the_others_to_the_same_processes(site: Site) -> None:
    done = site.run("tcp:port=45003", "tcp:port=45003,nodelay=no", "tcp:wait=poll", *QUICK)
    (error,) = done.of("error")
    assert error["variant"] == "tcp:port=45003,nodelay=no"
    assert f"rank 1 on {FAR}: module tcp" in error["message"]
    assert done.code == error["code"]
    assert {one["variant"] for one in done.of("point")} == {"tcp:port=45003", "tcp:wait=poll"}
    assert {one["launch"] for one in done.of("sample")} == {0}
    site.sees_nothing_left()


def test_each_launch_has_processes_of_its_own(site: Site) -> None:
    done = site.run("tcp", "--launches", "2", *QUICK)
    assert done.code == 0, done.said
    assert len(site.calls) == 2
    assert {one["launch"] for one in done.of("sample")} == {0, 1}


def test_a_module_from_outside_the_installation_is_loaded_on_both_hosts(site: Site) -> None:
    module = shutil.copy(NATIVE / "lib" / "netpipe" / "modules" / "tcp.so", site.folder / "mine.so")
    done = site.run("tcp", "--module", str(module), *QUICK)
    assert done.code == 0, done.said
    site.ssh(around=f"unshare --mount sh -c 'mount -t tmpfs none {site.folder} && exec \"$@\"' sh")
    (site.folder / "run.jsonl").unlink()
    said = refused(site, "tcp", "--module", str(module), code=2)
    assert f"module file {module} does not exist; modules have to be at the same paths on all" in said


# ----------------------------------------------------------------------------------------------- what cannot be started


def refused(site: Site, *arguments: str, code: int = 3, **more: Any) -> str:
    done = site.run(*(arguments or ("tcp",)), **more)
    assert done.code == code, done.said
    assert not done.of("sample")
    (line,) = [line for line in done.said.splitlines() if line.startswith("netpipe:")]
    site.sees_nothing_left()
    return line


def test_a_layer_that_stays_on_one_host_is_refused_before_anything_starts(site: Site) -> None:
    assert "module shm does not cross hosts; leave it out of a run with --hosts" in refused(
        site, "tcp", "shm", code=2
    )
    assert site.calls == []


@pytest.mark.parametrize(
    ("arguments", "hosts", "says"),
    [
        (("tcp", "--ranks", "5"), f"{NEAR},{FAR}", "5 ranks do not spread evenly over 2 hosts"),
        (
            ("tcp", "--ranks", "2"),
            f"{NEAR}:2,{FAR}:2",
            "the hosts have 4 ranks together and 2 were requested",
        ),
        (("tcp:ranks=3",), f"{NEAR},{FAR}", "variant tcp:ranks=3: 3 ranks do not spread evenly over 2 hosts"),
        (
            ("tcp:ranks=2",),
            f"{NEAR},{FAR},10.77.0.3",
            "variant tcp:ranks=2 has 2 ranks and --hosts names 3 hosts, and each must have a rank",
        ),
        (("tcp", "--pin", "cache"), f"{NEAR},{FAR}", "with --hosts name the processors"),
    ],
)
def test_ranks_that_do_not_fit_the_hosts_are_refused_before_anything_starts(
    site: Site, arguments: tuple[str, ...], hosts: str, says: str
) -> None:
    assert says in refused(site, *arguments, code=2, hosts=hosts)
    assert site.calls == []


def test_a_host_that_cannot_be_reached_is_quoted(site: Site) -> None:
    words = f"ssh: connect to host {FAR} port 22: Connection refused"
    site.ssh(text=f'#!/bin/sh\necho "{words}" >&2\nexit 255\n')
    assert refused(site).endswith(words)


def test_a_host_without_netpipe_is_named(site: Site) -> None:
    site.ssh(around=f"unshare --mount sh -c 'mount -t tmpfs none {WORKER.parent} && exec \"$@\"' sh")
    said = refused(site)
    assert f"{WORKER} does not exist on {FAR}; install the same netpipe at the same path on all hosts" in said


def test_ranks_that_cannot_connect_back_say_so(site: Site) -> None:
    said = refused(site, "tcp", "--bind", "127.0.0.1")
    assert f"{FAR} cannot connect back to the run: no server listens at 127.0.0.1:" in said
    assert "--bind" in said


def test_an_address_that_is_not_of_this_host_is_refused(site: Site) -> None:
    assert "10.77.0.9 is not an address of this host" in refused(site, "tcp", "--bind", "10.77.0.9", code=2)


def test_two_processes_of_one_rank_are_refused(site: Site) -> None:
    site.ssh(text=SSH.replace('"$*"\n', '"$(echo "$*" | sed s/RANK=0/RANK=1/)"\n'))
    said = refused(site, "tcp", "--bind", NEAR, code=4, hosts="node1,node2")
    assert "two processes are rank 1: ssh or srun did not start each rank once" in said


# ------------------------------------------------------------------------------------------------------------- srun

# One task for each line of SLURM_HOSTFILE, as with --distribution=arbitrary.
SRUN = """#!/bin/sh
printf '%s\\n' "$*" >>"$0.called"
while [ "${{1#--}}" != "$1" ]; do shift; done
task=0
for host in $(cat "$SLURM_HOSTFILE"); do
  SLURM_PROCID=$task ip netns exec {far} unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@" </dev/null &
  task=$((task + 1))
done
trap 'kill $(jobs -p)' TERM
code=0
wait || code=$?
exit $code
"""


def test_srun_starts_the_ranks_inside_an_allocation(site: Site) -> None:
    folder = site.folder / "bin"
    folder.mkdir()
    srun = folder / "srun"
    srun.write_text(SRUN.format(far=site.far))
    srun.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    more = {"SLURM_JOB_ID": "7", "PATH": path}
    done = site.run("tcp", "tcp:wait=poll", *QUICK, "--bind", NEAR, hosts="node1,node2", **more)
    assert done.code == 0, done.said
    (call,) = (folder / "srun.called").read_text().splitlines()
    assert "--mpi=none" in call
    assert SECRET not in call
    for opened in done.of("variant"):
        assert [rank["host"] for rank in opened["ranks"]] == ["node1", "node2"]
    site.sees_nothing_left()
    done = site.run("tcp", *QUICK, "--bind", NEAR, hosts="node1:2,node2:2", **more)
    assert done.code == 0, done.said
    (opened,) = done.of("variant")
    assert [rank["host"] for rank in opened["ranks"]] == ["node1", "node1", "node2", "node2"]
    site.sees_nothing_left()


# ------------------------------------------------------------------------------------------------------------ clocks


def test_hosts_whose_clocks_are_hours_apart_are_compared_before_they_time_one_way(site: Site) -> None:
    hours_s = 12345
    elsewhere = ("unshare", "--time", "--monotonic", str(hours_s), "--fork")
    if subprocess.run([*elsewhere, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs time namespaces (Linux 5.6, unshare of util-linux 2.36)")
    site.ssh(around=shlex.join(elsewhere))
    done = site.run("tcp", "--pattern", "offered:rate=2000", *QUICK)
    assert done.code == 0, done.said
    assert done.of("point")
    for point in done.of("point"):
        measures = {one["name"]: one["median"] for one in point["measures"]}
        assert 0 < measures["clock_error"] < 1e9
        assert -measures["clock_error"] <= point["median_ns"] < hours_s * 1e9 / 100


# ------------------------------------------------------------------------------------------- a real sshd on both hosts


@pytest.fixture
def ssh_site(two_hosts: TwoHosts, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    def start(*arguments: str, hosts: str = "") -> subprocess.Popen[str]:
        command = [
            sys.executable,
            "-m",
            "netpipe",
            "run",
            "--launches",
            "1",
            "tcp",
            "tcp:wait=poll",
            *arguments,
        ]
        options = ("--hosts", hosts or f"{two_hosts.near},{two_hosts.far}", "--remote-shell", two_hosts.ssh)
        return subprocess.Popen(
            two_hosts.inside(*command, *options, "-o", str(tmp_path / "run.jsonl")),
            cwd=tmp_path,
            env={**os.environ, "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.mark.deep
def test_ssh_starts_the_ranks(
    ssh_site: Callable[..., subprocess.Popen[str]], two_hosts: TwoHosts, tmp_path: Path
) -> None:
    before = two_hosts.carried_bytes()
    with ssh_site("--verify", *QUICK) as process:
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    records = parse((tmp_path / "run.jsonl").read_text())
    for opened in (one for one in records if one["type"] == "variant"):
        assert [rank["host"] for rank in opened["ranks"]] == [two_hosts.near, two_hosts.far]
    verified = sum(one["verified_bytes"] for one in records if one["type"] == "point")
    assert two_hosts.carried_bytes() - before > verified > 0
    wait_until(lambda: two_hosts.left() == [], "nothing is left", 20)


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ssh_leaves_no_process_on_the_far_host(
    ssh_site: Callable[..., subprocess.Popen[str]],
    two_hosts: TwoHosts,
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    with ssh_site("--budget", "60") as process:
        wait_for_samples(next_part(Site("", "", tmp_path)))
        assert any("netpipe-worker join" in words for words in two_hosts.left() if two_hosts.far in words)
        process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode in (130, -signal.SIGKILL)
    wait_until(lambda: two_hosts.left() == [], "nothing is left", 20)


@pytest.mark.deep
def test_what_ssh_says_of_a_host_is_quoted(
    ssh_site: Callable[..., subprocess.Popen[str]], two_hosts: TwoHosts
) -> None:
    with ssh_site("--bind", "10.78.0.1", hosts=f"{two_hosts.near},no-such-host.invalid") as process:
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 3, said
    assert said.startswith("netpipe: the start of rank 1 on no-such-host.invalid")
    assert ": ssh: Could not resolve hostname no-such-host.invalid" in said
    wait_until(lambda: two_hosts.left() == [], "nothing is left", 20)
