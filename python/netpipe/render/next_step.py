# SPDX-License-Identifier: Apache-2.0
"""What to do about the layer that costs most, where no finding says it: search its settings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from netpipe.findings import CURVES, Finding, rules
from netpipe.findings.trust import tells
from netpipe.reading import Reading
from netpipe.reading.across.merge import name_of
from netpipe.reading.layers import SEARCHED_IF_ASKED
from netpipe.render.losses import costliest


def next_step(reading: Reading, findings: Sequence[Finding]) -> str | None:
    """A command for the first layer that the headline names and for which no finding about curves has a remedy that the
    summary shows; None if all have one, or have no settings to search, and where the run tells no headline.
    """
    if not tells(reading, findings):
        return None
    known = rules()
    mended = {
        found.variant
        for found in findings
        if found.remedy and known[found.rule].about == CURVES and known[found.rule].brief
    }
    searched = {
        one.variant: set(one.options) - SEARCHED_IF_ASKED if one.tunable is None else one.tunable
        for plan in reading.run.plans
        for one in plan.variants
    }
    for variant in costliest(reading.losses):
        if variant not in mended and searched.get(variant):
            return shlex.join(["netpipe", "tune", name_of(variant)])
    return None


def next_sentence(reading: Reading, findings: Sequence[Finding]) -> str:
    """The same for people; empty for None."""
    command = next_step(reading, findings)
    return f"Next step: {command}" if command else ""
