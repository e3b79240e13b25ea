# SPDX-License-Identifier: Apache-2.0
"""The comparisons of bench/: that the peers do what they say, and that two programs in slices come to their ratio."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from operator import truediv
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import compare  # noqa: E402
import of_mpi  # noqa: E402
import of_runs  # noqa: E402
import of_sheet  # noqa: E402
import of_sockets  # noqa: E402
import slices  # noqa: E402
from alone import ALLOWED, alone, congestion  # noqa: E402
from measured import NO_LONGER, NO_SLOWER, ONLY_SAID, Result, Target, until_decided  # noqa: E402

BATCH = 50  # samples of one batch (bench/mpi/samples.h)
WARM_UP = 8  # and those before it that collective.c does not count


def calls(folder: Path, program: str, *words: str, batch: int = BATCH) -> dict[str, int]:
    """How often a program of bench/mpi calls each function of MPI in one batch of samples of 8 bytes."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler builds netpipe itself"
    built = folder / program
    subprocess.run(
        [compiler, "-O1", "-w", "-I", ROOT / "tests/bench_mpi", "-o", built, ROOT / f"bench/mpi/{program}.c"],
        check=True,
        timeout=60,
    )
    done = subprocess.run(
        [built, folder / "samples", "0", "8", *words], check=True, capture_output=True, text=True, timeout=60
    )
    samples = slices.from_numbers((folder / "samples").read_text())
    assert len(samples) == batch
    assert all(sample >= 0 for sample in samples)
    return {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}


@pytest.mark.parametrize("what", ["Allreduce", "Alltoall", "Bcast"])
def test_the_collective_that_is_named_is_the_one_that_is_timed(tmp_path: Path, what: str) -> None:
    found = calls(tmp_path, "collective", what.lower())
    rounds = BATCH + WARM_UP
    expected = {"MPI_Allreduce": rounds, "MPI_Bcast": rounds, "MPI_Alltoall": 0}  # the agreements
    expected[f"MPI_{what}"] += rounds
    assert {name: found.get(name, 0) for name in expected} == expected


@pytest.mark.parametrize("what", ["Allreduce", "Alltoall", "Bcast"])
def test_in_the_way_of_osu_a_barrier_is_before_each_collective_and_nothing_else(
    tmp_path: Path, what: str
) -> None:
    found = calls(tmp_path, "collective", what.lower(), "own")
    rounds = BATCH + WARM_UP
    assert found == {"MPI_Barrier": rounds, f"MPI_{what}": rounds, "MPI_Reduce": 1, "MPI_Send": 1}


def test_steps_of_a_chain_are_those_of_imb(tmp_path: Path) -> None:
    found = calls(tmp_path, "osu", "sendrecv", batch=8)
    assert found["MPI_Sendrecv"] > 8
    assert "MPI_Isend" not in found
    found = calls(tmp_path, "osu", "exchange", batch=8)
    assert found["MPI_Isend"] == found["MPI_Recv"] == 2 * found["MPI_Waitall"]
    found = calls(tmp_path, "osu", "bw", "16", batch=8)
    assert found["MPI_Isend"] == 16 * found["MPI_Waitall"], "the windows are as they were"


def test_messages_of_the_other_peers_are_as_many_as_their_operations(tmp_path: Path) -> None:
    found = calls(tmp_path, "pingpong")
    # one more says that no other batch follows
    assert found["MPI_Send"] - 1 == found["MPI_Recv"] > BATCH
    found = calls(tmp_path, "window", "window", "16")
    assert found["MPI_Isend"] == found["MPI_Wait"] == 16 * found["MPI_Recv"]
    assert "MPI_Irecv" not in found
    found = calls(tmp_path, "window", "bidirectional")
    assert 2 * found["MPI_Isend"] == 2 * found["MPI_Irecv"] == found["MPI_Wait"]
    for window in ("allocate", "create"):
        found = calls(tmp_path, "put", window)
        assert found["MPI_Put"] == found["MPI_Win_flush"] > BATCH
        assert found[f"MPI_Win_{window}"] == 1


