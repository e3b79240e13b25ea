# SPDX-License-Identifier: Apache-2.0
"""Ranks that start apart are a warning, unless they were asked to start when a barrier lets them go."""

from __future__ import annotations

import pytest

from netpipe.findings import NOTE, WARNING, judge, start_skew
from netpipe.reading import Reading
from netpipe.records import PlannedMode


@pytest.mark.parametrize(("start", "severity"), [("agreed", WARNING), ("barrier", NOTE)])
def test_a_barrier_that_was_asked_for_is_no_fault_of_the_machine(start: str, severity: str) -> None:
    made = start_skew.fires()
    (point,) = made.points
    modes = [PlannedMode(pattern=point.pattern, name="collective", options={"start": start})]
    for plan in made.plans:
        plan.modes[:] = modes
    (found,) = [one for one in judge(Reading(made)).findings if one.rule == "late-start"]
    assert found.severity == severity
    assert bool(found.remedy) == (severity == WARNING)
    assert ("start=barrier asks for" in found.cause) == (start == "barrier")
