# SPDX-License-Identifier: Apache-2.0
"""Which modules move nothing and which layer stands below which: read from the record, with what was true of older
files in one place.

What stands below is a fact of a variant, because settings decide it: `ucx` stands on shared memory and `ucx:tls=tcp`
on TCP. So a chain begins with what its variant says. Only where that ends does it go on by module (`stack`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netpipe.records import Run, Variant

# Files from before the record said which module is idle, and imported ones without a record of it.
IDLE_MODULE = "null"
# Files from before the plan said which settings a tuner searches unasked: those that it did not.
SEARCHED_IF_ASKED = frozenset({"wait", "spin_us", "yield", "poll_gap", "op", "partitions"})
# One process that copies: what all layers stand on whose bytes are moved by processors.
COPY_MODULE = "memcpy"
# LAYER@NAME: a layer that is built once for each library.
SEPARATOR = "@"
# Files from before the plan recorded its stack: what stood below the modules of this repository (np_module.below).
STACK: Mapping[str, str | None] = {"tcp": "unix", "unix": "pipe", "pipe": "shm", "shm": "memcpy"}


def is_idle(opened: Variant) -> bool:
    """Does the module of this variant move nothing? It measures netpipe itself: a bound, and no layer."""
    idle: bool | None = getattr(opened, "idle", None)
    return opened.module == IDLE_MODULE if idle is None else idle


def is_idle_module(listed: Mapping[str, Any]) -> bool:
    """The same for a module as `netpipe-worker list` describes it."""
    return bool(listed.get("idle"))


def idle_by_name(variant: str) -> bool:
    """The same for a variant without a record of its own, as in imported files."""
    return name_of(variant).partition(":")[0] == IDLE_MODULE


class Below:
    """What stands below each variant of a run."""

    def __init__(self, run: Run) -> None:
        self._under = stack(run)
        self._of_library: dict[tuple[str, str | None], str] = {}
        for opened in run.variants:
            layer, built, _ = opened.module.partition(SEPARATOR)
            if built:
                self._of_library.setdefault((layer, opened.version), opened.module)

    def told(self, opened: Variant) -> tuple[str, ...]:
        """The modules below this variant that its own module found, the nearest first: ("ucx", "tcp") for an MPI whose
        messages go through UCX, which moves them by TCP. A layer that is built for each library ("mpi") is the module
        of the library that was found, where the run has it ("mpi@openmpi").
        """
        if opened.below is None:
            return ()
        settings = opened.ranks[0].settings if opened.ranks else {}
        below = self._of_library.get((opened.below, settings.get("below_version")), opened.below)
        return (below, *str(settings.get("below_stands_on") or "").split())

    def down(self, opened: Variant) -> tuple[str, ...]:
        """The modules below this variant, the nearest first. What the variant itself says comes before what others of
        the same modules stand on. A stack with a cycle ends at the first repetition.
        """
        found: list[str] = []
        for module in self.told(opened):
            if module in found:
                return tuple(found)
            found.append(module)
        further = self._under.get(found[-1]) if found else None
        while further is not None and further not in found:
            found.append(further)
            further = self._under.get(further)
        return tuple(found)


def stack(run: Run) -> dict[str, str | None]:
    """Module -> the module below it, where nothing more is known than the module; for older files with `STACK`
    beneath. What all opened variants of a module agree on holds. If they differ, the plain one (named as its module)
    decides, else the module's own table if one of them agrees with it. Otherwise it is not known: None.
    """
    tables: dict[str, str | None] = {}
    for plan in run.plans:
        tables |= getattr(plan, "stack", None) or {}
    known = tables or dict(STACK)
    said: dict[str, dict[str, str | None]] = {}  # module -> variant -> the module below
    for opened in run.variants:
        said.setdefault(opened.module, {})[opened.variant] = opened.below
    return known | {module: _by_module(module, below, known.get(module)) for module, below in said.items()}


def _by_module(module: str, below: Mapping[str, str | None], table: str | None) -> str | None:
    each = set(below.values())
    if len(each) == 1:
        return each.pop()
    if module in below:
        return below[module]
    return table if table in each else None


def may_stand_below(asked: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Is a variant that found `other` below it the one that another says it stands on, with `asked` below that? Each
    may say more than the other, but the nearest layer that is asked for must be known.
    """
    if not asked:
        return True
    return bool(other) and all(one == two for one, two in zip(asked, other, strict=False))
