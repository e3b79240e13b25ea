# SPDX-License-Identifier: Apache-2.0
"""netpipe lab without namespaces: what may be asked for, who gets which processor, what its ssh understands, and labs
that were left. The labs themselves are in tests/e2e/test_labs.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.lab import keepers, links, making, shell, state, tools, wanted
from netpipe.lab.state import Host, Lab
from netpipe.lab.wanted import Network

if TYPE_CHECKING:
    from conftest import Netpipe


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(shell.LAB, raising=False)
    return tmp_path / "state" / "netpipe" / "labs"


def a_lab(folder: Path, name: str = "lab", **more: object) -> Lab:
    own = keepers.namespace(os.getpid())
    hosts = tuple(
        Host(f"{name}{i}", f"10.87.1.{i}", f"02:6e:70:00:01:0{i}", (0,), os.getpid(), own) for i in (1, 2)
    )
    lab = replace(Lab(name, folder / name, Network(), hosts, 1, complete=True), **more)  # type: ignore[arg-type]
    lab.folder.mkdir(parents=True, exist_ok=True)
    lab.write()
    return lab


# ------------------------------------------------------------------------------------------------ what may be asked for


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [
        ("1g", 1e9),
        ("100m", 1e8),
        ("2.5 Gbit", 2.5e9),
        ("64k", 64e3),
        ("1000000", 1e6),
        (".5G", 5e8),
        ("10gbps", 1e10),
    ],
)
def test_rates_are_bits_per_second(text: str, bits_per_s: float) -> None:
    assert wanted.rate(text) == bits_per_s


@pytest.mark.parametrize(
    ("text", "ns"),
    [("50us", 50_000), ("1ms", 1_000_000), ("0", 0), ("1.5 ms", 1_500_000), ("10s", 10**10), ("7ns", 7)],
)
def test_delays_have_a_unit(text: str, ns: int) -> None:
    assert wanted.delay(text) == ns


@pytest.mark.parametrize(
    ("text", "share"), [("0.1%", 0.001), ("0.001", 0.001), ("1 %", 0.01), ("0", 0), ("0%", 0)]
)
def test_losses_are_shares(text: str, share: float) -> None:
    assert wanted.loss(text) == pytest.approx(share)


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--rate", text) for text in ("fast", "1", "-1g", "1e9", "", "1gB", "999t", "nan")),
        *(("--delay", text) for text in ("50", "-1us", "11s", "1h", "us")),
        *(("--loss", text) for text in ("100%", "1", "-1%", "2", "x")),
        *(("--mtu", text) for text in ("0", "100", "65522", "1k")),
        *(("--hosts", text) for text in ("0", "1", "65", "a,b")),
        *(("--name", text) for text in ("", "Lab", "lab1", "1lab", "a b", "x" * 21, "../x")),
        ("--seed", "-1"),
        ("--offloads", "maybe"),
        ("--delay", "1ms", "--offloads", "on"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    netpipe: Netpipe, folder: Path, arguments: tuple[str, ...]
) -> None:
    said = netpipe("lab", "up", *arguments)
    assert said.code == USAGE, said.err
    assert said.err.count("\n") == 1
    assert arguments[0] in said.err
    assert not folder.exists()


def test_each_host_has_processors_of_its_own_where_there_are_enough() -> None:
    assert making.deal([0, 1], 2) == [(0,), (1,)]
    assert making.deal([2, 3, 5, 7, 8], 2) == [(2, 3), (5, 7)]
    assert making.deal([0, 1], 5) == [(0,), (1,), (0,), (1,), (0,)]


def test_the_bucket_holds_two_packets_at_least_and_grows_with_the_rate() -> None:
    slow = Network(bits_per_s=1e6, mtu_bytes=9000)
    assert links.burst_bytes(slow) >= 2 * 9014
    fast = [links.burst_bytes(Network(bits_per_s=rate)) for rate in (1e9, 1e10)]
    assert fast[1] > 5 * fast[0]
    assert links.burst_bytes(Network(bits_per_s=1e9, delay_ns=1)) > fast[0]


# ------------------------------------------------------------------------------------------------------- ssh of a lab


@pytest.fixture
def ssh(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its program, with a taskset that shows what it is called with and runs what comes after `--`."""
    tool = tmp_path / "bin" / "taskset"
    tool.parent.mkdir()
    tool.write_text(
        '#!/bin/sh\necho "$*" >"$0.called"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return shell.write_ssh(a_lab(folder))


def said(ssh: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run([ssh, *words], capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("-x",),
        ("-o", "BatchMode=yes", "-oPort=3"),
        ("-p", "2222", "-l", "me", "-i", "key", "-nq"),
        ("--",),
    ],
)
def test_ssh_takes_the_options_of_ssh(ssh: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    assert said(ssh, *options, "lab2", "echo", "'a  b'", ";", "exit 7") == (7, "a  b\n", "")
    called = (tmp_path / "bin" / "taskset.called").read_text()
    assert called.startswith(f"-c 0 nsenter --target {os.getpid()} --mount --uts --ipc --net -- ")


def test_ssh_knows_addresses_and_users(ssh: Path) -> None:
    for host in ("10.87.1.1", "root@lab1"):
        assert said(ssh, host, "echo", "here") == (0, "here\n", "")


def test_ssh_gives_a_clean_environment(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "1")
    _, out, _ = said(ssh, "lab1", "env")
    assert "MINE" not in out
    assert "NETPIPE_LAB=lab\n" in out
    assert f"PATH={ssh.parent}:" in out  # mpirun starts further daemons from there


@pytest.mark.parametrize("words", [(), ("-x",), ("lab3", "true"), ("-p",)])
def test_ssh_says_which_hosts_there_are(ssh: Path, words: tuple[str, ...]) -> None:
    code, out, err = said(ssh, *words)
    assert (code, out) == (255, "")
    assert err.startswith("ssh: ")
    assert "the hosts of lab lab are lab1 lab2" in err


def test_ssh_never_enters_another_process_that_got_the_number(folder: Path, ssh: Path) -> None:
    lab = state.one("lab")
    other = replace(lab, hosts=tuple(replace(one, network="net:[1]") for one in lab.hosts))
    shell.write_ssh(other)
    assert said(ssh, "lab2", "echo", "no") == (255, "", "ssh: connect to host lab2: it is down\n")
    with pytest.raises(Failure, match="host lab2 is down") as failure:
        shell.entering(other, other.hosts[1], ["true"])
    assert failure.value.exit_code == UNAVAILABLE


# ------------------------------------------------------------------------------------------------------- what is known


def test_a_lab_is_read_as_it_was_written(folder: Path) -> None:
    lab = a_lab(folder, network=Network(1e9, 50_000, 0.001, 7, 9000, False), facts={"round_trip_ns": 1.5})
    assert state.labs() == [lab]
    assert state.one(None) == state.one("lab") == lab


def test_a_lab_is_found_by_its_name_or_alone(folder: Path) -> None:
    with pytest.raises(Failure, match="no lab is up; netpipe lab up makes one"):
        state.one(None)
    a_lab(folder)
    a_lab(folder, "two")
    with pytest.raises(Failure, match="there are several labs, lab, two; name one"):
        state.one(None)
    with pytest.raises(Failure, match="there is no lab 'three'; there is lab, two"):
        state.one("three")


def test_two_labs_have_different_addresses(folder: Path) -> None:
    first = a_lab(folder)
    assert state.free_subnet([first]) == 2
    assert state.free_subnet([replace(first, subnet=2)]) == 1
    with pytest.raises(Failure, match="254 labs are up"):
        state.free_subnet([replace(first, subnet=number) for number in range(1, 255)])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 99}', '{"format": 1, "name": 3}']
)
def test_a_damaged_file_is_named(
    netpipe: Netpipe, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    lab = a_lab(folder)
    (lab.folder / state.FILE).write_text(text)
    for words in (("list",), ("down",), ("exec", "lab1", "true")):
        said = netpipe("lab", *words)
        assert said.code == USAGE
        assert str(lab.folder) in said.err


def test_a_lab_whose_making_was_killed_is_swept_with_its_keepers(folder: Path) -> None:
    lab = a_lab(folder, complete=False)
    kept = a_lab(folder, "kept")
    process = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, keepers.MARK: str(lab.folder), keepers.ROLE: keepers.RELAY}
    )
    try:
        told: list[str] = []
        assert making.swept(told.append) == [kept]
        assert told == ["lab lab, whose making was killed, was removed"]
        assert process.wait(10) == -9
    finally:
        process.kill()
        process.wait()
    assert not lab.folder.exists()
    assert kept.folder.exists()


