# SPDX-License-Identifier: Apache-2.0
"""The recipe for Spack, executed with stand-ins for the names that Spack gives a recipe. They record what it says.

Spack cannot be installed from a package registry. A name that is not among these is an error, as it is in Spack.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

RECIPE = (
    Path(__file__).resolve().parents[1] / "packaging" / "spack" / "packages" / "py_netpipe" / "package.py"
)
# A package, its versions and its variants, as far as recipes here write them: py-click@8.1: or ucx+cuda
SPEC = re.compile(r"[a-z0-9][a-z0-9-]*(@[\w.]*:?[\w.]*)?([+~][a-z0-9_]+)*")
# When something holds: a variant, or the version of a dependency.
WHEN = re.compile(r"([+~][a-z0-9_]+)+|\^[a-z0-9-]+@[\w.]*:?[\w.]*")
KINDS = {"build", "link", "run", "test"}


@dataclass
class Recipe:
    versions: list[str] = field(default_factory=list)
    variants: dict[str, bool] = field(default_factory=dict)
    needs: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)  # what, for what, when
    licences: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)  # phases that a method follows
    conditions: list[dict[str, Any]] = field(default_factory=list)  # under which it does
    package: Any = None  # the class
    start: Callable[[str, Sequence[str]], object] = lambda *_: None

    @classmethod
    def read(cls) -> Recipe:
        """Raises whatever a mistake in the recipe raises."""
        found = cls()
        with found._names():
            names: dict[str, Any] = {"__name__": "spack.pkg.netpipe.py_netpipe"}
            exec(compile(RECIPE.read_text(encoding="utf-8"), str(RECIPE), "exec"), names)
        found.package = names["PyNetpipe"]
        return found

    def measure(self, prefix: Path, start: Callable[[str, Sequence[str]], object]) -> None:
        """What the recipe does after the installation below `prefix`. `start` is told the program and its words."""
        self.start = start
        programs = SimpleNamespace(netpipe=str(prefix / "bin" / "netpipe"))
        self.package.measure(SimpleNamespace(prefix=SimpleNamespace(bin=programs)))

    @contextmanager
    def _names(self):
        """The modules that a recipe imports."""
        given = ModuleType("spack.package")
        given.__dict__.update(
            version=lambda text, **_: self.versions.append(text),
            variant=self._variant,
            depends_on=self._depends_on,
            license=lambda text, **_: self.licences.append(text),
            run_after=lambda phase: self._noting(self.after, phase),
            on_package_attributes=lambda **of: self._noting(self.conditions, of),
            Executable=lambda path: lambda *words: self.start(path, words),
        )
        systems = ModuleType("spack_repo.builtin.build_systems.python")
        systems.__dict__["PythonPackage"] = type("PythonPackage", (), {})
        parents = ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems")
        made = {name: ModuleType(name) for name in parents}
        made |= {given.__name__: given, systems.__name__: systems}
        before = {name: sys.modules.get(name) for name in made}
        sys.modules.update(made)
        try:
            yield
        finally:
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module

    def _variant(self, name: str, *, default: bool, description: str) -> None:
        assert description
        self.variants[name] = default

    def _depends_on(self, what: str, *, when: str = "", **more: Any) -> None:
        kinds = more.pop("type", ("build", "link"))
        kinds = (kinds,) if isinstance(kinds, str) else kinds
        assert not more, more
        assert SPEC.fullmatch(what), what
        assert set(kinds) <= KINDS, kinds
        assert not when or WHEN.fullmatch(when), when
        self.needs.append((what, kinds, when))

    @staticmethod
    def _noting(into: list[Any], what: Any) -> Callable[[Any], Any]:
        into.append(what)
        return lambda function: function
