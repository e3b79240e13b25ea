# SPDX-License-Identifier: Apache-2.0
"""A fleet that was measured: the times of its members or pairs, who is slow, and all of that in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.reading.across.odd import Odd
    from netpipe.records import Run

Who = tuple[str, ...]  # a member, or a pair of them
Key = tuple[str, str, int]  # variant, pattern, size in bytes
MOST_FACTS = 4  # in a sentence
LONGEST = 40  # characters of a value there
MOST_NAMED = 4  # pairs with the same reason
NOT_TRIED = "not tried, because a host of it had failed with two others before"


@dataclass(slots=True)
class Fleet:
    """What was measured of it, and who is slow."""

    members: tuple[str, ...]
    together: bool  # pairs, not single members
    times: dict[Key, dict[Who, tuple[float, float]]] = field(default_factory=dict)  # ns, and the lower limit
    failed: dict[Who, str] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)  # members that were not tried again
    slow: list[tuple[Key, Who, float]] = field(default_factory=list)  # times the median of the fleet
    notes: list[str] = field(default_factory=list)
    odd: tuple[Odd, ...] = ()  # facts that are not the same on all hosts
    others: int | None = None  # that each member was to meet at most; None: all
    optional: bool = False  # layers: those that failed may have the times of others

    def add(self, who: Who, run: Run) -> None:
        from netpipe.reading import Reading

        for curve in Reading(run).curves:
            for point in curve.points:
                estimate = point.time_ns
                low = estimate.low if estimate.known else 0.0
                if estimate.value > 0:
                    key = (curve.variant, curve.pattern, point.size_bytes)
                    self.times.setdefault(key, {})[who] = (estimate.value, low)

    def judge(self) -> None:
        """Fills `slow`. The chance of a false alarm is shared by all that is judged."""
        from netpipe.reading.across.outliers import FALSE_ALARMS, LEAST_MEMBERS, slow, slow_ends_and_pairs

        chance = FALSE_ALARMS / max(1, len(self.times))
        self.slow = []
        for key, of in self.times.items():
            known = {who: both for who, both in of.items() if both[1] > 0}
            if len({one for who in known for one in who}) < LEAST_MEMBERS:
                continue
            values = {who: value for who, (value, _) in known.items()}
            lows = {who: low for who, (_, low) in known.items()}
            if not self.together:
                self.slow += [(key, one.who, one.times) for one in slow(values, chance, lows)]
                continue
            pairs = {(who[0], who[1]): value for who, value in values.items()}
            ends, links = slow_ends_and_pairs(
                pairs, chance, {(who[0], who[1]): low for who, low in lows.items()}
            )
            self.slow += [(key, (one.who,), one.times) for one in ends]
            self.slow += [(key, one.who, one.times) for one in links]
        unknown = sum(low <= 0 for of in self.times.values() for _, low in of.values())
        if unknown:
            self.notes.append(
                f"{unknown} of {sum(map(len, self.times.values()))} times have no interval, so they were not judged; "
                "it takes three launches or more"
            )
        if self.times and len(self.members) < LEAST_MEMBERS:
            self.notes.append(
                f"{len(self.members)} members are too few to say which of them is slow; it takes {LEAST_MEMBERS}"
            )

    # ------------------------------------------------------------------------------------------------- in words

    def pair_times(self) -> dict[int, dict[tuple[str, str], float]]:
        """By size, of the first variant: what a map shows."""
        found: dict[int, dict[tuple[str, str], float]] = {}
        first = next(iter(self.times), None)
        for (variant, pattern, size), of in self.times.items():
            if first is not None and (variant, pattern) == first[:2] and self.together:
                found[size] = {(who[0], who[1]): value for who, (value, _) in of.items()}
        return found

    def rule_text(self) -> str:
        from netpipe.reading.across.outliers import FALSE_ALARMS, LEAST_TIMES

        return (
            f"Slow: a tenth ({LEAST_TIMES:g} times) above the median of the fleet, and further from it than the "
            f"slowest member of all but {FALSE_ALARMS:.0%} of fleets whose members are alike, with its whole 95 % "
            "interval."
        )

    def slow_texts(self) -> list[str]:
        from netpipe.units import digits, size_text

        found = []
        for (variant, pattern, size), who, times in self.slow:
            name = who[0] if len(who) == 1 else f"the pair {who[0]} and {who[1]}"
            everywhere = " with nearly all others" if self.together and len(who) == 1 else ""
            of = variant if pattern == "pingpong" else f"{variant} {pattern}"
            found.append(
                f"{name} is slow{everywhere}: {of} at {size_text(size)} takes {digits(times)} times the median of "
                "the fleet"
            )
        return found

    def failed_texts(self) -> list[str]:
        """A member of which no pair was measured, or which was given up, is named once; and so is a reason that many
        have.
        """
        said = []
        gone: set[str] = set()
        failed, tried = self._by_member()
        for member in self.members if self.together else ():
            own, all_ = failed.get(member, {}), tried.get(member, 0)
            if not own or (member not in self.given_up and (len(own) < all_ or all_ < 2)):
                continue
            gone.add(member)
            why = next((why for why in own.values() if why != NOT_TRIED), NOT_TRIED)
            none = "no pair" if len(own) == all_ else f"{len(own)} of {all_} pairs"
            not_ = "not " if len(own) < all_ else ""
            said.append(f"{none} with {member} could {not_}be measured: {why}")
        partly = {who for of in self.times.values() for who in of} if self.optional else set()
        alike: dict[tuple[str, str], list[str]] = {}
        for who, why in self.failed.items():
            if gone.isdisjoint(who):
                alike.setdefault((" in full" if who in partly else "", why), []).append(" and ".join(who))
        for (fully, why), names in alike.items():
            if len(names) > MOST_NAMED:
                names = [f"{names[0]}, {names[1]} and {len(names) - 2} more"]
            said += [f"{name} could not be measured{fully}: {why}" for name in names]
        return said

    def _by_member(self) -> tuple[dict[str, dict[Who, str]], dict[str, int]]:
        """Of each member its pairs that failed, and the number of all that were tried or given up."""
        failed: dict[str, dict[Who, str]] = {}
        for who, why in self.failed.items():
            for member in who:
                failed.setdefault(member, {})[who] = why
        every = {who for of in self.times.values() for who in of} | self.failed.keys()
        return failed, Counter(member for who in every for member in who)

    def odd_texts(self) -> list[str]:
        """A sentence for each host that differs; the table has all facts."""
        of: dict[str, list[str]] = {}
        for odd in self.odd:
            for host, value in odd.hosts:
                of.setdefault(host, []).append(f"{odd.fact} {_short(value)} (most: {_short(odd.usual)})")
        return [
            f"{host} differs from most hosts: {', '.join(some[:MOST_FACTS])}"
            + (f", and {len(some) - MOST_FACTS} more" if len(some) > MOST_FACTS else "")
            for host, some in of.items()
        ]

    def texts(self) -> list[str]:
        from netpipe.units import counted

        what = "pair" if self.together else "host"
        number = max((len(of) for of in self.times.values()), default=0)
        judged = f"{counted(number, what)} of {counted(len(self.members), 'member')} measured"
        judged += f", each with at most {self.others} others" if self.others else ""
        found = [*self.failed_texts(), *self.slow_texts(), *self.notes, *self.odd_texts()]
        return [f"{judged}; none is slow" if not self.slow and not self.notes else judged, *found]

    def print(self, out: Console) -> None:
        from netpipe.render.terminal.rows import print_paragraph

        out.print()
        first, *_ = self.texts()
        print_paragraph(out, "·", "dim", first)
        for text in self.failed_texts():
            print_paragraph(out, "✗", "bold red", text)
        for text in self.slow_texts():
            print_paragraph(out, "✗", "bold red", text)
        for text in (*self.notes, *self.odd_texts()):
            print_paragraph(out, "!", "yellow", text)

    def rows(self) -> Iterator[tuple[str | float | int | None, ...]]:
        from statistics import median

        from netpipe.reading.across.outliers import LEAST_MEMBERS

        bad = {(key, who) for key, who, _ in self.slow}
        enough = len(self.members) >= LEAST_MEMBERS
        for key, of in self.times.items():
            variant, pattern, size = key
            middle = median(value for value, _ in of.values())
            what = variant if pattern == "pingpong" else f"{variant} {pattern}"
            for who, (value, low) in of.items():
                slow = (key, who) in bad or any((key, (one,)) in bad for one in who)
                peer = who[1] if len(who) > 1 else None
                judged = "slow" if slow else "as the others" if low > 0 and enough else "not judged"
                yield what, size, who[0], peer, round(value, 3), round(value / middle, 4), judged


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
