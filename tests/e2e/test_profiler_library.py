# SPDX-License-Identifier: Apache-2.0
"""The profiler's library (src/profiler) counts every call exactly once, and gets out of the way where it cannot.

The programs of tests/profiler write down which calls they made; the profile must say the same, and nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mpi import LIBRARIES, Mpis

from netpipe.libraries.adding import programs
from netpipe.profiles import merge
from netpipe.profiles.lines import ANY, NONE, End, Header, Profile
from netpipe.profiles.part import Part
from netpipe.profiles.trace.calls import calls as calls_of

SOURCES = Path(__file__).resolve().parents[1] / "profiler"
NAMES = ("openmpi", "mpich", "openmpi4", "mpich4")
# Of the everyday ones `make test` has both where calls are counted, and MPICH for the rest.
MPICH_FIRST = (pytest.param("openmpi", marks=pytest.mark.deep), *NAMES[1:])
INTEL = "impi"  # whose handles are MPICH's; tests/e2e/test_profile_lam.py has LAM
OTHER = {"openmpi": "mpich", "mpich": "openmpi", "openmpi4": "mpich4", "mpich4": "openmpi4"}
AS_ROOT = {f"{kind}_ALLOW_RUN_AS_ROOT{more}": "1" for kind in ("OMPI", "PRTE") for more in ("", "_CONFIRM")}
Kind = tuple[str, int, int]  # call, bytes, peer
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Case:
    """A library, with the profiler that was built for it, and a folder for one job's parts."""

    name: str
    launcher: Path
    profiler: Path
    folder: Path
    compile: Callable[..., Path]  # compile("calls.c", *words)
    environment: Mapping[str, str]  # that the library needs

    def run(
        self, ranks: int, *command: str | Path, events: int = 100_000, profiler: Path | None = None
    ) -> int:
        """The exit code of a job whose processes are profiled."""
        inside = ["env", f"LD_PRELOAD={profiler or self.profiler}", f"NETPIPE_PROFILE={self.folder}"]
        many = ["--oversubscribe"] if "openmpi" in self.name else []
        return subprocess.run(
            [self.launcher, *many, "-n", str(ranks), *inside, f"NETPIPE_PROFILE_EVENTS={events}", *command],
            env={**os.environ, **AS_ROOT, **self.environment},
            capture_output=True,
            timeout=60,
            check=False,
        ).returncode

    def profile(self) -> Profile:
        return merge.merge(merge.find(self.folder), Header(schema=1, profile="0" * 32), End())

    def expected(self, rank: int) -> Counter[Kind]:
        found: Counter[Kind] = Counter()
        for call, size, peer, times in json.loads((self.folder / f"{rank}.expected").read_text()):
            found[call.removesuffix("_c"), size, peer] += times
        return +found


def counted(profile: Profile, rank: int) -> Counter[Kind]:
    rows = profile.entries[rank]
    found: Counter[Kind] = Counter()
    for call, size, peer, times in zip(rows.call, rows.bytes, rows.peer, rows.calls, strict=True):
        found[profile.header.calls[call].name, size, peer] += times
    return found


Make = Callable[[str], Case]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    done: dict[tuple[str, ...], Path] = {}

    def one(compiler: Path, source: str, *words: str, environment: Mapping[str, str] = NOTHING) -> Path:
        key = (str(compiler), source, *words)
        if key not in done:
            done[key] = tmp_path_factory.mktemp("programs") / Path(source).stem
            rpath = f"-Wl,-rpath,{compiler.parent.parent / 'lib'}"
            subprocess.run(
                [compiler, "-O1", *words, "-o", done[key], SOURCES / source, "-lpthread", rpath],
                check=True,
                timeout=60,
                env={**os.environ, **environment},
            )
        return done[key]

    return one


@pytest.fixture
def make(mpis: Mpis, compiled: Callable[..., Path], tmp_path: Path) -> Make:
    def case(name: str) -> Case:
        (module,) = mpis.need(name)
        assert module.launcher is not None

        builder = programs.builder(module)

        def build(source: str, *words: str) -> Path:
            return compiled(LIBRARIES[name][0], source, *words, environment=builder.environment)

        folder = tmp_path / name
        folder.mkdir()
        return Case(name, module.launcher[1], programs.profiler(builder), folder, build, builder.environment)

    return case


