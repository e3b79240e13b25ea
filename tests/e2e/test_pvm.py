# SPDX-License-Identifier: Apache-2.0
"""PVM: both routes, all encodings, and a daemon that is started and ended by netpipe, whatever becomes of it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner, parse, wait_for_samples
from machines import wait_until

from netpipe.libraries.daemons import FOLDERS
from netpipe.libraries.starting.processes import all_with

LIMIT_S = 60.0
PVMD = Path("/usr/lib/pvm3/lib/pvmd")


@pytest.fixture(scope="module", autouse=True)
def _layer(listing: dict[str, Any]) -> None:
    (found,) = [one for one in listing["modules"] if one["name"] == "pvm"] or [
        {"available": False, "reason": "module pvm was not built"}
    ]
    if not found["available"]:
        pytest.skip(found["reason"])


def without_pvm() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PVM")}


@dataclass
class Runs:
    """`netpipe run` with a mark in the environment of all that it starts."""

    folder: Path
    mark: str = field(default_factory=lambda: f"NETPIPE_TEST_MARK_{secrets.token_hex(8)}")
    more: dict[str, str] = field(default_factory=dict)
    going: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def record(self) -> Path:
        return self.folder / "run.jsonl"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        self.record.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "netpipe", "run", "--launches", "1", *arguments, "-o", str(self.record)],
            env={**without_pvm(), "COLUMNS": "300", self.mark: "1", **self.more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.going.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Outcome:
        said, _ = process.communicate(timeout=LIMIT_S)
        records = parse(self.record.read_text()) if self.record.exists() else []
        return Outcome(process.returncode, said, [], records)

    def run(self, *arguments: str) -> Outcome:
        return self.end(self.start(*arguments))

    def daemons(self) -> list[int]:
        return [pid for pid in all_with(self.mark) if name_of(pid) == "pvmd"]

    def ranks(self) -> list[int]:
        return sorted(pid for pid in all_with(self.mark) if name_of(pid) == "netpipe-worker")

    def all_gone(self) -> None:
        wait_until(lambda: not any(all_with(self.mark)), "processes of the run are left")


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    made = Runs(tmp_path)
    yield made
    for process in made.going:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
        assert process.stdout is not None
        process.stdout.close()
    for pid in all_with(made.mark):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For the socket of a daemon, whose path may not be as long as that of tmp_path is."""
    with tempfile.TemporaryDirectory(prefix="pvm-") as folder:
        yield Path(folder)


def facts(done: Outcome, variant: str) -> list[dict[str, str]]:
    found = [
        record for record in done.records if record["type"] == "variant" and record["variant"] == variant
    ]
    return [json.loads(json.dumps(rank["settings"])) for record in found for rank in record["ranks"]]


# ------------------------------------------------------------------------------------------------------ messages

VARIANTS = {
    "pvm": {"route": "daemon", "encoding": "default", "wait": "block", "sockets_on_the_way": "2"},
    "pvm:encoding=raw,fragment=16k,wait=hybrid": {
        "fragment_bytes": "16384",
        "wait": "hybrid",
        "spin_us": "50",
    },
    "pvm:route=direct,encoding=inplace,wait=poll": {
        "route": "direct",
        "encoding": "inplace",
        "wait": "poll",
        "sockets_on_the_way": "1",
    },
    "pvm:route=direct": {"route": "direct", "fragment_bytes": "4080"},
}
SIZES = [0, 1, 4081, 65537]


def test_both_routes_deliver_every_byte_side_by_side(runs: Runs, short_folder: Path) -> None:
    runs.more["TMPDIR"] = str(short_folder)
    sizes = ",".join(map(str, SIZES))
    done = runs.run(*VARIANTS, "--verify", "--sizes", sizes, "--budget", "0.5", "--pattern", "pingpong")
    assert done.code == 0, done.said
    assert {(p["variant"], p["size_bytes"]) for p in done.of("point")} == {
        (variant, size) for variant in VARIANTS for size in SIZES
    }
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"])
    for variant, expected in VARIANTS.items():
        ranks = facts(done, variant)
        assert len(ranks) == 2
        for settings in ranks:
            assert settings.items() >= {**expected, "socket_family": "AF_UNIX"}.items(), variant
    assert "fragment_bytes" not in facts(done, "pvm:route=direct,encoding=inplace,wait=poll")[0]
    assert "libpvm" not in done.said
    runs.all_gone()
    assert not list(short_folder.glob(f"{FOLDERS}*"))


