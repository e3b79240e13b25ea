# SPDX-License-Identifier: Apache-2.0
"""Pairs, threads, windows of puts and non-blocking collectives as the tables of OSU and IMB; they are read back too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from netpipe.cli.export import imb_tables, osu_table
from netpipe.findings import examples
from netpipe.peers import Given, imb, osu
from netpipe.reading import Reading
from netpipe.records import Plan, Run, Variant
from netpipe.records.parts import Cell

VARIANT = "mpi@made"


def made(pattern: str, *points: tuple[int, float], ranks: int = 2, **more: Any) -> Reading:
    """A curve of these sizes and times in ns."""
    name, _, settings = pattern.partition(":")
    options = {"in_flight": "16", "threads": "2", "traffic": "pingpong", "what": "allreduce"}
    options |= dict(one.partition("=")[::2] for one in settings.split(",") if one)
    plan = {
        "type": "plan",
        "launch": 0,
        "hash": "5a" * 32,
        "variants": [{"variant": VARIANT, "module": VARIANT}],
        "patterns": [pattern],
        "modes": [{"pattern": pattern, "name": name, "options": options}],
        "schedule": {"kind": "list"},
        "sizes": [size for size, _ in points],
    }
    opened = {
        "variant": VARIANT,
        "module": VARIANT,
        "launch": 0,
        "ranks": [{"rank": rank, "host": "here"} for rank in range(ranks)],
    }
    found = [
        examples.point(VARIANT, size, ns, pattern=pattern, mean_ns=1.25 * ns, **more) for size, ns in points
    ]
    return Reading(Run([msgspec.convert(plan, Plan), msgspec.convert(opened, Variant), *found]))


def osu_of(reading: Reading) -> list[str]:
    return osu_table(reading, reading.run.points[0], "points").decode().splitlines()


def test_a_non_blocking_collective_has_the_columns_of_its_overlap() -> None:
    measures = [examples.measure("together", "ns", 7000.0), examples.measure("computation", "ns", 4000.0)]
    reading = made("collective_overlap:what=bcast,work=100", (8, 4000.0), measures=measures)
    assert osu_of(reading) == [
        f"# OSU MPI Non-blocking Bcast Latency Test by netpipe: {VARIANT}",
        "# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait",
        "",
        "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)",
        "8                       7.00              4.00              4.00             25.00",
    ]
    text = imb_tables(reading, reading.run.points, "points").decode()
    assert "# Benchmarking Ibcast " in text
    *_, head, row = text.splitlines()
    assert head.split() == [
        "#bytes",
        "#repetitions",
        "t_ovrl[usec]",
        "t_pure[usec]",
        "t_CPU[usec]",
        "overlap[%]",
    ]
    assert [float(cell) for cell in row.split()[2:]] == [7.0, 4.0, 4.0, 25.0]


def test_an_overlap_is_never_less_than_nothing() -> None:
    measures = [examples.measure("together", "ns", 9900.0), examples.measure("computation", "ns", 4000.0)]
    reading = made("collective_overlap:work=100", (8, 4000.0), measures=measures)
    assert osu_of(reading)[-1].split() == ["8", "9.90", "4.00", "4.00", "0.00"]
    text = imb_tables(reading, reading.run.points, "points").decode()
    assert "# Benchmarking Iallreduce " in text, "the default operation is named too"
    assert text.split()[-1] == "0.00"


def test_a_point_without_its_measures_has_no_row() -> None:
    reading = made("collective_overlap:work=100", (8, 4000.0), measures=[])
    assert osu_of(reading)[-1].startswith("# Size")
    assert imb_tables(reading, reading.run.points, "points").decode().splitlines()[-1].split()[0] == "#bytes"


def test_threads_say_how_many_they_are() -> None:
    assert osu_of(made("threads", (8, 2000.0)))[:4] == [
        f"# OSU MPI Multi-threaded Latency Test by netpipe: {VARIANT}",
        "# Number of Sender threads: 2 ",
        "# Number of Receiver threads: 2",
        "# Size          Latency (us)",
    ]
    assert osu_of(made("threads", (8, 2000.0)))[4].split() == ["8", "2.50"]


@pytest.mark.parametrize(
    ("pattern", "ranks", "pairs"),
    [
        ("threads:traffic=window,in_flight=64", 2, 2),
        ("threads:threads=3,traffic=window,in_flight=64", 4, 6),
        ("window:in_flight=64,places=one", 8, 4),
    ],
)
def test_several_pairs_have_a_rate_of_all_and_their_messages(pattern: str, ranks: int, pairs: int) -> None:
    title, says, head, row = osu_of(made(pattern, (8, 2000.0), ranks=ranks, bytes_per_s=8e6))
    assert title == f"# OSU MPI Multiple Bandwidth / Message Rate Test by netpipe: {VARIANT}"
    assert says == f"# [ pairs: {pairs} ] [ window size: 64 ]"
    assert head == "# Size                  MB/s        Messages/s"
    assert row.split() == ["8", "6.40", "800000.00"]


def test_of_several_pairs_that_send_in_turn_the_mean_counts() -> None:
    cells = [Cell(rank=0, peer=3, median_ns=1000.0), Cell(rank=1, peer=2, median_ns=3000.0)]
    title, _, row = osu_of(made("pingpong:buffers=apart", (8, 3000.0), ranks=4, cells=cells))
    assert title.startswith("# OSU MPI Multi Latency Test")
    assert row.split() == ["8", "2.00"]
    title, _, row = osu_of(made("pingpong:buffers=apart", (8, 3000.0)))
    assert title.startswith("# OSU MPI Latency Test")
    assert row.split() == ["8", "3.75"]


def test_puts_in_flight_have_a_rate_and_one_has_a_time() -> None:
    title, head, row = osu_of(made("put:in_flight=64", (8, 2000.0), bytes_per_s=4e6))
    assert title.startswith("# OSU MPI_Put Bandwidth Test")
    assert head.endswith("Bandwidth (MB/s)")
    assert row.split() == ["8", "3.20"]
    assert "Latency" in osu_of(made("put:in_flight=1", (8, 2000.0)))[0]


@pytest.mark.parametrize(
    ("pattern", "call"),
    [("accumulate", "MPI_Accumulate"), ("accumulate:fetch=yes", "MPI_Get_accumulate")],
)
def test_a_sum_is_called_as_its_call_and_read_again(pattern: str, call: str) -> None:
    lines = osu_of(made(pattern, (8, 2000.0)))
    assert lines[0] == f"# OSU {call} latency Test by netpipe: {VARIANT}"
    assert lines[-1].split() == ["8", "2.50"]
    (found,) = osu.read("\n".join(lines) + "\n", Given())
    assert (found.pattern, [one.size_bytes for one in found.numbers]) == (pattern, [8])


def test_what_was_written_is_read_as_the_operation_alone() -> None:
    measures = [examples.measure("together", "ns", 7000.0), examples.measure("computation", "ns", 4000.0)]
    reading = made("collective_overlap:what=bcast,work=100", (8, 4000.0), measures=measures)
    texts = ("\n".join(osu_of(reading)) + "\n", imb_tables(reading, reading.run.points, "points").decode())
    for peer, text in zip((osu, imb), texts, strict=True):
        (found,) = peer.read(text, Given())
        assert found.pattern == "collective_overlap:what=bcast,work=100"
        assert [(one.size_bytes, one.time_ns) for one in found.numbers] == [(8, 4000.0)]


def test_the_suites_leave_out_nothing_that_a_pattern_measures() -> None:
    """What a suite says that it does not measure is not what one of its tables is called."""
    from netpipe.contents import toml

    folder = Path(__file__).parents[2] / "python" / "netpipe" / "suites"
    for name in ("osu", "imb"):
        said = toml(folder / f"{name}.toml", "suite")
        titles = {table["title"] for table in said["table"]}
        left_out = {word.strip(",") for one in said["not_measured"] for word in one["title"].split()}
        assert not titles & left_out
