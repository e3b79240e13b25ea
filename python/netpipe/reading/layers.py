# SPDX-License-Identifier: Apache-2.0
"""Which modules move nothing and which layer stands below which: read from the record, with what was true of older
files in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netpipe.records import Run, Variant

# Files from before the record said which module is idle.
IDLE_MODULE = "null"
# One process that copies: what all layers stand on whose bytes are moved by processors.
COPY_MODULE = "memcpy"
# Files from before the plan recorded its stack: what stood below the modules of this repository (np_module.below).
STACK: Mapping[str, str | None] = {"tcp": "unix", "unix": "pipe", "pipe": "shm", "shm": "memcpy"}


def is_idle(opened: Variant) -> bool:
    """Does the module of this variant move nothing? It measures netpipe itself: a bound, and no layer."""
    idle: bool | None = getattr(opened, "idle", None)
    return opened.module == IDLE_MODULE if idle is None else idle


def is_idle_module(listed: Mapping[str, Any]) -> bool:
    """The same for a module as `netpipe-worker list` describes it."""
    idle = listed.get("idle")
    return listed.get("name") == IDLE_MODULE if idle is None else bool(idle)


def idle_by_name(variant: str) -> bool:
    """The same for a variant without a record of its own, as in imported files."""
    return name_of(variant).partition(":")[0] == IDLE_MODULE


def stack(run: Run) -> dict[str, str | None]:
    """Module -> the module below it, as far as the run knows; for older files with `STACK` beneath."""
    recorded: dict[str, str | None] = {}
    for plan in run.plans:
        recorded |= getattr(plan, "stack", None) or {}
    below = recorded or dict(STACK)
    return below | {opened.module: opened.below for opened in run.variants}


def stands_on(opened: Variant) -> str | None:
    """What the layer below this variant stands on in turn, where its module found that out: an MPI whose messages go
    through UCX, which moves them by TCP. None: not told.
    """
    return opened.ranks[0].settings.get("below_stands_on") if opened.ranks else None


def down(opened: Variant, under: Mapping[str, str | None]) -> list[str]:
    """The modules below this variant, the nearest first; `under` is `stack` of its run. What the variant itself says
    comes before what others of the same modules stand on. A stack with a cycle ends at the first repetition.
    """
    found: list[str] = []
    module = opened.below
    while module is not None and module not in found:
        found.append(module)
        module = (stands_on(opened) if len(found) == 1 else None) or under.get(module)
    return found
