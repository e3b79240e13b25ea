# SPDX-License-Identifier: Apache-2.0
"""Both ways to install, from a copy of the sources, each into an empty folder; and the example module, built against
what was installed there, as somebody outside this tree would.

Nothing comes from the network: `make setup-deep` has put the pinned packages into .venv/wheelhouse.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import BUILT_IN, ROOT, build, compile_module, quick_wheel, run

WHEELHOUSE = ROOT / ".venv" / "wheelhouse"
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


def assert_measured(record: Path, variants: Sequence[str], sizes: Sequence[int]) -> None:
    """Every variant was measured at every size, with its bytes checked, and nothing failed or was skipped."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert not [line for line in lines if line["type"] in {"error", "skipped"}]
    points = [line for line in lines if line["type"] == "point"]
    assert sorted((p["variant"], p["size_bytes"]) for p in points) == sorted(
        itertools.product(variants, sizes)
    )
    assert all(p["verified_bytes"] > 0 for p in points)


@pytest.fixture(scope="module")
def prefix(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed with plain CMake."""
    prefix = tmp_path_factory.mktemp("cmake") / "prefix"
    built = build(sources, f"-DCMAKE_INSTALL_PREFIX={prefix}")
    run("cmake", "--install", built, cwd=sources)
    shutil.rmtree(built)  # what was installed must stand on its own
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
    module = tmp_path / "ring.so"
    compile_module(sources / "examples" / "ring.c", prefix / "include", module)
    record = tmp_path / "run.jsonl"
    run(
        prefix / "bin" / "netpipe-worker", "run", cwd=tmp_path, text=PLAN.format(module=module, record=record)
    )
    assert_measured(record, ["ring", "ring:slots=2,slot=64,wait=yield"], [1, 64, 65, 100000])


@pytest.fixture(scope="module")
def environment(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install .` into a new virtual environment, with everything that it depends on."""
    if not WHEELHOUSE.is_dir():
        pytest.skip("there is no .venv/wheelhouse; make setup-deep makes it")
    folder = tmp_path_factory.mktemp("pip")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    # The pip of .venv installs into the other environment, so no second pip has to be fetched.
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "--disable-pip-version-check")
    run(*pip, "install", "--no-index", *quick_wheel(), "--find-links", WHEELHOUSE, sources, cwd=folder)
    shutil.rmtree(sources / BUILT_IN)
    return folder / "venv"


def test_pip_installs_a_command_that_finds_its_worker(environment: Path, tmp_path: Path) -> None:
    version = (ROOT / "VERSION").read_text().strip()
    assert run(environment / "bin" / "netpipe", "--version", cwd=tmp_path) == f"netpipe {version}\n"
    listing = json.loads(run(environment / "bin" / "netpipe", "list", "--json", cwd=tmp_path))
    assert {"memcpy", "null", "pipe", "shm", "tcp", "unix"} <= {
        module["name"] for module in listing["modules"]
    }
    assert "\nhealth " in run(environment / "bin" / "netpipe", "suite", "list", cwd=tmp_path)


def test_an_installed_netpipe_measures_and_reports(environment: Path, sources: Path, tmp_path: Path) -> None:
    native = next(environment.glob("lib/python3*/site-packages/netpipe/_native"))
    module = tmp_path / "ring.so"
    compile_module(sources / "examples" / "ring.c", native / "include", module)
    command = [
        "run",
        "--launches",
        "1",
        "ring",
        "--module",
        str(module),
        "--sizes",
        "1,1000",
        "--budget",
        "0.3",
        "--verify",
    ]
    run(environment / "bin" / "netpipe", *command, "--report", "report.html", cwd=tmp_path)
    assert_measured(tmp_path / "run.jsonl", ["ring"], [1, 1000])
    assert "ring" in (tmp_path / "report.html").read_text()
