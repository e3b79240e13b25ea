# SPDX-License-Identifier: Apache-2.0
"""A wheel, installed where there is no compiler: it has all that a user needs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from conftest import BUILT_IN, ROOT, quick_wheel, run

WHEELHOUSE = ROOT / ".venv" / "wheelhouse"
SHARED = (
    "share/man/man1/netpipe.1",
    "share/bash-completion/completions/netpipe",
    "share/zsh/site-functions/_netpipe",
    "share/fish/vendor_completions.d/netpipe.fish",
)

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not WHEELHOUSE.is_dir():
        pytest.skip("there is no .venv/wheelhouse; make setup-deep makes it")
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-index")
    run(*pip, *quick_wheel(), "--find-links", WHEELHOUSE, "--wheel-dir", folder, sources, cwd=folder)
    shutil.rmtree(sources / BUILT_IN)
    (made,) = folder.glob("netpipe-*.whl")
    return made


def test_a_wheel_is_for_every_python_of_this_platform(wheel: Path) -> None:
    assert "-py3-none-linux_" in wheel.name


def test_a_wheel_has_the_native_part_and_what_shells_look_for(wheel: Path) -> None:
    names = set(ZipFile(wheel).namelist())
    for program in ("netpipe-worker", "netpipe-relay"):
        assert f"netpipe/_native/bin/{program}" in names
    assert "netpipe/_native/lib/netpipe/modules/tcp.so" in names
    data = f"{wheel.name.split('-py3')[0]}.data/data/"
    assert {data + name for name in SHARED} <= names


def test_a_wheel_measures_where_there_is_no_compiler(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--python",
        tmp_path / "venv/bin/python",
        "--disable-pip-version-check",
    )
    nothing = tmp_path / "bin"
    nothing.mkdir()
    run(
        *pip,
        "install",
        "--no-index",
        "--only-binary",
        ":all:",
        "--find-links",
        WHEELHOUSE,
        wheel,
        cwd=tmp_path,
    )
    command = (
        tmp_path / "venv/bin/netpipe",
        "run",
        "memcpy",
        "shm",
        "tcp",
        "--sizes",
        "8,64k",
        "--budget",
        "0.2",
    )
    run(*command, "--launches", "1", "--verify", "--quiet", cwd=tmp_path, PATH=str(nothing))
    assert (tmp_path / "run.jsonl").read_text().count('"type":"point"') == 6
    for name in SHARED:
        assert (tmp_path / "venv" / name).is_file()
