# SPDX-License-Identifier: Apache-2.0
"""Patterns of a run that are one pattern with different settings: in which options they differ, and where such an
option is a number, its values in their order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.records import Run

LEAST_VALUES = 4  # of a number, to draw something over it
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)")
UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}  # those of the worker


@dataclass(frozen=True, slots=True)
class Family:
    """Two modes or more of one pattern."""

    name: str
    options: tuple[str, ...]  # in which they differ
    members: dict[str, dict[str, str]]  # pattern, as in the points -> the values of these options


@dataclass(frozen=True, slots=True)
class Sweep:
    """One option that is a number, and takes four values or more while all others stay."""

    name: str
    option: str
    fixed: dict[str, str]  # the other options of the family
    members: tuple[tuple[float, str], ...]  # (value, pattern), by rising value


def families(run: Run) -> tuple[Family, ...]:
    """In the order of the plan. A run without `modes` in its plan (an older one, or imported) says only what differs
    from the defaults: an option that a pattern does not name is there as the text "default".
    """
    known = {mode.pattern: (mode.name, mode.options) for plan in run.plans for mode in plan.modes}
    named: dict[str, dict[str, dict[str, str]]] = {}
    planned = [pattern for plan in run.plans for pattern in plan.patterns]
    for pattern in dict.fromkeys([*planned, *(point.pattern for point in run.points)]):
        name, options = known.get(pattern) or _taken_apart(pattern)
        named.setdefault(name, {})[pattern] = options
    return tuple(_family(name, members) for name, members in named.items() if len(members) > 1)


def _taken_apart(pattern: str) -> tuple[str, dict[str, str]]:
    name, _, settings = pattern.partition(":")
    return name, dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)


def _family(name: str, members: dict[str, dict[str, str]]) -> Family:
    every = dict.fromkeys(option for options in members.values() for option in options)
    values = {option: [options.get(option, "default") for options in members.values()] for option in every}
    differ = tuple(option for option in every if len(set(values[option])) > 1)
    return Family(
        name,
        differ,
        {
            pattern: {option: options.get(option, "default") for option in differ}
            for pattern, options in members.items()
        },
    )


def setting_text(family: Family, pattern: str) -> str:
    """What tells this member from the others: "in_flight=4"."""
    return ", ".join(f"{option}={value}" for option, value in family.members[pattern].items())


def sweeps(family: Family) -> tuple[Sweep, ...]:
    found = []
    for option in family.options:
        groups: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = {}
        for pattern, values in family.members.items():
            value = number(values[option])
            if value is not None:
                rest = tuple((other, text) for other, text in values.items() if other != option)
                groups.setdefault(rest, []).append((value, pattern))
        found += [
            Sweep(family.name, option, dict(rest), tuple(sorted(members)))
            for rest, members in groups.items()
            if len({value for value, _ in members}) >= LEAST_VALUES
        ]
    return tuple(found)


def number(text: str) -> float | None:
    """The value of an option as the worker writes it, 64k is 65536; None where it is no number."""
    found = _NUMBER.fullmatch(text)
    return float(found[1]) * UNITS[found[2]] if found else None
