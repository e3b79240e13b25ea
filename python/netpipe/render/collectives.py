# SPDX-License-Identifier: Apache-2.0
"""What collective operations cost in messages of the same library, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from netpipe.reading.blocks.chains import Bar
from netpipe.reading.blocks.collectives import Collective, Collectives, CollectiveSize
from netpipe.reading.estimate import Estimate
from netpipe.render.losses import MOST_IN_QUESTION, ROUGHLY, compared_text
from netpipe.units import (
    UNKNOWN,
    bracketed_text,
    digits,
    limits_text,
    listed,
    size_text,
    times_text,
    width_text,
)

Limits = Literal[
    "interval", "width", ""
]  # how the interval of a number of messages is written; "": not at all

WORDS = (
    "messages: how many messages of this size take as long, from pairs of visits; least: how many the operation takes "
    "by the textbook, where a rank sends and receives one message at a time."
)
MOST_SAID = 4  # variants of which a sentence says more


def of_curves(every: Iterable[Collectives], wanted: Callable[[tuple[str, str]], bool]) -> list[Collectives]:
    """With the operations whose curve (variant, pattern) is wanted, and without variants that have none."""
    return [
        replace(one, each=each)
        for one in every
        if (each := tuple(of for of in one.each if wanted((one.variant, of.pattern))))
    ]


def title(of: Sequence[Collectives]) -> str:
    """What a table of all of them is about."""
    ranks = {one.ranks for one in of}
    return f"collectives of {ranks.pop()} ranks" if len(ranks) == 1 else "collectives"


class At(NamedTuple):
    """A line of the table at one size."""

    time_ns: Estimate | None  # of a message, or of an operation
    of: CollectiveSize | None  # None: a message, or not measured

    @property
    def bar(self) -> Bar | None:
        """What an operation adds to a message, as a part of its time; all of the time of a message."""
        if self.of is not None:
            return self.of.bar_ns
        if self.time_ns is None:
            return None
        time = self.time_ns
        return Bar(0.0, time.value, time.low, time.high)

    @property
    def pale(self) -> bool:
        """Was no difference from a message seen?"""
        return self.of is not None and self.of.messages.covers(1)


class Line(NamedTuple):
    """A message, or an operation that is held against the message above it."""

    name: str
    depth: int  # 0 or 1
    last: bool  # of the operations of its variant
    small: At
    large: At


def lines(every: Sequence[Collectives]) -> list[Line]:
    """Each variant, and below it its operations."""
    made = []
    for one in every:
        made.append(Line(_message_text(one, every), 0, False, At(one.small_ns, None), At(one.large_ns, None)))
        for of in one.each:
            both = (At(size.time_ns if size else None, size) for size in (of.small, of.large))
            made.append(Line(_operation_text(of, one.small_bytes), 1, of is one.each[-1], *both))
    return made


def longest_ns(of: Iterable[At]) -> float:
    """What a scale of the bars reaches to."""
    return max((max(bar.begin, bar.end) for at in of if (bar := at.bar)), default=0.0) or 1.0


def _message_text(of: Collectives, every: Sequence[Collectives]) -> str:
    """The variant, with what tells it from the others: its ranks where they differ, and settings of its messages."""
    ranks = f"{of.ranks} ranks" if any(one.ranks != of.ranks for one in every) else ""
    settings = of.message.partition(":")[2]
    return ", ".join(filter(None, (of.variant, ranks, settings)))


def _operation_text(of: Collective, small_bytes: int | None) -> str:
    """The operation, with its size where that is not the small one of the table."""
    size = of.small.size_bytes if of.small else small_bytes
    return of.operation if size == small_bytes else f"{of.operation} ({size_text(size)})"


def messages_text(size: CollectiveSize | None, limits: Limits = "interval") -> str:
    """3.73 [3.53 3.91] or 3.73 ±5.1 %: how many messages take as long as the operation."""
    if size is None:
        return UNKNOWN
    of = size.messages
    if not of.known:
        return ROUGHLY + digits(of.value)
    if limits == "interval":
        return bracketed_text(of.value, of.low, of.high, (), "").rstrip()
    if not limits:
        return digits(of.value)
    return (
        f"{digits(of.value)} {width_text(of.half_width)}"
        if of.half_width <= 1
        else f"{digits(of.value)} > ±100 %"
    )


def least_text(size: CollectiveSize | None) -> str:
    """2.0: how many messages the operation takes at least."""
    return UNKNOWN if size is None or size.least is None else digits(size.least, 2)


def over_text(size: CollectiveSize | None) -> str:
    """1.87 times the least number of messages, or what the data say of that."""
    over = size.over_least if size else None
    return UNKNOWN if over is None else compared_text(over, times_text(over.value))


def furthest_sentences(of: Sequence[Collectives]) -> tuple[str, ...]:
    """Which operation of a variant is furthest above its least number of messages, at the small size and at the large
    one. Where its interval overlaps those of others, the sentence says that this is undecided, and between which.
    """
    return tuple(sentence for one in of[:MOST_SAID] for sentence in _furthest(one))


def _furthest(of: Collectives) -> Iterator[str]:
    for at in (
        [(one.operation, one.small) for one in of.each],
        [(one.operation, one.large) for one in of.each],
    ):
        over = [(name, size, ratio) for name, size in at if size and (ratio := size.over_least)]
        falling = sorted(over, key=lambda one: -one[2].value)
        first = next((one for one in falling if one[2].value > 1 and not one[2].covers(1)), None)
        if first is None:
            continue
        rivals = [name for name, _, ratio in falling if name != first[0] and not _below(ratio, first[2])]
        where = f"{of.variant} at {size_text(first[1].size_bytes)}"
        if rivals:
            names = [first[0], *rivals]
            if len(names) > MOST_IN_QUESTION:
                names[MOST_IN_QUESTION - 1 :] = [f"{len(names) - MOST_IN_QUESTION + 1} others"]
            yield f"{where}: it is undecided which of {listed(names)} is furthest above its least number of messages."
            continue
        messages, times = first[1].messages, digits(first[2].value)
        takes = f"{digits(messages.value)} messages ({limits_text(messages.low, messages.high, digits)})"
        if len(falling) == 1:
            yield f"{where}: {first[0]} takes {takes}, {times} times the least."
        else:
            yield f"{where}: {first[0]} is furthest above its least number of messages: {takes}, {times} times as many."


def _below(ratio: Estimate, most: Estimate) -> bool:
    """Is it certainly less? Without an interval the value decides."""
    return ratio.high < most.low if ratio.known else ratio.value < most.value
