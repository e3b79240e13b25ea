# SPDX-License-Identifier: Apache-2.0
"""Who imports and includes whom, and which files a Python file names, read from the sources without running them.
`make check` uses it to choose tests, and tests/python/test_rooms.py to keep the rooms apart.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
C_SOURCES = {".c", ".cpp", ".h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


@dataclass(frozen=True, order=True)
class Reference:
    """One import statement or #include line."""

    target: str  # a dotted module, or a path below src/ or include/
    line: int


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python_sources(root: Path) -> dict[str, Path]:
    """Dotted name to file, for every Python file below `root`."""
    return {module_name(path, root): path for path in sorted(root.rglob("*.py"))}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in it, and what holds statements: a tenth of what ast.walk would visit."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, name, ())
        for child in inside if isinstance(inside, list) else ():
            yield child
            yield from statements(child)


def _imported(tree: ast.AST, here: str, is_package: bool) -> Iterator[tuple[str, str | None, int]]:
    """Module, name taken from it (None: the module itself) and line, for each import anywhere in the file."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, None, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = here.split(".")[: len(here.split(".")) - node.level + is_package]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield base, alias.name, node.lineno


def imports(path: Path, here: str, known: Iterable[str]) -> list[Reference]:
    """The modules among `known` that the file imports, in functions and under TYPE_CHECKING as well. A package that
    loads whatever files lie in its folder imports all of them.
    """
    known = set(known)
    found = set()
    for module, name, line in _imported(parsed(path), here, path.name == "__init__.py"):
        target = f"{module}.{name}" if name and f"{module}.{name}" in known else module
        if target in known and target != here:
            found.add(Reference(target, line))
    return sorted(found)


def loads_its_folder(path: Path) -> bool:
    return path.name == "__init__.py" and "pkgutil.iter_modules(__path__)" in path.read_text(encoding="utf-8")


def includes(path: Path) -> list[Reference]:
    """The project's own headers that a C or C++ file includes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        Reference(match[1], number) for number, line in enumerate(lines, 1) if (match := INCLUDE.match(line))
    ]


def resolved(path: Path, target: str) -> str:
    """The header that `path` includes as `target`, relative to the root, found as the compiler finds it: beside the
    file, in src/modules for modules and tests, in src/, in include/. As it is written if it is not in the tree.
    """
    modules = SRC / "modules"
    folders = [path.parent, SRC, ROOT / "include"]
    if modules in path.parents or ROOT / "tests" in path.parents:
        folders.insert(1, modules)
    for folder in folders:
        if (folder / target).is_file():
            return str((folder / target).relative_to(ROOT))
    return target


def cpp_edges(*folders: Path) -> dict[str, set[str]]:
    """C and C++ files below these folders to the project's headers that they include, relative to the root."""
    paths = (path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in C_SOURCES)
    return {
        str(path.relative_to(ROOT)): {resolved(path, reference.target) for reference in includes(path)}
        for path in paths
    }


# ---------------------------------------------------------------------------------------- files that a file names


def named_paths(path: Path) -> frozenset[str]:
    """Of a Python file; see paths_in."""
    return paths_in(parsed(path), path)


# Most nodes are neither, and there are half a million of them.
_PATHS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.BinOp)  # that _path_of knows
_WITHOUT_PATHS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.alias, ast.Pass)


def paths_in(tree: ast.AST, path: Path) -> frozenset[str]:
    """Files and folders of the project that the Python file `path` names, relative to the root: what it joins with `/`
    from ROOT or from its own place, and strings that look like a path ("docs/bench.md", "bounce.c" beside the file). A
    bare word, as in `tmp_path / "src"`, is no path, nor is the folder that the file is in.
    """
    found: set[str] = set()
    known: dict[str, Path] = {}  # variables of the file

    def add(one: Path) -> None:
        if ROOT in one.parents and one != path.parent:
            found.add(str(one.relative_to(ROOT)))

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            known.pop(node.targets[0].id, None)
            if (value := _path_of(node.value, path, known)) is not None:
                known[node.targets[0].id] = value  # its uses count
                return
        if isinstance(node, _PATHS) and (one := _path_of(node, path, known)) is not None:
            add(one)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            word = node.value.rstrip("/")
            if "/" in word or "." in word:
                found.add(word)
                if "\0" not in word and len(word) < 100 and (path.parent / word).is_file():
                    add(path.parent / word)
        else:
            for name in node._fields:
                child = getattr(node, name, None)
                for one in child if isinstance(child, list) else (child,):
                    if isinstance(one, ast.AST) and not isinstance(one, _WITHOUT_PATHS):
                        visit(one)

    visit(tree)
    return frozenset(found)


def _path_of(node: ast.AST, here: Path, known: dict[str, Path]) -> Path | None:
    """The path that an expression stands for, up to its first part that is computed; None: none of the project."""
    match node:
        case ast.Name(id=name):
            return known.get(name, ROOT if name == "ROOT" else None)
        case ast.Attribute(attr="ROOT"):
            return ROOT
        case ast.Attribute(value=value, attr="parent"):
            base = _path_of(value, here, known)
            return base.parent if base else None
        case ast.Subscript(
            value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(up))
        ):
            base = _path_of(value, here, known)
            return base.parents[up] if base else None
        case ast.Call(func=ast.Name(id="Path"), args=[ast.Name(id="__file__")]):
            return here
        case ast.Call(func=ast.Attribute(value=value, attr="resolve"), args=[]):
            return _path_of(value, here, known)
        case ast.Call(
            func=ast.Attribute(value=value, attr="with_name"), args=[ast.Constant(value=str(name))]
        ):
            base = _path_of(value, here, known)
            return base.with_name(name) if base else None
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            base = _path_of(left, here, known)
            if base is None or not isinstance(right, ast.Constant):
                return base
            return base / str(right.value)
    return None


def closure(start: Iterable[str], edges: dict[str, set[str]]) -> set[str]:
    """Everything that can be reached from `start`, and `start` itself."""
    reached: set[str] = set()
    waiting = list(start)
    while waiting:
        one = waiting.pop()
        if one not in reached:
            reached.add(one)
            waiting.extend(edges.get(one, ()))
    return reached


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The groups of files that import each other in a circle (strongly connected components of two or more)."""
    found = []
    left = set(edges)
    while left:
        one = min(left)
        down = closure([one], edges)
        group = {other for other in down if one in closure([other], edges)}
        if len(group) > 1:
            found.append(sorted(group))
        left -= group
    return found
