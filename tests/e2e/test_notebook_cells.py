# SPDX-License-Identifier: Apache-2.0
"""docs/notebook.ipynb does what it shows: its cells are run one after the other, as a notebook runs them."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import polars
import pytest
from conftest import ROOT, WORKER
from matplotlib.figure import Figure

from netpipe.failure import Failure
from netpipe.notebook import compare, load, measure


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell, without its magics; the value of its last line, if that is an expression."""
    lines = [line for line in source.splitlines() if not line.startswith("%")]
    body = ast.parse("\n".join(lines)).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.gate
def test_every_cell_runs_and_shows_what_it_promises(
    worker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert worker == WORKER
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    shown = [run_cell(source.replace("budget=2", "budget=0.2"), names) for source in sources]
    sizes, paired, apart, found = (one for one in shown if isinstance(one, polars.DataFrame))
    assert sizes.columns == ["variant", "size_bytes", "median_ns", "low_ns", "high_ns"]
    assert sizes["size_bytes"].to_list() == [8, 4096, 262144] * 4
    assert {(one["variant"], one["against"]) for one in paired.rows(named=True)} == {
        ("shm:wait=block", "shm"),
        ("tcp:wait=poll", "tcp"),
    }
    assert paired.height == 6
    assert apart["size_bytes"].to_list() == [8, 4096, 262144, None]
    assert found.columns == ["severity", "title", "variant", "remedy"]
    assert sum(isinstance(one, Figure) for one in shown) == 1
    assert (tmp_path / "latency.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run.jsonl").is_file()


def test_what_goes_wrong_is_a_sentence(worker: Path, tmp_path: Path) -> None:
    assert worker == WORKER
    with pytest.raises(Failure, match="there is no module 'tcpx'") as mistake:
        measure("tcpx")
    assert mistake.value.exit_code == 2
    with pytest.raises(Failure, match="measured by turns"):
        compare(measure("memcpy", sizes="8", budget=0.05, launches=1))
    lone = measure("shm", sizes="8", budget=0.05, launches=1, verify=True, output=tmp_path / "run.jsonl")
    assert load(lone)["verified_bytes"].to_list() == load(tmp_path / "run.jsonl")["verified_bytes"].to_list()
    assert load(lone)["verified_bytes"][0] > 0
