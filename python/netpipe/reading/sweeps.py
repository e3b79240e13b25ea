# SPDX-License-Identifier: Apache-2.0
"""Patterns of a run that are one pattern with different settings: the options in which they differ and, where such an
option is a number, its values in order.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.units import SIZE_UNITS

if TYPE_CHECKING:
    from collections.abc import Container

    from netpipe.records import Run

COLLECTIVE, OVERLAP = "collective", "collective_overlap"
OPERATION = "what"  # the option of these patterns that is always named
LEAST_VALUES = 4  # of a number, to draw something over it
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kMG]?)")


@dataclass(frozen=True, slots=True)
class PatternSettings:
    """One pattern that was measured with two settings or more."""

    name: str  # of the pattern
    options: tuple[str, ...]  # in which the settings differ
    values: dict[str, dict[str, str]]  # pattern, as in the points -> the values of these options


@dataclass(frozen=True, slots=True)
class Sweep:
    """A numeric option that takes four values or more while all others stay the same."""

    name: str
    option: str
    fixed: dict[str, str]  # the other options
    members: tuple[tuple[float, str], ...]  # (value, pattern), by rising value


def pattern_settings(run: Run) -> tuple[PatternSettings, ...]:
    """In the order of the plan. A run without `modes` in its plan (an older one, or imported) names only what differs
    from the defaults: an option that a pattern does not name is there as the text "default".
    """
    known = {mode.pattern: (mode.name, mode.options) for plan in run.plans for mode in plan.modes}
    named: dict[str, dict[str, dict[str, str]]] = {}
    planned = [pattern for plan in run.plans for pattern in plan.patterns]
    for pattern in dict.fromkeys([*planned, *(point.pattern for point in run.points)]):
        name, options = known.get(pattern) or _taken_apart(pattern)
        named.setdefault(name, {})[pattern] = options
    return tuple(_settings(name, patterns) for name, patterns in named.items() if len(patterns) > 1)


def operations(run: Run, names: Container[str] = (COLLECTIVE,)) -> dict[str, str]:
    """Pattern, as in the points -> its operation. "collective" alone does not say what was measured."""
    found = {mode.pattern: mode.options.get(OPERATION) for plan in run.plans for mode in plan.modes
             if mode.name in names}  # fmt: skip
    return {pattern: operation for pattern, operation in found.items() if operation}


def _taken_apart(pattern: str) -> tuple[str, dict[str, str]]:
    name, _, settings = pattern.partition(":")
    return name, dict(setting.partition("=")[::2] for setting in settings.split(",") if setting)


def _settings(name: str, patterns: dict[str, dict[str, str]]) -> PatternSettings:
    every = dict.fromkeys(option for options in patterns.values() for option in options)
    seen = {option: {options.get(option, "default") for options in patterns.values()} for option in every}
    differ = tuple(option for option in every if len(seen[option]) > 1)
    return PatternSettings(
        name,
        differ,
        {
            pattern: {option: options.get(option, "default") for option in differ}
            for pattern, options in patterns.items()
        },
    )


def setting_text(settings: PatternSettings, pattern: str) -> str:
    """What tells this setting from the others: "in_flight=4"."""
    return ", ".join(f"{option}={value}" for option, value in settings.values[pattern].items())


def sweeps(settings: PatternSettings) -> tuple[Sweep, ...]:
    """Every numeric option that takes enough values to draw something over it."""
    found = []
    for option in settings.options:
        groups: dict[tuple[tuple[str, str], ...], list[tuple[float, str]]] = {}
        for pattern, values in settings.values.items():
            value = number(values[option])
            if value is not None:
                rest = tuple((other, text) for other, text in values.items() if other != option)
                groups.setdefault(rest, []).append((value, pattern))
        found += [
            Sweep(settings.name, option, dict(rest), tuple(sorted(members)))
            for rest, members in groups.items()
            if len({value for value, _ in members}) >= LEAST_VALUES
        ]
    return tuple(found)


def number(text: str) -> float | None:
    """The value of an option as the worker writes it, 64k is 65536; None if it is not a number."""
    found = _NUMBER.fullmatch(text)
    value = float(found[1]) * SIZE_UNITS[found[2]] if found else math.inf
    return value if math.isfinite(value) else None
