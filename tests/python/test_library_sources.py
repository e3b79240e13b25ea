# SPDX-License-Identifier: Apache-2.0
"""What CMake does not build, because a library's own compiler does: clang-tidy sees it too, and it compiles without a
warning.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netpipe import native

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import library_sources  # noqa: E402  (the folder has to be on the path first)

COMPILER = shutil.which("cc")


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> list[library_sources.Unit]:
    return list(library_sources.units(tmp_path_factory.mktemp("units")))


def test_every_folder_of_such_sources_is_known() -> None:
    layers = [toml.parent.name for toml in (ROOT / "src" / "modules").glob("*/module.toml")
              if 'build = "library"' in toml.read_text()]  # fmt: skip
    assert sorted(library_sources.LIBRARIES) == sorted(layers)


@pytest.mark.deep
@pytest.mark.skipif(COMPILER is None, reason="there is no cc")
@pytest.mark.parametrize("of", sorted({*library_sources.LIBRARIES, *library_sources.PROGRAMS}))
def test_it_compiles_without_a_warning(units: list[library_sources.Unit], of: str, tmp_path: Path) -> None:
    some = [unit for unit in units if unit.of == of]
    if not some:
        pytest.skip(f"no library that compiles {of} is installed (make setup-deep)")

    def said(unit: library_sources.Unit) -> str:
        words = [
            *unit.words,
            "-O1",
            *library_sources.warnings(),
            "-Werror",
            "-c",
            str(unit.file),
            "-o",
            os.devnull,
        ]
        done = subprocess.run(
            [str(COMPILER), *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.stderr if done.returncode else ""

    with ThreadPoolExecutor(os.cpu_count()) as several:
        assert "".join(several.map(said, some)) == ""


@pytest.mark.deep
def test_clang_tidy_sees_every_source_file(units: list[library_sources.Unit], tmp_path: Path) -> None:
    """Of what can be built here."""
    if lacking := library_sources.missing(units):
        pytest.skip(f"no library that compiles {', '.join(lacking)} is installed (make setup-deep)")
    built = (prefix for prefix, _ in native.prefixes() if (prefix / "compile_commands.json").is_file())
    build = next(built, None)
    if build is None:
        pytest.skip("the native part that is used here was not built with its tests")
    library_sources.main(tmp_path)
    known = [entry for folder in (build, tmp_path)
             for entry in json.loads((folder / "compile_commands.json").read_text())]  # fmt: skip
    absent = {path.stem for path in (build / "lib/netpipe/modules").glob("*.absent")}
    files = [path for ending in ("c", "cpp") for path in (ROOT / "src").rglob(f"*.{ending}")]
    wanted = {str(path) for path in files if path.parent.name not in absent}
    assert wanted - {entry["file"] for entry in known} == set()
