# SPDX-License-Identifier: Apache-2.0
"""Which tests a change could have broken, for `make check`. Changed is what differs from the commit where this branch
left main, committed or not; on main itself, what is not committed yet.

Python: the import graph says which test files reach a changed module. A test that reads a file of another kind (a page
of the documentation, a header) names its path, so it depends on that path.

C and C++: the unit tests run as a whole, because they take seconds. What a module, a pattern or a C++ test of modules
includes says which of them a header is a part of. The code beneath all layers is tested by two of them and by every
pattern.

End to end: a test file depends on what it imports from its own folder and on the paths that it names, and on the
programs that ROOMS says it starts.
"""

from __future__ import annotations

import ast
import functools
import gc
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import imports

ROOT = imports.ROOT
PYTHON = ROOT / "python"
TESTS = ROOT / "tests"

# Changes here may break any Python unit test.
EVERYWHERE = (
    "pyproject.toml",
    "requirements/",
    "tests/conftest.py",
    "tests/cells.py",
    "tests/sizes.py",
    "tests/thresholds.py",
    "tests/python/conftest.py",
)
WHOLE_TREE = "test_rooms"  # reads every source file there is
# Changes here may break a C++ unit test.
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
# Programs of their own, and the server: nothing that measures on one host is a part of them.
MPI_PROGRAMS = ("src/apps/", "src/profiler/")  # compiled by an MPI library's compiler, and not by CMake
APART = (*MPI_PROGRAMS, "src/relay/", "src/serving/")
# Which test files start what is built of a folder, and do not name it.
ROOMS = {
    "src/engine/hosted": ("test_two_hosts",),
    "src/engine/simulated/": ("test_smpi",),
    "src/link/": ("test_two_hosts",),
    "src/profiler/": ("test_profile_command", "test_profile_lam", "test_profiler_library"),
    "src/relay/": ("test_labs",),
    "src/serving/": ("test_behind_the_door", "test_strangers", "test_two_hosts"),
    "tests/modules/bad/": ("test_bad_modules",),
    "tests/modules/cuda/": ("test_cuda", "test_nccl"),
}
# The layers that stand for all others when the code beneath all of them changes: one over memory, one over the kernel.
TYPICAL_MODULES = ("shm", "tcp")
LIBRARIES = "python/netpipe/libraries/"


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


