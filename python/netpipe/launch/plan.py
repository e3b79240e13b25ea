# SPDX-License-Identifier: Apache-2.0
"""A plan as lines of key and value. Values are passed on as the user wrote them; the worker checks them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from netpipe.failure import USAGE, Failure


@dataclass(frozen=True, slots=True)
class Plan:
    """Raises Failure (2) for a value that is empty, longer than a line, or not UTF-8."""

    # key and value, in their order; `variant` and `pattern` may be repeated
    lines: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for key, value in self.lines:
            if "\n" in value or "\r" in value or not value.strip():
                raise Failure(USAGE, f"the value of {key} must be one line and not empty, it is {value!r}")
            if any("\ud800" <= character <= "\udfff" for character in value):  # bytes of the command line
                raise Failure(USAGE, f"the value of {key} is not UTF-8 text: {value!r}")

    def text(self, **more: str) -> str:
        """In the format of docs/reference/worker.md, with the lines `more` at the end."""
        lines = [("netpipe-plan", "1"), *self.lines, *more.items()]
        return "".join(f"{key} {value}\n" for key, value in lines) + "end\n"

    def variants(self) -> list[str]:
        return [value for key, value in self.lines if key == "variant"]

    def with_variants(self, variants: Iterable[str]) -> Plan:
        """The same plan for other variants."""
        rest = tuple(line for line in self.lines if line[0] != "variant")
        return Plan((*(("variant", variant) for variant in variants), *rest))
