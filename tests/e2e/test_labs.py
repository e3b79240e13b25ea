# SPDX-License-Identifier: Apache-2.0
"""netpipe lab: namespaces with what was asked for between them, runs over them, hosts that die, and nothing left."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, parse, wait_for_samples
from machines import needs, wait_until
from mpi import EVERYDAY, SIX, Mpis
from test_suite_of_kinds import OPTIONAL

from netpipe.lab import keepers, state
from netpipe.lab.state import Lab

pytestmark = pytest.mark.module("tcp")

LIMIT_S = 90.0
QUICK = ("--sizes", "1,8,65536", "--budget", "0.2", "--launches", "1")
COMMAND = (sys.executable, "-m", "netpipe")


@dataclass
class Labs:
    """The labs of a state folder of their own."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "TERM": "dumb", "COLUMNS": "160"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def call(self, *words: str, limit_s: float = LIMIT_S) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=limit_s)
        return process.returncode, out, err

    def up(self, *options: str) -> dict[str, Any]:
        code, out, err = self.call("lab", "up", "--json", *options)
        if code == 3 and "namespaces" in err:
            pytest.skip(err.strip())
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    def on(self, host: str, *command: str) -> str:
        code, out, err = self.call("lab", "exec", host, "--", *command)
        assert code == 0, err
        return out

    def list(self) -> list[dict[str, Any]]:
        code, out, err = self.call("lab", "list", "--json")
        assert code == 0, err
        found: list[dict[str, Any]] = json.loads(out)["labs"]
        return found

    def known(self, name: str = "lab") -> Lab:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_STATE_HOME", str(self.folder / "state"))
            return state.one(name)

    def measure(self, *arguments: str, hosts: str = "lab1,lab2") -> Outcome:
        path = self.folder / "run.jsonl"
        path.unlink(missing_ok=True)
        code, out, err = self.call(*self.measuring(*arguments, hosts=hosts))
        return Outcome(code, err + out, [], parse(path.read_text()) if path.exists() else [])

    def measuring(self, *arguments: str, hosts: str = "lab1,lab2") -> list[str]:
        run = [*COMMAND, "run", *arguments, "--hosts", hosts, "-o", str(self.folder / "run.jsonl")]
        return ["lab", "exec", hosts.split(",", maxsplit=1)[0], "--", *run]


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[Labs]:
    needs("ip", "tc", "ethtool", "unshare", "nsenter", packages="iproute2 ethtool util-linux")
    made = Labs(tmp_path)
    yield made
    made.call("lab", "down", "--all")
    assert living(made) == []


def living(labs: Labs) -> list[int]:
    """Keepers below this state folder."""
    mark = f"{keepers.MARK}={labs.folder}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def devices() -> set[str]:
    return set(os.listdir("/sys/class/net"))  # noqa: PTH208


def kill_host(lab: Lab, host: str) -> None:
    for pid in keepers.living_in({lab.host(host).network}):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


# The sizes and the run of figure 2 in the shipped suite: what a small socket buffer costs over the paper's slow card.
SUITES = Path(__file__).resolve().parents[2] / "python" / "netpipe" / "suites"
TABLE = """[[table]]
title = "Peaks"
run = "buffers"
shows = "summary"
"""


def figure_2() -> str:
    blocks = (SUITES / "cluster-2002.toml").read_text().split("\n\n")
    kept = [one for one in blocks if 'name = "buffers"' in one or "Figure 2: " in one]
    assert len(kept) == 2
    return "\n\n".join([blocks[0], blocks[1].partition("[[stands_for]]")[0], *kept, TABLE])


