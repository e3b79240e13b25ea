# SPDX-License-Identifier: Apache-2.0
"""The cells of the conformance suite: a module, with one of its settings, under a pattern. What a test did not run is a
part of its result: a property of its report (`cells`, also in the JUnit file), and together a table at the end of the
tests, by reason. So nothing is left out silently.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

PROPERTY = "cells"


@dataclass
class Cells:
    """Of one test. A cell that ran without some of its sizes is one that ran, and these sizes are named."""

    run: list[str] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)  # by reason

    def ran(self, cell: str) -> None:
        self.run.append(cell)

    def leave_out(self, cell: str, reason: str) -> None:
        self.left_out.setdefault(plain(reason), []).append(cell)

    def leave_all_out(self, variant: str, patterns: Iterable[str], reason: str) -> None:
        for pattern in patterns:
            self.leave_out(f"{variant}, {pattern}", reason)

    def record(self, test: pytest.Item) -> None:
        """As a property of the report of this test, as the fixture record_property does, which warns of newer kinds of
        JUnit files.
        """
        test.user_properties.append((PROPERTY, json.dumps({"run": self.run, "left_out": self.left_out})))


def plain(reason: str) -> str:
    """Without the names of modules and patterns, so that the same reason is counted together."""
    return re.sub(r"\b(module|pattern) [\w@:=.,-]*[\w=]", r"the \1", reason)


def summary(properties: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Lines for the end of the tests: how many cells ran, and how many did not, by reason. None without cells."""
    ran = 0
    reasons: Counter[str] = Counter()
    for name, value in properties:
        if name == PROPERTY:
            cells = json.loads(str(value))
            ran += len(cells["run"])
            reasons.update({reason: len(some) for reason, some in cells["left_out"].items()})
    if ran or reasons:
        yield (
            f"{ran} cells of module and pattern ran; {reasons.total()} times a cell, some sizes of it, or its "
            "verification was left out:"
        )
        for reason, times in reasons.most_common():
            yield f"{times:6}  {reason}"
