# SPDX-License-Identifier: Apache-2.0
"""Who imports and includes whom, read from the sources without running them. `make check` uses it to choose tests, and
tests/python/test_rooms.py to keep the rooms apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def _imported(tree: ast.AST, here: str, is_package: bool) -> Iterator[tuple[str, str | None, int]]:
    """Module, name taken from it (None: the module itself) and line, for each import anywhere in the file."""
    for node in ast.walk(tree):
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
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    found = set()
    for module, name, line in _imported(tree, here, path.name == "__init__.py"):
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