class TestFiles:
    """The test files of a folder of tests/ with what each depends on."""

    def __init__(self, folder: str, sources: dict[str, Path], *beside: Path) -> None:
        """sources: the modules that they test, by name; beside: other folders of modules that they import."""
        self.folder = TESTS / folder
        self.sources = sources
        self.helpers = {
            path.stem: path for one in (*beside, self.folder) for path in sorted(one.glob("*.py"))
        }

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
        # What the fixtures of conftest.py import, only their users need. End to end these import it themselves.
        of_fixtures = edges.pop("conftest", set()) if self.sources else set()
        edges["conftest"] = set()
        for name, path in self.helpers.items():
            if name != "conftest" and self._uses_fixtures(path):
                edges[name] |= {"conftest", *of_fixtures}
        return edges

    @cached_property
    def fixtures(self) -> set[str]:
        path = self.folder / "conftest.py"
        names = set()
        for node in imports.parsed(path).body if path.is_file() else []:
            if isinstance(node, ast.FunctionDef):
                for mark in node.decorator_list:
                    text = ast.unparse(mark)
                    if "fixture" in text and "autouse" not in text:
                        names.add(node.name)
        return names

    def _uses_fixtures(self, path: Path) -> bool:
        functions = (
            node for node in imports.statements(imports.parsed(path)) if isinstance(node, ast.FunctionDef)
        )
        return any(argument.arg in self.fixtures for one in functions for argument in one.args.args)

    def names(self) -> list[str]:
        return [name for name in self.helpers if name.startswith("test_")]

    def path(self, name: str) -> str:
        return str(self.helpers[name].relative_to(ROOT))

    @cached_property
    def depends_on(self) -> dict[str, set[str]]:
        """Test to what it imports, directly or not."""
        return {test: imports.closure([test], self.edges) for test in self.names()}

    @cached_property
    def names_paths(self) -> dict[str, set[str]]:
        """Test to the paths that it and its helpers name; what another test names is that test's own affair."""
        of_file = {name: imports.named_paths(path) for name, path in self.helpers.items()}
        own = {name for name in self.helpers if not name.startswith("test_")}
        return {
            test: set().union(*(of_file[name] for name in used & own | {test}))
            for test, used in self.depends_on.items()
        }

    def readers(self, changed: Iterable[str]) -> set[str]:
        """Tests that name one of these paths or a folder above it."""
        above = {str(one) for path in changed for one in (Path(path), *Path(path).parents[:-1])}
        return {test for test, paths in self.names_paths.items() if not paths.isdisjoint(above)}

    def modules_of(self, path: str) -> set[str]:
        """The modules that a changed file belongs to: itself, or everything beside a template or a style sheet."""
        file = ROOT / path
        if file.suffix in imports.C_SOURCES:
            return set()
        if self.sources and PYTHON in file.parents:
            name = imports.module_name(file, PYTHON)
            if path.endswith(".py") and name in self.sources:
                return {name}
            folders = {source.parent for source in self.sources.values()}
            nearest = next(folder for folder in file.parents if folder in folders or folder == PYTHON)
            return {name for name, source in self.sources.items() if source.parent == nearest}
        return {file.stem} if self.helpers.get(file.stem) == file else set()

    def reach(self, changed: Iterable[str]) -> set[str]:
        """Tests that import a changed module, directly or not."""
        modules = {module for path in changed for module in self.modules_of(path)}
        return {test for test, used in self.depends_on.items() if not used.isdisjoint(modules)}

    def core(self) -> list[str]:
        """The quick ones, for when nothing changed: those that neither run a command nor draw."""
        slow = {"netpipe.cli", *(name for name in self.sources if name.startswith("netpipe.render"))}
        return [test for test, used in self.depends_on.items() if used.isdisjoint(slow)]


@functools.cache
def unit_tests() -> TestFiles:
    return TestFiles("python", imports.python_sources(PYTHON))


@functools.cache
def end_to_end() -> TestFiles:
    return TestFiles("e2e", {}, TESTS)


@functools.cache
def installations() -> TestFiles:
    return TestFiles("install", {})


# ------------------------------------------------------------------------------------------------------- C and C++


@functools.cache
def cpp_edges() -> dict[str, set[str]]:
    return imports.cpp_edges(ROOT / "src", ROOT / "include", TESTS / "modules")


@functools.cache
def cpp_parts() -> dict[str, set[str]]:
    """Each C or C++ file to what it includes, directly or not, and itself."""
    return {file: imports.closure([file], cpp_edges()) for file in cpp_edges()}


def includers(changed: Iterable[str]) -> set[str]:
    """Files of src/ and tests/modules/ that include one of these, directly or not, and these themselves. What is
    compiled beside a header changes with it.
    """
    headers = {*changed, *(str(Path(path).with_suffix(".h")) for path in changed if path.endswith(".cpp"))}
    return {file for file, parts in cpp_parts().items() if not parts.isdisjoint(headers)}


def part(path: str, *folder: str) -> str:
    """Which folder or file of this folder a path lies in; "" if it lies elsewhere."""
    parts = path.split("/")
    return parts[len(folder)] if len(parts) > len(folder) and parts[: len(folder)] == list(folder) else ""


def layers_in(paths: Iterable[str]) -> set[str]:
    return {
        layer
        for path in paths
        if (layer := part(path, "src", "modules")) not in ("", "kit") and path.count("/") > 2
    }


