# SPDX-License-Identifier: Apache-2.0
"""The kernels of src/apps by themselves, as netpipe builds them for users: they verify in classes that take seconds and
on more ranks than `make test` has time for, and print their result as the reference codes do.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from mpi import Mpis

from netpipe.applications import listing, plan
from netpipe.libraries.adding import programs
from netpipe.libraries.adding.added import Added

YIELDS = "openmpi"  # where ranks share processors
ENVIRONMENT = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    **{f"{kind}_ALLOW_RUN_AS_ROOT{more}": "1" for kind in ("OMPI", "PRTE") for more in ("", "_CONFIRM")},
}
FAST = ("-std=gnu11", "-O0")  # the smallest class runs well without the optimiser
LIMIT_S = 300.0
SQUARES = ("bt", "sp")
# On 2 ranks, 4 where they have to be a square. BT, LU and SP take half a minute each in class A.
LARGER = [
    *((name, "50" if name == "sweep3d" else "W") for name in programs.applications()),
    *((name, "A") for name in ("cg", "ep", "ft", "is", "mg")),
]
MANY = {
    "bt": (9, 16),
    "cg": (8, 16),
    "ep": (8, 9, 16),
    "ft": (8, 16),
    "is": (8, 16),
    "lu": (8, 9, 16),
    "mg": (8, 16),
    "sp": (9, 16),
    "sweep3d": (8, 9, 16),
}


def launched(library: Added, program: Path, ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    assert library.launcher is not None
    many = ["--oversubscribe"] if "openmpi" in library.name else []
    return subprocess.run(
        [library.launcher[1], *many, "-n", str(ranks), program, *words],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


Verified = Callable[..., dict[str, Any]]


@pytest.fixture
def verified(mpis: Mpis) -> Verified:
    """verified("cg", "W", 2): what the kernel says of its result, which is right."""
    (library,) = mpis.need(YIELDS)

    def run(name: str, problem: str, ranks: int) -> dict[str, Any]:
        program = programs.application(programs.builder(library), name)
        done = launched(library, program, ranks, "--class", problem, "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        assert told["checks"]
        assert (told["class"], told["ranks"], told["verified"]) == (problem, ranks, True)
        return told

    return run


@pytest.mark.deep
@pytest.mark.parametrize(("name", "problem"), LARGER)
def test_a_kernel_verifies_in_larger_classes(verified: Verified, name: str, problem: str) -> None:
    verified(name, problem, 4 if name in SQUARES else 2)


@pytest.mark.deep
@pytest.mark.parametrize(("name", "ranks"), [(name, ranks) for name, some in MANY.items() for ranks in some])
def test_a_kernel_verifies_on_many_ranks(verified: Verified, name: str, ranks: int) -> None:
    """They share the processors of this machine."""
    verified(name, "20" if name == "sweep3d" else "S", ranks)


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [4, 8])
def test_ft_verifies_with_the_layout_of_more_ranks_than_planes(
    verified: Verified, mpis: Mpis, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    """Which class S has beyond 64 ranks. With two columns 16 ranks are eight rows, and a cell has too few lines."""
    (library,) = mpis.need(YIELDS)
    build = programs.builder(library)

    def on_16() -> bool:
        return bool(plan.ask(programs.application(build, "ft"), build.environment, "S", 16, {})["fits"])

    assert on_16()
    monkeypatch.setattr(programs, "PROGRAM", (*programs.PROGRAM, "-DFT_COLUMNS_MOST=2"))
    assert not on_16()
    verified("ft", "S", ranks)


# ------------------------------------------------------------------------------------------------- what they print

LABELS = (
    "Class",
    "Size",
    "Iterations",
    "Time in seconds",
    "Total processes",
    "Active processes",
    "Mop/s total",
    "Mop/s/process",
    "Operation type",
    "Verification",
)


def printed(text: str) -> tuple[str, dict[str, str], list[str]]:
    """The title, the values by label, and the lines of the checks."""
    title, *lines = text.strip("\n").splitlines()
    values = {}
    for line in lines[: len(LABELS)]:
        assert (line[0], line[17:19], len(line)) == (" ", "= ", 43), "as the reference codes print it"
        values[line[1:17].rstrip()] = line[19:].strip()
    return title, values, lines[len(LABELS) :]


@pytest.mark.parametrize(
    "name",
    [
        name if name == "is" else pytest.param(name, marks=pytest.mark.deep)
        for name in programs.applications()
    ],
)
def test_a_kernel_prints_its_result_as_the_reference_codes_do(
    mpis: Mpis, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (library,) = mpis.need("mpich")
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    program = programs.application(programs.builder(library), name)
    problem = listing.kernels()[name].classes[0]
    told = json.loads(launched(library, program, 1, "--class", problem, "--json").stdout.splitlines()[-1])
    done = launched(library, program, 1, "--class", problem)
    assert done.returncode == 0, done.stderr
    title, values, checks = printed(done.stdout)
    assert title == f" {told['name']} Benchmark Completed."
    assert tuple(values) == LABELS
    assert [values[label] for label in ("Class", "Size", "Iterations", "Operation type")] == [
        problem, told["size"].strip(), str(told["iterations"]), told["operations"]
    ]  # fmt: skip
    assert values["Total processes"] == values["Active processes"] == "1"
    assert float(values["Time in seconds"]) >= 0
    assert float(values["Mop/s total"]) == float(values["Mop/s/process"]) > 0
    assert values["Verification"] == "SUCCESSFUL"
    assert [line.split()[-1] for line in checks] == ["ok"] * len(told["checks"])


def test_a_wrong_result_is_printed_as_such(
    mpis: Mpis, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (library,) = mpis.need("mpich")
    for file in (ROOT / "src" / "apps" / "app.h", Path(__file__).with_name("pretend.c")):
        (tmp_path / file.name).write_text(file.read_text())
    monkeypatch.setattr(programs, "PROGRAM", FAST)
    monkeypatch.setattr(programs, "source_folder", lambda _: tmp_path)
    program = programs.application(programs.builder(library), "pretend")
    done = launched(library, program, 2, "--class", "wrong")
    assert done.returncode == 4
    title, values, checks = printed(done.stdout)
    assert title == " PRETEND Benchmark Completed."
    assert (values["Total processes"], values["Verification"]) == ("2", "UNSUCCESSFUL")
    total, each = (float(values[label]) for label in ("Mop/s total", "Mop/s/process"))
    assert total == pytest.approx(2 * each)
    assert [line.split()[0] for line in checks] == ["answer"]
    assert checks[0].endswith(" 4.1000000000000E+01 4.2000000000000E+01 WRONG")
