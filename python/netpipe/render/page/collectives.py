# SPDX-License-Identifier: Apache-2.0
"""What collective operations cost in messages, for the page: a tree with a waterfall for either size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from netpipe.render.collectives import (
    WORDS,
    At,
    furthest_sentences,
    least_text,
    lines,
    longest_ns,
    messages_text,
    of_curves,
    over_text,
    title,
)
from netpipe.render.page.stack import drawn
from netpipe.units import UNKNOWN, capital, size_text, time_text

if TYPE_CHECKING:
    from netpipe.reading.blocks.collectives import Collectives

BARS = (
    "A bar ends at the time of its operation and is as long as what that adds to one message; the line: its 95 % "
    "interval; green: faster than a message; pale: not certain."
)
MOST_ROWS = 24  # that are not folded


def collective_rows(
    every: Sequence[Collectives], shown: Callable[[tuple[str, str]], bool]
) -> dict[str, Any] | None:
    """What the template needs, of operations whose curve (variant, pattern) the page shows; None: there are none."""
    of = of_curves(every, shown)
    if not of:
        return None
    made = lines(of)
    small_ns, large_ns = (
        longest_ns(at) for at in zip(*((line.small, line.large) for line in made), strict=True)
    )
    rows = [
        {
            "name": line.name,
            "depth": line.depth,
            "words": "",
            "time": _time(line.small),
            "adds": _messages(line.small),
            "adds_least": _least(line.small),
            **drawn(line.small.bar, small_ns, line.small.pale),
            "large": _time(line.large),
            "large_bar": drawn(line.large.bar, large_ns, line.large.pale),
            "keeps": _messages(line.large),
            "keeps_least": _least(line.large),
        }
        for line in made
    ]
    return {
        "title": capital(title(of)),
        "words": f"{BARS} {capital(WORDS)}",
        "columns": (
            "operation",
            size_text(of[0].small_bytes),
            "messages",
            size_text(of[0].large_bytes),
            "messages",
        ),
        "bars": ("waterfall", "waterfall of large messages"),
        "rows": rows,
        "first": rows[:MOST_ROWS],
        "sentences": furthest_sentences(of),
    }


def _time(at: At) -> str:
    return time_text(at.time_ns.value) if at.time_ns else UNKNOWN


def _messages(at: At) -> str:
    return messages_text(at.of, "width") if at.of else ""


def _least(at: At) -> str:
    """least 2.0: 1.87 times it; empty where it is not known."""
    return f"least {least_text(at.of)}: {over_text(at.of)}" if at.of and at.of.least is not None else ""