def test_only_keepers_of_this_lab_are_found(folder: Path) -> None:
    first, second = a_lab(folder), a_lab(folder, "lab-two")
    process = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, keepers.MARK: str(second.folder), keepers.ROLE: "lab-two1"}
    )
    try:
        assert wait_for_keeper(second.folder) == [keepers.Keeper(process.pid, "lab-two1")]
        assert keepers.of(first.folder) == []
    finally:
        process.kill()
        process.wait()
    assert keepers.of(second.folder) == []


def test_a_keeper_that_has_no_namespace_yet_ends_alone(folder: Path) -> None:
    """One that was killed between its start and its namespace is in that of this machine, as all other processes."""
    assert keepers.namespace(os.getpid()) in keepers.common()
    lab = a_lab(folder)
    marked = {**os.environ, keepers.MARK: str(lab.folder), keepers.ROLE: "lab1"}
    with subprocess.Popen(["sleep", "60"], env=marked) as keeper, subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert wait_for_keeper(lab.folder) == [keepers.Keeper(keeper.pid, "lab1")]
            assert keepers.end(lab.folder) == 0
            assert keeper.wait(10) == -9
            assert other.poll() is None
        finally:
            keeper.kill()
            other.kill()


def wait_for_keeper(folder: Path) -> list[keepers.Keeper]:
    for _ in range(100):
        if found := keepers.of(folder):
            return found
        time.sleep(0.02)
    return []