def test_a_peer_refuses_words_that_it_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        calls(tmp_path, "collective", "alltoallv")
    assert refused.value.returncode == 2
    for program, words in (("osu", ("sendreceive",)), ("collective", ("bcast", "mean"))):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            calls(tmp_path, program, *words)
        assert refused.value.returncode == 2


def writer(values: str) -> slices.Start:
    """A program that measures what it is told, for ever, and has a process of its own that does the work."""
    body = f"""
import sys, time
with open(sys.argv[1], "w") as out:
    while True:
        out.write({json.dumps(values)} + "\\n")
        out.flush()
        time.sleep(0.001)
"""
    shell = f"{sys.executable} -c '{body}' $0 & trap 'kill $!' TERM; wait"

    def program(output: Path) -> slices.Program:
        return slices.Program(["sh", "-c", shell, str(output)], output, slices.from_numbers)

    return program


@pytest.fixture
def nothing_left() -> Iterator[None]:
    before = set(slices.children_of_all().get(os.getpid(), []))
    yield
    assert set(slices.children_of_all().get(os.getpid(), [])) == before


def test_a_difference_is_met_missed_or_undecided_as_a_ratio_is() -> None:
    def row(*more_ns: float) -> Result:
        found = [slices.Sliced(50 + more, 50, 1 + more / 50) for more in more_ns]
        return slices.result("name", "what", found, slices.at_most_ns(3))

    assert row(1, 2, 2.5, 2.9).verdict == "met"
    assert row(2, 2, 2, 5, 7).verdict == "met", "narrow enough, and its median is within"
    assert row(-13.6, -1.3, 5.2).verdict == "undecided", "the interval is wider than the target"
    assert row(0.5, 2.2, 14.8).verdict == "undecided"
    assert row(3.5, 4, 20).verdict == "missed"
    assert row(1, 2, 2.9).figure == "2.0 ns [1.0 2.9], 3 starts"
    assert row(1, 2).target == "<= 3 ns"


@pytest.mark.usefixtures("nothing_left")
def test_two_programs_in_slices_come_to_their_ratio() -> None:
    # One sample of a slice is cut by the stop and may be anything: medians do not see it.
    (found,) = slices.beside(1, writer("30 30 900"), writer("20 20 20"))
    assert (found.ours_ns, found.peer_ns, found.ratio) == (30, 20, 1.5)
    assert slices.result("name", "what", [found], slices.within(0.02)).verdict == "missed"
    assert slices.result("name", "what", [found], slices.at_most(1.5)).verdict == "met"
    assert slices.result("name", "what", [found], slices.SAID).verdict == ""


def test_launches_go_on_until_they_decide_and_then_copies_of_the_peer_stand_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, peer = writer("1"), writer("2")
    asked: list[tuple[slices.Start, slices.Start]] = []

    def launches(ratios: list[float]) -> None:
        left = iter(ratios)
        asked.clear()

        def one_launch(mine: slices.Start, its: slices.Start, _: object) -> slices.Sliced:
            asked.append((mine, its))
            return slices.Sliced(1, 1, next(left))

        monkeypatch.setattr(slices, "one_launch", one_launch)

    def row(*ratios: float, bounds: slices.Bounds | None = None) -> Result:
        launches([*ratios, *[1.0] * 100])
        return slices.compared("name", "what", 2, ours, peer, bounds or slices.within(0.01))

    assert row(1.0, 1.005).verdict == "met"
    assert len(asked) == 2, "what is narrow enough needs no more"
    assert row(1.2, 1.205).verdict == "missed"
    assert len(asked) == 2
    assert row(0.9, 1.2, bounds=slices.SAID).verdict == ""
    assert len(asked) == 2, "a row without a target decides nothing"
    assert row(*[0.95, 1.1] * 3).verdict == "undecided"
    assert asked[:6] == [(ours, peer)] * 6
    assert [one for _, one in asked[6:]] == [peer] * 6
    assert len({*asked[6]}) == 2, "one_launch tells the two copies apart by their functions"
    assert row(*[0.95, 1.1] * 3).figure.endswith("; two copies of the peer 1.000 [1.000 1.000]")
    assert row(1.0, 0.9, 1.0, 1.0, 1.001).verdict == "undecided"
    assert row(0.7, 0.9, bounds=slices.at_most(1.01)).verdict == "met"
    assert len(asked) == 2, "whatever the width, all of it meets the target"


