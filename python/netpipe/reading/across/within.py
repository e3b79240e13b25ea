# SPDX-License-Identifier: Apache-2.0
"""Variants of one run against each other, of any layers: `netpipe compare RUN --variant A --variant B`.

The ratio of a size is that of the times within its blocks, so what the machine does to both cancels. What is left is
how far launches lie apart, a part of which is common to all sizes (blocks/whole.py).

The intervals of all sizes and of the means over all sizes, of all variants that are compared in one call, hold together
with 95 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from netpipe.reading.across.between import Between, Name
from netpipe.reading.blocks.verdicts import SizeVerdict, word_of
from netpipe.reading.blocks.visits import Seen, paired
from netpipe.reading.blocks.whole import ratios
from netpipe.reading.estimate import Estimate


def within(
    variants: Sequence[str], patterns: Sequence[str], visits: Mapping[Name, Seen]
) -> tuple[Between, ...]:
    """Each variant but the first against the first, under each pattern under which the run measured both by turns."""
    base, *others = variants
    pairs = []
    for pattern in patterns:
        for variant in others:
            two = visits.get((variant, pattern)), visits.get((base, pattern))
            if two[0] is not None and two[1] is not None and len((both := paired(two[0], two[1])).log):
                pairs.append((variant, pattern, both))
    found = []
    for (variant, pattern, _), (sizes, whole) in zip(
        pairs, ratios([both for *_, both in pairs]), strict=True
    ):
        found.append(
            Between(
                variant,
                pattern,
                variant,
                base,
                tuple(_verdicts(sizes)),
                whole,
                word_of(whole),
                pattern,
                variants_differ=True,
            )
        )
    return tuple(found)


def _verdicts(sizes: Mapping[int, Estimate]) -> Iterator[SizeVerdict]:
    return (SizeVerdict(size, times, word_of(times)) for size, times in sizes.items())
