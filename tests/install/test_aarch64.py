# SPDX-License-Identifier: Apache-2.0
"""netpipe for aarch64: compiled by a cross compiler, run by an emulator. The tests show that all of it compiles and
that every byte arrives. They say nothing about time, nor about the order in which a real ARM processor may write to
memory: the emulator keeps that of this processor.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import build, copy_sources, run

pytestmark = pytest.mark.deep

SYSTEM = Path("/usr/aarch64-linux-gnu")  # of Debian's cross compiler
AARCH64 = 183  # EM_AARCH64 of elf.h
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
def worker(tmp_path_factory: pytest.TempPathFactory) -> Sequence[str | Path]:
    """The command that starts it here. The sources are a copy of their own: a build folder keeps its compiler."""
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt install {package}")
    folder = build(copy_sources(tmp_path_factory.mktemp("aarch64")), *CROSS)
    program = folder / "bin" / "netpipe-worker"
    assert int.from_bytes(program.read_bytes()[18:20], "little") == AARCH64
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
