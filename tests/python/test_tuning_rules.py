# SPDX-License-Identifier: Apache-2.0
"""Rules by size for a library, on a made-up machine whose library uses them, ignores them, or uses a part of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from simulated_tuning import QUIET, Machine, Truth

from netpipe.libraries import families
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import Point
from netpipe.session import Request
from netpipe.tuning.collectives import PerSize, choice, shortfall
from netpipe.tuning.library import Library
from netpipe.tuning.log import Log
from netpipe.tuning.measuring.bench import GRACE_S, Measured
from netpipe.tuning.measuring.ratios import Verdict
from netpipe.tuning.search.goals import Place, goal
from netpipe.tuning.search.space import Knob, Space
from netpipe.tuning.search.variants import START, Start
from netpipe.tuning.tune import Outcome

(OPEN_MPI,) = (one.tunables for one in families() if one.name == "openmpi")
ALGORITHM, RULES, HAN = "coll_tuned_bcast_algorithm", "dynamic_rules_filename", "coll_han_priority"
WORDS = "1 linear, 6 binomial"


def tuned(
    folder: Path,
    truth: Truth,
    hosts: str | None = None,
    kind: type[Machine] = Machine,
    operation: str = "bcast",
) -> tuple[Outcome, Machine]:
    """A search for the algorithms of an operation of Open MPI 5."""
    assert OPEN_MPI is not None
    machine = kind(
        Start.of("made:a=1"),
        goal(f"collective={operation}"),
        Request(["made:a=1"], hosts=hosts),
        False,
        truth=truth,
        noise=QUIET,
        draw=random.Random(1),
    )
    machine.clock = lambda: machine.now_s
    there = Space((Knob(f"OMPI_MCA_{ALGORITHM}", ("1", "6"), help=WORDS),))
    library = Library("openmpi", OPEN_MPI, (5, 0, 10))
    tuner = PerSize(machine, there, Log(None), 60.0, library=library, folder=folder)
    return tuner.tune(None), machine


def library_that(obeys: float) -> Truth:
    """Binomial is twice as fast, and rules reach so much of that."""

    def truth(settings: Mapping[str, str], _size: int) -> float:
        given = settings.get("env", "")
        if f"{ALGORITHM}=6" in given:
            return 5e3
        return 1e4 / (1 + obeys) if RULES in given else 1e4

    return truth


def test_a_file_of_rules_that_the_library_ignores_is_said(tmp_path: Path) -> None:
    """A library that cannot read its rules is silent."""
    outcome, _ = tuned(tmp_path, library_that(0.0))
    assert outcome.best == START
    (said,) = (note for note in outcome.notes if note.startswith("the rules had no effect"))
    assert "one by one, their algorithms were 2" in said
    assert "ignore them without a word" in said
    assert outcome.rules == ()
    assert list(tmp_path.iterdir()) == []


def test_rules_that_the_library_uses_in_part_are_said(tmp_path: Path) -> None:
    outcome, _ = tuned(tmp_path, library_that(0.3))
    assert outcome.best != START
    assert any(note.startswith("the rules gain less than their algorithms") for note in outcome.notes)


def test_of_rules_that_are_used_nothing_of_the_kind_is_said(tmp_path: Path) -> None:
    outcome, _ = tuned(tmp_path, library_that(1.0))
    assert outcome.best != START
    assert outcome.rules == ("bcast-rules.conf",)
    assert (tmp_path / "bcast-rules.conf").is_file()
    assert not [note for note in outcome.notes if note.startswith("the rules had no") or "gain less" in note]


@pytest.mark.parametrize("reached", [Estimate(1.6, 1.3, 1.9), unsure(1.0)])
def test_without_a_certain_difference_nothing_is_said_of_rules(reached: Estimate) -> None:
    assert shortfall(Verdict(reached, 1.0), Estimate(2.0, 1.8, 2.2)) == []


def test_han_does_not_stand_above_what_is_chosen(tmp_path: Path) -> None:
    """Between hosts of Open MPI 5 it would, and all algorithms and rules of `tuned` would do nothing."""

    def truth(settings: Mapping[str, str], size: int) -> float:
        given = settings.get("env", "")
        return library_that(1.0)(settings if f"{HAN}=0" in given else {}, size)

    outcome, _ = tuned(tmp_path, truth, hosts="A,B")
    assert dict(outcome.best.items)[f"OMPI_MCA_{HAN}"] == "0"
    assert any("every host needs the rules at the same path" in note for note in outcome.notes)


def test_older_versions_have_no_han_above_tuned() -> None:
    assert OPEN_MPI is not None
    assert f"OMPI_MCA_{HAN}" not in OPEN_MPI.with_algorithm("bcast", (4, 1, 4))
    assert OPEN_MPI.with_algorithm("bcast", ()) == OPEN_MPI.with_algorithm("bcast", (5, 0, 10))


def test_where_rules_make_the_librarys_own_choice_slower_it_is_not_kept(tmp_path: Path) -> None:
    """HAN is faster than what `tuned` chooses by itself at small sizes, and as fast as linear; binomial gains at large
    ones. Rules need HAN away, so they choose linear at small sizes.
    """

    def truth(settings: Mapping[str, str], size: int) -> float:
        given = settings.get("env", "")
        large = size > 1 << 14
        if RULES in given:
            return 5e3 if large else 1e4
        if f"{ALGORITHM}=6" in given:
            return 5e3 if large else 4e4
        if f"{ALGORITHM}=1" in given:
            return 1e4
        return 3e4 if f"{HAN}=0" in given and not large else 1e4

    outcome, _ = tuned(tmp_path, truth, hosts="A,B")
    (said,) = (note for note in outcome.notes if note.startswith("rules for bcast"))
    assert said == "rules for bcast on 2 ranks: 8 B to 8 KiB linear, 32 KiB to 512 KiB binomial"
    assert len(outcome.began) == 2, "the library's own choice is no candidate"


class SlowReduce(Machine):
    """A reduce that takes minutes, and a launcher so slow that all else takes its whole time."""

    def session(
        self, variants: Sequence[str], places: Sequence[Place], *more: Any, **keywords: Any
    ) -> Measured:
        slow = any("what=reduce" in pattern for pattern, _ in places)
        self.open_s = 100.0 if slow else 4.0
        return super().session(variants, places, *more, **keywords)

    def _launch(self, *arguments: Any) -> list[Point]:
        self.now_s += self.open_s
        return super()._launch(*arguments)


def test_the_comparison_with_other_operations_is_within_the_time_too(tmp_path: Path) -> None:
    """It has a tenth of it, and may take the grace that every session has."""
    _, machine = tuned(tmp_path, library_that(1.0), kind=SlowReduce, operation="allreduce")
    assert any("what=reduce" in pattern for pattern, _ in machine.sessions[-1][1])
    assert machine.now_s <= 60.0 + GRACE_S


def test_the_choice_is_against_what_rules_leave() -> None:
    at = ("collective:what=bcast", 8)
    told = {"1": {at: Estimate(1.1, 1.0, 1.2)}}
    assert choice(told, (8,)) == {8: ""}
    assert choice(told, (8,), {at: Estimate(1.5, 1.4, 1.6)}) == {8: "1"}
