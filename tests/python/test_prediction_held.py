# SPDX-License-Identifier: Apache-2.0
"""What netpipe predict refuses, or asks for, before it holds a prediction against a profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from profiled import Made, entries, made
from test_prediction import point
from test_prediction_runs import SHM, TCP, Checked, one_message, run, saved

from netpipe.profiles import Profile
from netpipe.profiles.lines import write
from netpipe.profiles.same import difference

if TYPE_CHECKING:
    from conftest import Netpipe


@pytest.fixture
def program(tmp_path: Path) -> str:
    write(one_message(), tmp_path / "profile.jsonl")
    return str(tmp_path / "profile.jsonl")


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    one, other = run("a", point("pingpong", 8, 1000, SHM)), run("b", point("pingpong", 8, 9000, TCP))
    return [saved(one, tmp_path), saved(other, tmp_path)]


def counting(*rows: Made) -> Profile:
    """Ranks that send what `one_message` does, and have these calls in their tables."""
    program = one_message()
    program.entries.update({number: entries(number, rows) for number in range(2)})
    return program


SENT = made("Send", 8, 100), made("Allreduce", 16, 40), made("Test", 8, 5000)


def test_the_profile_of_another_program_is_no_measurement_of_this_one(
    netpipe: Netpipe, two: list[str], tmp_path: Path
) -> None:
    """Tests that found nothing differ from launch to launch, and a tenth of the other calls may."""
    write(counting(*SENT), tmp_path / "this.jsonl")
    write(counting(*SENT[:2], made("Test", 8, 9), made("Send", 64, 9)), tmp_path / "alike.jsonl")
    write(counting(made("Send", 64, 100), *SENT[1:]), tmp_path / "other.jsonl")
    words = ("predict", str(tmp_path / "this.jsonl"), *two, "--measured", TCP)
    assert netpipe(*words, str(tmp_path / "alike.jsonl")).code == 0
    said = netpipe(*words, str(tmp_path / "other.jsonl"))
    assert said.code == 2
    assert (
        "other.jsonl is of a program that makes other calls than the predicted one: MPI_Send of 8 B (200 and 0) and "
        "MPI_Send of 64 B (0 and 200)" in said.err
    )
    assert "MPI_Allreduce" not in said.err


def test_where_sizes_were_put_together_names_alone_are_compared() -> None:
    this, other = counting(*SENT), counting(made("Send", 64, 100), made("Allreduce", 16, 40))
    assert difference(this, other) != ""
    other.entries[0].coarse = [1, 0]
    assert difference(this, other) == ""
    more = counting(*SENT, made("Bcast", 4, 1000))
    more.entries[1].coarse = [0, 1, 0, 0]
    assert difference(this, more) == "MPI_Bcast (0 and 2,000)"


def test_settings_that_the_program_may_have_run_with_are_named_for_own(
    netpipe: Netpipe, program: str, two: list[str]
) -> None:
    whole = one_message()
    whole.header.module = "mpi@x"
    write(whole, Path(program))
    said = " ".join(netpipe("predict", program, *two).out.split())
    assert f"over the library of {SHM} and {TCP}; if with the same settings, say so: --own {SHM}" in said
    whole.header.module = "mpi@z"
    write(whole, Path(program))
    assert "--own" not in netpipe("predict", program, *two).out


def test_what_is_no_mpi_is_refused_before_anything_is_measured(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, program: str, two: list[str]
) -> None:
    monkeypatch.setattr("netpipe.session.Session", Checked)
    monkeypatch.setattr("netpipe.native.list_", lambda: {"modules": []})
    monkeypatch.setattr("netpipe.command.measuring.measure", lambda *_: pytest.fail("it measures"))
    said = netpipe("predict", program, two[0], "--measure", "tcp")
    assert said.code == 2
    assert "'tcp' is no MPI library that was added, and a program of MPI is predicted" in said.err
