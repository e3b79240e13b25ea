# SPDX-License-Identifier: Apache-2.0
"""Each kernel of src/apps makes the calls that its specification says, with their sizes: `netpipe profile` counts them
on every rank. tests/e2e/kernel_rules.py has the rules, of which tests/e2e/test_kernel_rules.py says where they come
from.

Nothing is timed here. The ranks share processors, so they wait in a way that gives the processor away.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NATIVE
from kernel_rules import MESSAGES, RULES, Calls, is_on, lu_surface, sweep_on
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
LIMIT_S = 300.0  # of class S
LARGE_LIMIT_S = 1200.0


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

    def run(kernel: str, problem: str, ranks: int, *words: str, limit_s: float = LIMIT_S) -> Profile:
        program = programs.application(programs.builder(module), kernel)
        command = [launcher, "--oversubscribe", "-n", str(ranks), program, "--class", problem, *words]
        done = subprocess.run(
            [sys.executable, "-m", "netpipe", "profile", "--no-trace", "--quiet", "--", *map(str, command)],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            cwd=tmp_path,
            env={**os.environ, **ENVIRONMENT, "NETPIPE_NATIVE": str(NATIVE)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        profile = read(tmp_path / "profile.jsonl")
        assert len(profile.ranks) == ranks
        return profile

    return run


@pytest.mark.parametrize(
    ("kernel", "ranks"),
    [
        *((kernel, RANKS) for kernel in RULES),
        ("cg", 2),  # twice as many columns as rows, as on 8
        *((kernel, 8) for kernel in ("is", "ep", "cg", "mg", "ft", "lu")),
        ("mg", 16),  # half of them are idle on the coarsest level
        ("sp", 9),
        ("bt", 9),
    ],
)
def test_a_kernel_calls_what_its_specification_says(
    profiled: Profiled, monkeypatch: pytest.MonkeyPatch, kernel: str, ranks: int
) -> None:
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    check(profiled(kernel, "S", ranks), kernel, "S")


@pytest.mark.takes(120)
@pytest.mark.parametrize("kernel", ["is", "mg", "cg"])
def test_a_large_kernel_calls_what_the_reference_was_measured_to_call(
    profiled: Profiled, kernel: str
) -> None:
    """Class B on 8 ranks, the cells of the paper's tables."""
    check(profiled(kernel, "B", 8, limit_s=LARGE_LIMIT_S), kernel, "B")


def check(profile: Profile, kernel: str, problem: str) -> None:
    ranks = len(profile.ranks)
    aside = tuple({size for _, size in lu_surface(ranks, problem)}) if kernel == "lu" else ()
    assert deviations(profile, lambda rank: RULES[kernel](rank, ranks, problem), aside) == []
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


def test_a_deviation_names_rank_call_and_size(profiled: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    profile = profiled("is", "S", RANKS)

    def wrong(rank: int) -> Calls:
        calls = is_on(rank, RANKS, "S")
        if rank == 2:
            calls["Alltoall", 16] = (10, 0)
            del calls["Irecv", 4]
        return calls

    assert deviations(profile, wrong) == [
        "rank 2: Alltoall of 16 B: 11 times; it should be 10 times",
        "rank 2: Irecv of 4 B: 1 times, 1 peers; it should be none",
    ]
