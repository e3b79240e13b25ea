# SPDX-License-Identifier: Apache-2.0
"""Each kernel of src/apps makes the calls that its specification says, with their sizes: `netpipe profile` counts them
on every rank. CALLS has what the reference codes (NPB 3.4.1) call on rank 0 of four, class S: the same calls, the same
bytes, to as many ranks. A rank that differs from rank 0 does so by a rule that stands beside it.

Nothing is timed here. The ranks share processors, so they wait in a way that gives the processor away.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NATIVE
from mpi import Mpis

from netpipe.libraries.adding import programs
from netpipe.profiles import Profile, read
from netpipe.profiles.lines import Entries

pytestmark = pytest.mark.deep

LIBRARY = "openmpi"
RANKS = 4
FAST = ("-std=gnu11", "-O0")  # class S runs well without the optimiser
ENVIRONMENT = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    **{f"{kind}_ALLOW_RUN_AS_ROOT{more}": "1" for kind in ("OMPI", "PRTE") for more in ("", "_CONFIRM")},
}
LIMIT_S = 300.0

# "size B xtimes": what one call sends, or the posted size of one receive, or of a collective what this rank gives.
# A wait has the bytes of all transfers that it completes.
CALLS = {
    "is": "Allreduce 2068 B x11; Alltoall 16 B x11; Alltoallv 65536 B x11; Bcast 4 B x1; Reduce 4 B x1; "
    "Reduce 8 B x1; Send 4 B x1",
    "ep": "Allreduce 8 B x3; Allreduce 80 B x1; Barrier 0 B x1; Bcast 4 B x1",
    "cg": "Barrier 0 B x1; Bcast 4 B x1; Irecv 8 B x832; Irecv 16 B x16; Irecv 5600 B x832 (2 peers); "
    "Reduce 8 B x1; Send 8 B x832; Send 16 B x16; Send 5600 B x832 (2 peers); "
    "Wait 8 B x832; Wait 16 B x16; Wait 5600 B x832",
    "mg": "Allreduce 8 B x48; Allreduce 16 B x40; Barrier 0 B x6; Bcast 4 B x6; Bcast 32 B x1; "
    "Irecv 18496 B x444 (3 peers); Reduce 8 B x1; Send 8 B x20; Send 32 B x50 (2 peers); Send 96 B x50 (2 peers); "
    "Send 128 B x30; Send 192 B x30; Send 320 B x30; Send 480 B x30; Send 512 B x30; Send 1152 B x30; "
    "Send 1440 B x30; Send 2048 B x38; Send 4352 B x38; Send 4896 B x38; Wait 18496 B x444",
    "ft": "Alltoall 1048576 B x8; Barrier 0 B x1; Bcast 4 B x5; Comm_split 0 B x2; Reduce 16 B x6",
    "lu": "Allreduce 8 B x5; Allreduce 40 B x5; Barrier 0 B x2; Bcast 4 B x7; Bcast 8 B x2; Bcast 40 B x1; "
    "Irecv 96 B x3 (2 peers); Irecv 128 B x1; Irecv 5760 B x108 (2 peers); Recv 200 B x1020 (2 peers); "
    "Send 200 B x1020 (2 peers); Send 5760 B x108 (2 peers); Wait 96 B x3; Wait 128 B x1; Wait 5760 B x108",
    "sp": "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x2; Bcast 8 B x1; Bcast 12 B x1; Comm_dup 0 B x3; "
    "Irecv 2000 B x303 (3 peers); Irecv 2880 B x612 (3 peers); Irecv 4400 B x303 (3 peers); "
    "Isend 2000 B x303 (3 peers); Isend 2880 B x612 (3 peers); Isend 4400 B x303 (3 peers); Reduce 8 B x1; "
    "Waitall 4000 B x303; Waitall 8800 B x303; Waitall 34560 B x102",
    "bt": "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x4; Bcast 8 B x1; Bcast 12 B x1; Comm_dup 0 B x3; "
    "Irecv 1960 B x183 (3 peers); Irecv 2880 B x372 (3 peers); Irecv 11760 B x183 (3 peers); "
    "Isend 1960 B x183 (3 peers); Isend 2880 B x372 (3 peers); Isend 11760 B x183 (3 peers); Reduce 8 B x1; "
    "Wait 1960 B x366; Wait 11760 B x366; Waitall 34560 B x62",
}
MESSAGES = ("Send", "Isend", "Recv", "Irecv")
Calls = dict[tuple[str, int], tuple[int, int]]  # by name and bytes: how often, and to or from how many ranks


def written(text: str) -> Calls:
    found: Calls = {}
    for one in text.split("; "):
        said = re.fullmatch(r"(\w+) (\d+) B x(\d+)(?: \((\d+) peers\))?", one)
        assert said, one
        name, size, times, peers = said.groups()
        found[name, int(size)] = (int(times), int(peers or 1) if name in MESSAGES else 0)
    return found


def counted(profile: Profile, rank: int) -> Calls:
    rows = profile.entries[rank]
    times: Counter[tuple[str, int]] = Counter()
    peers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name, size, peer, count in rows_of(profile, rows):
        times[name, size] += count
        if name in MESSAGES:
            peers[name, size].add(peer)
    return {key: (count, len(peers[key])) for key, count in times.items()}


def rows_of(profile: Profile, rows: Entries) -> list[tuple[str, int, int, int]]:
    names = [profile.header.calls[call].name for call in rows.call]
    return list(zip(names, rows.bytes, rows.peer, rows.calls, strict=True))


def is_on(rank: int) -> Calls:
    """The largest key goes to the next rank, and from the last one to none."""
    calls = written(CALLS["is"])
    if rank > 0:
        calls["Irecv", 4] = (1, 1)
        calls["Wait", 4] = (1, 0)
    if rank == RANKS - 1:
        del calls["Send", 4]
    return calls


SURFACE = (96, 128)  # bytes of LU's last messages: one way each, so every rank has others


def lu_on(rank: int) -> Calls:
    calls = written(CALLS["lu"])
    return calls if rank == 0 else {key: value for key, value in calls.items() if key[1] not in SURFACE}


def sweep_on(rank: int, cells: int, columns: int, rows: int) -> Calls:
    """Of Sweep3D with blocks of one plane and three angles. In four of eight octants each face goes one way, and in
    four the other.
    """
    iterations, octants, angles, block = 12, 8, 6, 3
    blocks = iterations * octants * (angles // block) * cells
    column, row = rank % columns, rank // columns

    def share(parts: int, place: int) -> int:
        return cells // parts + (place < cells % parts)

    across = (column > 0) + (column < columns - 1)
    along = (row > 0) + (row < rows - 1)
    faces = ((share(rows, row), across), (share(columns, column), along))
    calls: Calls = {
        ("Barrier", 0): (3, 0),
        ("Allreduce", 4): (iterations, 0),
        ("Allreduce", 8): (iterations + 8, 0),
    }
    for size, times in Counter([4, 4 * columns * rows, 16 * 4, 4 * 8]).items():
        calls["Bcast", size] = (times, 0)
    for length, neighbours in faces:
        for name in ("Recv", "Send"):
            times, peers = calls.get((name, length * block * 8), (0, 0))
            if neighbours:
                calls[name, length * block * 8] = (times + blocks // 2 * neighbours, peers + neighbours)
    return calls


def deviations(profile: Profile, expected: Callable[[int], Calls], aside: tuple[int, ...] = ()) -> list[str]:
    """A sentence for each call of a rank that is made more or less often than it should be, or with other ranks.
    Messages of the sizes `aside` are left out on ranks whose calls do not have them.
    """
    assert sorted(profile.entries) == list(range(len(profile.ranks)))
    found = []
    for rank in sorted(profile.entries):
        made, should = counted(profile, rank), expected(rank)
        if not any(size in aside for _, size in should):
            made = {key: value for key, value in made.items() if key[1] not in aside}
        found += [
            f"rank {rank}: {key[0]} of {key[1]} B: {said(made.get(key))}; it should be {said(should.get(key))}"
            for key in sorted({*made, *should})
            if made.get(key) != should.get(key)
        ]
    return found


def said(calls: tuple[int, int] | None) -> str:
    if calls is None:
        return "none"
    times, peers = calls
    return f"{times} times" + (f", {peers} peers" if peers else "")


def unmatched(profile: Profile, sizes: bool) -> list[str]:
    """A sentence for each pair of ranks of which one sends what the other does not receive; `sizes`: a receive is
    posted with just the size of its message.
    """
    sent: Counter[tuple[int, int, int]] = Counter()
    received: Counter[tuple[int, int, int]] = Counter()
    for rank, rows in profile.entries.items():
        for name, size, peer, count in rows_of(profile, rows):
            of_size = size if sizes else 0
            if name in ("Send", "Isend"):
                sent[rank, peer, of_size] += count
            elif name in ("Recv", "Irecv"):
                received[peer, rank, of_size] += count
    return [
        f"rank {source} to {target}, {size} B: {sent[source, target, size]} sends and "
        f"{received[source, target, size]} receives"
        for source, target, size in sorted(sent | received)
        if sent[source, target, size] != received[source, target, size]
    ]


Profiled = Callable[..., Profile]


@pytest.fixture
def profiled(with_mpis: Mpis, tmp_path: Path) -> Profiled:
    """profiled("cg", "S", 4): the profile of one kernel, which has verified its result."""
    (module,) = with_mpis.need(LIBRARY)
    assert module.launcher is not None
    launcher = module.launcher[1]

    def run(kernel: str, problem: str, ranks: int, *words: str) -> Profile:
        program = programs.application(programs.builder(module), kernel)
        command = [launcher, "--oversubscribe", "-n", str(ranks), program, "--class", problem, *words]
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", "profile", "--no-trace", "--quiet", "--", *map(str, command)],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **ENVIRONMENT, "NETPIPE_NATIVE": str(NATIVE)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        profile = read(tmp_path / "profile.jsonl")
        assert len(profile.ranks) == ranks
        return profile

    return run


@pytest.mark.parametrize("kernel", CALLS)
def test_a_kernel_calls_what_its_specification_says(
    profiled: Profiled, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    profile = profiled(kernel, "S", RANKS)
    on = {"is": is_on, "lu": lu_on}.get(kernel, lambda _: written(CALLS[kernel]))
    assert deviations(profile, on, SURFACE if kernel == "lu" else ()) == []
    # MG posts the whole buffer for every message
    assert unmatched(profile, sizes=kernel != "mg") == []


@pytest.mark.parametrize(
    ("cells", "columns", "rows"), [(20, 2, 2), (50, 2, 4)], ids=["20 cells, 4 ranks", "50 cells, 8 ranks"]
)
def test_sweep3d_calls_what_its_specification_says(
    profiled: Profiled, cells: int, columns: int, rows: int
) -> None:
    profile = profiled("sweep3d", str(cells), columns * rows, "--columns", str(columns))
    assert deviations(profile, lambda rank: sweep_on(rank, cells, columns, rows)) == []
    assert unmatched(profile, sizes=True) == []


def test_the_rule_for_sweep3d_is_that_of_the_measured_reference() -> None:
    """50 cells on a grid of 2 x 4, rank 0: 39 collectives, and as many messages as the paper counts."""
    calls = sweep_on(0, 50, 2, 4)
    assert {key: times for key, (times, _) in calls.items() if key[0] in MESSAGES} == {
        ("Recv", 600): 4800, ("Send", 600): 4800, ("Recv", 312): 4800, ("Send", 312): 4800
    }  # fmt: skip
    assert sum(times for (name, _), (times, _) in calls.items() if name not in MESSAGES) == 39


def test_a_deviation_names_rank_call_and_size(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    profile = profiled("is", "S", RANKS)

    def wrong(rank: int) -> Calls:
        calls = is_on(rank)
        if rank == 2:
            calls["Alltoall", 16] = (10, 0)
            del calls["Irecv", 4]
        return calls

    assert deviations(profile, wrong) == [
        "rank 2: Alltoall of 16 B: 11 times; it should be 10 times",
        "rank 2: Irecv of 4 B: 1 times, 1 peers; it should be none",
    ]
