# SPDX-License-Identifier: Apache-2.0
"""Copies of the sources to install from, and to add to."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = "-O0"  # and no debug information: everything is built several times here


def run(*command: str | Path, cwd: Path, text: str = "", code: int = 0, **environment: str) -> str:
    """Standard output, after checking the exit code. Nothing of the checkout's environment is passed on."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NETPIPE", "PYTHON", "SKBUILD", "CMAKE", "PYTEST"))
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=1500,
        env={**kept, **environment},
        check=False,
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def copy_sources(folder: Path) -> Path:
    """What is in the repository or about to be, without what was built there."""
    left_out = shutil.ignore_patterns("build*", ".venv", ".git", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)
    return folder


def build(sources: Path, folder: Path, *options: str) -> None:
    """Configures and builds the native part in `folder`, quickly."""
    quick = ("-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS_DEBUG={QUICK}", f"-DCMAKE_C_FLAGS_DEBUG={QUICK}")
    run("cmake", "-S", sources, "-B", folder, *quick, *options, cwd=sources)
    run("cmake", "--build", folder, "--parallel", str(os.cpu_count()), cwd=sources)


def compile_module(source: Path, include: Path, module: Path) -> None:
    """As docs/writing-a-module.md says."""
    options: Sequence[str | Path] = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    run("cc", *options, "-I", include, "-o", module, source, cwd=module.parent)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("sources"))
