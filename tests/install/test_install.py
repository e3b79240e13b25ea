# SPDX-License-Identifier: Apache-2.0
"""Both ways to install, from a copy of the sources as they are, each into an empty place; and the example module built
against what was installed there, as somebody outside this tree would.

Nothing is taken from the network: `make test` has put the pinned packages into .venv/wheelhouse.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHEELHOUSE = ROOT / ".venv" / "wheelhouse"
QUICK = "-O0"  # and nothing for a debugger: it is built twice here
PLAN = """netpipe-plan 1
module-file {module}
variant ring
variant ring:slots=2,slot=64,wait=yield
record {record}
schedule list
sizes 1,64,65,100000
verify yes
budget 0.3
end
"""

pytestmark = pytest.mark.deep


def run(*command: str | Path, cwd: Path, text: str = "", code: int = 0) -> str:
    """Standard output. Nothing of the checkout helps what was installed: neither its folder nor its environment."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NETPIPE", "PYTHON", "SKBUILD", "CMAKE"))
    }
    done = subprocess.run(
        command, cwd=cwd, input=text, capture_output=True, text=True, timeout=400, env=kept, check=False
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the repository or about to be, without what was built there."""
    copy = tmp_path_factory.mktemp("sources")
    left_out = shutil.ignore_patterns("build*", ".venv", ".git", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, copy, ignore=left_out, dirs_exist_ok=True)
    return copy


def build_example(sources: Path, include: Path, folder: Path) -> Path:
    """As docs/writing-a-module.md says."""
    module = folder / "ring.so"
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    run(*command, "-I", include, "-o", module, sources / "examples" / "ring.c", cwd=folder)
    return module


def assert_measured(record: Path, variants: Sequence[str], sizes: Sequence[int]) -> None:
    """Every variant at every size, every byte of it checked, and nothing went wrong or was left out."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert not [line for line in lines if line["type"] in {"error", "skipped"}]
    points = [line for line in lines if line["type"] == "point"]
    assert sorted((p["variant"], p["size_bytes"]) for p in points) == sorted(
        itertools.product(variants, sizes)
    )
    assert all(p["verified_bytes"] > 0 for p in points)


@pytest.fixture(scope="module")
def prefix(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain CMake."""
    folder = tmp_path_factory.mktemp("cmake")
    prefix = folder / "prefix"
    run(
        "cmake",
        "-S",
        sources,
        "-B",
        folder / "build",
        "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_CXX_FLAGS_DEBUG={QUICK}",
        f"-DCMAKE_INSTALL_PREFIX={prefix}",
        cwd=folder,
    )
    run("cmake", "--build", folder / "build", "--parallel", str(os.cpu_count()), cwd=folder)
    run("cmake", "--install", folder / "build", cwd=folder)
    shutil.rmtree(folder / "build")  # what was installed stands on its own
    return prefix


def test_cmake_installs_a_worker_that_finds_its_modules(prefix: Path) -> None:
    listing = json.loads(run(prefix / "bin" / "netpipe-worker", "list", cwd=prefix))
    assert {"memcpy", "null", "pipe", "shm", "tcp", "unix"} <= {
        module["name"] for module in listing["modules"]
    }
    assert {"pingpong", "stream"} <= {pattern["name"] for pattern in listing["patterns"]}


def test_the_example_module_builds_against_the_installed_header_and_measures(
    prefix: Path, sources: Path, tmp_path: Path
) -> None:
    module = build_example(sources, prefix / "include", tmp_path)
    record = tmp_path / "run.jsonl"
    run(
        prefix / "bin" / "netpipe-worker", "run", cwd=tmp_path, text=PLAN.format(module=module, record=record)
    )
    assert_measured(record, ["ring", "ring:slots=2,slot=64,wait=yield"], [1, 64, 65, 100000])


@pytest.fixture(scope="module")
def environment(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install .` into a new virtual environment, with everything that it depends on."""
    if not WHEELHOUSE.is_dir():
        pytest.skip("there is no .venv/wheelhouse; make setup-test makes it")
    folder = tmp_path_factory.mktemp("pip")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    # The pip of .venv installs into the other environment, so no second pip has to be fetched.
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "--disable-pip-version-check")
    settings = ("cmake.build-type=Debug", f"cmake.define.CMAKE_CXX_FLAGS_DEBUG={QUICK}")
    quick = [f"--config-settings={setting}" for setting in settings]
    run(*pip, "install", "--no-index", *quick, "--find-links", WHEELHOUSE, sources, cwd=folder)
    return folder / "venv"


def test_pip_installs_a_command_that_finds_its_worker(environment: Path, tmp_path: Path) -> None:
    version = (ROOT / "VERSION").read_text().strip()
    assert run(environment / "bin" / "netpipe", "--version", cwd=tmp_path) == f"netpipe {version}\n"
    listing = json.loads(run(environment / "bin" / "netpipe", "list", "--json", cwd=tmp_path))
    assert {"memcpy", "null", "pipe", "shm", "tcp", "unix"} <= {
        module["name"] for module in listing["modules"]
    }


def test_an_installed_netpipe_measures_and_reports(environment: Path, sources: Path, tmp_path: Path) -> None:
    native = next(environment.glob("lib/python3*/site-packages/netpipe/_native"))
    module = build_example(sources, native / "include", tmp_path)
    command = ["run", "ring", "--module", str(module), "--sizes", "1,1000", "--budget", "0.3", "--verify"]
    run(environment / "bin" / "netpipe", *command, "--report", "report.html", cwd=tmp_path)
    assert_measured(tmp_path / "run.jsonl", ["ring"], [1, 1000])
    assert "ring" in (tmp_path / "report.html").read_text()
