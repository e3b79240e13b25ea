# SPDX-License-Identifier: Apache-2.0
"""What a host can measure, what it lacks, and what on it disturbs measurements: the modules that the worker lists,
together with the rules about machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from netpipe.findings import MACHINE, SEVERE, SEVERITIES, Finding, judge
from netpipe.findings.machine import run_on
from netpipe.reading import Reading
from netpipe.reading.layers import is_idle_module
from netpipe.units import sentence


@dataclass(frozen=True, slots=True)
class Layer:
    """A module that can be measured here."""

    name: str
    summary: str
    version: str
    patterns: tuple[str, ...]
    crosses_hosts: bool
    idle: bool = False  # moves nothing: measures netpipe itself


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that cannot be measured here: a module, a file that is not a module, or a loss without its lower
    layer.
    """

    what: str
    why: str  # a sentence; it says how to get the module if the module knows


@dataclass(frozen=True, slots=True)
class Diagnosis:
    layers: tuple[Layer, ...]
    missing: tuple[Missing, ...]
    findings: tuple[Finding, ...]  # what disturbs measurements, the worst first

    @property
    def possible(self) -> bool:
        """Is there any layer to measure?"""
        return any(not layer.idle and layer.patterns for layer in self.layers)

    @property
    def severe(self) -> bool:
        return any(finding.severity == SEVERE for finding in self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """Findings by severity; severities without any are absent."""
        found = dict.fromkeys(SEVERITIES, 0)
        for finding in self.findings:
            found[finding.severity] += 1
        return {severity: count for severity, count in found.items() if count}


def diagnose(
    listing: Mapping[str, Any], environment: Mapping[str, Any], broken: Mapping[str, str] | None = None
) -> Diagnosis:
    """`listing` is the output of `netpipe-worker list`, `environment` that of `netpipe-worker environment`. `broken`
    maps modules of which the worker could read only the description to what is wrong with them, and layers of which no
    library was added to what gets one.
    """
    broken = broken or {}
    modules = [
        {**module, "available": False, "reason": broken[module["name"]]}
        if module["name"] in broken
        else module
        for module in listing.get("modules") or []
    ]
    usable = [module for module in modules if module.get("available")]
    layers = tuple(
        Layer(
            name=str(module["name"]),
            summary=str(module.get("summary") or ""),
            version=str(module.get("version") or ""),
            patterns=tuple(str(pattern) for pattern in module.get("patterns") or ()),
            crosses_hosts=bool(module.get("crosses_hosts")),
            idle=is_idle_module(module),
        )
        for module in usable
    )
    missing = [
        Missing(str(module["name"]), _reason(module.get("reason"), "the module does not say why"))
        for module in modules
        if not module.get("available")
    ]
    listed = {module["name"] for module in modules}
    missing += [Missing(name, _reason(why, "")) for name, why in broken.items() if name not in listed]
    missing += [
        Missing(str(file.get("path")), _reason(file.get("reason"), "it is not a module"))
        for file in listing.get("refused") or []
    ]
    missing += _losses_without_lower_layer(usable)
    return Diagnosis(layers, tuple(missing), judge(Reading(run_on(environment)), about=MACHINE).findings)


def _losses_without_lower_layer(usable: Iterable[Mapping[str, Any]]) -> list[Missing]:
    """Losses that cannot be computed, because the layer below is not here."""
    modules = list(usable)
    names = {module["name"] for module in modules}
    return [
        Missing(
            f"the loss of {module['name']}",
            f"it is computed against {module['below']}, which cannot be measured here.",
        )
        for module in modules
        if module.get("below") and module["below"] not in names
    ]


def _reason(text: Any, otherwise: str) -> str:
    return sentence(str(text or otherwise))
