# SPDX-License-Identifier: Apache-2.0
"""How far to trust a run, in one sentence: how wide its intervals are, which difference its comparisons can tell, what
the yardsticks saw, and which findings speak against it. Where one says that the numbers mean something else than they
seem to, a sentence before it says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from statistics import median

from netpipe.findings import CURVES, MACHINE, NOTE, SEVERE, Finding, judge, rules
from netpipe.findings.machine_state import unsteady
from netpipe.findings.precision import TARGET_MISSED, USELESS
from netpipe.reading import Reading
from netpipe.units import counted, listed, percent_text, width_text

OF_THE_WIDTH = {TARGET_MISSED, "no-intervals"}  # rules that say again how wide the intervals are
# Severe, but what they do to times is in the intervals: the numbers are wide, and mean what they seem to.
ONLY_WIDEN = {"load", "processor-quota"}
MEANWHILE = "; meanwhile "  # before what the yardsticks saw


def trust(reading: Reading, findings: Sequence[Finding]) -> str:
    """Empty for a run without curves, of which there is nothing to believe."""
    if not reading.curves:
        return ""
    doubts, wrong = _doubts(findings)
    if any(found.rule == "load" for found in doubts):
        doubts = [found for found in doubts if found.rule != "busy-processes"]  # which are that load
    reach = f"{_within(reading, bool(wrong))}{_meanwhile(reading)}"
    if wrong:
        return f"Do not trust these numbers until this is fixed: {_named(wrong)}. {reach}."
    against = f"; reasons for doubt: {_named(doubts)}" if doubts else ""
    if any(rules()[found.rule].about == MACHINE for found in doubts):
        against += " (see netpipe doctor)"
    return f"{reach}{against}."


def tells(reading: Reading, findings: Sequence[Finding]) -> bool:
    """Can the run tell what costs most? Not where its numbers are wrong, or half of its intervals say no more than an
    order of magnitude.
    """
    widths = reading.half_widths.tolist()
    wide = bool(widths) and median(widths) > USELESS
    return not wide and not _doubts(findings)[1]


def doubt(reading: Reading, name: str) -> str:
    """Why nothing can be predicted from the curves of a run, or "". What only widens a run's own intervals counts too:
    the program did not meet the other work that the curves met.
    """
    severe = _severe(_doubts(judge(reading).findings)[0])
    return f"netpipe show says of {name} that this has to be fixed first: {_named(severe)}" if severe else ""


def _doubts(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """What speaks against the numbers, and those of it that make them wrong."""
    known = rules()
    # What a setting gets back makes no number doubtful.
    doubts = [
        found
        for found in findings
        if known[found.rule].about != CURVES and found.rule not in OF_THE_WIDTH and found.severity != NOTE
    ]
    return doubts, [found for found in _severe(doubts) if found.rule not in ONLY_WIDEN]


def _severe(doubts: Sequence[Finding]) -> list[Finding]:
    """Those about all of the run."""
    return [found for found in doubts if found.severity == SEVERE and not found.variant]


def _named(doubts: Sequence[Finding]) -> str:
    """Titles, and of what is severe for one variant which."""
    return listed(
        dict.fromkeys(
            found.title.lower()
            + (f" ({found.variant})" if found.severity == SEVERE and found.variant else "")
            for found in doubts
        )
    )


def _within(reading: Reading, wrong: bool) -> str:
    """How far the numbers reach: to be trusted, or only repeated where they are `wrong`."""
    verb = "They repeat" if wrong else "Trust these times"
    widths = reading.half_widths.tolist()
    if not widths:
        return "Nothing says how far to trust these times, because none has an interval"
    typical = median(widths)
    launches = counted(len({point.launch for point in reading.run.points}), "launch", "launches")
    if typical > USELESS:
        said = f"{verb} to their order of magnitude: in {launches} half of the intervals exceed ±100 %"
    else:
        times = f"{verb} to {width_text(typical)}{_losses(reading)}"
        said = f"{times}: in {launches} half of the intervals are narrower"
    return said + _floor(reading)


def _losses(reading: Reading) -> str:
    """How far to trust what layers lose of those below, of which paired blocks say more than of the times."""
    widths = [
        width for loss in reading.losses for width in loss.sizes.times.half_width.tolist() if isfinite(width)
    ]
    typical = median(widths) if widths else inf
    return f", and losses to {width_text(typical)}" if typical <= USELESS else ""


def _meanwhile(reading: Reading) -> str:
    """What the yardsticks saw, of a run whose numbers are of all states of the machine together."""
    said, _ = unsteady(reading)
    return f"{MEANWHILE}{listed(said)}" if said and not reading.states.split else ""


def _floor(reading: Reading) -> str:
    """What comparisons within the run can tell, where variants were measured beside themselves."""
    worst = max(reading.beside, key=lambda one: one.most, default=None)
    if worst is None:
        return ""
    whose = f"{worst.variant} beside itself, at nine in ten sizes"
    return f"; comparisons have a floor of {percent_text(worst.most)} ({whose})"