@pytest.mark.usefixtures("nothing_left")
def test_a_program_that_measures_nothing_is_said_and_ended() -> None:
    def silent(output: Path) -> slices.Program:
        return slices.Program(["sh", "-c", "echo no such library; exit 3"], output, slices.from_numbers)

    with pytest.raises(RuntimeError, match="measured nothing: no such library"):
        slices.beside(1, silent, writer("1"))


def test_values_of_a_run_file_are_those_of_measured_samples() -> None:
    sample = {"type": "sample", "pass": 0, "ops": 2, "ns": [20, 30]}
    assert slices.from_records(json.dumps(sample)) == [10, 15]
    assert slices.from_records(json.dumps({**sample, "pass": -1})) == []
    assert slices.from_records(json.dumps({"type": "point"})) == []
    mean = slices.from_measure("rank_mean")
    assert mean(json.dumps({**sample, "measures": {"rank_mean": [7, 8]}})) == [7, 8]
    assert mean(json.dumps({**sample, "measures": {}})) == []
    assert mean(json.dumps({**sample, "pass": -1, "measures": {"rank_mean": [7]}})) == []
    assert mean(json.dumps({"type": "point"})) == []
    assert slices.of_the_fast([[5.0, 9.0, 9.0]] * 9 + [[1.0, 2.0, 2.0]] * 2) == 2.0
    assert slices.of_the_fast([[10.0], [9.8], [10.2]] + [[12.0]] * 20) == 10.0


def test_a_row_without_a_target_is_neither_met_nor_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        Result("x", what, "1", "1", "1.0", target, met)
        for what, target, met in (("a", "none", True), ("b", "<= 1", True), ("c", "<= 1", False))
    ]
    assert [row.split("|")[-2].strip() for row in compare.table(rows)[2:]] == ["", "met", "missed"]
    monkeypatch.setitem(compare.COMPARISONS, "x", lambda rounds: rows)
    monkeypatch.setattr(sys, "argv", ["compare.py", "x", "--gate"])
    monkeypatch.setattr(compare.signal, "signal", lambda *_: None)  # of the process that tests
    assert compare.main() == 1
    assert "1 met, 1 missed" in capsys.readouterr().out


def test_what_changed_since_an_earlier_table_is_said_and_a_lost_target_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*met: bool, undecided: bool = False, words: Sequence[str] = ()) -> int:
        rows = [
            Result("made up", f"row {place}", "1", "1", "1", "<= 1", one, undecided)
            for place, one in enumerate(met)
        ]
        monkeypatch.setitem(compare.COMPARISONS, "made up", lambda _: rows)
        monkeypatch.setattr(sys, "argv", ["compare.py", "made up", *words])
        return compare.main()

    before = tmp_path / "before.json"
    against = ("--against", str(before))
    assert run(True, True, False, words=["--json", str(before)]) == 0
    assert run(True, True, False, words=against) == 0
    assert "3 rows were measured before; of 0 the verdict is another one" in capsys.readouterr().out
    assert run(True, False, True, True, words=against) == 1
    said = capsys.readouterr().out
    assert "met, now missed: made up: row 1: 1 (target <= 1)" in said
    assert "missed, now met: made up: row 2" in said
    assert "row 3: 1 (target <= 1)" not in said
    assert run(True, False, undecided=True, words=against) == 0
    assert "met, now undecided: made up: row 1" in capsys.readouterr().out
    before.write_text('[{"name": "made up"}]')
    with pytest.raises(SystemExit):
        run(True, words=against)
    assert "is no file that --json wrote" in capsys.readouterr().err


