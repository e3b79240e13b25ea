# SPDX-License-Identifier: Apache-2.0
"""The MPI library that a module binds, asked for its own parameters: which it knows, with which values, and what became
of those that were set. A library that cannot be asked (too old, or it crashes) answers nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netpipe.failure import Failure
from netpipe.libraries import family_of
from netpipe.libraries.starting.description import read
from netpipe.libraries.tunables import Tunables
from netpipe.tuning.library.apart import ANSWER_S, answer

_LIBRARY = re.compile(r"=> (\S*/libmpi(?:_abi)?\.so\S*)")


@dataclass(frozen=True)
class Library:
    family: str = ""  # "": the module binds none
    tunables: Tunables = field(default_factory=Tunables)
    version: tuple[int, ...] = ()  # 5, 0, 11
    file: Path | None = None  # libmpi; None: not found
    programs: Path | None = None  # the folder of its programs
    environment: Mapping[str, str] = field(default_factory=dict)  # that it needs

    def ask(
        self, variables: Sequence[str], set_: Mapping[str, str] | None = None
    ) -> dict[str, dict[str, Any]]:
        """By environment variable, those that the library knows: `value`, `choices` and `help`. `set_`: the environment
        that it is asked in, beside ours.
        """
        if self.tunables.ask is not None and self.programs is not None:
            return self.tunables.ask(self.programs, variables, {**self.environment, **(set_ or {})})
        if self.file is None or not variables:
            return {}
        names = {self.parameter(one): one for one in variables}
        words = [str(self.file), *names]
        found = answer("netpipe.tuning.library.asking", words, {**os.environ, **(set_ or {})}) or {}
        return {names[name]: one for name, one in found.items() if name in names}

    def parameter(self, variable: str) -> str:
        """What MPI_T calls it."""
        return variable.removeprefix(self.tunables.prefix) if self.tunables.bare else variable

    def read_back(self, variables: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        """Each of those that the library knows: its value without them, and with them. One that it does not know has
        "unknown" twice; a library that cannot be asked has none.
        """
        if self.tunables.read_back is not None and self.programs is not None:
            return self.tunables.read_back(self.programs, self.file, variables, self.environment)
        without = self.ask(list(variables))
        with_ = self.ask(list(variables), variables)
        if not without and not with_ and not self.ask([self.tunables.known]):
            return {}
        return {
            name: (without[name]["value"], with_[name]["value"])
            if name in without and name in with_
            else ("unknown to the library",) * 2
            for name in variables
            if self.tunables.prefix and name.startswith(self.tunables.prefix)
        }


NO_LIBRARY = Library()


def library(module: Mapping[str, Any]) -> Library:
    """Of an entry of the listing of modules."""
    path = module.get("description")
    if not module.get("launched") or not path:
        return NO_LIBRARY
    try:
        description = read(Path(path))
        family = family_of(description)
    except Failure:
        return NO_LIBRARY
    version = tuple(map(int, re.findall(r"\d+", description.version)[:3]))
    if family is None:
        return NO_LIBRARY
    return Library(
        family.name,
        family.tunables or Tunables(),
        version,
        _file(Path(module["path"])),
        description.launcher.parent,
        description.environment,
    )


def _file(module: Path) -> Path | None:
    """The libmpi that the dynamic linker finds for a module."""
    try:
        done = subprocess.run(
            ["ldd", str(module)], capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _LIBRARY.search(done.stdout)
    return Path(found.group(1)) if found else None