@pytest.mark.deep
@pytest.mark.parametrize("pattern", ["pairs", "incast", "outcast", "window", "bidirectional"])
def test_any_number_of_ranks_and_routes_take_turns(runs: Runs, pattern: str) -> None:
    variants = ["pvm:ranks=4", "pvm:route=direct,ranks=4", "pvm:route=direct,ranks=3", "pvm:ranks=2"]
    if pattern in ("pairs", "window", "bidirectional"):
        variants = [one for one in variants if "3" not in one]
    quick = ("--sizes", "0,8,65537", "--budget", "0.5")
    done = runs.run(*variants, "--pattern", pattern, "--verify", *quick)
    assert done.code == 0, done.said
    assert {p["variant"].partition(",ranks=2")[0] for p in done.of("point")} >= set(variants[:2])
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"])


@pytest.mark.deep
def test_four_ranks_and_two_take_turns_on_both_routes(runs: Runs) -> None:
    done = runs.run(
        *("pvm:ranks=4", "pvm:route=direct,ranks=4", "pvm:route=direct", "pvm"),
        *("--pattern", "incast", "--verify", "--sizes", "8,65537", "--budget", "0.5"),
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 8
    assert len(facts(done, "pvm:route=direct,ranks=4")) == 4
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))


# ------------------------------------------------------------------------------------------------------ refusals


