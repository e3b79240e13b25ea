# SPDX-License-Identifier: Apache-2.0
"""The stack of layers as a waterfall: each bar goes from the time of the layer below to the layer's own."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.blocks.chains import Stack, Step


def bars(stack: Stack) -> Iterator[tuple[Step, float, float]]:
    """Each layer, where its bar begins and where it ends, in ns at the small size; 0 where there is no time."""
    below: list[float] = []  # the times of the layers under the one at hand, the root first
    for step in stack.steps:
        del below[step.depth :]
        time = step.small_ns.value if step.small_ns else 0.0
        yield step, below[-1] if below else 0.0, time
        below.append(time)


def standing(stack: Stack, chosen: Collection[tuple[str, str]]) -> list[bool]:
    """Of each layer: was it chosen, by variant and pattern, or does one stand on it that was?"""
    kept = [(step.variant, stack.pattern) in chosen for step in stack.steps]
    above = 0  # of the last one that was kept, the depth
    for place in reversed(range(len(kept))):
        depth = stack.steps[place].depth
        kept[place] |= depth < above
        if kept[place]:
            above = depth
    return kept
