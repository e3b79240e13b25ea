# SPDX-License-Identifier: Apache-2.0
"""A suite between the hosts of a lab: a host that dies in the middle of an acceptance run."""

from __future__ import annotations

import csv
from itertools import combinations

import pytest
from test_labs import COMMAND, Labs, kill_host, labs  # noqa: F401  (a fixture)

pytestmark = pytest.mark.module("tcp")


@pytest.mark.deep
def test_a_host_that_dies_in_an_acceptance_run_costs_its_own_pairs(
    labs: Labs,  # noqa: F811
) -> None:
    """Between two rounds of the suite that comes with netpipe."""
    labs.up("--hosts", "4")
    hosts = ("lab1", "lab2", "lab3", "lab4")
    run = (*COMMAND, "suite", "run", "acceptance", "--size", "quick", "--hosts", ",".join(hosts))
    with labs.start("lab", "exec", "lab1", "--", *run) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "run pairs: round 2 of 3" in line:
                kill_host(labs.known(), "lab3")
                break
        out, err = process.communicate(timeout=400)
    said.append(err)
    assert process.returncode == 4, out + "".join(said)
    words = " ".join(out.split())
    assert "lab3" in words
    assert (labs.folder / "acceptance" / "report.html").is_file()
    rows = list(csv.DictReader((labs.folder / "acceptance" / "pairs.csv").read_text().splitlines()))
    measured = {frozenset((row["member"], row["peer"])) for row in rows}
    others = [one for one in hosts if one != "lab3"]
    assert {frozenset(pair) for pair in combinations(others, 2)} <= measured
    assert len([pair for pair in measured if "lab3" in pair]) == 1, "the one of the first round"
