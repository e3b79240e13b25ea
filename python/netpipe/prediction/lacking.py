# SPDX-License-Identifier: Apache-2.0
"""Which curves a prediction needs that the runs lack, and what to measure to have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.prediction.costs import FEWEST, FIRST, OPERATIONS
from netpipe.prediction.predict import needs
from netpipe.prediction.runs import BETWEEN, between_hosts, of_program, without_ranks
from netpipe.prediction.unknown import near_and_far_curves
from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from netpipe.prediction.predict import Predicted, Prediction
    from netpipe.profiles import Profile
    from netpipe.profiles.trace.calls import Calls
    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve
    from netpipe.records import Run

Needs = Mapping[tuple[str, int], set[int]]  # sizes in bytes, by pattern and number of ranks
BARRIER = "collective:what=barrier"  # moves nothing, so any size will do
MOST_SIZES = 24  # of a curve: what lies between two of them is read off between them


@dataclass(frozen=True, slots=True)
class Part:
    """What can be measured in one go: each pattern over each variant, at all sizes, on so many ranks."""

    variants: tuple[str, ...]
    patterns: tuple[str, ...]
    sizes: tuple[int, ...]  # bytes
    ranks: int


def needed(programs: Iterable[Calls]) -> dict[tuple[str, int], set[int]]:
    """What the launches of a program need together, each curve at MOST_SIZES sizes at most."""
    found: dict[tuple[str, int], set[int]] = {}
    for made in programs:
        for key, sizes in needs(made).items():
            found.setdefault(key, set()).update(sizes)
    return {key: fewer(sorted(sizes)) for key, sizes in found.items()}


def lacking(need: Needs, reading: Reading | None, variants: Sequence[str]) -> dict[str, Needs]:
    """By variant, what of this the runs do not have within a host: messages may be measured on any number of ranks,
    collectives on this one.
    """
    ranks = {one.variant: len(one.ranks) for one in reading.run.variants} if reading else {}
    there: dict[tuple[str, str, int | None], set[int]] = {}
    for curve in _within_a_host(reading):
        on = ranks.get(curve.variant, FEWEST) if _is_collective(curve.pattern) else None
        known = there.setdefault((name_of(without_ranks(curve.variant)), curve.pattern, on), set())
        known.update(point.size_bytes for point in curve.points)
    found: dict[str, Needs] = {}
    for variant in variants:
        left = {}
        for (pattern, on), sizes in need.items():
            known = there.get((variant, pattern, on if _is_collective(pattern) else None), set())
            rest = sizes - known
            if rest and not (pattern == BARRIER and known):
                left[pattern, on] = rest
        found[variant] = left
    return found


def without_first(reading: Reading | None, variants: Sequence[str]) -> list[str]:
    """Those of which no run says what the first message takes within a host."""
    curves = _within_a_host(reading)
    there = {name_of(without_ranks(one.variant)) for one in curves if one.pattern == FIRST}
    return [variant for variant in variants if variant not in there]


def parts(lacks: Mapping[str, Needs]) -> list[Part]:
    """As few as possible that measure nothing else."""
    alike: dict[tuple[str, tuple[int, ...], int], list[str]] = {}  # patterns
    for variant, need in lacks.items():
        for (pattern, ranks), sizes in need.items():
            alike.setdefault((variant, tuple(sorted(sizes)), ranks), []).append(pattern)
    found: dict[tuple[tuple[str, ...], tuple[int, ...], int], list[str]] = {}  # variants
    for (variant, some, ranks), patterns in alike.items():
        found.setdefault((tuple(patterns), some, ranks), []).append(variant)
    return [Part(tuple(variants), *key) for key, variants in found.items()]


def on_ranks(variant: str, ranks: int) -> str:
    """The variant, which says on how many ranks it is measured if these are not two."""
    return variant if ranks == FEWEST else with_ranks(variant, ranks)


def with_ranks(variant: str, ranks: int) -> str:
    return f"{variant}{',' if ':' in variant else ':'}ranks={ranks}"


def fewer(sizes: Sequence[int], most: int = MOST_SIZES) -> set[int]:
    """So many sizes that cover the others, the least and the largest among them."""
    if len(sizes) <= most:
        return set(sizes)
    step = (len(sizes) - 1) / (most - 1)
    return {sizes[round(place * step)] for place in range(most)}


@dataclass(frozen=True, slots=True)
class Between:
    """Curves between hosts, over variants that lack some of them."""

    variants: tuple[str, ...]
    hosts: tuple[tuple[str, int], ...]  # two, each with how many ranks the program has there
    needs: Needs


def between(found: Predicted, profile: Profile, run: Run) -> Between | None:
    """As one run can have them, because several runs between hosts would be several variants: on the two hosts that
    have most ranks. So collectives on more ranks are left out. None where nothing of this is lacking.
    """
    hosts = Counter(host for host in profile.hosts.values() if host).most_common(2)
    least, together = min((ranks for _, ranks in hosts), default=0), sum(ranks for _, ranks in hosts)
    need = {
        (pattern, ranks): sizes
        for (pattern, ranks), sizes in found.needs_between.items()
        if ranks in (FEWEST, together) or (ranks % 2 == 0 and ranks // 2 <= least)
    }
    predicted = {one.variant: one for one in found.variants}
    there = dict.fromkeys(of_program(one.variant) for one in run.points if one.pattern == "pingpong")
    variants = [
        variant
        for variant in there
        if near_and_far_curves(run, variant) == (True, False)
        or (variant in predicted and _lacks_between(predicted[variant], run, need))
    ]
    return Between(tuple(variants), tuple(hosts), need) if need and variants and len(hosts) == 2 else None


def _lacks_between(one: Prediction, run: Run, need: Needs) -> bool:
    """Whether one of these was not measured. If there are curves between hosts alone they stand for all messages, and
    what they lack does not bear the name of those between hosts.
    """
    alone = near_and_far_curves(run, one.variant) == (False, True)
    collectives = [
        (f"collective:what={OPERATIONS.get(name.removesuffix(BETWEEN))}", ranks)
        for name, ranks in one.missing
        if alone or name.endswith(BETWEEN)
    ]
    return (
        bool(one.beyond if alone else one.beyond_far)
        or any(alone or pattern.endswith(BETWEEN) for pattern in one.guessed)
        or any(key in need for key in collectives)
    )


def _within_a_host(reading: Reading | None) -> list[Curve]:
    """Without the curves between hosts, which are others."""
    if reading is None:
        return []
    far = between_hosts(reading.run)
    return [curve for curve in reading.curves if curve.variant not in far]


def _is_collective(pattern: str) -> bool:
    return pattern.partition(":")[0] == "collective"