def of_libraries() -> dict[str, str]:
    """The layers that are compiled when a library is added, and what their module.toml says."""
    texts = {path.parent.name: path.read_text() for path in (ROOT / "src" / "modules").glob("*/module.toml")}
    return {name: text for name, text in texts.items() if '\nbuild = "library"' in text}


def served(path: str) -> set[str]:
    """The layers that are compiled with this header of a family of libraries (adding/layers.py, family_table)."""
    if not (path.startswith(LIBRARIES) and path.endswith((".h", ".c"))):
        return set()
    with_table = {
        name
        for name in of_libraries()
        if any(
            f"{name}_families.h" in headers
            for file, headers in cpp_edges().items()
            if part(file, "src", "modules") == name
        )
    }
    stand_on_another = {name for name, text in of_libraries().items() if "\nfamilies = " in text}
    return with_table if path.endswith("/beneath.h") else with_table - stand_on_another


def suites_in(paths: Iterable[str]) -> tuple[str, ...]:
    """The test suites of those of these files that are C++ tests of modules."""
    tests = (
        path
        for path in paths
        if re.fullmatch(r"tests/modules/\w+_test\.cpp", path) and (ROOT / path).is_file()
    )
    texts = ((ROOT / path).read_text() for path in tests)
    return tuple(
        sorted({name for text in texts for name in re.findall(r"^TEST(?:_[FP])?\((\w+)", text, re.MULTILINE)})
    )


def users_of_test_module(path: str) -> set[str]:
    """The test files end to end that measure a faulty module of tests/modules."""
    if not path.startswith("tests/modules/") or not path.endswith(".c"):
        return set()
    of = re.compile(rf"(variant )?{Path(path).stem}(\.so|:.*)?")
    tests = end_to_end()
    return {test for test in tests.names() if any(map(of.fullmatch, strings_of(tests.helpers[test])))}


@functools.cache
def strings_of(path: Path) -> frozenset[str]:
    nodes = ast.walk(imports.parsed(path))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(value for value in values if isinstance(value, str))


# ------------------------------------------------------------------------------------------------------- selection


@dataclass(frozen=True)
class Affected:
    """What to run. Test files are relative to the root."""

    native: bool = False  # the C++ unit tests
    modules: tuple[str, ...] = ()  # layers whose C++ module tests run
    suites: tuple[str, ...] = ()  # of the C++ module tests, besides
    layers: tuple[str, ...] = ()  # that are compiled, where a library's compiler does, and measured
    patterns: tuple[str, ...] = ()  # that are measured
    kernels: tuple[str, ...] = ()  # of applications, that are compiled and verified
    sources: tuple[str, ...] = ()  # in src/, for clang-tidy
    python: tuple[str, ...] = ()
    end_to_end: tuple[str, ...] = ()  # and installations
    changed_tests: tuple[str, ...] = ()  # test files that were themselves changed


def affected(changed: list[str] | None) -> Affected:
    gc.disable()  # it would walk the trees of all sources again and again: half of the time
    try:
        return _affected(changed)
    finally:
        gc.freeze()  # nor once now: nothing of them is garbage, and that takes a fifth of the time
        gc.enable()


