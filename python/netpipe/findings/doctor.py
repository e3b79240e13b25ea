# SPDX-License-Identifier: Apache-2.0
"""What a host can measure, what it lacks, and what on it spoils a number. The worker has judged the spoilers
(docs/reference/environment.md); here they are put together with the modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEVERITIES = ("severe", "warning", "note")
HARNESS = "null"  # the module that does nothing: it measures netpipe itself, so it alone is no measurement


@dataclass(frozen=True, slots=True)
class Layer:
    """A module that can be measured here."""

    name: str
    summary: str
    version: str
    patterns: tuple[str, ...]
    crosses_hosts: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that cannot be measured here: a module, a file that is none, or a loss without its lower
    layer.
    """

    what: str
    why: str  # a sentence that also says how to get it, where the module knows


@dataclass(frozen=True, slots=True)
class Spoiler:
    what: str
    why: str
    fix: str  # a command or advice; "" where there is none
    severity: str  # of SEVERITIES


@dataclass(frozen=True, slots=True)
class Diagnosis:
    layers: tuple[Layer, ...]
    missing: tuple[Missing, ...]
    spoilers: tuple[Spoiler, ...]  # the worst first

    @property
    def possible(self) -> bool:
        """Is there any layer to measure?"""
        return any(layer.name != HARNESS and layer.patterns for layer in self.layers)

    @property
    def severe(self) -> bool:
        return any(spoiler.severity == "severe" for spoiler in self.spoilers)

    @property
    def counts(self) -> dict[str, int]:
        """Spoilers by severity, those that there are."""
        found = dict.fromkeys(SEVERITIES, 0)
        for spoiler in self.spoilers:
            found[spoiler.severity] += 1
        return {severity: count for severity, count in found.items() if count}


def diagnose(
    listing: Mapping[str, Any], environment: Mapping[str, Any], broken: Mapping[str, str] | None = None
) -> Diagnosis:
    """`listing` as `netpipe-worker list` gives it, `environment` as `netpipe-worker environment` does. `broken` are
    modules of which the worker has read only the description, with what is wrong with them.
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
        )
        for module in usable
    )
    missing = [
        Missing(str(module["name"]), _sentence(module.get("reason"), "its module does not say why"))
        for module in modules
        if not module.get("available")
    ]
    listed = {module["name"] for module in modules}
    missing += [Missing(name, _sentence(why, "")) for name, why in broken.items() if name not in listed]
    missing += [
        Missing(str(file.get("path")), _sentence(file.get("reason"), "it is no module"))
        for file in listing.get("refused") or []
    ]
    missing += _without_a_floor(usable)
    return Diagnosis(layers, tuple(missing), _spoilers(environment.get("spoilers") or []))


def _without_a_floor(usable: Iterable[Mapping[str, Any]]) -> list[Missing]:
    """A layer's loss is read against the one below; where that one is not here, there is nothing to read it
    against.
    """
    modules = list(usable)
    names = {module["name"] for module in modules}
    return [
        Missing(
            f"the loss of {module['name']}",
            f"it is read against {module['below']}, which cannot be measured here.",
        )
        for module in modules
        if module.get("below") and module["below"] not in names
    ]


def _spoilers(found: Iterable[Mapping[str, Any]]) -> tuple[Spoiler, ...]:
    spoilers = [
        Spoiler(
            what=str(one["what"]),
            why=_sentence(one.get("why"), ""),
            fix=str(one.get("fix") or ""),
            # A severity of a newer worker that is not known here is taken seriously, but not as the worst.
            severity=one["severity"] if one.get("severity") in SEVERITIES else "warning",
        )
        for one in found
        if one.get("what")
    ]
    return tuple(sorted(spoilers, key=lambda spoiler: SEVERITIES.index(spoiler.severity)))


def _sentence(text: Any, otherwise: str) -> str:
    words = str(text or otherwise).strip()
    return words if not words or words.endswith((".", "!", "?", ")")) else f"{words}."
