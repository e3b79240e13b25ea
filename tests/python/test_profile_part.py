# SPDX-License-Identifier: Apache-2.0
"""What ranks leave behind (src/profiler/part.h), made here so that its counters are what no test can wait for."""

from __future__ import annotations

from pathlib import Path

import pytest
from parts import PER_NS, UNFINISHED, YEAR, leave

from netpipe.profiles import Profile, merge, read
from netpipe.profiles.lines import End, Header, write
from netpipe.profiles.tables import tables

MULTIPLE = 3


def profile(folder: Path) -> Profile:
    """As it is in the file."""
    made = merge.merge(merge.find(folder), Header(schema=1, profile="0" * 32), End())
    write(made, folder / "profile.jsonl")
    return read(folder / "profile.jsonl")


@pytest.mark.parametrize("calls", [10**9, 2**31, 2**32 + 1, 10**12 + 1])
def test_calls_are_counted_to_the_last_one(tmp_path: Path, calls: int) -> None:
    entry = {"peer": -1, "phase": 1, "calls": calls, "ticks": 90 * calls, "most_ticks": 10**12}
    leave(
        tmp_path,
        entries=[entry, entry | {"bytes": 8, "calls": 1, "ticks": 90}],
        calls=calls + 1,
        mpi_ticks=90 * (calls + 1),
        compute_ticks=YEAR,
        ended=YEAR * PER_NS,
        reuse=(calls, calls - 1, 8 * calls, 8 * (calls - 1)),
    )
    found = profile(tmp_path)
    assert found.entries[0].calls == [calls, 1]
    # 30 ns each; a conversion from ticks has 53 bits.
    assert found.entries[0].time_ns == [pytest.approx(30 * calls, rel=1e-15), 30]
    assert found.entries[0].most_ns == [pytest.approx(10**12 / 3, abs=0.5)] * 2
    (rank,) = found.ranks
    assert (rank.calls, rank.reuse.accesses, rank.reuse.bytes) == (calls + 1, calls, 8 * calls)
    assert rank.mpi_s == pytest.approx(30e-9 * (calls + 1))
    (probes,) = tables(found).time_by_call
    assert probes.all_ranks.calls == calls + 1
    assert probes.all_ranks.mean_ns == pytest.approx(30)


def test_what_had_no_room_is_told_apart(tmp_path: Path) -> None:
    leave(tmp_path, coarse_calls=1, untracked_buffers=2, untracked_transfers=3)
    found = profile(tmp_path)
    (rank,) = found.ranks
    assert (rank.coarse_calls, rank.untracked_buffers, rank.untracked_transfers) == (1, 2, 3)
    assert [(gap.what, gap.count) for gap in tables(found).missing] == [
        ("coarse", 1), ("buffers", 2), ("transfers", 3)
    ]  # fmt: skip


def test_a_killed_rank_lasted_at_least_as_long_as_what_it_counted(tmp_path: Path) -> None:
    """The last moment that it noted is that of the last power of two of its calls."""
    second = 10**9 * PER_NS
    leave(
        tmp_path,
        state=UNFINISHED,
        last=(second, 10**9, 10**9),
        mpi_ticks=second,
        compute_ticks=second // 2,
    )
    assert profile(tmp_path).ranks[0].seconds == pytest.approx(1.5)


def test_times_of_several_threads_are_not_the_time_of_their_rank(tmp_path: Path) -> None:
    second = 10**9 * PER_NS
    leave(
        tmp_path,
        state=UNFINISHED,
        thread_level=MULTIPLE,
        last=(second, 10**9, 10**9),
        mpi_ticks=8 * second,
        compute_ticks=second // 2,
    )
    (rank,) = profile(tmp_path).ranks
    assert (rank.threads, rank.seconds, rank.mpi_s) == ("multiple", pytest.approx(1), pytest.approx(8))


def test_a_clock_that_steps_back_makes_no_call_endless(tmp_path: Path) -> None:
    leave(
        tmp_path, events=[{"begin": 3000, "end": 2997, "peer": -2}, {"begin": 6000, "end": 6300, "peer": -2}]
    )
    assert profile(tmp_path).traces[0].column("duration_ns").tolist() == [0, 100]


def test_more_communicators_than_a_trace_can_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those between ranks keep their numbers; those that each rank has alone share the last one in traces."""
    monkeypatch.setattr(merge, "LAST_NUMBER", 3)
    both = [[0, 1], [1, 0]]
    for rank in range(2):
        alone = [[rank], [rank], [rank]]
        leave(
            tmp_path,
            rank,
            communicators=[*alone, *both],
            events=[{"communicator": place, "peer": -2} for place in range(5)],
        )
    found = profile(tmp_path)
    assert [one.members for one in found.communicators.values()] == [*both, *[[0]] * 3, *[[1]] * 3]
    for rank, alone in ((0, [2, 3, 3]), (1, [3, 3, 3])):
        assert found.traces[rank].column("communicator").tolist() == [*alone, 0, 1]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("MPICH Version:      5.0.2", "MPICH 5.0.2"),
        ("Open MPI v5.0.11, package: Open MPI", "Open MPI v5.0.11, package: Open MPI"),
        ("", ""),
    ],
)
def test_a_library_is_named_as_it_calls_itself(said: str, name: str) -> None:
    assert merge.library_text(said) == name
