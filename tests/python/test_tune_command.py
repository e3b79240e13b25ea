# SPDX-License-Identifier: Apache-2.0
"""netpipe tune: what it refuses and with which sentence, and what it says when there is nothing to find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Netpipe


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name the VARIANT to tune, such as tcp"),
        (("tcp", "--goal", "speed"), "--goal speed is no goal; choose one of latency"),
        (("tcp", "--goal", "profile=nothing.jsonl"), "--goal profile=nothing.jsonl: No such file"),
        (("tcp", "--only", "sndbuff"), "has no such setting to tune; did you mean 'sndbuf'?"),
        (("tcp", "--time", "2"), "--time 2 is too short for 1 variant; give 5 s or more"),
        (("tcp", "unix", "--time", "8"), "--time 8 is too short for 2 variants; give 10 s or more"),
        (("tcp", "--time", "0"), "0.0 is not in the range x>0"),
        (("tcp", "tcp"), "tcp#2 is a copy; name each variant once"),
        (("tcp", "--ranks", "2,4"), "tune for one number of ranks at a time"),
        (("tcp", "--keep"), "--keep is for --apply"),
        (("tcp:sndbug=1",), "no option 'sndbug'"),
        (("nothing",), "no module 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    netpipe: Netpipe, words: tuple[str, ...], sentence: str
) -> None:
    said = netpipe("tune", *words)
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not Path("tune").exists()


def test_collectives_of_what_is_no_library_are_not_available(netpipe: Netpipe) -> None:
    said = netpipe("tune", "tcp", "--goal", "collective=bcast")
    assert said.code in (2, 3)
    assert said.err.startswith("netpipe: ")
    assert not Path("tune").exists()


def test_a_folder_with_other_files_is_not_touched(netpipe: Netpipe) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("kept")
    said = netpipe("tune", "tcp", "-o", "mine")
    assert said.code == 2
    assert "mine has files that netpipe tune did not write" in said.err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_without_intervals_nothing_is_called_a_gain(netpipe: Netpipe) -> None:
    """The fake worker records no visits, so there is nothing that a comparison could stand on."""
    said = netpipe("tune", "tcp", "--only", "sndbuf", "--goal", "latency", "--time", "5", "--json")
    assert said.code == 0
    (outcome,) = json.loads(said.out)["outcomes"]
    assert outcome["gains"] is False
    assert outcome["files"] == []
    assert Path("tune/search.jsonl").is_file()


def test_a_start_that_cannot_be_measured_is_the_answer(netpipe: Netpipe) -> None:
    said = netpipe("tune", "tcp", "--goal", "latency", "--time", "5", fake="blame=tcp")
    assert said.code == 4
    assert "tcp itself cannot be measured at 1 bytes" in said.err


def test_an_interrupted_change_of_system_settings_is_undone_first(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state file of a process that is not there any more, about a setting that this kernel does not have."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    state = tmp_path / "state" / "netpipe" / "tune-system.json"
    state.parent.mkdir(parents=True)
    state.write_text("{")
    said = netpipe("tune", "tcp")
    assert said.code == 2
    assert "tune-system.json says which system settings" in said.err
