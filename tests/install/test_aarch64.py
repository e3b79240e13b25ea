# SPDX-License-Identifier: Apache-2.0
"""netpipe for aarch64: compiled by a cross compiler, run by an emulator. It shows that all of it compiles and that
every byte arrives. Nothing about time; and memory is ordered as this processor orders it, which may be more strictly.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import build, run

pytestmark = pytest.mark.deep

SYSTEM = Path("/usr/aarch64-linux-gnu")  # of Debian's cross compiler
TOOLS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}
CROSS = (
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc",
    "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
    f"-DCMAKE_FIND_ROOT_PATH={SYSTEM}",
    "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY",
    "-DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY",
)


@pytest.fixture(scope="module")
def worker(sources: Path) -> Sequence[str | Path]:
    """What starts the worker here."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt install {package}")
    folder = build(sources, *CROSS)
    program = folder / "bin" / "netpipe-worker"
    assert "ARM aarch64" in run("file", "-L", program, cwd=sources)
    return "qemu-aarch64", "-L", SYSTEM, program


def test_it_lists_its_layers(worker: Sequence[str | Path], tmp_path: Path) -> None:
    listed = json.loads(run(*worker, "list", cwd=tmp_path))
    assert {"null", "memcpy", "shm", "pipe", "unix", "tcp", "udp"} <= {
        one["name"] for one in listed["modules"]
    }


def test_every_byte_arrives(worker: Sequence[str | Path], tmp_path: Path) -> None:
    variants = ("memcpy", "shm", "shm:wait=block", "pipe", "unix", "tcp", "tcp:wait=poll")
    lines = [f"variant {one}" for one in variants]
    settings = ("pattern pingpong", "pattern stream", "schedule list", "sizes 1,4097,65536", "verify yes", "budget 0.3",
                "timeout 60")  # fmt: skip
    record = tmp_path / "run.jsonl"
    plan = ("netpipe-plan 1", f"record {record}", *lines, *settings, "end", "")
    run(*worker, "run", cwd=tmp_path, text="\n".join(plan))
    records = [json.loads(line) for line in record.read_text().splitlines()]
    points = [one for one in records if one["type"] == "point"]
    assert {one["variant"] for one in points} == set(variants)
    assert len(points) == 3 * (2 * len(variants) - 1), "a memory copy has no stream"
    assert all(one["verified_bytes"] > 0 for one in points)
