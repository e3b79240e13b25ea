# SPDX-License-Identifier: Apache-2.0
"""Suites and `netpipe tune` between the hosts of a lab: a host that dies in the middle of an acceptance run, and rules
for collectives that are in force although Open MPI has a component of its own between hosts.
"""

from __future__ import annotations

import csv
import json
import sys
from itertools import combinations

import pytest
from mpi import Mpis
from test_labs import COMMAND, Labs, kill_host, labs  # noqa: F401  (a fixture)

pytestmark = pytest.mark.module("tcp")

# Open MPI's allreduce of a large message in segments of 64 bytes, which no machine makes fast.
SLOW_RULES = """import json, sys
from pathlib import Path
from netpipe import native
from netpipe.libraries.openmpi import rules
from netpipe.libraries.tunables import Chosen
from netpipe.session import Request, Session
from netpipe.tuning.library import library

name, folder = "mpi@openmpi", Path(sys.argv[1])
libs = library(next(one for one in native.list_()["modules"] if one["name"] == name))
segmented = ("5", "segmented_ring")
some = Chosen("allreduce", 4, {1 << 18: segmented[0]}, dict([segmented]), libs.version, libs.file)
made = libs.tunables.rules([some], folder)
for file, text in made.files.items():
    (folder / file).write_text(text.replace(" 5 0 0", " 5 0 64"))
without_han = dict(made.variables)
with_han = {one: value for one, value in without_han.items() if one not in rules.WITHOUT_HAN}
assert with_han != without_han
variants = [name, *(f"{name}:env=" + ";".join(f"{k}={v}" for k, v in each.items()) for each in (with_han, without_han))]
settings = {"sizes": "262144", "budget": "2", "timeout": "60"}
asked = Request(variants, ["collective:what=allreduce"], settings, launches=1, hosts="lab1:2,lab2:2")
result = Session(asked).measure()
times = {point.variant: point.median_ns for point in result.run.points}
print(json.dumps({"times_ns": [times.get(one) for one in variants], "said": [str(one) for one in result.run.errors]}))
"""


@pytest.mark.deep
def test_rules_for_open_mpi_are_in_force_between_hosts_because_han_is_left_out(
    labs: Labs,  # noqa: F811
    with_mpis: Mpis,
) -> None:
    """HAN takes communicators of several hosts before the component whose rules netpipe writes."""
    with_mpis.need("openmpi")
    (labs.folder / "slow.py").write_text(SLOW_RULES)
    labs.up("--rate", "1g")
    words = ("lab", "exec", "lab1", "--", sys.executable, "slow.py", str(labs.folder))
    code, out, err = labs.call(*words, limit_s=240)
    assert code == 0, out + err
    told = json.loads(out.splitlines()[-1])
    own, with_han, without_han = told["times_ns"]
    assert without_han > 1.5 * own, told
    assert without_han > 1.5 * with_han, told


@pytest.mark.deep
def test_collectives_are_tuned_between_hosts(
    labs: Labs,  # noqa: F811
    with_mpis: Mpis,
) -> None:
    """What Open MPI chooses without HAN is a choice of its own there, and every host needs the file of rules."""
    with_mpis.need("openmpi")
    labs.up("--rate", "1g", "--delay", "50us")
    tune = ("mpi@openmpi", "--goal", "collective=bcast", "--ranks", "4", "--time", "90", "--timeout", "20")
    where = ("--hosts", "lab1:2,lab2:2", "-o", str(labs.folder / "tune"), "--json")
    code, out, err = labs.call("lab", "exec", "lab1", "--", *COMMAND, "tune", *tune, *where, limit_s=240)
    assert code == 0, out + err
    (outcome,) = json.loads(out)["outcomes"]
    lines = [json.loads(line) for line in (labs.folder / "tune" / "search.jsonl").read_text().splitlines()]
    tried = [line["settings"] for line in lines if line["type"] == "candidate" and line["time_ratios"]]
    assert any("OMPI_MCA_coll_han_priority" in one for one in tried), tried
    assert len([one for one in tried if "OMPI_MCA_coll_tuned_bcast_algorithm" in one]) >= 3, tried
    if outcome["gains"]:
        text = (labs.folder / "tune" / "openmpi-mca-params.conf").read_text()
        assert "coll_han_priority = 0" in text
        assert any(
            note.startswith("every host needs the rules at the same path") for note in outcome["notes"]
        )


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
