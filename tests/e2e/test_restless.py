# SPDX-License-Identifier: Apache-2.0
"""A layer on which nothing settles (tests/modules/restless.c): what is known of it, within the time, in few lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TEST_MODULES, parse

from netpipe.findings.trust import ONLY_WIDEN

LONGEST_LINE = 80
MOST_LINES = 24  # of a terminal
FOR_A_SEVERE_ONE = 8


def netpipe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netpipe", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": str(LONGEST_LINE)},
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )


@pytest.mark.parametrize(("launches", "strict"), [(1, True), (3, True), (3, False)])
def test_where_nothing_settles_the_run_says_how_far_to_trust_it_and_keeps_its_time(
    tmp_path: Path, launches: int, strict: bool
) -> None:
    options = ["--module", str(TEST_MODULES / "restless.so"), "--sizes", "8,64,512,4k", "--budget", "1"]
    options += ["--launches", str(launches)]
    planned = json.loads(netpipe(tmp_path, "run", "restless", *options, "--dry-run", "--json").stdout)
    done = netpipe(tmp_path, "run", "restless", *options, *(["--strict"] if strict else []))
    assert done.returncode == (5 if strict else 0), done.stderr
    said = " ".join(done.stdout.split())
    # Where something severe makes the numbers wrong, it says that first, and what to do about it.
    shown = json.loads(netpipe(tmp_path, "show", "--json", "run.jsonl").stdout)
    severe = [one for one in shown["findings"] if one["severity"] == "severe"]
    disturbed = any(not one["variant"] for one in severe)  # of the machine or the whole run
    wrong = any(not one["variant"] and one["rule"] not in ONLY_WIDEN for one in severe)
    assert ("Do not trust these numbers until this is fixed: " if wrong else "Trust these times to ") in said
    (missed,) = [one for one in shown["findings"] if one["rule"] == "target-missed"]
    assert missed["what"].startswith("No interval is within the target of ±1.0 %.")
    assert missed["evidence"]["missed"]["value"] == 4
    if strict:
        assert "4 of 4 points are not within the target of ±1.0 %; " in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= MOST_LINES + disturbed * FOR_A_SEVERE_ONE, done.stdout
    assert max(map(len, lines[:-2])) <= LONGEST_LINE  # the last ones are a path and a command to copy
    measured_s = sum(
        one["seconds"] for one in parse((tmp_path / "run.jsonl").read_text()) if one["type"] == "launch"
    )
    # Planned for all launches; what is above is starting, and the yardsticks.
    assert measured_s < 3 * planned["expected_s"] * launches + 5
