# SPDX-License-Identifier: Apache-2.0
"""Collective settings of Intel MPI and LAM, over programs that answer as theirs do, and when parameters are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from netpipe.libraries import families
from netpipe.libraries.intel import presets
from netpipe.libraries.lam import modules
from netpipe.libraries.tunables import Chosen
from netpipe.session import Request
from netpipe.tuning import job as jobs
from netpipe.tuning.job import Job, Part
from netpipe.tuning.library import Library
from netpipe.tuning.library.parameters import parameters
from netpipe.tuning.search.goals import Goal
from netpipe.tuning.search.variants import Changes, Start

FAMILIES = {one.name: one for one in families()}
ALLREDUCE = "I_MPI_ADJUST_ALLREDUCE"


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def library(family: str, programs: Path) -> Library:
    tunables = FAMILIES[family].tunables
    assert tunables is not None
    return Library(family, tunables, (1,), None, programs)


@pytest.fixture
def intel(tmp_path: Path) -> Library:
    presets = r"$2 \n  MPI Datatype:\n    MPI_CHAR\n  Description:\n    Which preset.\n    Arguments\n    range: 0-3 \n"
    cells = r"$2 \n  MPI Datatype:\n    MPI_INT\n  Description:\n    The number of cells (per rank\n   ). \n"
    other = r"Didn't find \"$2\" variable\n"
    said = f'case "$2" in *ALLREDUCE) printf "{presets}";; *FWD_NUM) printf "{cells}";; *) printf "{other}";; esac'
    program(tmp_path, "impi_info", said)
    return library("intel", tmp_path)


@pytest.fixture
def lam(tmp_path: Path) -> Library:
    said = "".join(f"ssi:coll:{name}:version:api:1.1\n" for name in ("lam_basic", "shmem", "smp"))
    program(tmp_path, "laminfo", f"cat <<'E'\n{said}ssi:rpi:tcp:version:api:1.1\nE")
    return library("lam", tmp_path)


def test_the_presets_of_intel_mpi_are_those_that_it_lists(intel: Library) -> None:
    assert intel.tunables.algorithm("allreduce") == ALLREDUCE
    found = intel.ask([ALLREDUCE, "I_MPI_ADJUST_NOTHING"])
    assert set(found) == {ALLREDUCE}
    assert found[ALLREDUCE]["choices"] == {f"preset {n}": n for n in range(4)}


def test_a_parameter_whose_present_value_a_library_does_not_say_has_values_of_its_family(
    intel: Library,
) -> None:
    (cells,) = (one for one in intel.tunables.parameters if one.variable.endswith("FWD_NUM"))
    (knob,) = parameters(intel)
    assert (knob.name, knob.values) == (cells.variable, tuple(map(str, cells.values)))
    assert knob.help == "The number of cells (per rank)."
    assert knob.transports == ("auto", "shm")


def test_rules_of_intel_mpi_hold_for_the_sizes_and_ranks_that_were_measured() -> None:
    asked = Chosen("allreduce", 4, {8: "", 64: "2", 512: "5"}, {}, (2021, 19))
    made = presets.rules([asked], Path("/none"))
    assert made is not None
    assert made.variables == {ALLREDUCE: "2:23-180@4-4;5:181-1023@4-4"}
    assert made.files == {}
    assert presets.rules([Chosen("gather", 4, {8: "1"}, {}, (2021,))], Path("/none")) is None


def test_rules_reach_the_library_through_the_text_of_a_variant() -> None:
    changes = Changes.of({ALLREDUCE: "2:0-9@4-4;5:10-99@4-4"})
    assert Start.of("mpi@impi").variant(changes) == f"mpi@impi:env={ALLREDUCE}=2:0-9@4-4!5:10-99@4-4"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (f"[0] MPI startup(): {ALLREDUCE}=2", ("not set", "2")),
        (
            f"[0] MPI startup(): Incorrect algorithm: ALLREDUCE=2, will be ignored\n[0] {ALLREDUCE}=2",
            ("ignored by the library",) * 2,
        ),
        (f"[0] MPI startup(): {ALLREDUCE}=7", None),
        ("", None),
    ],
)
def test_what_intel_mpi_ignores_has_no_effect(
    intel: Library, monkeypatch: pytest.MonkeyPatch, said: str, expected: tuple[str, str] | None
) -> None:
    def answer(_words: object, environment: Mapping[str, str]) -> str:
        assert environment["I_MPI_DEBUG"] == "6"
        return said

    monkeypatch.setattr(presets, "_said", answer)
    found = presets.read_back(Path("/none"), Path("/none/libmpi.so"), {ALLREDUCE: "2"}, {})
    assert found.get(ALLREDUCE) == expected


def test_the_modules_of_lam_are_those_that_laminfo_lists(lam: Library) -> None:
    assert lam.tunables.algorithm("bcast") == modules.COLLECTIVES
    assert lam.ask([modules.COLLECTIVES])[modules.COLLECTIVES]["choices"] == ["lam_basic", "shmem", "smp"]
    assert lam.tunables.rules is None


def test_a_module_that_lam_does_not_have_has_no_effect(lam: Library) -> None:
    without, there = lam.read_back({modules.COLLECTIVES: "smp"})[modules.COLLECTIVES]
    assert without != there
    without, there = lam.read_back({modules.COLLECTIVES: "nosuch"})[modules.COLLECTIVES]
    assert without == there


@pytest.mark.parametrize("family", ["intel", "lam"])
def test_a_library_without_its_program_answers_nothing(tmp_path: Path, family: str) -> None:
    of = library(family, tmp_path)
    variable = of.tunables.algorithm("allreduce")
    assert of.ask([variable]) == {}
    assert of.read_back({variable: "x"}) == {}


# ------------------------------------------------------------------------------ parameters of collectives between hosts


class Asked(Library):
    """A library that knows every parameter, and has 64 KiB for each."""

    def ask(
        self, variables: Sequence[str], set_: Mapping[str, str] | None = None
    ) -> dict[str, dict[str, Any]]:
        assert set_ is None
        return {one: {"value": "65536", "choices": [], "help": ""} for one in variables}


def open_mpi(*version: int) -> Library:
    tunables = FAMILIES["openmpi"].tunables
    assert tunables is not None
    return Asked("openmpi", tunables, version)


def segments(found: Sequence[Any]) -> list[str]:
    """The operations whose segments of HAN are among these knobs."""
    names = (one.name.removeprefix("OMPI_MCA_coll_han_").partition("_segsize") for one in found)
    return [operation for operation, matches, _ in names if matches]


def test_the_segments_of_han_are_tried_for_the_operations_that_obey_them() -> None:
    found = parameters(open_mpi(5, 0, 11), {"bcast", "allreduce", "alltoall"})
    assert segments(found) == ["allreduce", "bcast"]
    knob = found[-1]
    assert knob.values == ("16384", "262144", "1048576", "4194304")
    assert "524288" in knob.around("262144"), "what its developers found to be faster"
    assert "shm" not in knob.transports
    assert segments(parameters(open_mpi(5, 0, 11))) == []
    assert segments(parameters(open_mpi(4, 1, 4), {"bcast"})) == [], "HAN stands back there"
    others = [one.name for one in parameters(open_mpi(4, 1, 4))]
    assert [one.name for one in parameters(open_mpi(5, 0, 11))] == others != []


@pytest.mark.parametrize(
    ("hosts", "expected"), [("A,B", ["bcast"]), ("A:2,B:2", ["bcast"]), ("A", []), (None, [])]
)
def test_segments_of_han_are_tried_between_hosts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: str | None, expected: list[str]
) -> None:
    monkeypatch.setattr(jobs, "library", lambda _: open_mpi(5, 0, 11))
    places = (("pingpong", 8), ("collective:what=bcast", 1 << 20))
    profile = Goal("profile=p.jsonl", places, places, (8, 1 << 20), dict.fromkeys(places, 1.0), 4)
    base = Request(["mpi@openmpi"], hosts=hosts)
    job = Job(base, profile, 60.0, tmp_path)
    _, there = job._settings(Start.of("mpi@openmpi"), {"options": []}, Part(profile, base, {}))
    assert segments(there.knobs) == expected
    assert there.knobs, "its other parameters are tried anyhow"
