# SPDX-License-Identifier: Apache-2.0
"""The rows of bench/of_runs.py: what is missing leaves a row, every layer of the run is held against itself, and each
row of a disturbed machine says so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from repeated import SIZES, made, same

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.render.losses import largest_losses

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import compare  # noqa: E402
import noise  # noqa: E402
import of_runs  # noqa: E402
import of_sockets  # noqa: E402
from measured import Result  # noqa: E402

NOISE = "steal=0.2,seed=1"
LAYERS = ("shm", "shm:wait=block", "tcp", "tcp:wait=poll")


def default_run(seed: int = 1, copies: bool = False) -> Run:
    """A run of some layers as `netpipe run` plans it, with a copy beside each where it is asked for."""
    layers = [name for one in LAYERS for name in ((one, f"{one}#2") if copies else (one,))]
    run = made(dict.fromkeys(layers, same), seed)
    return planned(run)


def planned(run: Run) -> Run:
    """With the sizes, the copies and the order of the layers."""
    for plan in run.plans:
        plan.sizes = list(SIZES)
        for variant in plan.variants:
            if variant.variant.endswith("#2"):
                variant.copy_of = variant.variant.removesuffix("#2")
    for opened in run.variants:
        opened.below = "shm" if opened.module == "tcp" else None
    return run


def without(run: Run, variant: str, size: int) -> Run:
    run.points = [one for one in run.points if (one.variant, one.size_bytes) != (variant, size)]
    return run


def only(rows: Iterator[Result] | list[Result], start: str) -> Result:
    (found,) = [row for row in rows if row.what.startswith(start)]
    return found


def test_a_size_of_the_plan_that_has_no_point_is_a_row_that_is_missed() -> None:
    complete = only(of_runs.all_there([Reading(default_run())]), "sizes of the plan")
    assert (complete.verdict, complete.ours) == ("met", f"0 of {len(SIZES) * len(LAYERS)}")
    lacking = only(of_runs.all_there([Reading(without(default_run(), "tcp", 1024))]), "sizes of the plan")
    assert (lacking.verdict, lacking.ours) == ("missed", f"1 of {len(SIZES) * len(LAYERS)}")
    assert lacking.figure == "tcp 1024 B"
    gone = default_run()
    gone.points = [one for one in gone.points if one.variant != "shm"]
    assert only(of_runs.all_there([Reading(gone)]), "sizes of the plan").ours.startswith(f"{len(SIZES)} of ")


def test_a_headline_number_or_a_loss_without_an_interval_is_a_row_that_is_missed() -> None:
    known = list(of_runs.all_there([Reading(default_run())]))
    assert [only(known, what).verdict for what in ("headline", "losses")] == ["met", "met"]
    unsure = planned(made(dict.fromkeys(LAYERS, same), 1, launches=1))
    unsure.points = [
        msgspec.structs.replace(one, visits=None, low_ns=None, high_ns=None) for one in unsure.points
    ]
    rows = list(of_runs.all_there([Reading(unsure)]))
    assert only(rows, "headline").verdict == "missed"
    losses = only(rows, "losses")
    assert (losses.verdict, losses.figure) == ("missed", "0.0%")


def test_the_intervals_of_verdicts_are_judged_at_8_bytes_and_at_the_largest_size() -> None:
    reading = Reading(made(dict.fromkeys(LAYERS, same), 1))
    assert reading.verdicts
    assert of_runs.of_verdicts("the largest size", [reading]).verdict == "met"
    at_8 = of_runs.of_verdicts("8 B", [reading])
    assert 8 not in SIZES
    assert (at_8.verdict, at_8.ours) == ("missed", "0.0%"), "without the size there is no interval"
    wide = Reading(made(dict.fromkeys(LAYERS, same), 1, launch_noise=0.3))
    assert of_runs.of_verdicts("the largest size", [wide]).verdict == "missed"
    assert of_runs.of_verdicts("8 B", [Reading(examples.run())]).figure == "no verdicts"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ([("tcp",), ("tcp:wait=poll",), ("tcp",)], "1 of 3"),
        ([("tcp",), ("tcp", "tcp:wait=poll"), ("tcp",)], "0 of 3"),
        ([("tcp",), ("shm:wait=block", "tcp:wait=poll"), ("tcp",)], "1 of 3"),
        ([("tcp", "shm"), ("tcp:wait=poll", "shm")], "0 of 2"),
        ([(), ("tcp",)], "0 of 2"),
    ],
    ids=["another", "undecided", "undecided-between-others", "none-decided", "none-named"],
)
def test_runs_whose_headline_names_another_layer_are_counted(
    named: list[tuple[str, ...]], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_runs, "headline", lambda said: said)
    said = [{("", "latency"): one} if one else {} for one in named]
    row = of_runs.of_headlines([SimpleNamespace(losses=one) for one in said])
    assert (row.ours, row.verdict) == (expected, "met" if expected.startswith("0") else "missed")


def test_a_headline_is_what_the_largest_losses_are_about() -> None:
    layers = {one: lambda size, of=of: of for one, of in zip(LAYERS, (1.0, 1.0, 3.0, 1.5), strict=True)}
    losses = Reading(planned(made(layers, 1))).losses
    named = of_runs.headline(losses)
    assert named
    sentences = largest_losses(losses)
    assert len(named) == len(sentences)
    assert all(names[0] in said for names, said in zip(named.values(), sentences, strict=True))
    assert of_runs.of_headlines([Reading(planned(made(layers, seed))) for seed in (1, 2)]).verdict == "met"


def test_the_time_of_both_transports_together_is_a_row(
    asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_mpi = SimpleNamespace(name="mpi@openmpi", version="Open MPI 5.0.11")
    monkeypatch.setattr(of_runs.added, "all_", lambda: [open_mpi])
    *each, both = of_runs.thresholds(2)
    assert [len(words) for words in asked] == [2 + len(of_runs.EAGER) + 1] * 4
    assert all(" 40.0 s" in row.figure for row in each)
    assert both.ours.startswith("80.0 s")
    assert both.verdict == ""


def test_a_curve_that_the_next_run_lacks_breaks_nothing() -> None:
    gone = default_run(2)
    gone.points = [one for one in gone.points if one.variant != "tcp"]
    found = {variant for variant, *_ in of_runs.next_runs([Reading(default_run()), Reading(gone)])}
    assert found == set(LAYERS) - {"tcp"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The words of each run that a comparison asks for; the runs are made up."""
    every: list[tuple[str, ...]] = []

    def measured(_: str, number: int, *words: str) -> tuple[Reading, float]:
        every.append(words)
        return Reading(default_run(number + 1, copies="--aa" in words)), 40.0

    @contextmanager
    def by_hand() -> Iterator[Loops]:
        yield Loops()

    monkeypatch.setattr(of_runs, "measured", measured)
    monkeypatch.setattr(of_runs, "losses_by_hand", by_hand)
    return every


