# SPDX-License-Identifier: Apache-2.0
"""netpipe run: which message sizes, and which options of them have no effect beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Netpipe

from netpipe.records import Run


def test_sizes_alone_make_the_schedule_a_list(netpipe: Netpipe) -> None:
    netpipe("run", "tcp", "--sizes", "8,1k", "--preset", "quick")
    plan = Run.read("run.jsonl").plans[0]
    assert plan.sizes == [8, 1024]
    assert plan.schedule is not None
    assert plan.schedule.kind == "list"


@pytest.mark.parametrize("kind", ["powers", "classic"])
def test_sizes_with_another_schedule_are_refused(netpipe: Netpipe, kind: str) -> None:
    said = netpipe("run", "tcp", "--sizes", "8", "--schedule", kind)
    assert said.code == 2
    assert f"the schedule is {kind}; give --sizes or --schedule, not both" in said.err
    assert not Path("run.jsonl").exists()
    assert netpipe("run", "tcp", "--sizes", "8", "--schedule", "list").code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--sizes", "8,16", "--start", "4"), "--start has no effect, because --sizes names all sizes"),
        (("--sizes", "8,16", "--end", "12"), "--end has no effect, because --sizes names all sizes"),
        (("--sizes", "8", "--perturbation", "3"), "--perturbation has no effect, because --sizes names all"),
        (
            ("--schedule", "powers", "--perturbation", "5"),
            "--perturbation has no effect, because the schedule",
        ),
        (("--schedule", "adaptive", "--perturbation", "5"), "the schedule is adaptive; leave it out"),
    ],
)
def test_bounds_that_the_schedule_has_no_use_for_are_refused(
    netpipe: Netpipe, words: tuple[str, ...], says: str
) -> None:
    said = netpipe("run", "tcp", *words)
    assert said.code == 2
    assert says in said.err
    assert not Path("run.jsonl").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--perturbation", "5"),
        ("--schedule", "classic", "--perturbation", "5", "--start", "4", "--end", "12"),
        ("--schedule", "powers", "--start", "4", "--end", "12"),
        ("--preset", "quick", "--start", "4", "--end", "12"),
    ],
)
def test_bounds_of_the_schedule_are_taken(netpipe: Netpipe, words: tuple[str, ...]) -> None:
    assert netpipe("run", "tcp", *words, "--dry-run").code == 0
