# SPDX-License-Identifier: Apache-2.0
"""What the pictures of the stack of layers have in common."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.blocks.chains import Stack


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