class Loops:
    """In place of the loops by hand."""

    def measure(self) -> None:
        pass

    def run_to_run(self, place: str) -> float:
        return 0.01 if place in of_runs.PLACES else math.nan

    def half_width(self, place: str) -> float:
        return self.run_to_run(place)


def test_the_default_run_is_measured_ten_times_and_each_layer_has_its_row(
    asked: list[tuple[str, ...]],
) -> None:
    rows = of_runs.runs(10)
    assert asked == [()] * 10, "without options, and as often as the target says"
    rest = [row.what.partition(": ")[2] for row in rows if row.what.startswith("next run outside")]
    assert rest == list(LAYERS)
    assert {f"verdicts at {place} within ±5 %" for place in of_runs.PLACES} <= {row.what for row in rows}


def test_every_layer_of_the_default_run_is_held_against_itself(asked: list[tuple[str, ...]]) -> None:
    rows = of_runs.beside(2)
    assert asked == [("--aa",)] * 2, "the layers are those of a run without names"
    assert [row.what.partition(" beside itself: ")[0] for row in rows] == [
        one for one in LAYERS for _ in range(2)
    ]


def test_a_layer_that_could_not_be_held_against_itself_has_a_row() -> None:
    (row,) = of_runs.of_floor("tcp", [])
    assert (row.what, row.verdict) == ("tcp beside itself", "missed")
    floor = of_runs.Beside("tcp", "pingpong", 9, 0.001, 0.002, None)
    assert [row.verdict for row in of_runs.of_floor("tcp", [floor])] == ["met", "missed"]


@pytest.fixture
def disturbed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the noise was asked for; none is made."""
    texts: list[str] = []

    @contextmanager
    def made_of(text: str) -> Iterator[str]:
        texts.append(text)
        yield "noise of 1 s"

    monkeypatch.setattr(noise, "made", made_of)
    monkeypatch.setattr(compare.signal, "signal", lambda *_: None)  # of the process that tests
    return texts


@pytest.mark.parametrize("name", ["runs", "beside", "curve", "thresholds"])
def test_each_row_of_a_disturbed_machine_says_what_disturbed_it(
    name: str,
    asked: list[tuple[str, ...]],
    disturbed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    seconds = count(3.0)
    saw = {size: 1000.0 * (1 + place % 2 / 10) for place, size in enumerate(SIZES)}

    def curve(*_: str) -> tuple[float, dict[int, float]]:
        took = next(seconds)
        return took, {size: took * ns for size, ns in saw.items()}

    monkeypatch.setattr(of_sockets, "netpipe_curve", curve)
    monkeypatch.setattr(of_sockets, "nptcp", curve)
    open_mpi = SimpleNamespace(name="mpi@openmpi", version="Open MPI 5.0.11")
    monkeypatch.setattr(of_runs.added, "all_", lambda: [open_mpi])
    table = tmp_path / "table.md"
    words = [name, "--rounds", "2", "--noise", NOISE, "--table", str(table)]
    monkeypatch.setattr(sys, "argv", ["compare.py", *words])
    assert compare.main() == 0
    assert disturbed == [NOISE]
    rows = table.read_text().splitlines()[2:]
    assert rows
    assert all(f", under noise {NOISE} |" in row for row in rows)
    assert bool(asked) == (name != "curve")


def test_a_comparison_that_breaks_off_lets_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_long(_: int) -> list[Result]:
        raise of_runs.subprocess.TimeoutExpired(["netpipe"], 600)

    row = Result("b", "what", "1", "1", "1.0", "<= 1", True)
    monkeypatch.setitem(compare.COMPARISONS, "a", too_long)
    monkeypatch.setitem(compare.COMPARISONS, "b", lambda _: [row])
    monkeypatch.setattr(compare.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["compare.py", "a", "b"])
    assert compare.main() == 1
    said = capsys.readouterr().out
    assert "a: broke off, " in said
    assert "1 met, 0 missed" in said
