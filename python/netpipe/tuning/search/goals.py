# SPDX-License-Identifier: Apache-2.0
"""What a tuner is to make faster: the patterns and sizes that count, and how much each of them does.

    latency            a ping-pong of 1 to 64 bytes
    throughput         a ping-pong of 64 KiB to 4 MiB
    curve              a ping-pong of all sizes, by octaves
    collective=NAME    that operation, by octaves of 4 (collectives.py); NAME,NAME: each of these
    profile=FILE       the messages and collectives of an application, each size by the time that it takes

A score is the time with the settings over the time without them, over all that counts: the geometric mean for the first
four, and for a profile the ratio of the sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from netpipe.failure import USAGE, Failure
from netpipe.reading.estimate import Estimate, unsure

LATENCY, THROUGHPUT, CURVE, COLLECTIVE, PROFILE = "latency", "throughput", "curve", "collective", "profile"
NAMES = (LATENCY, THROUGHPUT, CURVE, f"{COLLECTIVE}=NAME,...", f"{PROFILE}=FILE")
COLLECTIVE_PATTERN = "collective:what="  # and the operation
OCTAVES = tuple(1 << power for power in range(24))  # 1 B to 8 MiB
COLLECTIVE_SIZES = tuple(1 << power for power in range(3, 21, 2))  # 8 B to 512 KiB
MOST_PROFILED = 10  # sizes of a profile that are measured: those that take most time

Place = tuple[str, int]  # a pattern as it was given, and a size in bytes


@dataclass(frozen=True)
class Goal:
    name: str
    probes: tuple[Place, ...]  # measured in the search
    counted: tuple[Place, ...]  # what the gain is stated of
    curve: tuple[int, ...]  # sizes of the curve before and after
    calls: Mapping[Place, float] = field(default_factory=dict)  # of a profile: how often each occurs
    ranks: int = 0  # of a profile with collectives; 0: as the user says

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(pattern for pattern, _ in self.counted))

    @property
    def collectives(self) -> frozenset[str]:
        """The operations among the patterns: allreduce, bcast."""
        named = (pattern.partition(COLLECTIVE_PATTERN) for pattern in self.patterns)
        return frozenset(operation for _, matches, operation in named if matches)

    @property
    def operations(self) -> tuple[Goal, ...]:
        """Of collective operations: a goal for each. Of another goal: itself."""
        if not self.name.startswith(f"{COLLECTIVE}="):
            return (self,)
        return tuple(goal(f"{COLLECTIVE}={pattern.partition('=')[2]}") for pattern in self.patterns)

    def sizes(self, places: Sequence[Place]) -> tuple[int, ...]:
        return tuple(sorted({size for _, size in places}))

    def weights(self, times_ns: Mapping[Place, float]) -> dict[Place, float]:
        """How much each place counts, all together 1. `times_ns`: what the start takes there."""
        if not self.calls:
            return {place: 1 / len(times_ns) for place in times_ns}
        whole = {place: self.calls.get(place, 0.0) * time for place, time in times_ns.items()}
        total = sum(whole.values()) or 1.0
        return {place: time / total for place, time in whole.items()}

    def score(self, ratios: Mapping[Place, Estimate], times_ns: Mapping[Place, float]) -> Estimate | None:
        """Over all places that both have; None without any. The interval is as wide as if all sizes were off the same
        way, which they may be: what differs between two starts of a program moves a whole curve.
        """
        weights = self.weights({place: time for place, time in times_ns.items() if place in ratios})
        if not weights:
            return None
        value, low, high = (
            self._mean({place: (getattr(ratios[place], end), weight) for place, weight in weights.items()})
            for end in ("value", "low", "high")
        )
        return Estimate(value, low, high) if all(ratios[place].known for place in weights) else unsure(value)

    def _mean(self, parts: Mapping[Place, tuple[float, float]]) -> float:
        if self.calls:
            return math.fsum(value * weight for value, weight in parts.values())
        return math.exp(math.fsum(math.log(value) * weight for value, weight in parts.values()))

    def without(self, too_slow: Callable[[Place], bool]) -> Goal:
        """Without the places at which the start takes too long to be measured."""
        return replace(
            self,
            probes=tuple(one for one in self.probes if not too_slow(one)),
            counted=tuple(one for one in self.counted if not too_slow(one)),
        )


def goal(text: str) -> Goal:
    """Raises Failure (2) for an invalid goal."""
    name, equals, value = text.partition("=")
    if name == LATENCY and not equals:
        return _pingpong(name, (1, 8, 64), (1, 2, 4, 8, 16, 32, 64))
    if name == THROUGHPUT and not equals:
        return _pingpong(name, (64 << 10, 512 << 10, 4 << 20), tuple(1 << power for power in range(16, 23)))
    if name == CURVE and not equals:
        return _pingpong(name, (8, 1 << 10, 16 << 10, 128 << 10, 1 << 20), OCTAVES[:-1])
    if name == COLLECTIVE and value:
        patterns = [f"{COLLECTIVE_PATTERN}{one}" for one in dict.fromkeys(value.split(",")) if one]
        places = tuple((pattern, size) for pattern in patterns for size in COLLECTIVE_SIZES)
        if places:
            return Goal(text, places, places, COLLECTIVE_SIZES)
    if name == PROFILE and value:
        return from_profile(Path(value))
    if name in (COLLECTIVE, PROFILE):
        raise Failure(
            USAGE, f"--goal {name} needs a name; write {next(one for one in NAMES if one.startswith(name))}"
        )
    raise Failure(USAGE, f"there is no goal '{text}'; choose one of {', '.join(NAMES)}")


def _pingpong(name: str, probes: Sequence[int], counted: Sequence[int]) -> Goal:
    return Goal(
        name,
        tuple(("pingpong", size) for size in probes),
        tuple(("pingpong", size) for size in counted),
        OCTAVES,
    )


def from_profile(path: Path) -> Goal:
    """The messages and collectives of an application, as `netpipe profile` recorded them. Raises Failure (2)."""
    from netpipe.prediction.costs import OPERATIONS, TO_EACH
    from netpipe.profiles import NotAProfile, read
    from netpipe.profiles.trace.calls import calls
    from netpipe.profiles.trace.chosen import MOST_EVENTS, first_events

    try:
        profile = read(path)
        made = calls(profile, chosen=first_events(profile, MOST_EVENTS))
    except NotAProfile as error:
        raise Failure(USAGE, f"--goal profile={path}: {error}") from None
    except OSError as error:
        raise Failure(USAGE, f"--goal profile={path}: {error.strerror}") from None
    often: dict[Place, float] = {}
    for message in made.messages:
        if message.bytes:
            often["pingpong", message.bytes] = often.get(("pingpong", message.bytes), 0.0) + 1
    for group in made.groups:
        ours = OPERATIONS.get(group.name)
        if ours is not None and ours != "barrier" and group.ranks > 1 and group.bytes:
            size = group.bytes // group.ranks if group.name in TO_EACH else group.bytes
            place = (f"{COLLECTIVE_PATTERN}{ours}", max(size, 1))
            often[place] = often.get(place, 0.0) + 1
    if not often:
        raise Failure(
            USAGE,
            f"--goal profile={path}: it has no trace of messages or collectives, so nothing to weigh sizes by",
        )
    # A call costs a start and its bytes; which of the two counts is measured, so both choose what is measured.
    most = sorted(often, key=lambda place: -often[place] * (1 + place[1] / 4096))[:MOST_PROFILED]
    places = tuple(sorted(most))
    return Goal(
        f"{PROFILE}={path}",
        places,
        places,
        tuple(sorted({size for _, size in places})),
        {one: often[one] for one in places},
        profile.header.ranks if any(pattern != "pingpong" for pattern, _ in places) else 0,
    )