def _affected(changed: list[str] | None) -> Affected:
    if changed is None:
        everything = files(unit_tests(), unit_tests().names())
        return Affected(native=True, suites=suites_in(cpp_edges()), python=everything)
    if not changed:
        return Affected(native=True, python=files(unit_tests(), unit_tests().core()))
    own = {path for path in changed if is_test(path) and (ROOT / path).is_file()}
    beneath = {path for path in changed if path.startswith(("include/", "src/")) and not of_a_part(path)}
    including = includers(changed)
    of_modules = layers_in(changed) | layers_in(including)
    layers = of_modules | {layer for path in changed for layer in served(path)}
    if beneath:
        layers |= set(TYPICAL_MODULES)
    if any(path.startswith(("CMakeLists.txt", "cmake/")) for path in changed):
        layers |= {path.parent.name for path in (ROOT / "src" / "modules").glob("*/module.toml")} - set(
            of_libraries()
        )
    return Affected(
        native=any(path.startswith(NATIVE) and not path.startswith(MPI_PROGRAMS) for path in changed),
        modules=tuple(sorted(of_modules)),
        suites=suites_in({*changed, *including}),
        layers=tuple(sorted(layers)),
        patterns=sources_in("patterns", ".cpp", {*changed, *including, *(cpp_edges() if beneath else ())}),
        kernels=sources_in("apps", ".c", {*changed, *including}),
        sources=sources_of(changed),
        python=tuple(one for one in of_python(changed) if one not in own),
        end_to_end=tuple(one for one in of_end_to_end(changed) if one not in own),
        changed_tests=tuple(sorted(own)),
    )


def sources_in(folder: str, suffix: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The names of those of these files that lie in this folder of src/, one for each pattern or kernel."""
    there = (part(path, "src", folder) for path in paths if (ROOT / path).is_file())
    return tuple(sorted({name.removesuffix(suffix) for name in there if name.endswith(suffix)}))


def sources_of(changed: Iterable[str]) -> tuple[str, ...]:
    """These files of src/, and of each header one file that includes it: clang-tidy reads a header where it is used."""
    found = set()
    for path in changed:
        if not path.startswith(("include/", "src/")) or not (ROOT / path).is_file():
            continue
        using = [path] if path.endswith((".c", ".cpp")) else sorted(includers([path]))
        found |= set([one for one in using if one.startswith("src/") and not one.endswith(".h")][:1])
    return tuple(sorted(found))


def is_test(path: str) -> bool:
    return re.fullmatch(r"tests/(python|e2e|install)/test_\w+\.py", path) is not None


def of_a_part(path: str) -> bool:
    """Whether a file of src/ belongs to one layer, to one pattern or to a program of its own, or the includes say to
    which.
    """
    return path.startswith(("src/modules/", "src/patterns/", *APART))


def files(tests: TestFiles, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(tests.path(name) for name in sorted(names))


def of_python(changed: list[str]) -> tuple[str, ...]:
    tests = unit_tests()
    if any(path.startswith(EVERYWHERE) for path in changed):
        return files(tests, tests.names())
    chosen = tests.reach(changed) | tests.readers(changed) | {WHOLE_TREE}
    if any(path.startswith(("include/", "src/")) and not path.startswith(MPI_PROGRAMS) for path in changed):
        chosen.add("test_native")  # asks the worker of this build
    if any(path.startswith(LIBRARIES) and Path(path).suffix in imports.C_SOURCES for path in changed):
        chosen.add("test_libraries_family")
    return files(tests, chosen)


def of_end_to_end(changed: list[str]) -> tuple[str, ...]:
    tests = end_to_end()
    # Layers are measured by themselves, in what Affected.layers selects.
    chosen = tests.reach(changed) | tests.readers(
        path for path in changed if not path.startswith("src/modules/")
    )
    for path in changed:
        chosen |= {name for room, names in ROOMS.items() if path.startswith(room) for name in names}
        chosen |= users_of_test_module(path)
        family = f"test_{path.removeprefix(LIBRARIES).partition('/')[0]}"
        if path.startswith(LIBRARIES) and family in tests.helpers:
            chosen.add(family)
        if (pattern := part(path, "src", "patterns")) and f"test_{Path(pattern).stem}" in tests.helpers:
            chosen.add(f"test_{Path(pattern).stem}")
    others = installations()
    return (*files(tests, chosen), *files(others, others.reach(changed)))


if __name__ == "__main__":
    import os
    import sys

    # What `make check` would run for these files.
    print(affected(sys.argv[1:] or changed_files()), flush=True)
    os._exit(0)  # freeing the trees one by one takes half a second
