# SPDX-License-Identifier: Apache-2.0
"""What packages say of netpipe: its version, what it needs, and the files that they install."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from spack_recipe import Recipe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
VERSION = (ROOT / "VERSION").read_text().strip()
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("debian/changelog", r"^netpipe-worker \(([\d.]+)-\d+\)"),
        ("easybuild/netpipe-*.eb", r"^version = '([\d.]+)'"),
        ("spack/packages/py_netpipe/package.py", r'version\("([\d.]+)"\)'),
    ],
)
def test_every_recipe_is_for_this_version(path: str, pattern: str) -> None:
    (file,) = PACKAGING.glob(path)
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    assert found is not None
    assert found[1] == VERSION
    if file.suffix == ".eb":
        assert VERSION in file.name


def needed() -> dict[str, str]:
    """The Python packages that netpipe needs, each with its least version."""
    found = {}
    for one in PROJECT["project"]["dependencies"]:
        name, least = re.match(r"([\w.-]+)>=([\d.]+)", one).groups()  # type: ignore[union-attr]
        found[name] = least
    return found


def numbers(version: str) -> tuple[int, ...]:
    """2 and 2.0 are one version."""
    parts = [int(part) for part in version.split(".")]
    while parts[-1:] == [0]:
        parts.pop()
    return tuple(parts)


def test_spack_needs_what_the_wheel_needs() -> None:
    recipe = Recipe.read()
    least = {
        found[1]: found[2]
        for what, _, _ in recipe.needs
        if (found := re.fullmatch(r"(?:py-)?([\w-]+)@([\d.]+):", what))
    }
    assert f"scikit-build-core>={least.pop('scikit-build-core')}" in PROJECT["build-system"]["requires"]
    assert f">={least.pop('python')}" == PROJECT["project"]["requires-python"]
    assert {name: numbers(least[name]) for name in needed()} == {
        name: numbers(version) for name, version in needed().items()
    }
    python = {name for name in least if any(what.startswith(f"py-{name}@") for what, _, _ in recipe.needs)}
    assert python == set(needed())


def test_the_recipe_for_spack_is_whole() -> None:
    recipe = Recipe.read()
    assert recipe.versions == [VERSION]
    assert recipe.licences == [PROJECT["project"]["license"]]
    assert {when for _, _, when in recipe.needs if when[:1] in ("+", "~")} == {
        f"+{name}" for name in recipe.variants
    }
    assert all("build" in kinds for what, kinds, _ in recipe.needs if what in ("c", "cxx", "ninja"))
    assert (recipe.after, recipe.conditions) == (["install"], [{"run_tests": True}])
    begun: list[tuple[str, tuple[str, ...]]] = []
    recipe.measure(Path("/prefix"), lambda program, words: begun.append((program, tuple(words))))
    ((program, words),) = begun
    assert program == "/prefix/bin/netpipe"
    assert "--verify" in words


def test_easybuild_brings_what_the_wheel_needs() -> None:
    recipe = (PACKAGING / f"easybuild/netpipe-{VERSION}-gfbf-2024a.eb").read_text()
    values = {
        node.targets[0].id: ast.literal_eval(node.value)  # type: ignore[attr-defined]
        for node in ast.parse(recipe.replace("SYSTEM", "'SYSTEM'")).body
        if isinstance(node, ast.Assign) and node.targets[0].id != "exts_list"  # type: ignore[attr-defined]
    }
    brought = {"click", "jinja2", "rich", "numpy", "scipy"}  # by the two bundles
    brought |= {name.partition(".")[0].lower() for name, *_ in values["dependencies"]}
    brought |= set(re.findall(r"\('(msgspec)', '", recipe))
    assert set(needed()) - {"tomli"} <= brought  # its Python is newer than 3.10


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("debian/control", "libssl-dev,"),
        ("container/Containerfile", " libssl-dev "),
        ("easybuild/netpipe-*.eb", "('OpenSSL', '3', '', SYSTEM)"),
        ("spack/packages/py_netpipe/package.py", 'depends_on("openssl@3:"'),
    ],
)
def test_every_recipe_brings_what_tcp_encrypts_with(path: str, text: str) -> None:
    """The module is built without it as well, but then lacks tls."""
    (file,) = PACKAGING.glob(path)
    assert text in file.read_text()


def test_the_wheel_installs_files_that_exist() -> None:
    rules = (ROOT / "cmake/packaging.cmake").read_text()
    installed = re.findall(r"\$\{netpipe_shell\}/([\w.]+)", rules)
    assert len(installed) == 4
    for name in installed:
        assert (PACKAGING / "shell" / name).is_file()
    left_out = PROJECT["tool"]["scikit-build"]["sdist"]["exclude"]
    assert "packaging" not in left_out


def test_packages_name_no_machine() -> None:
    for file in PACKAGING.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"/work/|/root/|/tmp/g", text), file
