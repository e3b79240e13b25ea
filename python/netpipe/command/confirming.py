# SPDX-License-Identifier: Apache-2.0
"""Experiments that confirm findings: a variant beside itself with the remedy, measured in blocks."""

from __future__ import annotations

from pathlib import Path

from netpipe.failure import Failure
from netpipe.findings import Confirm, Confirmed
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate

WORTH = 1.05  # a gain below this is none
LEAST = 1.02  # that the interval must lie above, so that a finding is confirmed


def run(confirm: Confirm, output: Path, budget: str) -> Confirmed:
    """Measures, and records to `output`. What goes wrong is an outcome."""
    from netpipe.session import Request, Session

    request = Request(
        [confirm.variant, confirm.remedied],
        patterns=[confirm.pattern],
        settings={"schedule": "list", "sizes": ",".join(map(str, confirm.sizes)), "budget": budget},
    )
    try:
        result = Session(request).measure(output)
    except Failure as failure:
        return Confirmed("failed", confirm.remedied, None, failure.sentence, None)
    gain = gained(Reading(result.run), confirm)
    path = None if result.path is None else str(result.path)
    if gain is None:
        said = next((error.message for error in result.run.errors), "the two were not measured together")
        return Confirmed("failed", confirm.remedied, None, said, path)
    return Confirmed(outcome(gain), confirm.remedied, gain, "", path)


def gained(reading: Reading, confirm: Confirm) -> Estimate | None:
    """How many times as fast the remedied variant is at the last of the sizes."""
    for verdict in reading.verdicts:
        for at in verdict.sizes:
            if at.size_bytes != confirm.sizes[-1]:
                continue
            if (verdict.variant, verdict.against) == (confirm.variant, confirm.remedied):
                return at.times
            if (verdict.variant, verdict.against) == (confirm.remedied, confirm.variant):
                return at.times.inverse()
    return None


def outcome(gain: Estimate) -> str:
    """Confirmed: certainly faster. Withdrawn: certainly not faster by more than what is worth it."""
    if not gain.known:
        return "undecided"
    if gain.low > LEAST:
        return "confirmed"
    return "withdrawn" if gain.high < WORTH else "undecided"