def test_a_keeper_that_cannot_start_is_quoted(folder: Path) -> None:
    lab = a_lab(folder)
    with pytest.raises(Failure, match="lab1 cannot be made: no room") as failure:
        keepers.launch(["/bin/sh", "-c", "echo no room >&2; exit 1"], lab.folder, "lab1")
    assert failure.value.exit_code == 4
    denied = "echo 'unshare: Operation not permitted' >&2; exit 1"
    with pytest.raises(Failure, match="does not let root make namespaces") as failure:
        keepers.launch(["/bin/sh", "-c", denied], lab.folder, "lab1")
    assert failure.value.exit_code == UNAVAILABLE


# ------------------------------------------------------------------------------------------------------------ not here


@pytest.mark.parametrize("words", [("up",), ("down",), ("exec", "lab1", "true")])
def test_without_root_nothing_is_tried(
    netpipe: Netpipe, folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    lab = a_lab(folder)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    said = netpipe("lab", *words)
    assert said.code == UNAVAILABLE
    assert said.err.startswith("netpipe: a lab needs root")
    assert said.err.count("\n") == 1
    assert lab.folder.exists()


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match="a lab needs ip, tc, ethtool; install iproute2 ethtool") as failure:
        tools.need("ip", "tc", "ethtool")
    assert failure.value.exit_code == UNAVAILABLE


def test_a_host_of_a_lab_makes_and_removes_no_labs(
    netpipe: Netpipe, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_lab(folder)
    monkeypatch.setenv(shell.LAB, "lab")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tools, "need", lambda *names: None)
    for word in ("up", "down"):
        said = netpipe("lab", word)
        assert said.code == USAGE
        assert "this is a host of lab lab" in said.err


# ---------------------------------------------------------------------------------------------------------- on screen


def summary(**more: object) -> dict[str, object]:
    return {
        "name": "lab",
        "complete": True,
        "network": Network(1e9, 50_000, 0.001, 1, 9000, False).as_json(),
        "hosts": [
            {"name": "lab1", "address": "10.87.1.1", "processors": [0], "up": True},
            {"name": "lab2", "address": "10.87.1.2", "processors": [1, 2], "up": False},
        ],
        "device": {"mtu_bytes": 9000, "offloads": {"tso": False, "gso": False, "gro": False}},
        "round_trip_ns": 163_000,
        "relay": {
            "read": 1000,
            "lost": 2,
            "dropped": 3,
            "realtime": False,
            "late_median_ns": 600,
            "late_p99_ns": None,
            "late_max_ns": 30_000,
        },
        **more,
    }


def test_a_lab_is_shown_with_what_is_between_its_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    from netpipe.render.terminal.lab import print_labs

    print_labs([summary()], hints=True)
    text = " ".join(capsys.readouterr().out.split())
    assert "lab: 1.00 Gbps, MTU 9000, 50.0 µs of delay one way, 0.1 % lost (seed 1), no offloads" in text
    assert "lab2 10.87.1.2 processors 1,2 down: its processes were killed" in text
    assert "took 163 µs, of which 100 µs are the delay" in text
    assert "carried 1000 packets, 2 of them lost (0.2 %), 3 dropped for lack of room" in text
    assert "median 600 ns and most 30.0 µs, and does not run before other processes" in text
    assert "netpipe lab exec lab1 -- netpipe run tcp --hosts lab1,lab2" in text


def test_a_lab_that_was_left_is_shown_as_such(netpipe: Netpipe, folder: Path) -> None:
    a_lab(folder, complete=False, facts={})
    said = netpipe("lab", "list")
    assert said.code == 0
    assert "its making was killed; netpipe lab down lab removes what there is" in " ".join(said.out.split())
    assert json.loads(netpipe("lab", "list", "--json").out)["labs"][0]["complete"] is False


def test_no_lab_is_said(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert netpipe("lab", "list").out == "No lab is up. netpipe lab up makes one.\n"
    assert json.loads(netpipe("lab", "list", "--json").out) == {"labs": []}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for words in (("exec", "lab1", "true"), ("down",)):
        said = netpipe("lab", *words)
        assert (said.code, said.err) == (USAGE, "netpipe: no lab is up; netpipe lab up makes one\n")
