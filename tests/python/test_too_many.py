# SPDX-License-Identifier: Apache-2.0
"""Sweeps of more variants or settings than are compared: that is said, with a command that does something about it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from test_analysis_verdicts import alike, made
from test_comparing import call, written
from test_settings_compared import in_flight, summary, swept

from netpipe.findings import Finding, judge, too_many
from netpipe.reading import Reading
from netpipe.reading.blocks import verdicts
from netpipe.records import Run

VARIANTS = ("tcp", "tcp:sndbuf=16k", "tcp:sndbuf=64k", "tcp:sndbuf=1M")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are compared, and no more."""
    for module in (verdicts, too_many):
        monkeypatch.setattr(module, "MOST_VARIANTS", 3)


def found_in(run: Run) -> list[Finding]:
    return [one for one in judge(Reading(run)).findings if one.rule == "too-many-to-compare"]


@pytest.mark.usefixtures("few")
def test_more_variants_than_are_compared_are_said_with_the_command_that_compares_two(
    tmp_path: Path, fake: Path
) -> None:
    path = written(made(dict.fromkeys(VARIANTS, alike)), tmp_path / "my run.jsonl")
    run = Run.read(path, samples=False)
    assert not Reading(run).verdicts
    (found,) = found_in(run)
    said, command = re.findall(r"^(.*): netpipe (compare .*) compares two of them\.$", found.what)[0]
    assert said == (
        "None of the 4 variants of tcp (pingpong) is said to be faster than another, because there are more than 3"
    )
    assert shlex.split(command)[1:] == [
        str(path),
        "--variant",
        "tcp",
        "--variant",
        VARIANTS[-1],
        "--pattern",
        "pingpong",
    ]
    done = call(*shlex.split(command))
    assert done.exception is None
    assert "time over that of tcp," in done.stdout
    assert VARIANTS[-1] in done.stdout
    assert "is said to be faster than another" in " ".join(summary(run, 200).split())


@pytest.mark.usefixtures("few")
def test_more_settings_than_are_compared_are_said_with_the_command_that_draws_them(
    tmp_path: Path, fake: Path
) -> None:
    path = written(swept(in_flight(1, 4, 16, 64)), tmp_path / "run.jsonl")
    run = Run.read(path, samples=False)
    assert not Reading(run).verdicts
    (found,) = found_in(run)
    assert found.what.startswith("None of the 4 settings of window (tcp) is said to be faster than another, ")
    (command,) = re.findall(r": netpipe (plot .*) draws all of them\.$", found.what)
    done = call(*shlex.split(command), "--format", "terminal")
    assert done.exception is None
    assert "relative to in_flight=1" in done.stdout


@pytest.mark.usefixtures("few")
def test_as_many_as_are_compared_are_no_word_worth() -> None:
    run = made(dict.fromkeys(VARIANTS[:3], alike))
    assert len(Reading(run).verdicts) == 2
    assert not found_in(run)


@pytest.mark.usefixtures("few")
def test_a_run_without_visits_has_no_verdicts_whatever_their_number() -> None:
    run = made(dict.fromkeys(VARIANTS, alike))
    for point in run.points:
        point.visits = None
    assert not found_in(run)
