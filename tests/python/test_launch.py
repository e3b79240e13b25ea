# SPDX-License-Identifier: Apache-2.0
"""Whatever a worker does, it comes to an end, what it measured is kept, and the others still measure."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from netpipe import launch, native
from netpipe.events import AnyEvent, Ended, Pass, Progress, Ready, decode
from netpipe.failure import FAILED, INTERRUPTED, UNAVAILABLE, USAGE, Failure
from netpipe.launch import Assignment, Command, worker
from netpipe.launch.interrupt import Interrupt
from netpipe.launch.plan import Plan
from netpipe.launch.worker import Worker
from netpipe.measurement import Measurement
from netpipe.records import Header, Run
from netpipe.records import Plan as ResolvedPlan
from netpipe.run_file import Recording

LINES = (("schedule", "list"), ("sizes", "8,64k"))
Measure = Callable[..., tuple[int, Run, list[str]]]


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    with Interrupt() as entered:
        yield entered


@pytest.fixture
def measure(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: Interrupt) -> Measure:
    """measure("tcp", "shm", fake="die=tcp"): a whole run. Its exit code, the run as it is in the file, the notes."""
    monkeypatch.setattr(worker, "STOP_S", 0.3)
    monkeypatch.setattr(worker, "DRAIN_S", 0.1)

    def run(
        *variants: str,
        fake: str = "",
        launches: int = 1,
        silence_s: float = 20.0,
        on_pass: Callable[[], None] = lambda: None,
    ) -> tuple[int, Run, list[str]]:
        monkeypatch.setenv("FAKE_WORKER", fake)
        plan = Plan(
            (*(("variant", variant) for variant in variants), *LINES, ("timeout", "0.1"), ("budget", "0.01"))
        )
        record = tmp_path / "run.jsonl"
        recording = Recording(record)
        recording.append(Header(schema=1, run="0" * 32))
        notes: list[str] = []
        passes: list[Pass] = []

        def watch(progress: Progress) -> None:
            if progress.note:
                notes.append(progress.note)
            if isinstance(progress.event, Pass):
                passes.append(progress.event)
                if len(passes) == 1:
                    on_pass()

        answer = native.plan(plan.text())
        resolved = msgspec.convert(answer, ResolvedPlan)
        made = Measurement(plan, resolved, recording, launch.find("local"), launches, watch, silence_s)
        return made.measure(interrupt), Run.read(recording.path), notes

    return run


def measured(run: Run) -> list[str]:
    """The variants with a point at each of the two sizes."""
    sizes: dict[str, set[int]] = {}
    for point in run.points:
        sizes.setdefault(point.variant, set()).add(point.size_bytes)
    return sorted(variant for variant, some in sizes.items() if len(some) == 2)


# ----------------------------------------------------------------------------------------------- a run that works


def test_every_size_is_measured(measure: Measure) -> None:
    code, run, notes = measure("tcp", "shm")
    assert (code, measured(run), notes) == (0, ["shm", "tcp"], [])
    assert len(run.launches) == 1


def test_each_launch_has_its_number(measure: Measure) -> None:
    code, run, _ = measure("tcp", launches=3)
    assert code == 0
    assert [one.launch for one in run.launches] == [0, 1, 2]
    assert {point.launch for point in run.points} == {0, 1, 2}


def test_a_worker_waits_after_each_pass(fake: Path, tmp_path: Path, interrupt: Interrupt) -> None:
    recording = Recording(tmp_path / "run.jsonl")
    assignment = Assignment(Plan((("variant", "tcp"), *LINES)), recording.file, recording.name, 0)
    worker = Worker(launch.find("local").command(assignment), assignment, 20, interrupt)
    passes = []
    while worker.exit_code is None:
        events: list[AnyEvent] = []
        worker.next_pass(events.append)
        passes.append(sum(isinstance(event, Pass) for event in events))
    worker.close()
    recording.close()
    assert passes == [1, 1, 1, 1, 0]  # the fake one makes four
    assert worker.exit_code == 0


def test_a_starter_is_one_decorated_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_starters", dict(launch.starters()))

    @launch.starter("remote", "somewhere else")
    def remote(_: Assignment) -> Command:
        return Command(("ssh", "there", "netpipe-worker", "run"))

    assert launch.find("remote").command is remote
    assert launch.find("local").summary
    with pytest.raises(
        Failure, match="'lcoal' does not start netpipe's own layers; choose one of local, remote"
    ):
        launch.find("lcoal")


# --------------------------------------------------------------------------------------------- a run that does not


def test_the_others_are_measured_when_one_variant_kills_the_worker(measure: Measure) -> None:
    code, run, notes = measure("tcp", "shm", "pipe", fake="die=shm")
    assert code == FAILED
    assert measured(run) == ["pipe", "tcp"]
    assert [(error.variant, error.code) for error in run.errors] == [(None, FAILED), ("shm", FAILED)]
    assert "netpipe-worker was killed by SIGKILL" in run.errors[1].message
    assert notes[0].startswith("netpipe-worker was killed by SIGKILL (out of memory, or by")
    assert notes[0].endswith("; now measuring the 3 variants one by one to see which it was")


@pytest.mark.parametrize(
    "how", ["leaves=0", "leaves=1", "leaves=5", "leaves=130", "says=0", "says=1", "says=5"]
)
def test_what_a_module_exits_with_is_no_result(measure: Measure, how: str) -> None:
    """1 is a wrong byte, 5 an unsettled point, 130 an interrupt: a worker says these in words, or as events."""
    code, run, _ = measure("tcp", fake=how)
    assert (code, measured(run)) == (FAILED, [])
    assert f"netpipe-worker ended with exit code {how.partition('=')[2]}" in run.errors[-1].message


def test_the_one_that_the_worker_blames_is_left_out(measure: Measure) -> None:
    code, run, notes = measure("tcp", "shm", "pipe", fake="blame=shm")
    assert code == FAILED
    assert measured(run) == ["pipe", "tcp"]
    assert [error.variant for error in run.errors] == ["shm"]
    assert notes == ["shm: rank 1 on fake has gone; going on with 2 other variants"]
    assert {point.launch for point in run.points} >= {1}


def test_a_torn_line_spoils_nothing(measure: Measure) -> None:
    code, run, _ = measure("tcp", "shm", fake="torn=shm")
    assert (code, measured(run)) == (FAILED, ["tcp"])
    assert "killed by SIGSEGV" in run.errors[-1].message


def test_what_is_no_event_ends_the_worker(measure: Measure) -> None:
    code, run, _ = measure("tcp", fake="garbage")
    assert code == FAILED
    assert "it wrote 'Segmentation fault (not really)" in run.errors[0].message
    assert run.errors[0].variant == "tcp"
    assert run.samples  # of the pass before


def test_a_silent_worker_is_ended(measure: Measure) -> None:
    code, run, _ = measure("tcp", fake="silent", silence_s=0.2)
    assert code == FAILED
    assert "was killed because it sent nothing for" in run.errors[0].message
    assert run.samples


def test_a_full_disk_is_not_tried_again(measure: Measure) -> None:
    code, run, notes = measure("tcp", "shm", fake="full")
    assert code == FAILED
    assert len(notes) == 1
    assert "No space left on device; what was measured so far is kept, free some space" in notes[0]
    assert run.samples


def test_a_worker_that_does_not_leave_is_ended(measure: Measure) -> None:
    code, run, _ = measure("tcp", fake="stubborn", silence_s=3600.0)
    assert (code, measured(run)) == (0, ["tcp"])


def test_no_process_is_left_behind(measure: Measure, tmp_path: Path, fake: Path) -> None:
    """A child of the worker that outlives it, and holds its pipes open, is ended too."""
    pid_file = tmp_path / "pid"
    real = fake.with_name("real")
    fake.rename(real)
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = run ] && {{ sleep 600 & echo $! > {pid_file}; }}\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    code, _, _ = measure("tcp", fake="die=tcp")
    assert code == FAILED
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in "ZX"
    except OSError:
        return False


# --------------------------------------------------------------------------------------------------- interrupting


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("after_s", [0.0, 0.1])  # while the worker waits, and in the middle of a pass
def test_an_interrupt_keeps_what_there_is(measure: Measure, number: signal.Signals, after_s: float) -> None:
    code, run, _ = measure(
        "tcp", "shm", fake="pass_s=0.2 passes=50", launches=3, on_pass=lambda: send(number, after_s)
    )
    assert code == INTERRUPTED
    assert {point.stop for point in run.points} >= {"interrupted"}
    assert len(run.launches) == 1  # the others were not begun


def test_a_hang_up_that_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupt.count == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_worker_deaf_to_interrupts_is_killed(measure: Measure) -> None:
    code, run, notes = measure(
        "tcp", fake="deaf pass_s=0.2 passes=500", on_pass=lambda: send(signal.SIGINT, 0.0)
    )
    assert code == INTERRUPTED
    assert "it did not stop within 0 s of the interrupt" in notes[0]
    assert run.samples


def send(number: signal.Signals, after_s: float) -> None:
    """To this process, once."""
    if after_s == 0:
        os.kill(os.getpid(), number)
        return
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, after_s)


# ------------------------------------------------------------------------------------------------ plan and events


def test_a_plan_is_its_lines_in_order() -> None:
    plan = Plan((("variant", "tcp"), ("target", "1%")))
    assert plan.text(launch="3") == "netpipe-plan 1\nvariant tcp\ntarget 1%\nlaunch 3\nend\n"
    assert plan.with_variants(["shm", "pipe"]).variants() == ["shm", "pipe"]


@pytest.mark.parametrize("value", ["a\nrecord /etc/passwd", "a\r", "", "  "])
def test_a_value_cannot_smuggle_in_another_line(value: str) -> None:
    with pytest.raises(Failure, match="the value of host must be one line and not empty") as refused:
        Plan((("host", value),))
    assert refused.value.exit_code == USAGE


def test_a_deadline_does_not_run_while_this_process_is_stopped(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: Interrupt
) -> None:
    """The worker may have been stopped with it."""
    moments = [100.0]

    class Clock:
        monotonic = staticmethod(lambda: moments[0])

    class Stopped:
        def __init__(self, late_s: float) -> None:
            self.late_s = late_s

        def select(self, seconds: float) -> list[object]:
            moments[0] += seconds + self.late_s
            return []

    recording = Recording(tmp_path / "run.jsonl")
    assignment = Assignment(Plan((("variant", "tcp"), *LINES)), recording.file, recording.name, 0)
    waiting = Worker(launch.find("local").command(assignment), assignment, 20, interrupt)
    monkeypatch.setattr(worker, "time", Clock)
    for late_s, later_s in ((0.0, 0.0), (0.5, 0.0), (90.0, 110.0)):
        monkeypatch.setattr(waiting, "_selector", Stopped(late_s))
        assert waiting._wait(20.0) == pytest.approx(later_s)
    recording.close()


def test_events_of_a_later_version_are_passed_over() -> None:
    assert decode(b'{"event":"coffee"}') is None
    assert decode(b'{"event":"end","exit":0,"why":"?"}') == Ended(exit=0)
    assert decode(b'{"event":"ready","points":3}') == Ready(points=3)


def test_wrong_bytes_are_the_worst_result(fake: Path) -> None:
    assert native.worst((0, 3, 4)) == FAILED
    assert native.worst((4, 1)) == native.worst((1, 4)) == 1
    assert native.worst((0, 77)) == FAILED
    assert native.worst(()) == 0


# ----------------------------------------------------------------------------------------------- finding the worker


def test_no_worker_is_a_sentence_that_names_the_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NETPIPE_NATIVE", str(tmp_path))
    with pytest.raises(Failure) as missing:
        native.worker()
    assert missing.value.exit_code == UNAVAILABLE
    assert missing.value.sentence.startswith(
        f"there is no netpipe-worker in {tmp_path / 'bin'} (NETPIPE_NATIVE)"
    )
    monkeypatch.delenv("NETPIPE_NATIVE")
    monkeypatch.setattr(native, "prefixes", lambda: [(tmp_path, "here"), (tmp_path / "x", "there")])
    with pytest.raises(Failure, match=r"nor in .*x/bin \(there\); build it with 'make build'"):
        native.worker()


def test_a_worker_that_cannot_start_is_a_sentence(fake: Path) -> None:
    fake.write_bytes(b"\x7fELF")
    with pytest.raises(Failure, match="cannot be started: Exec format error") as refused:
        native.list_()
    assert refused.value.exit_code == UNAVAILABLE


def test_its_own_sentence_and_code_are_passed_on(fake: Path) -> None:
    with pytest.raises(Failure) as refused:
        native.plan("netpipe-plan 1\nvariant tpc\nend\n")
    assert (refused.value.exit_code, refused.value.sentence.split(";")[0]) == (
        USAGE,
        "there is no module 'tpc'",
    )


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo nonsense", "returned invalid JSON: b'nonsense"),
        ("kill -SEGV $$", "was killed by SIGSEGV"),
        ("exit 9", "ended with exit code 9"),
        ("echo why >&2; exit 99", "ended with exit code 99: why"),
        ("echo why >&2; exit 1", "ended with exit code 1: why"),
        ("sleep 600", "did not answer within 0 s"),
    ],
)
def test_a_worker_that_gives_no_answer_is_a_sentence(
    fake: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    monkeypatch.setattr(native, "ANSWER_S", 0.2 if "sleep" in script else 20.0)
    fake.write_text(f"#!/bin/sh\nexec {script}\n" if "sleep" in script else f"#!/bin/sh\n{script}\n")
    with pytest.raises(Failure) as failed:
        native.list_()
    assert failed.value.exit_code == FAILED
    assert says in failed.value.sentence
