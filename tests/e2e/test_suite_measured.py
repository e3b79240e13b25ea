# SPDX-License-Identifier: Apache-2.0
"""A suite measured over the real worker, from its file to its figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import parse

SUITE = """summary = "Three layers"
source = "this test"

[[run]]
name = "layers"
variants = ["null", "memcpy", "shm", "mpi@absent"]
pattern = ["pingpong", "put"]
sizes = "8,4097"
budget = 0.2
verify = true

[[run]]
name = "nothing"
variants = "pipe"
pattern = "put"
sizes = "8"
budget = 0.1

[[figure]]
title = "Figure 1"
run = "layers"
figure = "throughput"
variant = ["shm", "mpi@absent"]
pattern = "put"

[[figure]]
title = "Figure 2"
run = "nothing"
figure = "latency"

[[table]]
title = "Table 1"
run = "layers"
variant = "memcpy"
pattern = "pingpong"
format = "npout3"
"""


def test_a_suite_is_measured_and_drawn(worker: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "suite", "run", "./mine.toml"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "mine"
    records = parse((folder / "layers.jsonl").read_text())
    points = [record for record in records if record["type"] == "point"]
    assert {(p["variant"], p["pattern"], p["size_bytes"]) for p in points} >= {
        ("shm", "put", 4097),
        ("memcpy", "pingpong", 8),
    }
    assert all(point["verified_bytes"] for point in points if point["variant"] == "shm")
    assert "<svg" in (folder / "figure-1.svg").read_text()
    assert not (folder / "figure-2.svg").exists()
    assert [line.split()[0] for line in (folder / "table-1.np.out").read_text().splitlines()] == ["8", "4097"]
    assert "Three layers" in (folder / "report.html").read_text()
    assert "run layers leaves out mpi@absent: mpi@absent was not added; add it with" in done.stderr
    assert "2 of 3 figures and tables made" in done.stdout
    assert "! mine/figure-1.svg: Figure 1, without mpi@absent" in done.stdout
    assert "✗ Figure 2 was not made: module pipe has no put, which pattern put needs" in done.stdout
