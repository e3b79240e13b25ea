# SPDX-License-Identifier: Apache-2.0
"""What a prediction had to guess, because the runs lack a curve that the program needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from netpipe.prediction.costs import TRAINS, train

if TYPE_CHECKING:
    from netpipe.prediction.costs import Costs
    from netpipe.profiles.calls import Calls


def trains(launches: Sequence[Calls]) -> set[str]:
    """The patterns that tell what messages take that follow others."""
    found = {train(message) for made in launches for message in made.messages}
    return {pattern for pattern in found if pattern is not None}


def guessed(costs: Costs, asked: Collection[str]) -> tuple[str, ...]:
    """The patterns that were not measured and would tell something of this program; `asked`: its trains."""
    return tuple(pattern for pattern in costs.guessed if pattern not in TRAINS.values() or pattern in asked)