@pytest.mark.parametrize("name", [*NAMES, INTEL])
def test_every_call_is_counted_once(make: Make, name: str) -> None:
    """Messages of all kinds and all ways to wait for them, collectives, one-sided calls, communicators, phases."""
    case = make(name)
    assert case.run(3, case.compile("calls.c"), case.folder) == 0
    profile = case.profile()
    has_mpi_4 = any(call == "Isendrecv" for call, _, _ in case.expected(0))
    for rank in range(3):
        assert counted(profile, rank) == case.expected(rank)
        trace = profile.traces[rank]
        calls = [profile.header.calls[call].name for call in trace.column("call")]
        # The event of a receive, or of its wait, names the rank that sent, also where the program did not.
        assert {call for call, peer in zip(calls, trace.column("peer"), strict=True) if peer == ANY} == {
            "Irecv",
            *(["Sendrecv_recv"] if has_mpi_4 else []),
        }
        from_any = [
            (peer, tag)
            for call, size, peer, tag in zip(
                calls, trace.column("bytes"), trace.column("peer"), trace.column("tag"), strict=True
            )
            if (call, size) == ("Recv", 10)
        ]
        assert from_any == [((rank + 2) % 3, 2)]
    turned = [one for one in profile.communicators.values() if one.members == [2, 1, 0]]
    # Three, one after the other; of Intel MPI the program does not free the one with the window.
    assert [one.made_by for one in turned] == ["MPI_Comm_split"] * (2 if name == INTEL else 1)
    if (
        has_mpi_4 and name != INTEL
    ):  # 777 bytes by MPI_Isendrecv and 778 by MPI_Isendrecv_replace, both from MPI_ANY_SOURCE
        messages = Counter((one.source, one.target, one.bytes) for one in calls_of(profile).messages)
        ring = {(rank, (rank + 1) % 3, size): 1 for rank in range(3) for size in (777, 778)}
        found = {kind: times for kind, times in messages.items() if kind[2] in (777, 778)}
        assert found == (ring if name == "openmpi" else {}), "MPICH says nothing right of who sent"


@pytest.mark.parametrize("name", ["openmpi", "mpich", "mpich4"])
def test_partitioned_messages_are_persistent_ones(make: Make, name: str) -> None:
    """A start has the whole message, its wait too, and the partitions' own calls have none of it."""
    case = make(name)
    assert case.run(2, case.compile("partitioned.c"), case.folder) == 0
    profile = case.profile()
    for rank in range(2):
        assert counted(profile, rank) == case.expected(rank)
        rows = profile.entries[rank]
        starts = [
            (waited, calls)
            for call, calls, waited in zip(rows.call, rows.calls, rows.waited, strict=True)
            if profile.header.calls[call].name in {"Start_send", "Start_recv"}
        ]
        assert starts == [(3, 3)] * 2
    made = calls_of(profile)
    messages = Counter((one.source, one.target, one.bytes) for one in made.messages)
    assert messages == {(0, 1, 48): 3, (1, 0, 48): 3}
    assert made.unmatched == 0
    names = Counter(call.name for call in made.ranks[0])
    assert (names["Pready"], names["Parrived"], names["Request_get_status"]) == (6, 0, 0)


@pytest.mark.parametrize("name", [*MPICH_FIRST, INTEL])
def test_threads_that_communicate_at_once(make: Make, name: str) -> None:
    case = make(name)
    code = case.run(2, case.compile("threads.c"), case.folder)
    if code == 3:
        pytest.skip(f"{name} has no MPI_THREAD_MULTIPLE")
    assert code == 0
    profile = case.profile()
    for rank in range(2):
        assert counted(profile, rank) == case.expected(rank)
        rows = profile.entries[rank]
        for call, calls, waited in zip(rows.call, rows.calls, rows.waited, strict=True):
            assert waited == (calls if profile.header.calls[call].name in {"Isend", "Irecv"} else 0)
    # Each thread has a communicator, of which it makes one at a time: the ranks agree on which is which.
    pairs = [one for one in profile.communicators.values() if one.made_by == "MPI_Comm_dup"]
    assert [one.members for one in pairs] == [[0, 1]] * 8


@pytest.mark.parametrize("name", [*MPICH_FIRST, INTEL])
def test_more_than_the_tables_hold(make: Make, name: str) -> None:
    case = make(name)
    assert case.run(1, case.compile("limits.c"), case.folder) == 0
    profile = case.profile()
    (rank,) = profile.ranks
    expected, found = case.expected(0), counted(profile, 0)
    sends = {kind: times for kind, times in found.items() if kind[0] == "Send"}
    assert sum(sends.values()) == expected.pop(("Send", -1, NONE))
    assert Counter({kind: times for kind, times in found.items() if kind not in sends}) == expected
    rows = profile.entries[0]
    rounded = {size for size, coarse in zip(rows.bytes, rows.coarse, strict=True) if coarse}
    assert max(rounded) == 32768
    assert all(size & (size - 1) == 0 for size in rounded)
    assert rank.coarse_calls > 0
    assert rank.untracked_buffers > 0
    # Communicators for which there was no room are not taken for MPI_COMM_WORLD, nor those that were there in turn.
    of = Counter[str]()
    for call, communicator, times in zip(rows.call, rows.communicator, rows.calls, strict=True):
        if profile.header.calls[call].name == "Allgather":
            of[profile.communicators[communicator].made_by] += times
    assert set(of) == {"MPI_Comm_dup", "others"}
    assert (
        len([one for one in profile.communicators.values() if one.made_by == "MPI_Comm_dup"])
        == 1 + of["MPI_Comm_dup"]
    )