def test_a_rate_that_fell_by_more_than_its_interval_leaves_open_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*rates: tuple[float, float, float] | None, words: Sequence[str] = ()) -> int:
        rows = [
            Result("made up", f"row {place}", "1", "", "1", "none", True, rate=one)
            for place, one in enumerate(rates)
        ]
        monkeypatch.setitem(compare.COMPARISONS, "made up", lambda _: rows)
        monkeypatch.setattr(sys, "argv", ["compare.py", "made up", *words])
        monkeypatch.setattr(compare.signal, "signal", lambda *_: None)  # of the process that tests
        return compare.main()

    before = tmp_path / "before.json"
    against = ("--against", str(before))
    sure, unsure = (100.0, 90.0, 110.0), (100.0, 60.0, 160.0)
    assert run(sure, unsure, sure, None, words=["--json", str(before)]) == 0
    assert run((80.0, 75.0, 85.0), (50.0, 45.0, 55.0), (200.0, 190.0, 210.0), sure, words=against) == 0, (
        "intervals of runs are wider than those of launches, and none of these is alone below 1"
    )
    assert "the verdict is another one, and 0 are slower" in capsys.readouterr().out
    assert run((50.0, 45.0, 55.0), sure, sure, words=against) == 1, "half as fast"
    said = capsys.readouterr().out
    assert "slower: made up: row 0: 1, 0.50 [0.38 0.66] times what it was" in said
    assert "3 rows were measured before; of 0 the verdict is another one, and 1 is slower" in said
    old = json.loads(before.read_text())
    for row in old:
        del row["rate"]
    before.write_text(json.dumps(old))
    assert run((50.0, 45.0, 55.0), words=against) == 0, "a file of before there were rates is read"


