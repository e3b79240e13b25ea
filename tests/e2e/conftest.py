# SPDX-License-Identifier: Apache-2.0
"""The real worker, driven by plans, and what came of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from machines import wait_until
from mpi import Mpis, mpis, with_mpis  # noqa: F401  (fixtures)

from netpipe.failure import Failure
from netpipe.libraries.daemons import Daemons, kinds

ROOT = Path(__file__).resolve().parents[2]
NATIVE = Path(os.environ.get("NETPIPE_NATIVE", ROOT / "build"))
WORKER = NATIVE / "bin" / "netpipe-worker"
TEST_MODULES = NATIVE / "test-modules"
STAND_INS = TEST_MODULES / "stand-ins"  # for libraries that this machine lacks
LIMIT_S = 400.0 if "NETPIPE_IN_GUEST" in os.environ else 90.0  # tests/guest: an emulated processor


@dataclass(frozen=True)
class Outcome:
    code: int
    said: str  # on standard error
    events: list[dict[str, Any]]
    records: list[dict[str, Any]]

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        wanted = {"type": kind, **fields}
        return [r for r in self.records if all(r.get(key) == value for key, value in wanted.items())]


def parse(text: str) -> list[dict[str, Any]]:
    """Whole lines only: a torn last line is what an interruption may leave."""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def wait_for_samples(path: Path, count: int = 1) -> None:
    """Until a run file that is being written has so many."""
    wait_until(
        lambda: path.exists() and path.read_text().count('"type":"sample"') >= count, "nothing was measured"
    )


Runner = Callable[..., Outcome]
Starter = Callable[..., tuple["subprocess.Popen[str]", Path]]


@pytest.fixture(scope="session", autouse=True)
def daemons() -> Iterator[None]:
    """The worker alone has the daemons that `netpipe run` starts before it."""
    running = Daemons()
    with pytest.MonkeyPatch.context() as patch:
        with contextlib.suppress(Failure):  # not installed, as the listing says
            for name, value in running.start(kinds(), lambda: False).items():
                patch.setenv(name, value)
        yield
    running.close()


@pytest.fixture(scope="session")
def worker() -> Path:
    assert WORKER.is_file(), f"{WORKER} is not there: build first (make build)"
    return WORKER


@pytest.fixture(scope="session")
def listing(worker: Path) -> dict[str, Any]:
    done = subprocess.run([worker, "list"], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def measure(worker: Path, tmp_path: Path) -> Runner:
    """measure("variant tcp", "budget 0.2"): one plan, run to its end. `record` takes the place of the run file, and
    `inside` is what a network namespace is entered with.
    """

    def run(
        *lines: str, record: str | None = None, limit_s: float = LIMIT_S, inside: tuple[str, ...] = ()
    ) -> Outcome:
        path = tmp_path / "run.jsonl"
        path.unlink(missing_ok=True)
        plan = "\n".join(["netpipe-plan 1", f"record {record or path}", *lines, "end", ""])
        done = subprocess.run(
            [*inside, worker, "run"], input=plan, capture_output=True, text=True, timeout=limit_s, check=False
        )
        records = parse(path.read_text()) if path.exists() else []
        return Outcome(done.returncode, done.stderr, parse(done.stdout), records)

    return run


@pytest.fixture
def started(worker: Path, tmp_path: Path) -> Iterator[Starter]:
    """The same, while it is still running. What is left of it at the end of the test is ended by its process group."""
    going: list[subprocess.Popen[str]] = []

    def start(*lines: str) -> tuple[subprocess.Popen[str], Path]:
        path = tmp_path / "run.jsonl"
        process = subprocess.Popen(
            [worker, "run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write("\n".join(["netpipe-plan 1", f"record {path}", *lines, "end", ""]))
        process.stdin.flush()
        going.append(process)
        return process, path

    yield start
    for process in going:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stand-ins, with two devices, in place of the driver and of NCCL."""
    assert (STAND_INS / "libcuda.so.1").exists(), "the stand-in is not built: cmake --build build"
    before = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{STAND_INS}:{before}" if before else str(STAND_INS))
    return monkeypatch


Netpipe = Callable[..., Outcome]


@pytest.fixture
def netpipe(with_mpis: Mpis, tmp_path: Path) -> Netpipe:  # noqa: F811
    """netpipe("mpi@mpich", "--sizes", "8"): one launch of these modules, to its end; `inside` a namespace."""
    assert with_mpis.folder.is_dir()

    def call(
        *arguments: str,
        limit_s: float = 240.0,
        inside: Callable[..., list[str]] = lambda *command: list(command),
    ) -> Outcome:
        record = tmp_path / "run.jsonl"
        record.unlink(missing_ok=True)
        done = subprocess.run(
            inside(sys.executable, "-m", "netpipe", "run", "--launches", "1", *arguments, "-o", str(record)),
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
        return Outcome(done.returncode, done.stderr + done.stdout, [], parse(record.read_text()))

    return call
