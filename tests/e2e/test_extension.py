# SPDX-License-Identifier: Apache-2.0
"""A module from outside the tree is listed, measured and walked by the conformance tests like those of netpipe.
tests/install/test_extensions.py has the other things that can be added.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 240.0


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """examples/ring.c, compiled as docs/writing-a-module.md says."""
    module = tmp_path_factory.mktemp("outside") / "ring.so"
    options = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", ROOT / "include")
    run("cc", *options, "-o", module, ROOT / "examples" / "ring.c")
    return module


def test_a_module_outside_the_tree_is_listed(ring: Path) -> None:
    out = run(sys.executable, "-m", "netpipe", "list", "--module", ring, "--json")
    (listed,) = [module for module in json.loads(out)["modules"] if module["name"] == "ring"]
    assert listed["path"] == str(ring)
    assert {option["name"] for option in listed["options"]} == {"slots", "slot", "wait"}
    assert "slots" in run(sys.executable, "-m", "netpipe", "list", "ring", "--module", ring)


@pytest.mark.check
def test_a_module_outside_the_tree_is_measured(ring: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    options = ("--sizes", "8,4097", "--verify", "--budget", "0.2", "--quiet", "--output", record)
    run(sys.executable, "-m", "netpipe", "run", "--launches", "1", "ring:slots=4", "--module", ring, *options)
    points = [line for line in map(json.loads, record.read_text().splitlines()) if line["type"] == "point"]
    assert sorted((point["variant"], point["size_bytes"]) for point in points) == [
        ("ring:slots=4", 8),
        ("ring:slots=4", 4097),
    ]
    assert all(point["verified_bytes"] for point in points)


@pytest.mark.deep
def test_the_conformance_tests_walk_a_module_outside_the_tree(ring: Path) -> None:
    """From a folder that NETPIPE_MODULE_PATH names: each of its settings, every pattern, every buffer policy."""
    pytest_ = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    out = run(
        *pytest_, "tests/e2e/test_conformance.py", "--module", "ring", NETPIPE_MODULE_PATH=str(ring.parent)
    )
    passed = int(out.rstrip().rpartition("\n")[2].split()[0])
    assert passed >= 6, out  # the default, another way to wait, all patterns, several policies
