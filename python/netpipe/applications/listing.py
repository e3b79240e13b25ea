# SPDX-License-Identifier: Apache-2.0
"""Which kernels there are. A kernel is a C file in src/apps, and its first comment says what it is:

    In short: sorts whole numbers
    Ranks: a power of two
    Classes: S W A B C D
    Settings: mk planes in a block, mmi angles in a block

The program that is built of it refuses the same itself (`fits` of struct application), and a test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from netpipe.failure import FAILED, USAGE, Failure
from netpipe.libraries.adding import programs

_LINE = re.compile(r"^ \* (In short|Ranks|Classes|Settings): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str  # cg
    summary: str  # what it does, in a few words
    ranks: str  # which numbers it can have, in words
    classes: tuple[str, ...]  # the smallest one first
    settings: Mapping[str, str] = field(default_factory=dict)  # what it takes besides: name and meaning


def kernels() -> dict[str, Kernel]:
    """By name. Raises Failure: 3 where there are no sources, 4 for one that does not say what it is."""
    folder = programs.source_folder("apps")
    return {name: _read(folder / f"{name}.c") for name in programs.applications()}


def _read(path: Path) -> Kernel:
    comment = path.read_text(encoding="utf-8").partition("*/")[0]
    said = {key: text.strip() for key, text in _LINE.findall(comment)}
    if not said.get("Classes"):
        raise Failure(FAILED, f"{path} does not say its classes in its first comment; install netpipe again")
    settings = {
        words.split()[0]: words.strip().partition(" ")[2]
        for words in said.get("Settings", "").split(",")
        if words.strip()
    }
    return Kernel(
        path.stem, said.get("In short", ""), said.get("Ranks", ""), tuple(said["Classes"].split()), settings
    )


def unknown(name: str, known: Mapping[str, Kernel]) -> Failure:
    """The sentence for an unknown kernel."""
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}, and all"
    return Failure(USAGE, f"there is no kernel '{name}'; {hint}")
