# SPDX-License-Identifier: Apache-2.0
"""Which processors the ranks run on. That holds for a whole run, so launches take turns (turns.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from netpipe import native
from netpipe.failure import Failure
from netpipe.session import Request, Session
from netpipe.tuning.measuring.ratios import Verdict
from netpipe.tuning.measuring.turns import Series, take_turns

NAME = "placement"  # what --only calls it
LEFT_OUT = "which processors the ranks run on, where --pin names none"  # and netpipe has placed them as it knows best
DEFAULT = "auto"
NOT_PINNED = "none"  # no placement: the kernel moves the ranks about


def words() -> list[str]:
    """The placements that --pin has words for."""
    (key,) = (one for one in native.keys()["plan_keys"] if one["name"] == "pin")
    return [word for word in key["choices"] if word != NOT_PINNED]


def place(
    request: Request, folder: Path, going_on: Callable[[], bool], say: Callable[[str], None]
) -> dict[str, Verdict]:
    """Every placement that this machine has, by its word, against that of `request`, which is one launch."""
    now = request.settings.get("pin", DEFAULT)
    others = []
    for word in words():
        other = replace(request, settings={**request.settings, "pin": word})
        if word != now and _possible(other):
            others.append(Series(word, other))
    return take_turns(request, others, folder / NAME, going_on, say) if others else {}


def count(request: Request) -> int:
    """How many series there will be."""
    return 2 + sum(
        _possible(replace(request, settings={**request.settings, "pin": word})) for word in words()
    )


def _possible(request: Request) -> bool:
    """Whether the machine has such processors."""
    try:
        Session(request)
    except Failure:
        return False
    return True


def best(found: dict[str, Verdict]) -> str:
    """The word of the placement that gains most; "": none does."""
    gaining = [word for word, what in found.items() if what.gains]
    return max(gaining, key=lambda word: found[word].times_as_fast.value, default="")