def test_a_long_call_that_is_ended_has_kept_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(_: int) -> list[Result]:
        raise KeyboardInterrupt

    kept, table = tmp_path / "kept.json", tmp_path / "kept.md"
    monkeypatch.setitem(
        compare.COMPARISONS, "first", lambda _: [Result("first", "a", "1", "1", "1", "<= 1", True)]
    )
    monkeypatch.setitem(compare.COMPARISONS, "second", ended)
    monkeypatch.setattr(
        sys, "argv", ["compare.py", "first", "second", "--json", str(kept), "--table", str(table)]
    )
    monkeypatch.setattr(compare.signal, "signal", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        compare.main()
    assert [row.name for row in compare.results_of(kept)] == ["first"]
    assert "| a | 1 | 1 | 1 | <= 1 | met |" in table.read_text()


def test_the_mpis_of_a_bench_are_all_that_were_added_or_those_that_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = [
        SimpleNamespace(name=f"mpi@{name}", version=version)
        for name, version in (("a", "Open MPI 5.0.11"), ("b", "MPICH 5.0.2"), ("c", "LAM/MPI 7.1.4"))
    ]
    monkeypatch.setattr(of_mpi.added, "all_", lambda: there)
    monkeypatch.delenv("NETPIPE_BENCH_MPI", raising=False)
    assert of_mpi.with_peers() == ["mpi@a", "mpi@b"]
    monkeypatch.setenv("NETPIPE_BENCH_MPI", "mpi@b")
    assert of_mpi.with_peers() == ["mpi@b"]
    monkeypatch.setenv("NETPIPE_BENCH_MPI", "mpi@b,mpi@c")
    with pytest.raises(of_mpi.MissingError, match="names mpi@c, and there are mpi@a, mpi@b"):
        of_mpi.with_peers()
    there.clear()
    with pytest.raises(of_mpi.MissingError, match="no MPI was added"):
        of_mpi.with_peers()


def test_the_sheet_says_which_layers_are_not_in_it() -> None:
    modules = [
        {"name": name, "reason": why} for name, why in (("tcp", None), ("sctp", "no SCTP"), ("mpi@a", None))
    ]
    lacking = of_sheet.not_there({"modules": modules})
    assert {"sctp", "shmem", "armci", "tcgmsg"} == set(lacking)
    assert lacking == sorted(lacking)


def test_a_smooth_curve_is_not_rough_and_a_saw_is() -> None:
    sizes = [2**n for n in range(10)]
    assert of_sockets.roughness({size: float(size) for size in sizes}) == pytest.approx(0, abs=1e-12)
    saw = {size: float(size) * (1.1 if n % 2 else 1) for n, size in enumerate(sizes)}
    assert of_sockets.roughness(saw) == pytest.approx(0.0953, rel=1e-3)


def test_thresholds_are_found_missed_or_false() -> None:
    def step(variant: str, below: int, above: int) -> of_runs.Step:
        return of_runs.Step(variant, "pingpong", below, above, times=None)  # how high it is does not matter

    limits = {"a": 4096, "b": 16384}
    layer = [(name, step(name, 32768, 34196)) for name in limits]  # both have it
    sizes = {"a": [4000, 4096, 8192, 8555], "b": [8192, 8555, 16320, 16900]}
    found = {name: [own] for name, own in layer}
    found["a"].append(step("a", 4000, 4096))
    assert of_runs.thresholds_of(found, limits, sizes) == ([True, False], [])
    wrong = step("b", 8192, 8555)
    found["b"] += [wrong, step("b", 16320, 16900)]
    assert of_runs.thresholds_of(found, limits, sizes) == ([True, True], [wrong])
    sizes["a"].pop()
    assert of_runs.thresholds_of(found, limits, sizes)[1] == [], "nobody else has looked there"
    found["b"].pop()
    found["b"].append(step("b", 16330, 16900))
    assert of_runs.thresholds_of(found, limits, sizes)[0] == [True, False], (
        "the last eager message has 16328 bytes"
    )


def test_a_limit_that_costs_nothing_is_no_threshold_to_be_found() -> None:
    eager = {1024: 100.0, 2048: 110.0}
    assert of_runs.costs(1024, {512: 90.0, 1024: 130.0}, eager)
    assert not of_runs.costs(1024, {512: 90.0, 1024: 102.0, 2048: 900.0}, eager), "the first size above it"
    assert of_runs.costs(4096, {512: 90.0}, eager), "nothing says that it costs nothing"
    assert of_runs.costs(1024, {}, eager), "a variant that was not measured is not found"


def test_every_comparison_has_a_name_and_says_what_it_is() -> None:
    assert {"mpi-collectives", "mpi-patterns", "harness-shm", "overlap", "curve"} <= set(compare.COMPARISONS)
    assert all(one.__doc__ for one in compare.COMPARISONS.values())


@pytest.mark.skipif(
    os.geteuid() != 0 or not ALLOWED.is_file(), reason="needs root in the network of the machine"
)
def test_a_comparison_under_another_congestion_control_leaves_that_of_this_machine() -> None:
    ours = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    before = ours.read_text()
    done = subprocess.run(
        alone(["cat", str(ours), "/proc/net/dev"], congestion("reno")),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("reno\n")
    assert "lan:" in done.stdout, "Open MPI's TCP needs an interface besides loopback"
    assert ours.read_text() == before
    with pytest.raises(ValueError, match="and not under 'nosuch'"):
        congestion("nosuch")


@pytest.mark.parametrize(("theirs", "rounds"), [([1.0] * 9, 3), ([1.0, 0.5, 1.5] * 3, 9)])
def test_programs_are_started_again_until_the_interval_lies_on_one_side(
    theirs: list[float], rounds: int
) -> None:
    left = iter(theirs)
    mine, peer, ratios = until_decided(3, lambda: 1.0, lambda: next(left), truediv, NO_LONGER)
    assert len(mine) == len(peer) == len(ratios) == rounds
    assert ratios == [1 / one for one in theirs[:rounds]]


@pytest.mark.parametrize(
    ("target", "found", "verdict"),
    [
        (NO_LONGER, (1.00, 0.98, 1.01), "met"),  # all of it meets
        (NO_LONGER, (1.01, 0.99, 1.03), "met"),  # and here it is as narrow as the target
        (NO_LONGER, (0.84, 0.56, 1.11), "undecided"),
        (NO_LONGER, (1.14, 0.98, 1.34), "undecided"),
        (NO_LONGER, (1.05, 1.03, 1.90), "missed"),
        (NO_SLOWER, (1.35, 0.99, 1.80), "met"),
        (NO_SLOWER, (1.02, 0.85, 1.08), "undecided"),
        (NO_SLOWER, (0.90, 0.80, 0.97), "missed"),
        (ONLY_SAID, (3.00, 0.01, 9.00), "met"),
    ],
)
def test_a_wide_interval_meets_and_misses_nothing(
    target: Target, found: tuple[float, float, float], verdict: str
) -> None:
    met, undecided = target.judged(*found)
    assert ("met" if met else "undecided" if undecided else "missed") == verdict
