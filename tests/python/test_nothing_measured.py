# SPDX-License-Identifier: Apache-2.0
"""What a run that measured nothing leaves and says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netpipe.records import Run

if TYPE_CHECKING:
    from conftest import Netpipe

SMALL = ("--sizes", "8,64k")


@pytest.mark.gate
def test_a_mistyped_run_keeps_the_good_one(netpipe: Netpipe) -> None:
    netpipe("run", "tcp", *SMALL)
    before = Path("run.jsonl").read_bytes()
    said = netpipe("run", "shm", *SMALL, fake="unopened=shm")
    assert said.code == 3
    assert "netpipe: nothing was measured, and run.jsonl is still the earlier run\n" in said.err
    assert "points are in" not in said.out
    assert [path.name for path in Path().iterdir()] == ["run.jsonl"]
    assert Path("run.jsonl").read_bytes() == before


def test_a_run_in_which_every_size_is_skipped_keeps_the_good_one(netpipe: Netpipe) -> None:
    """Its variants were opened and its launches ended, as those of netpipe memory, but nothing was measured."""
    netpipe("run", "tcp", *SMALL)
    before = Path("run.jsonl").read_bytes()
    said = netpipe("run", "tcp", *SMALL, fake="skipped=tcp")
    assert said.code == 3
    assert "nothing was measured, and run.jsonl is still the earlier run" in said.err
    assert [path.name for path in Path().iterdir()] == ["run.jsonl"]
    assert Path("run.jsonl").read_bytes() == before


def test_a_run_that_measured_nothing_leaves_no_file_under_the_usual_name(netpipe: Netpipe) -> None:
    said = netpipe("run", "shm", *SMALL, fake="unopened=shm")
    assert (said.code, list(Path().iterdir())) == (3, [])
    assert "netpipe: nothing was measured, and no run file was written\n" in said.err
    assert "run.jsonl" not in said.out
    netpipe("run", "tcp", *SMALL)
    assert [path.name for path in Path().iterdir()] == ["run.jsonl"], "nothing empty was in its way"


@pytest.mark.gate
def test_a_run_that_measured_nothing_says_why_in_the_file_that_was_named(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = netpipe("run", "shm", *SMALL, "-o", "mine.jsonl", fake="unopened=shm")
    assert said.code == 3
    assert "netpipe: nothing was measured, and mine.jsonl says why\n" in said.err
    assert "mine.jsonl" not in said.out, "there are no points to count and no report to write"
    run = Run.read("mine.jsonl")
    assert (run.points, [error.variant for error in run.errors]) == ([], ["shm"])
    said = netpipe("run", "shm", *SMALL, "-o", "mine.jsonl", fake="unopened=shm")
    assert "nothing was measured, and mine.jsonl is still an earlier run without any result" in said.err
    monkeypatch.setenv("NETPIPE_RUN_OUTPUT", "run.jsonl")
    netpipe("run", "shm", *SMALL, fake="unopened=shm")
    assert sorted(path.name for path in Path().iterdir()) == ["mine.jsonl", "run.jsonl"]