@pytest.mark.parametrize("name", MPICH_FIRST)
def test_more_transfers_at_once_than_are_followed(make: Make, name: str) -> None:
    """The memory of a rank does not grow with the requests that its program leaves open."""
    case = make(name)
    assert case.run(1, case.compile("open.c"), case.folder, events=0) == 0
    profile = case.profile()
    (rank,) = profile.ranks
    expected, found = case.expected(0), counted(profile, 0)
    (waits,) = ((size, times) for (call, size, _), times in found.items() if call == "Waitall")
    assert 0 < rank.untracked_transfers < 40_000
    assert waits == (4 * (40_000 - rank.untracked_transfers), 1)
    assert waits[0] // 4 <= 2 << 14, "of 64 bytes each"
    del expected["Waitall", -1, NONE], found["Waitall", waits[0], NONE]
    assert found == expected
    rows = profile.entries[0]
    followed = sum(rows.waited)
    assert followed == 40_001 - rank.untracked_transfers


@pytest.mark.parametrize("name", MPICH_FIRST)
def test_counters_have_more_than_32_bits(make: Make, name: str) -> None:
    case = make(name)
    assert case.run(1, case.compile("preset.c"), case.folder, events=0) == 0
    profile = case.profile()
    assert counted(profile, 0) == case.expected(0)
    (rank,), rows, more = profile.ranks, profile.entries[0], 2**32 - 1
    assert rank.calls == more + 3
    assert (rank.reuse.accesses, rank.reuse.again) == (more + 3, more + 3)
    assert (rank.reuse.bytes, rank.reuse.bytes_again) == (more + 24, more + 24)
    assert rows.time_ns[0] > rows.most_ns[0] > 0
    assert rank.mpi_s * 1e9 >= rows.time_ns[0] - 1


@pytest.mark.parametrize(
    "calls", [100_000, pytest.param(100_000_000, marks=pytest.mark.deep)], ids=["10^5", "10^8"]
)
def test_very_many_calls_need_no_more_memory(make: Make, calls: int) -> None:
    case = make("mpich")
    assert case.run(1, case.compile("many.c"), case.folder, str(calls), events=0) == 0
    profile = case.profile()
    assert counted(profile, 0) == case.expected(0)
    (rank,) = profile.ranks
    assert rank.calls == sum(profile.entries[0].calls)
    assert rank.mpi_s == pytest.approx(sum(profile.entries[0].time_ns) * 1e-9)
    assert rank.mpi_s + rank.compute_s == pytest.approx(rank.seconds, rel=0.01)
    assert rank.coarse_calls == rank.untracked_buffers == 0
    assert [one.made_by for one in profile.communicators.values()] == [
        "MPI_COMM_WORLD",
        "MPI_COMM_SELF",
        "MPI_Comm_dup",
    ]


@pytest.mark.parametrize("name", MPICH_FIRST)
def test_a_trace_ends_where_there_is_no_room(make: Make, name: str) -> None:
    case = make(name)
    assert case.run(1, case.compile("ends.c"), case.folder, "full", events=1_000_000) == 0
    profile = case.profile()
    (rank,) = profile.ranks
    assert counted(profile, 0) == case.expected(0)
    assert not rank.events_complete
    assert rank.problem is not None
    assert "the trace ends early" in rank.problem
    assert 0 < profile.traces[0].events < rank.calls


def test_a_trace_has_as_many_events_as_were_asked_for(make: Make) -> None:
    case = make("mpich")
    assert case.run(1, case.compile("ends.c"), case.folder, "full", events=5000) == 0
    profile = case.profile()
    assert profile.traces[0].events == 5000
    assert not profile.ranks[0].events_complete
    assert profile.ranks[0].problem is None


@pytest.mark.parametrize("how", ["exit", "abort", "kill", "fork"])
@pytest.mark.parametrize("name", NAMES[2:])
def test_calls_and_events_are_kept_whatever_ends_the_program(make: Make, name: str, how: str) -> None:
    case = make(name)
    assert (case.run(2, case.compile("ends.c"), case.folder, how) == 0) == (how == "fork")
    profile = case.profile()
    for rank in range(2):
        assert counted(profile, rank) == case.expected(rank)
    state = {"fork": "finalized", "abort": "aborted"}.get(how, "unfinished")
    assert profile.ranks[1].state == state


