# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""A module that misbehaves before it is chosen is named and left out, and everything else goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import TEST_MODULES, Runner
from test_two_hosts import Serve, plan, serve, token  # noqa: F401

WHAT = {
    "closes_output": "its probe closed or replaced standard output",
    "crashes_asked": "netpipe_module() was ended by signal 6 (Aborted)",
    "crashes_loading": "loading was ended by signal 6 (Aborted)",
    "exits_probe": "its probe ended the process with exit code 0",
    "prints_probe": "its probe printed 'hello' to standard output",
    "spins_probe": "its probe did not return within 2 s",
}
# The C++ tests look at all of them, without the commands.
GATE = ("crashes_loading", "prints_probe")
EACH = [name if name in GATE else pytest.param(name, marks=pytest.mark.deep) for name in WHAT]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For NETPIPE_MODULE_PATH. The paths of modules in it stay in one line of a terminal."""
    path = tmp_path / "m"
    path.mkdir()
    return path


def netpipe(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netpipe", *arguments],
        env={**os.environ, "NETPIPE_MODULE_PATH": str(folder), "COLUMNS": "300"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize("name", EACH)
def test_a_bad_module_on_the_search_path_is_named_and_the_others_are_used(folder: Path, name: str) -> None:
    bad = shutil.copy(TEST_MODULES / "bad" / f"{name}.so", folder)
    sentence = f"module {bad}: {WHAT[name]}; repair it, or remove it"

    listed = netpipe(folder, "list", "--json")
    assert (listed.returncode, listed.stderr) == (0, "")
    listing = json.loads(listed.stdout)
    assert listing["refused"] == [{"path": bad, "reason": sentence}]
    usable = {module["name"] for module in listing["modules"] if module["available"]}
    assert {"memcpy", "null", "pipe", "shm", "tcp", "unix"} <= usable
    assert name not in usable

    doctor = netpipe(folder, "doctor", "--no-yardstick", "--json")
    assert (doctor.returncode, doctor.stderr) == (0, "")
    said = json.loads(doctor.stdout)
    assert {"what": bad, "why": f"{sentence}."} in said["missing"]

    run = netpipe(folder, "run", "pipe", "--sizes", "8", "--budget", "0.05", "--json", "-o", "-")
    assert run.returncode == 0, run.stderr
    records = [json.loads(line) for line in run.stdout.splitlines()]
    assert any(record["type"] == "point" and record["variant"] == "pipe" for record in records)


@pytest.mark.parametrize("name", ["exits_probe", "crashes_loading"])
def test_a_bad_module_that_was_named_ends_the_run_with_what_it_did(folder: Path, name: str) -> None:
    bad = shutil.copy(TEST_MODULES / "bad" / f"{name}.so", folder)
    sentence = f"netpipe: module {bad}: {WHAT[name]}; repair it, or remove it\n"
    by_name = netpipe(folder, "run", name, "--sizes", "8")
    assert (by_name.returncode, by_name.stdout, by_name.stderr) == (4, "", sentence)
    described = netpipe(folder, "list", name)
    assert (described.returncode, described.stderr) == (3, sentence)
    (folder / "elsewhere").mkdir()
    by_file = netpipe(folder / "elsewhere", "run", "pipe", "--module", bad, "--sizes", "8")
    assert (by_file.returncode, by_file.stdout, by_file.stderr) == (4, "", sentence)


def test_a_run_of_everything_says_which_module_it_leaves_out(folder: Path) -> None:
    bad = shutil.copy(TEST_MODULES / "bad" / "prints_probe.so", folder)
    done = netpipe(folder, "run", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert (
        f"netpipe: left out: module {bad}: {WHAT['prints_probe']}; repair it, or remove it\n" in done.stderr
    )


def test_a_server_serves_in_spite_of_bad_modules(
    folder: Path, measure: Runner, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closes_output", "crashes_loading", "exits_probe", "prints_probe"):
        shutil.copy(TEST_MODULES / "bad" / f"{name}.so", folder)
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(folder))
    done = measure(*plan(serve(), "variant tcp", "schedule list", "sizes 8", "budget 0.1"))
    assert done.code == 0, done.said
    assert done.of("point", variant="tcp")
