# SPDX-License-Identifier: Apache-2.0
"""netpipe run --continue refuses what would be measured differently now; tests/e2e/test_continue.py measures."""

from __future__ import annotations

import copy
import socket
from typing import Any

import pytest

from netpipe.command.continued import FACTS, check_same
from netpipe.failure import USAGE, Failure
from netpipe.findings import examples
from netpipe.records import Environment, Header, Run, Variant

HOST = socket.gethostname()
LIBRARY = "MPICH 5.0.2"


def nested(facts: dict[str, Any]) -> dict[str, Any]:
    (environment,) = examples.with_facts(facts).environments
    return environment.facts


NOW = nested({name: f"this {name}" for name in FACTS})


def measured(first: dict[str, Any] = NOW, last: dict[str, Any] = NOW, library: str | None = LIBRARY) -> Run:
    """Two launches on this host, of which each recorded its environment, and one more beside the last elsewhere."""
    points = [examples.visited("mpi@mpich", 8, 1000.0, launch) for launch in range(2)]
    made = examples.run(*points, variants=["mpi@mpich"])
    records = [
        Header(schema=1, run="0" * 32, host=HOST, netpipe="1.0", argv=["run", "mpi@mpich"]),
        *made.plans,
        Environment(launch=0, host=HOST, facts=first),
        Variant(launch=0, variant="mpi@mpich", module="mpi@mpich", version="MPICH 4.0"),
        Environment(launch=1, host=HOST, facts=last),
        Environment(launch=1, rank=1, host="elsewhere", facts={}),
        Variant(launch=1, variant="mpi@mpich", module="mpi@mpich", version=library),
        *points,
    ]
    return Run(records)


def check(run: Run, library: str | None = LIBRARY) -> None:
    check_same(run, run.plans[0], "1.0", NOW, {"mpi@mpich": library})


def refused(run: Run, library: str | None = LIBRARY) -> str:
    with pytest.raises(Failure) as caught:
        check(run, library)
    assert caught.value.exit_code == USAGE
    return caught.value.sentence


def test_the_same_conditions_are_continued() -> None:
    check(measured())
    check(measured(library=None), "MPICH 4.0")  # the last launch that said a version counts


@pytest.mark.parametrize("name", FACTS)
def test_another_condition_is_refused_and_named(name: str) -> None:
    facts = copy.deepcopy(NOW)
    *groups, last = name.split(".")
    inside = facts
    for group in groups:
        inside = inside[group]
    inside[last] = "another"
    expected = f"it was measured with {name} another, and now it would be this {name}"
    assert expected in refused(measured(last=facts))
    check(measured(first=facts))  # the run was continued before, and its last launches count


def test_facts_that_decide_about_times_are_among_them() -> None:
    assert {
        "network.tcp.congestion_control",
        "cpu.frequency.governor",
        "cpu.frequency.boost",
        "kernel.release",
        "limits.allowed_cpus",
    } <= set(FACTS)


def test_another_version_of_a_library_is_refused() -> None:
    said = refused(measured(), "MPICH 5.0.3")
    assert "with the library of mpi@mpich MPICH 5.0.2, and now it would be MPICH 5.0.3" in said
    assert "with the library of mpi@mpich MPICH 5.0.2, and now it would be unknown" in refused(
        measured(), None
    )
