# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""Jobs: variants of a library that has a launcher of its own. The conductor asks for their processes and we, as the
launcher, start them; the library is tests/modules/troupe.c.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT_S, TEST_MODULES, Outcome, parse
from test_two_hosts import Serve, plan, serve, token  # noqa: F401

NAME = "troupe@one"


@dataclass
class Stage:
    """A launcher: what it does with each `launch` event can be changed."""

    worker: Path
    folder: Path
    sizes: dict[int, int] = field(default_factory=dict)  # job -> processes that each believe to be this many
    refuse: dict[int, str] = field(default_factory=dict)  # job -> the sentence instead of its processes
    secret: Callable[[str], str] = str
    delay_s: float = 0.0  # before it starts any process
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    launched: list[dict[str, Any]] = field(default_factory=list)
    strangers: list[bytes] = field(default_factory=list)  # what connects first
    silent: int = 0  # how many connect before the ranks and say nothing
    held: list[socket.socket] = field(default_factory=list)  # their connections
    conductor: int = 0  # its process
    on_event: Callable[[dict[str, Any]], None] = lambda _: None

    def launch(self, event: dict[str, Any]) -> None:
        self.launched.append(event)
        time.sleep(self.delay_s)
        host, port = event["join"].rsplit(":", 1)
        self.held += [socket.create_connection((host, int(port)), timeout=5) for _ in range(self.silent)]
        for words in self.strangers:
            with socket.create_connection((host, int(port)), timeout=5) as stranger:
                stranger.sendall(words)
        name = uuid.uuid4().hex
        for rank in range(event["ranks"]):
            alone = self.sizes.get(event["job"]) == 1
            own = {
                "NETPIPE_JOIN": event["join"],
                "NETPIPE_JOB": str(event["job"]),
                "NETPIPE_JOIN_SECRET": self.secret(event["secret"]),
                "TROUPE_RANK": "0" if alone else str(rank),
                "TROUPE_SIZE": "1" if alone else str(event["ranks"]),
                "TROUPE_NAME": name,
            }
            self.processes.append(
                subprocess.Popen(
                    [self.worker, "join"],
                    env={**os.environ, **own},
                    stdin=subprocess.DEVNULL,
                    stderr=(self.folder / f"rank{len(self.processes)}.err").open("wb"),
                )
            )

    def measure(self, *lines: str) -> Outcome:
        record = self.folder / "run.jsonl"
        record.unlink(missing_ok=True)
        plan = "\n".join(["netpipe-plan 1", f"record {record}", *lines, "end", ""])
        conductor = subprocess.Popen(
            [self.worker, "run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NETPIPE_MODULE_PATH": str(self.folder)},
        )
        events = []
        self.conductor = conductor.pid
        with conductor:
            assert conductor.stdin is not None
            assert conductor.stdout is not None
            assert conductor.stderr is not None
            conductor.stdin.write(plan)
            conductor.stdin.flush()
            for line in conductor.stdout:
                event = json.loads(line)
                events.append(event)
                self.on_event(event)
                if event["event"] == "launch" and event["job"] in self.refuse:
                    conductor.stdin.write(f"failed {event['job']} {self.refuse[event['job']]}\n")
                    conductor.stdin.flush()
                elif event["event"] == "launch":
                    self.launch(event)
            said = conductor.stderr.read()
            code = conductor.wait(LIMIT_S)
        return Outcome(code, said, events, parse(record.read_text()))