@pytest.mark.deep
def test_the_slow_card_of_2002_is_measured_by_its_suite_in_a_lab(labs: Labs) -> None:
    (labs.folder / "card.toml").write_text(figure_2())
    labs.up("--rate", "1g", "--delay", "50us")
    run = (*COMMAND, "suite", "run", "./card.toml", "--size", "quick", "--hosts", "lab1,lab2")
    code, out, err = labs.call("lab", "exec", "lab1", "--", *run, limit_s=300)
    assert (labs.folder / "card" / "peaks.csv").is_file(), (code, out, err)
    rows = list(csv.DictReader((labs.folder / "card" / "peaks.csv").read_text().splitlines()))
    peaks = {row["variant"]: float(row["peak_mbps"]) for row in rows}
    small, large = (peaks[f"tcp:sndbuf={size},rcvbuf={size}"] for size in ("32k", "512k"))
    assert 1.1 * small < large < 1000, peaks  # the rate of the link bounds both
    assert list((labs.folder / "card").glob("figure-2-*.svg"))


@pytest.mark.deep
def test_every_pair_of_hosts_is_measured_by_each_mpi_library(labs: Labs, with_mpis: Mpis) -> None:
    with_mpis.need("openmpi", "mpich")
    libraries = '["mpi@openmpi:transport=auto", "mpi@mpich:transport=auto"]'
    (labs.folder / "mine.toml").write_text(OPTIONAL.replace("VARIANTS", libraries))
    labs.up("--hosts", "3")
    run = (*COMMAND, "suite", "run", "./mine.toml", "--hosts", "lab1,lab2,lab3")
    code, out, err = labs.call("lab", "exec", "lab1", "--", *run, limit_s=300)
    assert code == 0, out + err
    rows = list(csv.DictReader((labs.folder / "mine" / "all-pairs.csv").read_text().splitlines()))
    pairs = {("lab1", "lab2"), ("lab1", "lab3"), ("lab2", "lab3")}
    for name in ("mpi@openmpi", "mpi@mpich"):
        assert {(row["member"], row["peer"]) for row in rows if row["what"].startswith(name)} == pairs, (
            out + err
        )


# ---------------------------------------------------------------------------------------------------------- the hosts


def test_hosts_have_what_real_hosts_have(labs: Labs) -> None:
    before = devices()
    made = labs.up("--hosts", "3")
    assert [host["name"] for host in made["hosts"]] == ["lab1", "lab2", "lab3"]
    assert len({host["address"] for host in made["hosts"]}) == 3
    assert labs.on("lab2", "uname", "-n") == "lab2\n"
    assert set(labs.on("lab2", "ls", "/sys/class/net").split()) == {"lo", "eth0"}
    assert labs.on("lab2", "cat", "/sys/class/net/eth0/address").startswith("02:6e:70:")
    assert "lab3" in labs.on("lab2", "cat", "/etc/hosts")
    labs.on("lab1", "touch", "/dev/shm/mine")
    assert labs.on("lab2", "ls", "/dev/shm") == ""
    assert labs.on("lab1", "pwd") == f"{labs.folder}\n", "as where it was typed"
    assert labs.on("lab1", "sh", "-c", 'ssh -x lab3 "uname -n; exit 0"') == "lab3\n"
    assert labs.call("lab", "exec", "lab1", "--", "sh", "-c", "ssh lab2 exit 9")[0] == 9
    assert labs.call("lab", "exec", "lab1", "sh", "-c", "exit 7")[0] == 7
    assert labs.call("lab", "exec", "lab1", "no-such-program")[0] == 3
    assert labs.call("lab", "exec", "lab9", "true")[0] == 2
    # This machine has nothing of it: no device, no name.
    assert devices() == before
    assert "lab1" not in Path("/etc/hosts").read_text()


def test_netpipe_measures_between_the_hosts_as_between_any(labs: Labs) -> None:
    labs.up()
    sent = "/sys/class/net/eth0/statistics/tx_bytes"
    before = sum(int(labs.on(host, "cat", sent)) for host in ("lab1", "lab2"))
    done = labs.measure("tcp", "tcp:wait=poll", "--verify", *QUICK)
    assert done.code == 0, done.said
    for opened in done.of("variant"):
        assert [rank["host"] for rank in opened["ranks"]] == ["lab1", "lab2"]
    processors = [rank["cpu"] for rank in done.of("variant")[0]["ranks"]]
    if (os.cpu_count() or 1) > 1:
        assert len(set(processors)) == 2, "each host has processors of its own"
    verified = sum(point["verified_bytes"] for point in done.of("point"))
    assert verified > 0
    assert sum(int(labs.on(host, "cat", sent)) for host in ("lab1", "lab2")) - before > verified
    names = [
        [one["name"] for one in facts["facts"]["network"]["interfaces"]] for facts in done.of("environment")
    ]
    assert all("eth0" in some for some in names)


