# SPDX-License-Identifier: Apache-2.0
"""How a command is put under the profiler: behind `env NAME=VALUE` too the launcher is told what its ranks need."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from netpipe import libraries
from netpipe.profiling.run import with_variables
from netpipe.profiling.target import Target, _behind_env


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("mpirun -n 2 ./app", 0),
        ("env A=1 B_2= mpirun -n 2 ./app", 3),
        ("/usr/bin/env mpirun ./app A=1", 1),
        ("env -i A=1 mpirun ./app", 0),
        ("env A=1", 0),
        ("env", 0),
        ("./env.sh A=1 mpirun", 0),
    ],
)
def test_what_env_starts_is_what_counts(words: str, place: int) -> None:
    assert _behind_env(words.split()) == place


def test_the_launcher_behind_env_gets_the_variables_of_its_ranks() -> None:
    command = ("env", "A=1", "mpirun", "-n", "2", "./app")
    build: Any = SimpleNamespace(title="Open MPI 5.0.11")
    target = Target(command, libraries.launchers()["openmpi"], None, build, "", 2)
    assert with_variables(target, {"X": "y"}) == ["env", "A=1", "mpirun", "-x", "X=y", "-n", "2", "./app"]
    alone = Target(("./app", "1"), None, None, build, "")
    assert with_variables(alone, {"X": "y"}) == ["./app", "1"]
