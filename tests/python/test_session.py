# SPDX-License-Identifier: Apache-2.0
"""netpipe.session measures without a terminal, and leaves files as its page says."""

from __future__ import annotations

import doctest
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from netpipe import native, session
from netpipe.events import Pass, Progress
from netpipe.failure import FAILED, INTERRUPTED, UNSTABLE, USAGE, Failure
from netpipe.reading import Reading
from netpipe.records import Error, Header, Run, encode
from netpipe.run_file import Recording
from netpipe.session import Request, Session, process_counts

if TYPE_CHECKING:
    from conftest import Netpipe

SMALL = {"sizes": "8,64k", "budget": "1"}


def request(*variants: str, **fields: Any) -> Request:
    return Request(variants or ("tcp",), **{"settings": SMALL, **fields})


def older_run(path: Path) -> bytes:
    path.write_bytes(encode(Header(schema=1, run="0" * 32, started="2026-03-01T12:00:00Z")))
    return path.read_bytes()


def test_the_example_of_the_module_is_true(fake: Path) -> None:
    failed, tried = doctest.testmod(session)
    assert tried >= 5
    assert failed == 0


def test_nothing_is_printed(fake: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = Session(request("tcp", "shm")).measure()
    assert (result.exit_code, len(result.run.points), result.path, result.kept) == (0, 4, None, None)
    assert capfd.readouterr() == ("", "")
    assert list(Path().iterdir()) == []


def test_watch_sees_the_run_grow_and_every_line_once(fake: Path) -> None:
    lines: list[bytes] = []
    points: list[int] = []

    def watch(progress: Progress) -> None:
        lines.extend(line for line, _ in progress.lines)
        points.append(len(progress.run.points))

    Session(request()).measure("run.jsonl", watch)
    assert b"".join(lines) == Path("run.jsonl").read_bytes()
    assert points == sorted(points)
    assert points[-1] == 2


def test_a_plan_is_checked_before_anything_starts(fake: Path) -> None:
    with pytest.raises(Failure, match="there is no module 'tpc'") as refused:
        Session(request("tpc"))
    assert refused.value.exit_code == USAGE
    asked = Session(request("tcp", "shm", launches=3))
    assert asked.variants == ["tcp", "shm"]
    assert asked.longest_s == 6.0


def test_an_invalid_plan_of_the_worker_is_a_sentence(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "plan", lambda _: {"sizes": "many"})
    with pytest.raises(
        Failure, match=r"netpipe-worker returned an invalid plan .* same version as netpipe"
    ) as failed:
        Session(request())
    assert failed.value.exit_code == FAILED


def test_strict_is_about_points_that_are_not_within_the_target(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_WORKER", "noisy")
    result = Session(request(settings={"budget": "1"})).measure(strict=True)
    assert result.exit_code == UNSTABLE
    assert 0 < result.unsettled < len(result.run.points)


def test_netpipe_run_reads_the_run_once(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code of --strict, the sentences, the summary and the report are of one Reading."""
    made: list[Run] = []
    usual = Reading.__init__

    def counted(self: Reading, run: Run) -> None:
        made.append(run)
        usual(self, run)

    monkeypatch.setattr(Reading, "__init__", counted)
    sizes = ("--schedule", "powers", "--end", "64")
    said = netpipe("run", "tcp", "shm", *sizes, "--strict", "--report", "report.html", fake="noisy")
    assert said.code == 5
    assert "not within the target" in said.err
    assert Path("report.html").is_file()
    (run,) = made
    assert run.end is not None
    assert run.points


def test_an_interrupt_ends_it_with_what_there_is(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WORKER", "pass_s=0.05 passes=1000")

    def watch(progress: Progress) -> None:
        if isinstance(progress.event, Pass) and progress.event.number == 0:
            os.kill(os.getpid(), signal.SIGINT)

    result = Session(request()).measure("run.jsonl", watch)
    assert result.exit_code == INTERRUPTED
    assert {point.stop for point in result.run.points} == {"interrupted"}
    assert Run.read("run.jsonl").end == result.run.end


def test_a_thread_may_measure(fake: Path) -> None:
    """Signals are for the main thread only, and a notebook may measure in another."""
    results = []
    thread = threading.Thread(target=lambda: results.append(Session(request()).measure()))
    thread.start()
    thread.join(60)
    assert [result.exit_code for result in results] == [0]


# ------------------------------------------------------------------------------------------------- the run file


def test_an_older_run_is_renamed_when_there_is_a_result(fake: Path) -> None:
    before = older_run(Path("run.jsonl"))

    def watch(progress: Progress) -> None:
        assert (Path("run.jsonl").read_bytes() == before) is not bool(progress.run.samples)

    result = Session(request()).measure("run.jsonl", watch)
    assert result.path == Path("run.jsonl")
    assert result.kept == Path("run-20260301T120000Z.jsonl")
    assert result.kept.read_bytes() == before


@pytest.mark.parametrize("older", [True, False])
def test_a_run_without_a_result_replaces_nothing(
    fake: Path, monkeypatch: pytest.MonkeyPatch, older: bool
) -> None:
    """The worker opens nothing and says why, as with tcp:congestion=foo."""
    monkeypatch.setenv("FAKE_WORKER", "unopened=tcp")
    before = older_run(Path("run.jsonl")) if older else None
    result = Session(request()).measure("run.jsonl")
    assert result.exit_code == 3
    assert [error.message for error in result.run.errors] == ["tcp: it cannot be opened"]
    assert [path.name for path in Path().iterdir()] == ["run.jsonl"]
    if older:
        assert (result.path, Path("run.jsonl").read_bytes()) == (None, before)
    else:  # there was nothing to protect, and the file says what went wrong
        assert result.path == Path("run.jsonl")
        assert Run.read("run.jsonl").errors == result.run.errors


def test_what_every_launch_says_is_said_once(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WORKER", "unopened=tcp")
    notes: list[str] = []
    Session(request(launches=3)).measure(
        "run.jsonl", lambda progress: notes.extend(filter(None, [progress.note]))
    )
    assert notes == ["the measurement failed"]
    assert len(Run.read("run.jsonl").errors) == 3


def test_an_interrupt_before_the_first_result_leaves_the_older_run(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_WORKER", "pass_s=600")
    before = older_run(Path("run.jsonl"))
    process = subprocess.Popen(
        [sys.executable, "-m", "netpipe", "run", "tcp", "--sizes", "8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not any(b'"yardstick"' in path.read_bytes() for path in Path().glob("*.part")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for _ in range(2):  # the second one does not wait for the worker
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "nothing was measured, and run.jsonl is still an earlier run without any result" in err
    assert [path.name for path in Path().iterdir()] == ["run.jsonl"]
    assert Path("run.jsonl").read_bytes() == before


def test_results_survive_when_they_cannot_be_put_in_place(tmp_path: Path) -> None:
    """Somebody puts a text there while it measures: neither is lost."""
    output = tmp_path / "run.jsonl"
    recording = Recording(output)
    recording.append(Header(schema=1, run="1" * 32))
    output.write_text("dear diary\n")
    with pytest.raises(Failure, match="it is not overwritten"):
        recording.keep()
    recording.close(discard=False)
    assert output.read_text() == "dear diary\n"
    assert Run.read(recording.path).header is not None


def test_a_pipe_gets_the_records_as_they_come(fake: Path) -> None:
    os.mkfifo("pipe")
    reader = subprocess.Popen(
        [sys.executable, "-c", "print(open('pipe').read(), end='')"], stdout=subprocess.PIPE
    )
    result = Session(request()).measure("pipe")
    out, _ = reader.communicate(timeout=30)
    assert result.path is None
    assert [json.loads(line)["type"] for line in out.splitlines()][-1] == "end"
    assert len(result.run.points) == 2


def test_a_recording_is_beside_its_place_until_it_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    before = older_run(output)
    recording = Recording(output)
    recording.append(Header(schema=1, run="1" * 32))
    assert output.read_bytes() == before
    recording.keep()
    recording.append(Error(message="after it"))
    assert len(recording.new()) == 2
    recording.close()
    assert [error.message for error in Run.read(output).errors] == ["after it"]
    assert recording.kept is not None
    assert recording.kept.read_bytes() == before


def test_a_recording_that_is_not_kept_leaves_no_file(tmp_path: Path) -> None:
    for output in (tmp_path / "run.jsonl", None):
        recording = Recording(output)
        recording.append(Error(message="nothing"))
        assert [record for _, record in recording.new()] == [Error(message="nothing")]
        recording.close()
        assert not recording.path.exists()
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------- numbers of ranks


def test_a_list_of_ranks_is_a_variant_each(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = native.list_()
    next(one for one in listing["modules"] if one["name"] == "pipe")["max_ranks"] = 2
    monkeypatch.setattr(native, "list_", lambda *_: listing)
    texts: list[str] = []
    plan = native.plan("netpipe-plan 1\nvariant shm\nranks 4\nend\n")
    monkeypatch.setattr(native, "plan", lambda text: texts.append(text) or plan)

    notes: list[str] = []

    def planned(*variants: str, ranks: str) -> list[str]:
        notes[:] = Session(request(*variants, settings={**SMALL, "ranks": ranks})).notes
        return [line for line in texts[-1].splitlines() if line.startswith(("variant", "ranks"))]

    assert planned("shm:wait=poll", "memcpy", "shm", ranks="4,2") == [
        "variant shm:wait=poll,ranks=2",
        "variant shm:wait=poll,ranks=4",
        "variant memcpy",
        "variant shm:ranks=2",
        "variant shm:ranks=4",
    ]
    assert notes == ["although --ranks 4,2 was given, these variants keep their own number of ranks: memcpy"]
    assert planned("shm", ranks="4") == ["variant shm", "ranks 4"]
    for variants, why in (
        (("null", "memcpy"), "none of null, memcpy can have these ranks, because they stay in one process"),
        (("shm", "pipe"), "pipe takes 2 ranks; leave it out, or give numbers that it takes"),
    ):
        with pytest.raises(Failure, match=f"--ranks 2,4: {why}") as refused:
            planned(*variants, ranks="2,4")
        assert refused.value.exit_code == USAGE


def test_a_variant_that_keeps_its_number_of_ranks_is_named(fake: Path) -> None:
    """What stays in one process is the floor of a comparison, and the whole of none."""

    def notes(**settings: str) -> list[str]:
        return Session(request("null", "tcp", "memcpy", settings={**SMALL, **settings})).notes

    assert notes() == []
    assert notes(ranks="2") == ["although --ranks 2 was given, these variants have 1 rank: null, memcpy"]
    assert notes(ranks="4") == ["although --ranks 4 was given, these variants have 1 rank: null, memcpy"]
    assert Session(request("memcpy", settings={**SMALL, "ranks": "2"})).notes  # what every run asks for
    with pytest.raises(Failure, match="none of null, memcpy can have these ranks") as refused:
        Session(request("null", "memcpy", settings={**SMALL, "ranks": "4"}))
    assert refused.value.exit_code == USAGE


@pytest.mark.parametrize("text", ["2,", "0", "two", "-1", "2;4", "²"])
def test_what_is_not_a_list_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(Failure, match="write numbers of processes with commas between them"):
        process_counts(text)


def test_numbers_of_processes_rise_and_are_there_once() -> None:
    assert process_counts("8, 2,4,2") == [2, 4, 8]


def test_a_layer_that_is_not_here_is_left_out_of_the_default_only(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = native.list_()
    for module in listing["modules"]:
        module["available"] = module["name"] != "shm"
    monkeypatch.setattr(native, "list_", lambda *_: listing)
    assert tuple(session.Session(session.Request()).variants) == (
        "null",
        "memcpy",
        "pipe",
        "unix",
        "unix:wait=poll",
        "tcp",
        "tcp:wait=poll",
    )


def test_all_is_every_module_that_is_available_here(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = native.list_()
    for module in listing["modules"]:
        module["available"] = module["name"] != "memcpy"
    monkeypatch.setattr(native, "list_", lambda *_: listing)

    def variants(*asked: str) -> list[str]:
        return session.Session(session.Request(asked, defaults=("shm:wait=block", "tcp"))).variants

    assert variants() == ["shm:wait=block", "tcp"]
    assert variants("all") == ["shm:wait=block", "tcp", "null", "pipe", "unix"]
    both = variants("pipe", "all", "tcp:wait=poll")
    assert both == ["pipe", "shm:wait=block", "tcp", "null", "unix", "tcp:wait=poll"]
