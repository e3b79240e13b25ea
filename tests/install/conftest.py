# SPDX-License-Identifier: Apache-2.0
"""Copies of the sources to install from, and to add to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = "-O0"  # and no debug information: everything is built several times here
LIMIT_S = 3000  # of one command. A container takes 17 minutes of a busy machine.
# in the sources, so that all copies are compiled by the same words and ccache knows them again
BUILT_IN = "build"


def run(*command: str | Path, cwd: Path, text: str = "", code: int = 0, **environment: str) -> str:
    """Standard output, after checking the exit code. Nothing of the checkout's environment is passed on."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NETPIPE", "PYTHON", "SKBUILD", "CMAKE", "CCACHE", "PYTEST"))
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**kept, **compiler_cache(), **environment},
        check=False,
    )
    assert done.returncode == code, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def compiler_cache() -> dict[str, str]:
    """Settings under which ccache, where it is installed, takes the copies of the sources for the same sources."""
    if shutil.which("ccache") is None:
        return {}
    return {
        "CMAKE_C_COMPILER_LAUNCHER": "ccache",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CCACHE_BASEDIR": tempfile.gettempdir(),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",
    }


def copy_sources(folder: Path) -> Path:
    """What is in the repository or about to be, without what was built there."""
    left_out = shutil.ignore_patterns("build*", ".venv", ".git", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, folder, ignore=left_out, dirs_exist_ok=True)
    return folder


def build(sources: Path, *options: str) -> Path:
    """Configures and builds the native part, quickly. Returns where."""
    folder = sources / BUILT_IN
    quick = ("-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_FLAGS_DEBUG={QUICK}", f"-DCMAKE_C_FLAGS_DEBUG={QUICK}")
    run("cmake", "-S", sources, "-B", folder, *quick, *options, cwd=sources)
    run("cmake", "--build", folder, "--parallel", str(os.cpu_count()), cwd=sources)
    return folder


def compile_module(source: Path, include: Path, module: Path) -> None:
    """As docs/writing-a-module.md says."""
    options: Sequence[str | Path] = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
    run("cc", *options, "-I", include, "-o", module, source, cwd=module.parent)


def quick_wheel() -> list[str]:
    """Options of pip, so that it builds the native part as `build` does."""
    settings = (
        "cmake.build-type=Debug",
        f"cmake.define.CMAKE_CXX_FLAGS_DEBUG={QUICK}",
        f"cmake.define.CMAKE_C_FLAGS_DEBUG={QUICK}",
        f"build-dir={BUILT_IN}",
    )
    return [f"--config-settings={setting}" for setting in settings]


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_sources(tmp_path_factory.mktemp("sources"))