@pytest.mark.parametrize(
    "library",
    [
        "mpich",
        pytest.param("openmpi", marks=pytest.mark.deep),
        # LAM refuses root, and only root enters a host
        *(one for one in SIX if one not in (*EVERYDAY, "lam")),
    ],
)
def test_an_mpi_library_is_measured_beside_tcp(labs: Labs, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    labs.up("--rate", "1g")
    variant = f"mpi@{library}:transport=tcp"
    done = labs.measure("tcp", variant, "--verify", *QUICK)
    assert done.code == 0, done.said
    (opened,) = done.of("variant", variant=variant)
    assert [rank["host"] for rank in opened["ranks"]] == ["lab1", "lab2"]
    assert {rank["settings"]["transport_found"] for rank in opened["ranks"]} == {"TCP"}
    for one in ("tcp", variant):
        assert len(done.of("point", variant=one)) == 3
        assert all(point["verified_bytes"] > 0 for point in done.of("point", variant=one))


@pytest.mark.deep
@pytest.mark.parametrize("library", EVERYDAY)
def test_an_mpi_library_runs_on_more_hosts_than_processors(labs: Labs, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    labs.up("--hosts", "4", "--rate", "1g", "--delay", "100us")
    collective = (
        "--pattern",
        "collective:what=allreduce",
        "--sizes",
        "8",
        "--budget",
        "0.3",
        "--launches",
        "1",
    )
    done = labs.measure(f"mpi@{library}", *collective, "--timeout", "60", hosts="lab1,lab2,lab3,lab4")
    assert done.code == 0, done.said
    (opened,) = done.of("variant")
    assert [rank["host"] for rank in opened["ranks"]] == ["lab1", "lab2", "lab3", "lab4"]
    # Two steps of messages at least, whatever the algorithm.
    assert all(point["min_ns"] >= 2 * 100_000 for point in done.of("point"))


@pytest.mark.deep
def test_an_experiment_is_run_between_the_hosts_of_its_run(labs: Labs) -> None:
    """A window of 8 KiB over a path of 2 ms and back is the cause, and its experiment says so where it was measured."""
    small = "tcp:sndbuf=8k,rcvbuf=8k"
    labs.up("--delay", "1ms")
    sizes = ("--pattern", "stream", "--sizes", "256k", "--budget", "1", "--launches", "2")
    done = labs.measure("tcp", small, *sizes)
    assert done.code == 0, done.said
    explain = (*COMMAND, "explain", "run.jsonl", "--confirm", "--budget", "1", "--variant", small, "--json")
    code, out, err = labs.call("lab", "exec", "lab1", "--", *explain)
    assert code == 0, err
    (found,) = [one for one in json.loads(out) if one["rule"] == "small-buffers"]
    assert "--hosts lab1,lab2" in found["experiment"]
    assert found["outcome"]["outcome"] == "confirmed", found
    experiment = Outcome(0, err, [], parse((labs.folder / found["outcome"]["path"]).read_text()))
    assert [variant["variant"] for variant in experiment.of("variant")][:2] == [small, "tcp"]
    for opened in experiment.of("variant"):
        assert [rank["host"] for rank in opened["ranks"]] == ["lab1", "lab2"]


@pytest.mark.deep
def test_one_slow_host_among_many_is_named(labs: Labs) -> None:
    """As a port that came up at a lower rate: what leaves lab3 is held back, by its own queue."""
    hosts = ",".join(f"lab{n}" for n in range(1, 7))  # of two pairs nobody could say which one is slow
    labs.up("--hosts", "6")
    slow = ("tbf", "rate", "50mbit", "burst", "8kb", "latency", "200ms")
    labs.on("lab3", "tc", "qdisc", "replace", "dev", "eth0", "root", *slow)
    done = labs.measure(
        "tcp", "--pattern", "pairs", "--sizes", "16k", "--budget", "4", "--launches", "1", hosts=hosts
    )
    assert done.code == 0, done.said
    code, out, err = labs.call("explain", "run.jsonl", "--json")
    assert code == 0, err
    (found,) = [one for one in json.loads(out) if one["rule"] == "slowest-rank"]
    assert "the pair of ranks 2 (lab3) and 5 (lab6) was the slowest of 3 pairs" in found["what"]
    assert found["evidence"]["times_the_others"]["value"] > 1.5


# -------------------------------------------------------------------------------------------------------- the network


@pytest.mark.deep
def test_a_rate_is_kept(labs: Labs) -> None:
    made = labs.up("--rate", "50m")
    assert made["device"]["bits_per_s"] == 50e6
    done = labs.measure("tcp", "--sizes", "300000", "--budget", "0.3", "--launches", "1")
    assert done.code == 0, done.said
    (point,) = done.of("point")
    least_ns = (300_000 - made["device"]["burst_bytes"]) * 8 / 50e6 * 1e9
    assert point["min_ns"] >= least_ns
    interfaces = [one for facts in done.of("environment") for one in facts["facts"]["network"]["interfaces"]]
    limited = [one["qdisc"] for one in interfaces if one["name"] == "eth0"]
    assert [(one["kind"], one["bits_per_s"]) for one in limited] == [("tbf", 50_000_000)] * 2


@pytest.mark.deep
def test_a_delay_is_that_of_every_message(labs: Labs) -> None:
    made = labs.up("--delay", "3ms")
    assert made["round_trip_ns"] >= 6e6
    assert made["relay"]["delay_ns"] == 3_000_000
    done = labs.measure("tcp", "--sizes", "8,1000", "--budget", "0.3", "--launches", "1")
    assert done.code == 0, done.said
    assert all(point["min_ns"] >= 3e6 for point in done.of("point"))
    (now,) = labs.list()
    assert now["relay"]["lost"] == 0
    assert now["relay"]["delivered"] > made["relay"]["delivered"]


@pytest.mark.check
def test_a_delay_and_a_rate_add_up(labs: Labs) -> None:
    """The relay holds every frame to the rate: no message gets through at once."""
    labs.up("--delay", "1ms", "--rate", "50m", "--mtu", "1000")
    done = labs.measure("tcp", "--sizes", "5000,30000", "--budget", "0.3", "--launches", "1")
    assert done.code == 0, done.said
    for point in done.of("point"):
        assert point["min_ns"] >= 1e6 + point["size_bytes"] * 8 / 50e6 * 1e9


RECEIVE = """
import socket
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
one.bind(("", 7777))
print("ready", flush=True)
one.settimeout(30)
got = 0
while True:
    data = one.recv(100)
    if data == b"end":
        break
    got += 1
print(got)
"""
SEND = """
import socket, sys, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[2])):
    one.sendto(b"%d" % i, (sys.argv[1], 7777))
    if i % 50 == 0:
        time.sleep(0.001)
for _ in range(60):
    one.sendto(b"end", (sys.argv[1], 7777))
    time.sleep(0.005)
"""


@pytest.mark.deep
def test_so_many_packets_are_lost_and_none_besides(labs: Labs) -> None:
    made = labs.up("--loss", "5%", "--seed", "3")
    assert made["relay"]["loss"] == pytest.approx(0.05)
    count = 8_000
    with labs.start("lab", "exec", "lab2", "--", sys.executable, "-c", RECEIVE) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        (before,) = labs.list()
        labs.on("lab1", sys.executable, "-c", SEND, made["hosts"][1]["address"], str(count))
        out, err = receiver.communicate(timeout=LIMIT_S)
    assert receiver.returncode == 0, err
    (after,) = labs.list()
    lost = after["relay"]["lost"] - before["relay"]["lost"]
    carried = after["relay"]["read"] - before["relay"]["read"]
    assert after["relay"]["dropped"] == before["relay"]["dropped"]
    deviation = (carried * 0.05 * 0.95) ** 0.5
    assert abs(lost - 0.05 * carried) < 5 * deviation
    # The 60 that say that it is the end are packets too, of which up to all but the first may be lost or unread.
    assert count - lost <= int(out) <= count - lost + 60


@pytest.mark.deep
def test_the_mtu_shows_without_offloads(labs: Labs) -> None:
    made = labs.up("--mtu", "9000", "--offloads", "off")
    assert made["device"]["mtu_bytes"] == 9000
    assert not any(made["device"]["offloads"].values())
    done = labs.measure(
        "tcp", "--sizes", "200000", "--pattern", "stream", "--budget", "0.2", "--launches", "1"
    )
    assert done.code == 0, done.said
    for facts in done.of("environment"):
        (link,) = (one for one in facts["facts"]["network"]["interfaces"] if one["name"] == "eth0")
        assert link["mtu_bytes"] == 9000
        assert not any(link["offloads"][one] for one in ("tso", "gso", "gro"))
    sent = {
        what: int(labs.on("lab1", "cat", f"/sys/class/net/eth0/statistics/tx_{what}"))
        for what in ("bytes", "packets")
    }
    assert sent["bytes"] / sent["packets"] <= 9014


def test_what_the_kernel_does_not_have_is_refused_and_nothing_stays(labs: Labs, tmp_path: Path) -> None:
    """A tc that claims to have done it, and has not."""
    tc = tmp_path / "bin" / "tc"
    tc.parent.mkdir()
    real = shutil.which("tc")
    tc.write_text(f'#!/bin/sh\n[ "$1" = qdisc ] && exit 0\nexec {real} "$@"\n')
    tc.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tc.parent}:{os.environ['PATH']}")
        code, _, err = labs.call("lab", "up", "--rate", "1g")
    assert code == 3
    assert err == (
        "netpipe: device eth0 of host lab1 is not as it was asked for: no rate in place of 1.00 Gbps\n"
    )
    assert living(labs) == []
    assert labs.list() == []


# ------------------------------------------------------------------------------------------------ several, and the end


def test_two_labs_are_made_at_once_and_one_is_removed(labs: Labs) -> None:
    with labs.start("lab", "up", "-q") as first, labs.start("lab", "up", "-q", "--name", "two") as second:
        for process in (first, second):
            _, err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, err
    there = labs.list()
    assert sorted(lab["name"] for lab in there) == ["lab", "two"]
    addresses = [host["address"] for lab in there for host in lab["hosts"]]
    assert len(set(addresses)) == 4
    assert labs.call("lab", "up")[0] == 2
    assert labs.call("lab", "down")[0] == 2, "which one is not said"
    assert labs.call("lab", "down", "lab")[:2] == (0, "removed lab lab\n")
    assert labs.on("two1", "sh", "-c", "ssh two2 uname -n") == "two2\n"


def test_down_ends_what_runs_on_the_hosts_and_nothing_else(labs: Labs) -> None:
    labs.up("--delay", "1ms")
    with (
        labs.start("lab", "exec", "lab1", "sleep", "600") as inside,
        subprocess.Popen(["sleep", "600"]) as outside,
    ):
        wait_until(lambda: len(keepers.living_in({labs.known().host("lab1").network})) == 2, "it runs")
        code, out, err = labs.call("lab", "down")
        assert (code, err) == (0, "")
        assert out == "removed lab lab; 1 process that ran on its hosts ended\n"
        assert inside.wait(10) != 0
        assert outside.poll() is None
        outside.kill()
    assert living(labs) == []
    assert labs.call("lab", "down")[0] == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.deep)])
