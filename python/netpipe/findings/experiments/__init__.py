# SPDX-License-Identifier: Apache-2.0
"""Experiments that confirm findings: what they are, the command that runs one (words.py), and what those came to that
`netpipe explain --confirm` measured beside a run (outcomes.py).
"""

from __future__ import annotations

import msgspec

from netpipe.reading.estimate import Estimate

LOWER, HIGHER = "lower", "higher"


class Judged(msgspec.Struct, frozen=True):
    """The measure of a pattern that an experiment judges in place of the time. It is a share, of 1."""

    measure: str  # its name in the record
    what: str  # in words: fraction of messages lost
    better: str  # where better lies: LOWER or HIGHER
    best: float  # the share of a layer of which nothing is wrong


class Confirm(msgspec.Struct, frozen=True):
    """An experiment that confirms a finding: the variant and what the remedy makes of it, paired, at these sizes. The
    finding is confirmed if the remedied one is faster there, or better by the measure, and withdrawn if it certainly is
    not.
    """

    variant: str
    remedied: str
    pattern: str
    sizes: list[int]
    options: list[str] = []  # of the run, such as its hosts; filled in by `judge`
    judged: Judged | None = None  # None: the time


class Shares(msgspec.Struct, frozen=True):
    """A measure as an experiment found it; all are shares, of 1."""

    measure: str
    what: str  # in words
    before: Estimate  # without the remedy
    after: Estimate  # with it
    best: float  # where nothing is wrong
    # Of what it lacks to the best, how much the remedy gets back, compared within launches where there are enough.
    # None: it lacks nothing.
    got_back: Estimate | None


class Confirmed(msgspec.Struct, frozen=True):
    """What an experiment came to."""

    outcome: str  # confirmed, withdrawn, undecided, failed
    remedied: str
    gain: Estimate | None  # how many times as fast the remedied variant is; None where a measure was judged
    reason: str  # where there is nothing to say
    path: str | None  # of the run file
    shares: Shares | None = None  # the measure that was judged in place of the time
