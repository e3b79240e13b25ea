# SPDX-License-Identifier: Apache-2.0
"""How a rank waits for a message: the words of the option and of the fact `wait`, and the verb that says what it does
meanwhile. The table is that of include/netpipe/waiting.h, which `netpipe-worker keys` prints; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

BLOCK, POLL = "block", "poll"
SLEEPS, POLLS = "sleep", "poll"
VERBS: Mapping[str, str] = {
    BLOCK: SLEEPS,
    POLL: POLLS,
    "hybrid": "poll and then sleep",
    "yield": POLLS,  # where ranks share a processor, every layer that polls yields
    "none": "",  # never waits
}


def alike(word: str | None) -> str | None:
    """The word under which a layer that waits so is compared: the first one with its verb. None: it never waits, or did
    not say how. A word that is not in the table stands for itself.
    """
    if word is None or word not in VERBS:
        return word
    verb = VERBS[word]
    return next(first for first, its in VERBS.items() if its == verb) if verb else None


def verb_of(word: str | None) -> str:
    """What a layer that waits so does; one that never waits, or did not say how, is taken to poll."""
    return VERBS.get(word or "") or POLLS


def sleeps(word: str | None) -> bool:
    """Does a rank that waits so sleep from the start, without polling first?"""
    return verb_of(word) == SLEEPS
