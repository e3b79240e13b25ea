# SPDX-License-Identifier: Apache-2.0
"""Was a setting in force? What the layer recorded of itself with it, against what it recorded without it.

A library ignores a variable that it does not know, and a kernel may give less than was asked for. So each setting is
looked for in what the open endpoint says (`settings` of the variant record), and library parameters are read back from
the library (readback.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netpipe.tuning.search.variants import Changes

READ, NO_EFFECT, UNKNOWN = "read back", "no effect", "not reported"
# Facts in which an option shows whose name they do not begin with; those that end with _ stand for all that begin so.
SHOWS_IN = {"tls": "transports", "rndv": "protocols_", "zcopy": "protocols_"}  # of UCX


@dataclass(frozen=True)
class Effect:
    name: str
    value: str
    word: str  # READ, NO_EFFECT or UNKNOWN
    said: str  # what was read


def effects(
    changes: Changes,
    before: Mapping[str, str],
    after: Mapping[str, str],
    asked: Mapping[str, tuple[str, str]],
) -> tuple[Effect, ...]:
    """`before`, `after`: what the variants recorded. `asked`: variables as the library reports them without and with
    the settings.
    """
    return tuple(_effect(name, value, before, after, asked) for name, value in changes.items)


def _effect(
    name: str,
    value: str,
    before: Mapping[str, str],
    after: Mapping[str, str],
    asked: Mapping[str, tuple[str, str]],
) -> Effect:
    if name in asked:
        without, with_ = asked[name]
        same = without == with_
        return Effect(name, value, NO_EFFECT if same else READ, f"{with_}, as without it" if same else with_)
    own = {fact: there for fact, there in after.items() if fact == name or fact.startswith(f"{name}_")}
    if not own and (place := SHOWS_IN.get(name)):
        own = {
            fact: there
            for fact, there in after.items()
            if fact == place or (place.endswith("_") and fact.startswith(place))
        }
    if own:
        changed = {fact: there for fact, there in own.items() if before.get(fact) != there}
        shown = ", ".join(f"{fact}={there}" for fact, there in (changed or own).items())
        return Effect(
            name, value, READ if changed else NO_EFFECT, shown if changed else f"{shown}, as without it"
        )
    exported = _variables(after) - _variables(before)
    if exported:
        return Effect(name, value, READ, f"given to the library as {' '.join(sorted(exported))}")
    return Effect(name, value, UNKNOWN, "the layer does not report it")


def _variables(settings: Mapping[str, str]) -> set[str]:
    """UCX has its own in its configuration, each a fact."""
    own = {f"{name}={value}" for name, value in settings.items() if name.startswith("UCX_")}
    return own | set(settings.get("environment", "").split())