def children_of(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.fixture
def stage(worker: Path, tmp_path: Path) -> Iterator[Stage]:
    described = subprocess.run(
        [worker, "describe", TEST_MODULES / "troupe.so", "--as", NAME],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    extra = "launcher none /bin/true\nenvironment A=B\nadded 2026-11-21\n"
    (tmp_path / f"{NAME}.module").write_text(described.stdout + extra)
    it = Stage(worker, tmp_path)
    yield it
    for connection in it.held:
        connection.close()
    for process in it.processes:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(10)


def sizes(outcome: Outcome, variant: str) -> list[int]:
    return sorted(point["size_bytes"] for point in outcome.of("point", variant=variant))


def test_a_description_stands_for_the_module(stage: Stage) -> None:
    listed = subprocess.run(
        [stage.worker, "list"],
        env={**os.environ, "NETPIPE_MODULE_PATH": str(stage.folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    (module,) = [m for m in json.loads(listed.stdout)["modules"] if m["name"] == NAME]
    assert module["launched"] is True
    assert module["description"] == str(stage.folder / f"{NAME}.module")
    assert module["path"] == str(TEST_MODULES / "troupe.so")
    assert [option["name"] for option in module["options"]] == ["fault", "at"]
    assert {"bootstrap", "send", "recv"} <= set(module["operations"])
    assert {"pingpong", "stream"} <= set(module["patterns"])
    assert not {"bidirectional", "collective", "put"} & set(module["patterns"])


def test_jobs_are_measured_beside_a_pair_with_a_server(
    stage: Stage, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long their launchers take: the server hears nothing meanwhile."""
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(stage.folder))
    stage.delay_s = 1.5
    lines = ("variant tcp", f"variant {NAME}", "schedule list", "sizes 8,64", "budget 0.2", "timeout 1")
    done = stage.measure(*plan(serve(), *lines))
    assert done.code == 0, done.said
    assert sizes(done, "tcp") == sizes(done, NAME) == [8, 64]


def test_jobs_and_forked_ranks_are_measured_in_one_order(stage: Stage) -> None:
    done = stage.measure(
        f"variant {NAME}", f"variant {NAME}:at=99", "variant unix", "pattern pingpong", "pattern stream",
        "schedule list", "sizes 1,64,100000", "verify yes", "budget 0.3",
    )  # fmt: skip
    assert done.code == 0, done.said
    variants = [NAME, f"{NAME}:at=99", "unix"]
    for variant in variants:
        for pattern in ("pingpong", "stream"):
            assert len(done.of("point", variant=variant, pattern=pattern)) == 3
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
    order = [sample["variant"] for sample in done.of("sample") if sample["pass"] == 1]
    assert sum(a != b for a, b in pairwise(order)) > len(variants), "one after the other"
    (opened,) = done.of("variant", variant=NAME)
    assert opened["below"] == "unix"
    assert [rank["rank"] for rank in opened["ranks"]] == [0, 1]
    assert [rank["settings"] for rank in opened["ranks"]] == [
        {"own_rank": "0", "wait": "block"},
        {"own_rank": "1", "wait": "block"},
    ]
    assert [c["values"] for c in done.of("counters", variant=NAME)] == [{"rank": "0"}, {"rank": "1"}]
    assert all(process.wait(10) == 0 for process in stage.processes)
    assert "secret" not in (stage.folder / "run.jsonl").read_text()


@pytest.mark.parametrize("fault", [pytest.param("hang", marks=pytest.mark.deep), "die"])
@pytest.mark.gate
def test_a_rank_that_is_lost_takes_its_variant_only(stage: Stage, fault: str) -> None:
    done = stage.measure(
        f"variant {NAME}:fault={fault},at=4097", "variant unix", f"variant {NAME}", "schedule list",
        "sizes 1,8,64,512,4097", "budget 0.3", "timeout 2",
    )  # fmt: skip
    assert done.code == 4
    (error,) = done.of("error")
    lost = error["variant"]
    assert lost.startswith(f"{NAME}:fault={fault}")
    assert error["size_bytes"] == 4097
    assert "rank 1 has gone" in error["message"] or "did not complete within" in error["message"], error
    assert sizes(done, lost) == [1, 8, 64, 512], "a new job measures the sizes that are known to work"
    for other in ("unix", NAME):
        assert sizes(done, other) == [1, 8, 64, 512, 4097]


@pytest.mark.parametrize("natives", [True, False])
def test_a_native_rank_that_ends_while_a_job_is_measured_is_missed(stage: Stage, natives: bool) -> None:
    others = ("variant unix",) if natives else ()
    killed: list[int] = []

    def kill_the_waiting_rank(event: dict[str, Any]) -> None:
        if event["event"] == "pass" and not killed:
            (rank,) = children_of(stage.conductor)
            os.kill(rank, signal.SIGKILL)
            killed.append(rank)

    stage.on_event = kill_the_waiting_rank
    done = stage.measure(
        *others, f"variant {NAME}", "schedule list", "sizes 8,64,512", "budget 2", "target 0.0001"
    )
    assert done.code == 4, done.said
    # Of a layer of its own it may also have been in the middle of a visit.
    assert ("rank 1 has gone" if natives else "rank 1 has gone while it waited") in done.said
    assert done.of("sample", variant=NAME)
    assert [error["variant"] for error in done.of("error")] == (["unix"] if natives else [])
    if not natives:
        assert sizes(done, NAME) == [8, 64, 512], "what was measured is kept"
    passes = [event for event in done.events if event["event"] == "pass"]
    assert len(passes) <= 3, "it is noticed at once: they come every 0.4 s, and there was time for ten"


def test_a_rank_that_cannot_open_says_why(stage: Stage) -> None:
    done = stage.measure(
        f"variant {NAME}:fault=open", "variant unix", "schedule list", "sizes 8", "budget 0.1", "timeout 1"
    )
    assert done.code == 3
    (error,) = done.of("error")
    assert "rank 1 cannot find its network" in error["message"]
    assert sizes(done, "unix") == [8]


def test_a_launcher_that_fails_is_quoted(stage: Stage) -> None:
    stage.refuse[0] = "mpirun was not found; install it"
    done = stage.measure(f"variant {NAME}", "variant unix", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 4
    (error,) = done.of("error")
    assert "mpirun was not found; install it" in error["message"]
    assert sizes(done, "unix") == [8]


def test_processes_that_each_believe_to_be_alone_are_explained(stage: Stage) -> None:
    stage.sizes[0] = 1
    done = stage.measure(f"variant {NAME}", "variant unix", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 2
    (error,) = done.of("error")
    assert "each of the 2 processes of troupe@one believes that it is alone" in error["message"]
    assert sizes(done, "unix") == [8]


def test_a_process_that_does_not_know_the_secret_is_not_taken(stage: Stage) -> None:
    stage.secret = lambda _: "0" * 64
    stage.refuse[1] = "over"
    done = stage.measure(
        f"variant {NAME}", "schedule list", "sizes 8", "budget 0.1", "timeout 0.1", "joining 2"
    )
    assert done.code == 4
    assert "0 of 2 processes joined within" in done.of("error")[0]["message"]
    assert all(process.wait(30) != 0 for process in stage.processes)


def test_strangers_at_the_door_do_no_harm(stage: Stage) -> None:
    stage.strangers = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 4096]
    done = stage.measure(f"variant {NAME}", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 0, done.said
    assert sizes(done, NAME) == [8]


def test_strangers_that_say_nothing_keep_no_rank_out(stage: Stage) -> None:
    stage.silent = 40  # each is listened to for 5 s
    done = stage.measure(f"variant {NAME}", "schedule list", "sizes 8", "budget 0.1", "joining 30")
    assert done.code == 0, done.said
    assert sizes(done, NAME) == [8]


def test_join_by_hand_says_that_nobody_sent_for_it(worker: Path) -> None:
    done = subprocess.run([worker, "join"], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 2
    assert "no run requested this process" in done.stderr
