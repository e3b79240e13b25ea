# SPDX-License-Identifier: Apache-2.0
"""Which tests a change could have broken, for `make check`. Changed is what differs from the commit where this branch
left main, committed or not; on main itself, what is not committed yet.

Python: the import graph says which test files reach a changed module. A test that reads a file of another kind (a page
of the documentation, a header) names its path, so it depends on that path. C++: the unit tests run as a whole, because
they take seconds; the module and conformance tests are chosen by the folder that changed.
"""

from __future__ import annotations

import ast
import functools
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import imports

ROOT = imports.ROOT
PYTHON = ROOT / "python"
TESTS = ROOT / "tests" / "python"

# Changes here may break any Python test.
EVERYWHERE = (
    "pyproject.toml",
    "requirements/",
    "tests/conftest.py",
    "tests/cells.py",
    "tests/thresholds.py",
    "tests/python/conftest.py",
)
NATIVE = (
    "CMakeLists.txt",
    "cmake/",
    "include/",
    "src/",
    "tests/CMakeLists.txt",
    "tests/fuzz/",
    "tests/modules/",
    "tests/unit/",
)
# The layers that stand for all others when the code beneath all of them changes: one over memory, one over the kernel.
TYPICAL_MODULES = ("shm", "tcp")


def _git(*arguments: str) -> list[str] | None:
    """Lines of its output; None if git fails or this is no checkout."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def changed_files() -> list[str] | None:
    """Paths relative to the root, deleted files included; None outside a git checkout."""
    base = "HEAD"
    for main in ("main", "origin/main", "origin/HEAD"):
        if found := _git("merge-base", "HEAD", main):
            base = found[0]
            break
    tracked = _git("diff", "--name-only", base)
    new = _git("ls-files", "--others", "--exclude-standard")
    return None if tracked is None or new is None else sorted({*tracked, *new})


@functools.cache
def strings_of(path: Path) -> frozenset[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str))


class TestFiles:
    """The test files of tests/python with what each depends on."""

    def __init__(self) -> None:
        self.sources = imports.python_sources(PYTHON)
        self.helpers = {path.stem: path for path in sorted(TESTS.glob("*.py"))}

    @cached_property
    def edges(self) -> dict[str, set[str]]:
        """Modules and test files by name, to what they import."""
        known = {**self.sources, **self.helpers}
        edges = {}
        for name, path in known.items():
            found = {reference.target for reference in imports.imports(path, name, known)}
            for target in list(found):  # importing a.b.c runs a/__init__.py and a/b/__init__.py as well
                parts = target.split(".")
                found |= {".".join(parts[:end]) for end in range(1, len(parts))} & set(known)
            if imports.loads_its_folder(path):
                found |= {other for other in known if other.startswith(f"{name}.")}
            edges[name] = found - {name}
        # The fixtures of conftest.py import the command line, but only some files use them.
        of_conftest = edges.get("conftest", set())
        for name, path in self.helpers.items():
            edges[name].discard("conftest")
            if name != "conftest" and self._uses_fixtures(path):
                edges[name] |= of_conftest
        return edges

    @cached_property
    def fixtures(self) -> set[str]:
        path = TESTS / "conftest.py"
        names = set()
        for node in ast.parse(path.read_text()).body if path.is_file() else []:
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    text = ast.unparse(mark)
                    if "fixture" in text and "autouse" not in text:
                        names.add(node.name)
        return names

    def _uses_fixtures(self, path: Path) -> bool:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        return any(argument.arg in self.fixtures for one in functions for argument in one.args.args)

    def names(self) -> list[str]:
        return [name for name in self.helpers if name.startswith("test_")]

    def depends_on(self, test: str) -> set[str]:
        return imports.closure([test], self.edges)

    def paths_named_by(self, test: str) -> set[str]:
        """String constants of the test and its helpers: among them the paths of the files that it reads."""
        files = [self.helpers[name] for name in self.depends_on(test) if name in self.helpers]
        nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        return {
            node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }

    def modules_of(self, path: str) -> set[str]:
        """The modules that a changed file belongs to: itself, or everything beside a template or a style sheet."""
        file = ROOT / path
        if PYTHON in file.parents:
            name = imports.module_name(file, PYTHON)
            if path.endswith(".py") and name in self.sources:
                return {name}
            folders = {source.parent for source in self.sources.values()}
            nearest = next(folder for folder in file.parents if folder in folders or folder == PYTHON)
            return {name for name, source in self.sources.items() if source.parent == nearest}
        return {file.stem} if file.parent == TESTS else set()

    def affected_by(self, changed: list[str]) -> list[str]:
        if any(path.startswith(EVERYWHERE) for path in changed):
            return self.names()
        modules = {module for path in changed for module in self.modules_of(path)}

        def reads(test: str) -> bool:
            named = {name.rstrip("/") for name in self.paths_named_by(test)} - {""}
            return any(path == name or path.startswith(f"{name}/") for path in changed for name in named)

        return [test for test in self.names() if self.depends_on(test) & modules or reads(test)]

    def core(self) -> list[str]:
        """The quick ones, for when nothing changed: those that neither run a command nor draw."""
        slow = {"netpipe.cli", *(name for name in self.sources if name.startswith("netpipe.render"))}
        return [test for test in self.names() if not self.depends_on(test) & slow]


@dataclass(frozen=True)
class Affected:
    native: bool  # run the C++ unit tests
    modules: tuple[str, ...]  # run the module and conformance tests of these
    every_module: bool  # the C++ module tests of all
    python: tuple[str, ...]  # test files, relative to the root


test_files = functools.cache(TestFiles)


def affected(changed: list[str] | None) -> Affected:
    tests = test_files()
    if changed is None:
        chosen = tests.names()
    elif changed:
        chosen = tests.affected_by(changed)
    else:
        chosen = tests.core()
    files = tuple(f"tests/python/{name}.py" for name in chosen)
    files += tuple(
        path for path in changed or () if path.startswith("tests/e2e/test_") and (ROOT / path).is_file()
    )
    if not changed:
        return Affected(True, (), changed is None, files)
    native = [path for path in changed if path.startswith(NATIVE)]
    modules = set()
    beneath_all = False
    for path in native:
        parts = path.split("/")
        if parts[:2] == ["src", "modules"] and len(parts) > 3 and parts[2] != "kit":
            modules.add(parts[2])
        elif parts[0] in {"src", "include"}:
            beneath_all = True
    if beneath_all:
        modules.update(TYPICAL_MODULES)
    every = beneath_all or any(path.startswith("tests/modules/") for path in native)
    return Affected(bool(native), tuple(sorted(modules)), every, files)


if __name__ == "__main__":
    import sys

    paths = sys.argv[1:] or changed_files()
    print(affected(paths))  # what `make check` would run for these files
