# SPDX-License-Identifier: Apache-2.0
"""What a prediction had to guess, because the runs lack a curve that the program needs, or a size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netpipe.prediction.costs import TRAINS, train
from netpipe.prediction.runs import BETWEEN

if TYPE_CHECKING:
    from netpipe.prediction.costs import Costs
    from netpipe.profiles.trace.calls import Calls


@dataclass(slots=True)
class Exchanged:
    """What the ranks of a host send each other, or those of several hosts."""

    largest: int = 0  # bytes of a message
    trains: set[str] = field(default_factory=set)  # patterns that tell what messages take that follow others


def exchanged(launches: Sequence[Calls]) -> dict[bool, Exchanged]:
    """By whether it goes between hosts; without that of which there is nothing."""
    found: dict[bool, Exchanged] = {}
    for made in launches:
        for message in made.messages:
            one = found.setdefault(message.far, Exchanged())
            one.largest = max(one.largest, message.bytes)
            pattern = train(message)
            if pattern is not None:
                one.trains.add(pattern)
        for group in made.groups:
            found.setdefault(group.far, Exchanged())
    return found


def guessed(costs: Costs, there: Mapping[bool, Exchanged]) -> tuple[str, ...]:
    """The patterns that were not measured and would tell something of this program. Of curves within a host and between
    hosts the names of the latter say so.
    """
    found = []
    for far, one in ((False, costs), (True, costs.far)):
        if one is None or (costs.far is not None and far not in there):
            continue
        trains = {pattern for side in _sides(costs, far) if side in there for pattern in there[side].trains}
        found += [
            f"{pattern}{BETWEEN}" if far else pattern
            for pattern in one.guessed
            if pattern not in TRAINS.values() or pattern in trains
        ]
    return tuple(found)


def beyond(costs: Costs, there: Mapping[bool, Exchanged], far: bool = False) -> int:
    """Bytes of the largest message, if no curve reaches it; else 0. `far`: of the curves between hosts, where there are
    others within one.
    """
    one = costs.far if far else costs
    if one is None:
        return 0
    largest = max((there[side].largest for side in _sides(costs, far) if side in there), default=0)
    return largest if largest > one.largest else 0


def _sides(costs: Costs, far: bool) -> tuple[bool, ...]:
    """For which messages these curves stand: without curves between hosts for all."""
    return (far,) if costs.far is not None else (False, True)
