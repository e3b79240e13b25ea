# SPDX-License-Identifier: Apache-2.0
"""The line that rate, latency, packets and a threshold would give: computed, drawn beside what was measured, and never
taken for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from netpipe import Run, theory
from netpipe.failure import Failure
from netpipe.reading import Reading
from netpipe.records import Point, Theory
from netpipe.render.drawing.curves import theories
from netpipe.render.drawing.picture import Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import get
from netpipe.theory import ALONE, Traffic
from pages import data_of

LINK = "theory:rate=10g,latency=2us,packet=100ns,mtu=1460,header=78,rendezvous=64k"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(worker: Path, tmp_path: Path) -> Command:
    """netpipe run, to its end, in a folder of its own."""
    assert worker.is_file()

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "netpipe", *words],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "160", "TERM": "dumb"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return call


def measured(command: Command, *variants: str) -> subprocess.CompletedProcess[str]:
    quick = ("--sizes", "8,64k,1M", "--budget", "0.2", "--launches", "1")
    done = command("run", *variants, *quick)
    assert done.returncode == 0, done.stderr
    return done


def bounds_of(reading: Reading, figure: str) -> dict[str, Picture]:
    (panel,) = get(figure).panels(Scope((reading,)))
    (picture,) = panel.views
    assert isinstance(picture, Picture)
    return {bound.label: picture for bound in picture.bounds}


# ---------------------------------------------------------------------------------------------------- the formula


def test_an_empty_message_takes_the_latency_one_packet_and_its_header() -> None:
    link = theory.parse(LINK)
    assert theory.time_ns(link, 0) == pytest.approx(2000 + 100 + 78 * 8 / 10)


def test_each_packet_costs_its_time_and_its_header() -> None:
    link = theory.parse("theory:rate=8g,latency=1us,packet=50ns,mtu=1000,header=100")  # one byte a nanosecond
    assert theory.time_ns(link, 1000) == pytest.approx(1000 + 50 + 1100)
    assert theory.time_ns(link, 1001) == pytest.approx(1000 + 2 * 50 + 1001 + 200)
    assert theory.packets(link, 10_000) == 10


def test_from_the_threshold_on_there_is_one_round_trip_more() -> None:
    link = theory.parse("theory:rate=8g,latency=1us,mtu=1000,header=100,rendezvous=4k")
    before, at = theory.time_ns(link, 4095), theory.time_ns(link, 4096)
    assert at - before == pytest.approx(1 + 2 * (1000 + 100))


def test_large_messages_go_at_the_rate_less_the_headers() -> None:
    link = theory.parse("theory:rate=10g,mtu=1460,header=78")
    assert theory.rate_bytes_per_s(link, 1e12) * 8 == pytest.approx(10e9 * 1460 / 1538, rel=1e-6)
    bare = theory.parse("theory:rate=2.5G")
    assert theory.rate_bytes_per_s(bare, 1) * 8 == pytest.approx(2.5e9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("theory", "needs the rate of the link"),
        ("theory:latency=1us", "needs the rate of the link"),
        ("theory:rate=0", "a rate of 0 moves nothing"),
        ("theory:rate=fast", "rate=fast is not valid; write it as in rate=10g"),
        ("theory:rate=10g,latency=7", "write it as in latency=2us"),
        ("theory:rate=10g,mtu=1.5k", "write it as in mtu=1460"),
        ("theory:rate=10g,header=78", "say how much of it fits a packet"),
        ("theory:rate=10g,speed=3", "theory has no setting 'speed'; it has rate, latency"),
        ("theory:rate=10g,rate=1g", "write rate=VALUE once"),
        ("theory:rate=" + "9" * 400, "is not valid"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, says: str) -> None:
    with pytest.raises(Failure, match=re.escape(says)) as failure:
        theory.parse(text)
    assert failure.value.exit_code == 2


def test_a_record_that_cannot_be_computed_is_left_out() -> None:
    good = theory.parse(LINK)
    none = Theory(theory="theory:rate=0", rate_bytes_per_s=0.0, latency_ns=0.0)
    back = Theory(theory="theory:back", rate_bytes_per_s=1e9, latency_ns=-5.0)
    assert theory.of(Run([none, good, back])) == (good,)


# ---------------------------------------------------------------------------------------------------- a run with it


def test_it_is_recorded_and_said_to_be_a_model_and_nothing_of_it_is_measured(
    command: Command, tmp_path: Path
) -> None:
    done = measured(command, "unix", LINK)
    assert f"{LINK} is a model, and nothing was measured for it" in " ".join(done.stdout.split())
    run = Run.read(tmp_path / "run.jsonl")
    assert [one.theory for one in run.theories] == [LINK]
    assert {point.variant for point in run.points} == {"unix"}
    assert [variant.variant for plan in run.plans for variant in plan.variants] == ["unix"]
    reading = Reading(run)
    assert {curve.variant for curve in reading.curves} == {"unix"}
    assert not [one for one in (*reading.losses, *reading.verdicts) if "theory" in repr(one)]


@pytest.mark.parametrize("figure", ["throughput", "latency", "signature", "saturation"])
def test_it_is_a_line_of_every_classic_figure(tmp_path: Path, figure: str) -> None:
    """Without a measurement: two points of a run file."""
    path = tmp_path / "run.jsonl"
    head: list[dict[str, object]] = [{"type": "run", "schema": 1, "run": "0" * 32}]
    points = [
        {"type": "point", "variant": "tcp", "pattern": "pingpong", "size_bytes": size, "median_ns": ns}
        | {"low_ns": ns, "high_ns": ns, "half_width": 0.0, "bytes_per_s": size / ns * 1e9}
        for size, ns in ((8, 20e3), (1 << 20, 2e6))
    ]
    line = json.loads(json.dumps({"type": "theory"} | _fields(theory.parse(LINK))))
    path.write_text("".join(json.dumps(one) + "\n" for one in [*head, line, *points]))
    reading = Reading(Run.read(path))
    assert len(reading.curves) == 1
    label = f"{LINK} (a model)"
    picture = bounds_of(reading, figure)[label]
    (bound,) = [one for one in picture.bounds if one.label == label]
    assert len(bound.x) > 100
    assert all(picture.x.holds(x) and picture.y.holds(y) for x, y in zip(bound.x, bound.y, strict=True))
    assert {line.variant for line in picture.lines} == {"tcp"}
    if figure == "latency":
        assert bound.y[0] == pytest.approx(theory.time_ns(theory.parse(LINK), 8))
        assert bound.y[-1] == pytest.approx(theory.time_ns(theory.parse(LINK), 1 << 20))


def _fields(one: Theory) -> dict[str, object]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


STREAM, BOTH, STREAMS = Traffic(in_a_row=True), Traffic(directions=2), Traffic(True, 2)
ANSWERED, SIGNALLED = Traffic(back="an answer"), Traffic(one_sided=True)
PUT, FETCH = Traffic(back="an answer", one_sided=True), Traffic(back="as much", one_sided=True)


def of_patterns(moved: dict[str, int]) -> Reading:
    """Two sizes of each of these patterns, whose rate counts so many messages for each operation."""
    points = [
        Point(
            variant="tcp",
            pattern=pattern,
            size_bytes=size,
            median_ns=20e3 + size,
            bytes_per_s=messages * size / (20e3 + size) * 1e9,
        )
        for pattern, messages in moved.items()
        for size in (8, 1 << 20)
    ]
    return Reading(Run([theory.parse(LINK), *points]))


@pytest.mark.parametrize(
    ("pattern", "messages", "kind"),
    [
        ("pingpong", 1, ALONE),
        ("pingpong:send_offset=8", 1, ALONE),
        ("stream", 1, STREAM),
        ("window:in_flight=64,places=one", 1, STREAM),
        ("window:directions=both", 2, STREAMS),
        ("bidirectional", 2, BOTH),
        ("window", 4, None),  # four pairs, of which nobody knows which share the link
        ("window:completion=local", 1, None),  # its time ends before the messages are there
        ("burst", 1, ALONE),
        ("loggp:messages=8", 1, ALONE),
        ("loaded", 1, ALONE),
        ("partitioned", 1, ALONE),
        ("signal", 1, SIGNALLED),
        ("put", 1, PUT),
        ("put:sync=fence,in_flight=1", 1, PUT),
        ("put:in_flight=16", 1, STREAM),
        ("put:sync=wait", 1, None),  # its time ends before the bytes are there
        ("put:sync=wait,in_flight=16", 1, None),
        ("get", 1, PUT),
        ("get:sync=wait", 1, PUT),
        ("get", 2, None),  # two pairs
        ("strided:direction=get", 1, PUT),
        ("accumulate", 1, PUT),
        ("accumulate:fetch=yes", 1, FETCH),
        ("accumulate:in_flight=4,fetch=yes", 1, STREAM),
        ("incast", 1, ANSWERED),
        ("incast", 3, None),  # from three ranks
        ("outcast", 1, ANSWERED),
        ("cast:by=sends", 1, ANSWERED),
        ("pairs", 1, ALONE),
        ("pairs:traffic=both", 2, BOTH),
        ("random:traffic=both", 2, BOTH),
        ("ring", 2, BOTH),
        ("ring", 4, None),  # of four ranks
        ("overlap", 2, BOTH),
        ("overlap:computes=one", 2, None),  # its two messages follow each other
        ("exchange", 4, None),
        ("collective", 1, None),
    ],
)
def test_it_speaks_of_patterns_whose_messages_cross_one_link(
    pattern: str, messages: int, kind: Traffic | None
) -> None:
    found = theories(Scope((of_patterns({pattern: messages}),)))
    assert found == (() if kind is None else ((theory.parse(LINK), kind),))


def test_messages_in_a_row_fill_packets_and_hide_the_latency() -> None:
    link = theory.parse("theory:rate=8g,latency=1us,packet=50ns,mtu=1000,header=100")  # one byte a nanosecond
    assert theory.time_ns(link, 1000, STREAM) == pytest.approx(1100)
    assert theory.time_ns(link, 10, STREAM) == pytest.approx(11), "a hundred of them in one packet"
    slow = theory.parse("theory:rate=8g,packet=2us,mtu=1000,header=100")
    assert theory.time_ns(slow, 1000, STREAM) == pytest.approx(2000), "the packet costs more than its bytes"
    plain = theory.parse("theory:rate=8g,packet=2us")
    assert theory.time_ns(plain, 10, STREAM) == pytest.approx(2000), "a message is one packet"


def test_both_directions_count_and_each_has_the_whole_link() -> None:
    link = theory.parse(LINK)
    alone = theory.rate_bytes_per_s(link, 1 << 20)
    assert theory.rate_bytes_per_s(link, 1 << 20, BOTH) == pytest.approx(2 * alone)
    row = theory.rate_bytes_per_s(link, 1 << 20, STREAM)
    assert row > alone
    assert theory.rate_bytes_per_s(link, 1 << 20, STREAMS) == pytest.approx(2 * row)


def test_what_ends_with_an_answer_takes_an_empty_message_more() -> None:
    link = theory.parse("theory:rate=8g,latency=1us,packet=50ns,mtu=1000,header=100,rendezvous=4k")
    empty = 1000 + 50 + 100
    assert theory.time_ns(link, 1000, ANSWERED) == pytest.approx(1000 + 50 + 1100 + empty)
    assert theory.time_ns(link, 1000, PUT) == theory.time_ns(link, 1000, ANSWERED)
    assert theory.time_ns(link, 1000, FETCH) == pytest.approx(2 * (1000 + 50 + 1100)), "as much comes back"


def test_one_sided_operations_ask_for_no_buffer() -> None:
    link = theory.parse("theory:rate=8g,latency=1us,rendezvous=4k")
    assert theory.time_ns(link, 4096, SIGNALLED) == pytest.approx(1000 + 4096)
    assert theory.time_ns(link, 4096, PUT) == pytest.approx(1000 + 4096 + 1000)
    assert theory.time_ns(link, 4096, ANSWERED) == pytest.approx(1000 + 4096 + 2000 + 1000)


def test_what_makes_no_difference_to_a_model_is_no_line_of_its_own() -> None:
    scope = Scope((of_patterns({"pingpong": 1, "signal": 1}),))
    assert {kind for _, kind in theories(scope)} == {ALONE, SIGNALLED}
    plain = theory.parse("theory:rate=10g,latency=2us")
    assert theory.told_apart(plain, SIGNALLED) == ALONE
    assert theory.told_apart(plain, PUT) == ANSWERED


def test_each_kind_of_traffic_has_a_line_with_its_name() -> None:
    reading = of_patterns({"pingpong": 1, "stream": 1, "bidirectional": 2, "put": 1})
    picture = bounds_of(reading, "throughput")[f"{LINK} (a model)"]
    lines = {bound.label: bound for bound in picture.bounds if bound.quantity == theory.NAME}
    assert set(lines) == {
        f"{LINK} (a model)",
        f"{LINK} (a model: a stream at most)",
        f"{LINK} (a model: both ways)",
        f"{LINK} (a model: one-sided with an answer)",
    }
    ceiling = lines[f"{LINK} (a model: a stream at most)"]
    assert ceiling.y == pytest.approx([10e9 / 8 * 1460 / 1538] * len(ceiling.y))
    assert len({bound.dashes for bound in lines.values()}) == len(lines)


def test_several_values_are_several_lines(command: Command, tmp_path: Path) -> None:
    measured(command, "unix", "theory:rate=10g|25g,latency=2us")
    names = [one.theory for one in Run.read(tmp_path / "run.jsonl").theories]
    assert names == ["theory:rate=10g,latency=2us", "theory:rate=25g,latency=2us"]


def test_alone_it_is_refused_before_anything_is_written(command: Command, tmp_path: Path) -> None:
    done = command("run", LINK)
    assert done.returncode == 2
    assert "is computed and not measured; name what it is to be drawn beside" in done.stderr
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.deep
def test_the_report_has_it_and_a_continued_run_has_it_once(command: Command, tmp_path: Path) -> None:
    measured(command, "unix", LINK)
    again = command("run", "--continue", "run.jsonl", "--budget", "0.2", "--report", "report.html")
    assert again.returncode == 0, again.stderr
    run = Run.read(tmp_path / "run.jsonl")
    assert len(run.theories) == 1
    assert {point.launch for point in run.points} == {0, 1}
    assert f"{LINK} (a model)" in json.dumps(data_of((tmp_path / "report.html").read_text()))
