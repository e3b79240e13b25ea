# SPDX-License-Identifier: Apache-2.0
"""What the first message of a program takes, as its trace tells: a library may connect only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.profiles.trace.calls import Kind, calls
from netpipe.profiles.trace.chosen import first_events

if TYPE_CHECKING:
    from netpipe.profiles import Profile

MOST_EVENTS = 1000


def first_ns(profile: Profile) -> int | None:
    """Of each rank the first call that exchanges something, and the shortest of these: the others wait for a rank that
    started later, too. None where there is no such call. Raises NotAProfile without a trace.
    """
    firsts = [
        next((call.took_ns for call in made if call.kind is not Kind.OTHER), None)
        for made in calls(profile, chosen=first_events(profile, MOST_EVENTS)).ranks.values()
    ]
    return min((one for one in firsts if one is not None), default=None)