def test_the_last_events_of_a_killed_rank_are_kept(make: Make) -> None:
    case = make("mpich")
    assert case.run(2, case.compile("ends.c"), case.folder, "kill") != 0
    assert len(Part(case.folder / "1.part").events()) == 5


@pytest.mark.parametrize("name", MPICH_FIRST[:2])
def test_ranks_that_a_program_spawns_are_not_taken_for_its_own(make: Make, name: str) -> None:
    case = make(name)
    assert case.run(1, case.compile("spawns.c"), case.folder) == 0
    profile = case.profile()
    assert [one.rank for one in profile.ranks] == [0]
    assert profile.ranks[0].problem is None
    assert counted(profile, 0) == case.expected(0)


# ---------------------------------------------------------------------------------------------- C++ and Fortran


@pytest.mark.parametrize("name", NAMES)
def test_calls_from_cpp_are_counted_once(make: Make, compiled: Callable[..., Path], name: str) -> None:
    case = make(name)
    mpicc = LIBRARIES[name][0]
    mpicxx = mpicc.with_name(mpicc.name.replace("mpicc", "mpicxx"))
    if not mpicxx.exists():
        pytest.skip(f"{name} has no {mpicxx.name}")
    assert case.run(2, compiled(mpicxx, "calls.cpp", "-std=c++17"), case.folder) == 0
    profile = case.profile()
    for rank in range(2):
        assert counted(profile, rank) == case.expected(rank)


@pytest.mark.parametrize("interface", [1, 2, 3], ids=["mpif.h", "mpi", "mpi_f08"])
@pytest.mark.parametrize("name", NAMES[2:])
def test_calls_from_fortran_are_counted_once(
    make: Make, compiled: Callable[..., Path], name: str, interface: int
) -> None:
    case = make(name)
    mpicc = LIBRARIES[name][0]
    mpifort = mpicc.with_name(mpicc.name.replace("mpicc", "mpifort"))
    if not mpifort.exists():
        pytest.skip(f"{name} has no {mpifort.name}")
    program = compiled(mpifort, "calls.F90", "-fallow-argument-mismatch", f"-DINTERFACE={interface}")
    assert case.run(2, program, case.folder) == 0
    profile = case.profile()
    for rank in range(2):
        assert counted(profile, rank) == case.expected(rank)


# ------------------------------------------------------------------------------------- processes of other kinds


@pytest.mark.parametrize("bound", ["0", "1"], ids=["lazily", "at once"])
def test_a_process_without_mpi_is_left_alone(make: Make, bound: str) -> None:
    """Also where the system resolves all functions of a library at once: those of MPI are not there."""
    case = make("mpich")
    shell = subprocess.run(
        ["sh", "-c", "echo $((20 + 1))"],
        env={
            **os.environ,
            "LD_PRELOAD": str(case.profiler),
            "NETPIPE_PROFILE": str(case.folder),
            **({"LD_BIND_NOW": "1"} if bound == "1" else {}),
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (shell.returncode, shell.stdout, shell.stderr) == (0, "21\n", "")
    assert list(case.folder.iterdir()) == []


@pytest.mark.parametrize("name", MPICH_FIRST)
def test_a_program_of_another_library_runs_without_the_profiler(make: Make, name: str) -> None:
    case, other = make(name), make(OTHER[name])
    program = case.compile("ends.c")
    assert case.run(2, program, case.folder, "finalize", "two words", "", profiler=other.profiler) == 0
    assert sorted(path.name for path in case.folder.iterdir()) == [
        "0.expected",
        "1.expected",
        "foreign.problem",
    ]
    title = {"openmpi": "Open MPI", "mpich": "MPICH"}
    said = (case.folder / "foreign.problem").read_text()
    assert f"the program uses {title[name.rstrip('4')]} (" in said
    assert f"was built for {title[OTHER[name].rstrip('4')]}" in said


@pytest.mark.parametrize("name", MPICH_FIRST)
def test_a_library_that_is_loaded_late_for_an_extension_alone(make: Make, name: str) -> None:
    case = make(name)
    extension = case.compile("ends.c", "-shared", "-fPIC", "-Dmain=run")
    loader = case.folder.parent / "late"
    subprocess.run(["cc", "-o", loader, SOURCES / "late.c", "-ldl"], check=True, timeout=30)
    assert case.run(1, loader, extension, case.folder, "finalize") == 0
    assert counted(case.profile(), 0) == case.expected(0)
