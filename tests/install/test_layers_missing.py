# SPDX-License-Identifier: Apache-2.0
"""A layer whose library comes or goes: no build breaks for it, and the next one has seen it (cmake/modules.cmake).

The project here has two layers over stand-ins for libraries: `pipes` links its library, and `reads` needs a header
alone. Its build folder is made once; from then on only `cmake --build` is called, as a user would.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ROOT, run

PROJECT = """cmake_minimum_required(VERSION 3.20)
project(layers LANGUAGES C CXX)
include(GNUInstallDirs)
include("{modules}")
"""
LAYER = """summary = "{name}"
build = "here"

[needs]
header = "{name}_stand_in.h"
folders = "{folder}"
{libraries}get = "apt install lib{name}-dev"
"""

pytestmark = pytest.mark.deep


class Layers:
    """The project, and what it is built with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "prefix"
        self.include = self.prefix / "include"
        self.library = self.prefix / "lib" / "libpipes_stand_in.so"
        self.modules = folder / "build" / "lib" / "netpipe" / "modules"
        (folder / "CMakeLists.txt").write_text(PROJECT.format(modules=ROOT / "cmake" / "modules.cmake"))
        self.layer("pipes", 'libraries = "pipes_stand_in"\n')
        self.layer("reads", "")

    def layer(self, name: str, libraries: str) -> None:
        source = self.folder / "src" / "modules" / name
        source.mkdir(parents=True)
        text = LAYER.format(name=name, folder=self.include, libraries=libraries)
        (source / "module.toml").write_text(text)
        called = f"{name}_call()" if libraries else f"{name.upper()}_ANSWER"
        (source / f"{name}.c").write_text(
            f'#include "{name}_stand_in.h"\nint np_module(void);\nint np_module(void) {{ return {called}; }}\n'
        )

    def install(self) -> None:
        for path in (self.include, self.library.parent):
            path.mkdir(parents=True, exist_ok=True)
        (self.include / "pipes_stand_in.h").write_text("int pipes_call(void);\n")
        (self.include / "reads_stand_in.h").write_text("#define READS_ANSWER 42\n")
        source = self.folder / "stand_in.c"
        source.write_text("int pipes_call(void);\nint pipes_call(void) { return 42; }\n")
        run("cc", "-shared", "-fPIC", "-o", self.library, source, cwd=self.folder)

    def configure(self) -> None:
        run("cmake", "-S", self.folder, "-B", self.folder / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", cwd=self.folder)  # fmt: skip

    def build(self) -> dict[str, set[str]]:
        """The endings of the files of each layer."""
        run("cmake", "--build", self.folder / "build", cwd=self.folder)
        found = {path: path.suffix for path in self.modules.iterdir()}
        return {
            name: {end for path, end in found.items() if path.stem == name} for name in ("pipes", "reads")
        }

    def reason(self, name: str) -> str:
        return (self.modules / f"{name}.absent").read_text().splitlines()[-1]


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers(tmp_path)


def test_a_library_may_come_and_go_between_two_builds(layers: Layers) -> None:
    layers.configure()
    assert layers.build() == {"pipes": {".absent"}, "reads": {".absent"}}
    assert layers.reason("reads") == (
        "reason it was not built: its header reads_stand_in.h was not found; apt install libreads-dev, "
        "then build netpipe again"
    )
    layers.install()
    there = {"pipes": {".so", ".needs"}, "reads": {".so"}}
    assert layers.build() == there, "it has come"
    shutil.rmtree(layers.prefix)
    assert layers.build() == {"pipes": {".absent"}, "reads": {".absent"}}, "it has gone"
    layers.install()
    assert layers.build() == there, "it has come again"

    layers.library.unlink()  # its header is still there
    assert layers.build() == {"pipes": {".absent"}, "reads": {".so"}}
    assert "its library pipes_stand_in was not found" in layers.reason("pipes")
    layers.install()
    (layers.include / "reads_stand_in.h").unlink()
    layers.configure()  # nothing tells a build of a library in this prefix that is there again
    assert layers.build() == {"pipes": {".so", ".needs"}, "reads": {".absent"}}


def test_a_header_that_does_not_compile_any_more_is_missing(layers: Layers) -> None:
    """As where it includes one of another package, which was removed."""
    other = layers.folder / "other"
    other.mkdir()
    (other / "needed.h").write_text("#define READS_ANSWER 42\n")
    layers.install()
    (layers.include / "reads_stand_in.h").write_text('#include "needed.h"\n')
    toml = layers.folder / "src" / "modules" / "reads" / "module.toml"
    toml.write_text(toml.read_text().replace('/include"', f'/include {other}"'))
    layers.configure()
    assert layers.build()["reads"] == {".so"}
    shutil.rmtree(other)
    assert layers.build()["reads"] == {".absent"}
