# SPDX-License-Identifier: Apache-2.0
"""What else differs between two runs: hosts, kernels, settings, the pace of the machine. A difference in a curve that
comes with one of these has a likely cause, and one that comes with another machine says nothing about the software.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from netpipe.columns import flat
from netpipe.records import Run

# Facts that change by themselves: they are no difference between two machines, or between one and itself.
VOLATILE = re.compile(
    r"^load\.|free|available|_used|uptime|steal|throttled|shared_mappings|^awake$|^local$|^peer$|\bport\b|"
    r"^spoilers|kernel_bytes$|busy_processes|^transport_found\.|opened|\.pid$"
)
PACE = 0.05  # of the yardsticks: below, two medians are the same
OF_PROCESSOR = 0.01  # of the processor's own speed, which is measured more closely


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same in two runs."""

    of: str  # "host", "plan", or a variant
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Pace:
    """A yardstick in two runs: how fast the machine itself was."""

    name: str
    unit: str
    before: float
    after: float
    alike: float = PACE

    @property
    def differs(self) -> bool:
        return abs(self.after / self.before - 1) > self.alike


def differences(before: Run, after: Run) -> tuple[Difference, ...]:
    """Of the hosts, of the plans, and of the variants that both have."""
    found: list[Difference] = []
    for of, first, second in (
        ("host", host_facts(before), host_facts(after)),
        ("plan", _plan(before), _plan(after)),
    ):
        found += _apart(of, first, second)
    mine, other = _variants(before), _variants(after)
    for variant in mine:
        if variant in other:
            found += _apart(variant, mine[variant], other[variant])
    return tuple(found)


def paces(before: Run, after: Run) -> tuple[Pace, ...]:
    """The yardsticks that both runs have; medians over the run."""
    found = []
    for field, name, unit, alike in (
        ("bounce_ns", "cache-line bounce", "ns", PACE),
        ("copy_bytes_per_s", "memory copy", "bytes/s", PACE),
        ("wakeup_ns", "wake-up", "ns", PACE),
        ("multiply_ns", "multiplication", "ns", OF_PROCESSOR),
    ):
        both = [
            [one for y in run.yardsticks if (one := getattr(y, field)) is not None] for run in (before, after)
        ]
        if all(both) and all(min(values) > 0 for values in both):
            first, second = (median(values) for values in both)
            found.append(Pace(name, unit, first, second, alike))
    return tuple(found)


def _apart(of: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        first, second = before.get(name), after.get(name)
        # What one of them does not record is no difference: older versions recorded less.
        if first is not None and second is not None and first != second:
            yield Difference(of, name, first, second)


def host_facts(run: Run) -> dict[str, str]:
    """Of its hosts, by name: what is the same in all launches, and does not change by itself."""
    facts = [{"name": one.host or "", **flat(one.facts)} for one in run.environments]
    return _constant(facts) | {"netpipe": text_of(run.header.netpipe) if run.header else ""}


def _plan(run: Run) -> dict[str, str]:
    plans = []
    for one in run.plans:
        whole = msgspec.to_builtins(one)
        plans.append({name: whole.get(name) for name in ("placement", "pin", "verify", "launches")})
        plans[-1] |= flat({"schedule": whole.get("schedule") or {}, "buffers": whole.get("buffers") or {}})
    return _constant(plans)


def _variants(run: Run) -> dict[str, dict[str, str]]:
    of: dict[str, list[dict[str, Any]]] = {}
    for one in run.variants:
        of.setdefault(one.variant, []).extend(
            {"version": one.version, "ranks": len(one.ranks), **rank.settings} for rank in one.ranks
        )
    return {variant: _constant(said) for variant, said in of.items()}


def _constant(several: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What is the same in all of them, as text."""
    every = list(several)
    names = [name for name in (every[0] if every else ()) if not VOLATILE.search(name)]
    return {
        name: text_of(every[0][name])
        for name in names
        if every[0][name] is not None and all(one.get(name) == every[0][name] for one in every)
    }


def text_of(value: Any) -> str:
    """As a reader sees it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
