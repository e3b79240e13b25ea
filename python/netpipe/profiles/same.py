# SPDX-License-Identifier: Apache-2.0
"""Whether two profiles are of one program: it then sends the same messages and takes part in the same collectives over
every library. What a rank looks for and waits for (MPI_Test, MPI_Iprobe) may differ from launch to launch.
"""

from __future__ import annotations

from collections import Counter

from netpipe.profiles.lines import Profile
from netpipe.units import listed, size_text

# Of the calls: a program may end earlier or later (when it has converged), or share work out as it goes.
LEAST_ALIKE = 0.9
MOST_NAMED = 3
TOLD = {"sends", "collective"}

Key = tuple[str, int]  # call and bytes


def difference(one: Profile, other: Profile) -> str:
    """Which calls differ most, and how many of them each has: MPI_Send of 8 B (4,000 and 20). Empty: they are alike."""
    sized = not any(any(entries.coarse) for some in (one, other) for entries in some.entries.values())
    first, second = _counts(one, sized), _counts(other, sized)
    most = max(first.total(), second.total())
    if (first & second).total() >= LEAST_ALIKE * most:
        return ""
    differ = [key for key in first.keys() | second.keys() if first[key] != second[key]]
    keys = sorted(differ, key=lambda key: (-abs(first[key] - second[key]), key))
    return listed(f"{_text(key, sized)} ({first[key]:,} and {second[key]:,})" for key in keys[:MOST_NAMED])


def _text(key: Key, sized: bool) -> str:
    name, size = key
    return f"MPI_{name} of {size_text(size)}" if sized else f"MPI_{name}"


def _counts(profile: Profile, sized: bool) -> Counter[Key]:
    """Calls of all ranks that move something; `sized`: with their bytes, which were all counted."""
    calls = profile.header.calls
    found: Counter[Key] = Counter()
    for entries in profile.entries.values():
        for call, size, count in zip(entries.call, entries.bytes, entries.calls, strict=True):
            if call < len(calls) and TOLD & set(calls[call].does):
                found[calls[call].name, size if sized else 0] += count
    return found