def test_an_up_that_is_stopped_halfway_leaves_nothing_for_long(labs: Labs, number: signal.Signals) -> None:
    with labs.start("lab", "up", "--hosts", "30", "--delay", "1ms") as process:
        wait_until(lambda: len(living(labs)) > 2, "some hosts are there")
        process.send_signal(number)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        assert living(labs) == []
        assert labs.list() == []
        return
    assert [(lab["name"], lab["complete"]) for lab in labs.list()] == [("lab", False)]
    code, _, err = labs.call("lab", "up", "-q", "--name", "other")
    assert code == 0, err
    assert "netpipe: lab lab, whose making was killed, was removed\n" in err
    assert [lab["name"] for lab in labs.list()] == ["other"]
    assert len(living(labs)) == 3  # two hosts and the switch


def test_a_lab_is_removed_whatever_died_in_between(labs: Labs) -> None:
    labs.up("--hosts", "3", "--loss", "1%")
    for pid in living(labs):
        if keepers.namespace(pid) != labs.known().host("lab2").network:
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(living(labs)) == 1, "the others have died")
    (found,) = labs.list()
    assert [host["up"] for host in found["hosts"]] == [False, True, False]
    assert "has died" in found["relay"]["problem"]
    code, _, err = labs.call("lab", "exec", "lab1", "true")
    assert code == 3
    assert "host lab1 is down" in err
    assert labs.call("lab", "down")[0] == 0
    assert labs.list() == []


