# SPDX-License-Identifier: Apache-2.0
"""Experiments that confirm findings: what they are, the command that runs one (words.py), and what those came to that
`netpipe explain --confirm` measured beside a run (outcomes.py).
"""

from __future__ import annotations

import msgspec

from netpipe.reading.estimate import Estimate


class Confirm(msgspec.Struct, frozen=True):
    """An experiment that confirms a finding: the variant and what the remedy makes of it, paired, at these sizes. The
    finding is confirmed if the remedied one is faster there, and withdrawn if it certainly is not.
    """

    variant: str
    remedied: str
    pattern: str
    sizes: list[int]
    options: list[str] = []  # of the run, such as its hosts; filled in by `judge`


class Confirmed(msgspec.Struct, frozen=True):
    """What an experiment came to."""

    outcome: str  # confirmed, withdrawn, undecided, failed
    remedied: str
    gain: Estimate | None  # how many times as fast the remedied variant is
    reason: str  # where there is no gain to say
    path: str | None  # of the run file
