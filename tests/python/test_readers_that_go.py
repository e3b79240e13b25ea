# SPDX-License-Identifier: Apache-2.0
"""What becomes of a measurement whose output nobody reads any more. tests/python/test_hostile.py is about commands that
only print.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netpipe.records import Run

SMALL = ("--sizes", "8,64k")


def without_reader(*arguments: str, fake: str = "") -> tuple[int, bytes]:
    """The exit code and standard error of a command whose standard output nobody reads."""
    process = subprocess.Popen(
        [sys.executable, "-m", "netpipe", *arguments],
        env={**os.environ, "FAKE_WORKER": fake},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_a_reader_of_the_records_that_has_seen_enough_ends_it_quietly(fake: Path) -> None:
    """Without a file nobody would see the others. The worker would go on for ten minutes."""
    slow = "pass_s=0.1 passes=6000"
    assert without_reader("run", "tcp", *SMALL, "-o", "-", "--quiet", fake=slow) == (0, b"")


@pytest.mark.gate
def test_a_run_whose_reader_has_gone_is_finished_and_keeps_its_exit_code(fake: Path) -> None:
    """So a script with `netpipe run ... | head -1` and pipefail learns that a measurement failed."""
    assert without_reader("run", "tcp", *SMALL, "--launches", "2", "--json", "-q") == (0, b"")
    run = Run.read("run.jsonl")
    assert run.end is not None
    assert (len(run.points), run.end.exit) == (4, 0)
    strict = ("run", "tcp", *SMALL, "--launches", "1", "--strict", "-o", "strict.jsonl")
    assert without_reader(*strict, fake="noisy passes=1")[0] == 5
    assert without_reader("run", "shm", *SMALL, "-o", "none.jsonl", fake="unopened=shm")[0] == 3
    assert without_reader("list", "--json") == (0, b"")