# ------------------------------------------------------------------------------------------------------ hosts that die


def dies(labs: Labs, how: Callable[[], None], *variant: str) -> Outcome:
    """A run in whose middle something happens to lab2."""
    path = labs.folder / "run.jsonl"
    options = (
        "--sizes",
        "1,8,64",
        "--budget",
        "40",
        "--launches",
        "1",
        "--target",
        "0.001%",
        "--timeout",
        "4",
    )
    with labs.start(*labs.measuring(*variant, *options)) as process:
        part = next_part(labs.folder)
        wait_for_samples(part, 5)
        how()
        out, err = process.communicate(timeout=LIMIT_S)
    records = parse(path.read_text()) if path.exists() else []
    return Outcome(process.returncode, err + out, [], records)


def next_part(folder: Path) -> Path:
    """The run file while it is being written, whatever its name is by then."""

    class Either:
        def exists(self) -> bool:
            return True

        def read_text(self) -> str:
            return "".join(path.read_text() for path in folder.glob("run.jsonl*"))

    return Either()  # type: ignore[return-value]


def test_a_host_that_dies_ends_the_run_and_what_was_measured_is_kept(labs: Labs) -> None:
    labs.up()
    done = dies(labs, lambda: kill_host(labs.known(), "lab2"), "tcp")
    assert done.code == 4, done.said
    assert "rank 1 on lab2 has gone" in done.said
    assert len(done.of("sample")) >= 5
    (found,) = labs.list()
    assert [host["up"] for host in found["hosts"]] == [True, False]
    wait_until(
        lambda: len(keepers.living_in({labs.known().host("lab1").network})) == 1, "nothing is left", 20
    )
    # The next run says so before it measures anything.
    again = labs.measure("tcp", *QUICK)
    assert again.code == 3, again.said
    assert "ssh: connect to host lab2: it is down" in again.said


@pytest.mark.deep
def test_a_host_that_falls_silent_ends_the_run_after_its_deadline(labs: Labs) -> None:
    labs.up()
    done = dies(labs, lambda: labs.on("lab2", "ip", "link", "set", "eth0", "down") and None, "tcp")
    assert done.code == 4, done.said
    assert "lab2 has gone" in done.said
    assert len(done.of("sample")) >= 5
    wait_until(
        lambda: len(keepers.living_in({labs.known().host("lab2").network})) == 1, "nothing is left", 20
    )


@pytest.mark.deep
@pytest.mark.parametrize("library", EVERYDAY)
def test_a_host_that_dies_ends_the_run_of_an_mpi_library(labs: Labs, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    labs.up()
    done = dies(labs, lambda: kill_host(labs.known(), "lab2"), f"mpi@{library}:transport=tcp")
    assert done.code == 4, done.said
    assert "has gone" in done.said
    assert len(done.of("sample")) >= 5
    wait_until(
        lambda: len(keepers.living_in({labs.known().host("lab1").network})) == 1, "nothing is left", 30
    )