def test_the_worker_alone_says_who_starts_the_daemon(
    measure: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PVMSOCK", raising=False)
    done = measure("variant pvm", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 3
    assert "no PVM daemon was started for this run; start it with 'netpipe run pvm'" in done.said


def test_a_daemon_that_is_not_there_is_named(
    measure: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PVMSOCK", str(tmp_path / "nobody"))
    monkeypatch.setenv("PVM_ALLOW_ROOT", "1")
    done = measure("variant pvm", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 3
    assert f"no PVM daemon answers at {tmp_path}/nobody" in done.said


def test_a_daemon_that_does_not_know_all_hosts_is_not_used(
    measure: Runner, users_pvmd: int, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is for a host that it does not know it would throw away."""
    place = Path(runs.more["PVM_TMP"])
    monkeypatch.setenv("PVM_TMP", str(place))
    monkeypatch.setenv("PVMSOCK", next(place.glob("pvmd.*")).read_text())
    monkeypatch.setenv("PVM_ALLOW_ROOT", "1")
    plan = ("variant pvm", "schedule list", "sizes 8", "budget 0.1", "timeout 1")
    assert measure(*plan).code == 0
    monkeypatch.setenv("NETPIPE_PVM_DAEMONS", "2")
    done = measure(*plan)
    assert done.code == 4, done.said
    assert "the PVM daemon of this host knows 1 of 2 hosts; install the same version of PVM" in done.said
    assert not done.of("sample")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("fragment=512", "fragment=512: with very small fragments libpvm hangs, so give at least 1k"),
        ("fragment=4k,encoding=inplace", "what lies in place is sent as one fragment"),
        ("fragment=2M", "fragment"),
        ("spin_us=7", "only wait=hybrid polls for a time"),
        ("route=relay", "daemon"),
    ],
)
def test_settings_that_would_not_be_in_force_are_refused(
    measure: Runner, options: str, sentence: str
) -> None:
    done = measure(f"variant pvm:{options}", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 2, done.said
    assert sentence in done.said
    assert not done.of("sample")


def test_without_the_daemons_program_it_says_what_to_install(runs: Runs, tmp_path: Path) -> None:
    runs.more["PVM_ROOT"] = str(tmp_path)
    done = runs.run("pvm", "--sizes", "8", "--budget", "0.1")
    assert done.code == 3, done.said
    assert f"{tmp_path}/lib/pvmd, is not there; apt install pvm, or correct PVM_ROOT" in done.said


def fake_daemon(root: Path, script: str) -> str:
    program = root / "lib" / "pvmd"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(root)


def test_a_daemon_that_does_not_start_ends_the_run_with_its_own_words(runs: Runs, tmp_path: Path) -> None:
    runs.more["PVM_ROOT"] = fake_daemon(tmp_path, "echo 'pvmd: my disk is full' >&2; exit 1")
    done = runs.run("pvm", "--sizes", "8", "--budget", "0.1")
    assert done.code == 4, done.said
    assert "the PVM daemon did not start: it ended at once; it said: pvmd: my disk is full" in done.said
    assert not done.of("point")
    runs.all_gone()


@pytest.mark.deep
def test_a_daemon_that_never_gets_ready_is_given_up(runs: Runs, tmp_path: Path) -> None:
    runs.more["PVM_ROOT"] = fake_daemon(tmp_path, "exec sleep 1000")
    done = runs.run("pvm", "--sizes", "8", "--budget", "0.1")
    assert done.code == 4, done.said
    assert "it was not ready within 10 s" in done.said
    runs.all_gone()


# ------------------------------------------------------------------------------------------------------ the user's own


@pytest.fixture
def users_pvmd(runs: Runs) -> Iterator[int]:
    """One that the user has started, in the place where netpipe's run would find it."""
    temporary = Path(tempfile.mkdtemp(prefix="np-pvm-"))  # short: names of sockets are
    runs.more |= {"PVM_TMP": str(temporary), "TMPDIR": str(temporary)}
    environment = {**without_pvm(), "PVM_TMP": str(temporary), "PVM_ALLOW_ROOT": "1"}
    process = subprocess.Popen(
        [PVMD, "-n127.0.0.1"], env=environment, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    wait_until(lambda: any(temporary.glob("pvmd.*")), "the user's pvmd did not start")
    yield process.pid
    process.send_signal(signal.SIGCONT)
    process.terminate()
    process.wait(10)
    subprocess.run(["rm", "-rf", temporary], check=True)


def test_a_daemon_of_the_user_is_neither_used_nor_ended(runs: Runs, users_pvmd: int) -> None:
    place = Path(runs.more["PVM_TMP"])
    before = {path.name for path in place.iterdir()}
    os.kill(users_pvmd, signal.SIGSTOP)  # whoever asks it anything waits for ever
    done = runs.run("pvm", "--sizes", "8", "--budget", "0.2")
    assert done.code == 0, done.said
    assert len(done.of("point")) == 1
    os.kill(users_pvmd, signal.SIGCONT)
    assert name_of(users_pvmd) == "pvmd"
    assert {path.name for path in place.iterdir()} == before


@pytest.mark.deep
def test_what_an_earlier_daemon_left_behind_is_neither_believed_nor_removed(
    runs: Runs, tmp_path: Path
) -> None:
    left = tmp_path / f"pvmd.{os.geteuid()}"  # by one that was killed: pvmd itself would refuse to start here
    left.write_text(f"{tmp_path}/pvmtmp000001.0\n")
    runs.more |= {"PVM_TMP": str(tmp_path), "TMPDIR": str(tmp_path), "PVM_VMID": "mine"}
    done = runs.run("pvm", "--sizes", "8", "--budget", "0.2")
    assert done.code == 0, done.said
    assert left.read_text() == f"{tmp_path}/pvmtmp000001.0\n"


@pytest.mark.deep
def test_a_folder_whose_name_is_too_long_for_sockets_is_avoided(runs: Runs, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    runs.more["TMPDIR"] = str(deep)
    done = runs.run("pvm", "--sizes", "8", "--budget", "0.2")
    assert done.code == 0, done.said
    assert not list(deep.glob(f"{FOLDERS}*"))


# ------------------------------------------------------------------------------------------------------ faults


def under_way(runs: Runs, *arguments: str) -> subprocess.Popen[str]:
    # On a quiet machine, both sizes reach the default target before anything can go wrong.
    settings = ("--sizes", "8,65536", "--budget", "30", "--target", "0.01%", "--timeout", "3")
    process = runs.start(*arguments, *settings)
    wait_for_samples(runs.record, 4)
    return process


@pytest.mark.parametrize(
    ("variant", "number"),
    [
        ("pvm", signal.SIGKILL),
        # A daemon that is told to end tells its tasks the same.
        pytest.param("pvm:route=direct", signal.SIGTERM, marks=pytest.mark.deep),
        pytest.param("pvm", signal.SIGTERM, marks=pytest.mark.deep),
        pytest.param("pvm:route=direct", signal.SIGKILL, marks=pytest.mark.deep),
    ],
)
def test_a_daemon_that_dies_during_the_run_fails_it(runs: Runs, variant: str, number: signal.Signals) -> None:
    process = under_way(runs, variant)
    (daemon,) = runs.daemons()
    os.kill(daemon, number)
    done = runs.end(process)
    assert done.code == 4, done.said
    assert "the PVM daemon ended during the run" in done.said
    assert "libpvm" not in done.said
    (error,) = done.of("error")
    assert "the PVM daemon" in error["message"]
    assert done.of("sample"), "what was measured before is kept"
    runs.all_gone()


@pytest.mark.deep
def test_after_the_loss_of_its_daemon_other_variants_are_measured(runs: Runs) -> None:
    process = runs.start("pvm", "tcp", "--sizes", "8", "--budget", "6", "--target", "0.01%", "--timeout", "3")
    wait_for_samples(runs.record, 4)
    os.kill(runs.daemons()[0], signal.SIGKILL)
    done = runs.end(process)
    assert done.code == 4, done.said
    assert "tcp" in {point["variant"] for point in done.of("point")}
    runs.all_gone()


def kill_the_last_rank(runs: Runs, process: subprocess.Popen[str]) -> int:
    assert process.poll() is None
    os.kill(runs.ranks()[-1], signal.SIGKILL)
    return 4


def interrupt(runs: Runs, process: subprocess.Popen[str]) -> int:
    assert runs.daemons()
    process.send_signal(signal.SIGINT)
    return 130


@pytest.mark.parametrize(
    ("variant", "fault"),
    [
        ("pvm", kill_the_last_rank),
        pytest.param("pvm:route=direct", interrupt, marks=pytest.mark.deep),
        pytest.param("pvm:route=direct,wait=poll", kill_the_last_rank, marks=pytest.mark.deep),
        pytest.param("pvm:wait=hybrid", interrupt, marks=pytest.mark.deep),
    ],
)
def test_a_lost_rank_and_an_interrupt_end_the_run_and_the_daemon(
    runs: Runs, variant: str, fault: Callable[[Runs, subprocess.Popen[str]], int]
) -> None:
    process = under_way(runs, variant)
    code = fault(runs, process)
    done = runs.end(process)
    assert done.code == code, done.said
    assert "libpvm" not in done.said
    runs.all_gone()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("variant", "pattern"),
    [("pvm", "pingpong"), ("pvm:route=direct", "pingpong"), ("pvm:route=direct", "stream")],
)
def test_a_rank_that_is_stopped_leads_to_the_deadline(runs: Runs, variant: str, pattern: str) -> None:
    """With stream this rank is in pvm_send, for which libpvm waits in select for ever."""
    process = under_way(runs, variant, "--pattern", pattern)
    os.kill(runs.ranks()[-1], signal.SIGSTOP)
    done = runs.end(process)
    assert done.code == 4, done.said
    assert "rank 0: module pvm" in done.said, f"rank 0 had to be killed as well: {done.said}"
    runs.all_gone()


def test_the_daemon_ends_with_a_netpipe_that_is_killed(runs: Runs) -> None:
    process = under_way(runs, "pvm")
    assert len(runs.daemons()) == 1
    process.kill()
    process.wait(10)
    runs.all_gone()
    time.sleep(0.05)
    assert not runs.daemons()
