# SPDX-License-Identifier: Apache-2.0
"""The search space: which settings of a layer are worth trying, and with which values.

The option table of the module says what is tunable, of which type, within which limits and in which unit; the values
follow from that. Parameters of a library that its module has no option for are named by the library's family
(library/parameters.py).

* a choice: every other word; a switch: the other position
* a number: coarse steps from a quarter of the present value to 64 times, within the limits; the search refines around
  what gains. Where the present value is 0 ("the layer decides"), fixed steps.
* the table's own default, where the start has another value
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from netpipe.failure import USAGE, Failure
from netpipe.tuning.search.variants import Changes, Start
from netpipe.units import SIZE_UNITS, bytes_of

TRANSPORT = "auto"  # of a library that was left to choose
COARSE = (1 / 4, 4, 16, 64)  # times the present value
FINE = (1 / 2, 2)  # around a value that gained
# where the present value leaves it to the layer
SIZES_FROM_NOTHING = (32 << 10, 256 << 10, 2 << 20, 16 << 20)
NUMBERS_FROM_NOTHING = (1, 8, 64)
BYTES_FROM_NOTHING = (0, 64, 1024, 16384)  # of a number of bytes other than the size of a buffer
LEAST_SIZE, MOST_SIZE = 1 << 10, 64 << 20  # a buffer outside of this is no candidate

# What tunable options are about that are searched only where --only names them (np_tunable).
NOT_SEARCHED = {
    "waiting": "how a rank waits, which costs other programs processor time",
    "calling": "how the program calls the library, which is not the library's to change",
}


@dataclass(frozen=True)
class Knob:
    """One setting with the values to try, the present one not among them."""

    name: str
    values: tuple[str, ...]
    kind: str = "choice"  # size, int: neighbours of a value can be tried as well
    least: int = 0
    most: int = 0
    help: str = ""
    transports: tuple[str, ...] = ()  # that obey it; empty: all

    def around(self, value: str) -> tuple[str, ...]:
        """The neighbours of a numeric value, within the limits."""
        if self.kind not in ("size", "int"):
            return ()
        number = number_of(value)
        near = {round(number * factor) for factor in FINE} if number > 0 else set()
        return tuple(
            written(one, self.kind)
            for one in sorted(near)
            if self.least <= one <= self.most and one != number
        )


@dataclass(frozen=True)
class Space:
    knobs: tuple[Knob, ...]
    # tunable settings that are not searched, and why
    left_out: Mapping[str, str] = field(default_factory=dict)
    transport: str = TRANSPORT  # of the start
    by_hand: tuple[str, ...] = ()  # tunable texts of which nobody here knows a value: a user names some,
    several: str = ""  # and the text of several variants that have some values of the first

    @property
    def candidates(self) -> tuple[Changes, ...]:
        """Every value of every setting, one at a time: the first of each, the second of each, and so on, so that a
        search without time for all has tried every setting.
        """
        most = max((len(knob.values) for knob in self.knobs), default=0)
        return tuple(
            Changes.of({knob.name: knob.values[place]})
            for place in range(most)
            for knob in self.knobs
            if place < len(knob.values)
        )

    @property
    def screened(self) -> tuple[Changes, ...]:
        """Those, with sizes that are alike together, once the first value of each was tried: over TCP with two small
        buffers a larger one alone may be no faster, or a hundred times as slow.
        """
        singles = self.candidates
        first = sum(bool(knob.values) for knob in self.knobs)
        return (*singles[:first], *self._sizes_together(), *singles[first:])

    def _sizes_together(self) -> list[Changes]:
        """The first and the last of the values that several sizes may have."""
        sizes = [knob for knob in self.knobs if knob.kind == "size"]
        having = {
            value: [knob.name for knob in sizes if value in knob.values]
            for knob in sizes
            for value in knob.values
        }
        shared = sorted((value for value in having if len(having[value]) > 1), key=number_of)
        return [
            Changes.of(dict.fromkeys(having[one], one)) for one in dict.fromkeys([*shared[:1], *shared[-1:]])
        ]

    def applies(self, changes: Changes) -> bool:
        """Does the transport that these changes leave obey all of them?"""
        settings = dict(changes.items)
        transport = settings.get("transport", self.transport)
        return all(
            transport in self.knob(name).transports or not self.knob(name).transports for name in settings
        )

    def knob(self, name: str) -> Knob:
        return next(one for one in self.knobs if one.name == name)


def number_of(text: str) -> int:
    """64k is 65536. Raises ValueError for an invalid number."""
    size = bytes_of(text)
    return int(text) if size is None else size


def written(number: int, kind: str) -> str:
    """65536 as 64k, where it is a size."""
    if kind == "size":
        for unit, factor in reversed(SIZE_UNITS.items()):
            if number and number % factor == 0:
                return f"{number // factor}{unit}"
    return str(number)


def space(
    options: Sequence[Mapping[str, Any]],
    start: Start,
    texts: Mapping[str, Sequence[str]],
    parameters: Sequence[Knob] = (),
    only: Collection[str] = (),
) -> Space:
    """Of a module's option table. `texts`: what this machine offers for options that are texts, by name. `only`: the
    names to search, options or parameters; empty: all but those about something of NOT_SEARCHED. Raises Failure (2) for
    a name that cannot be searched.
    """
    by_hand = [one["name"] for one in options if _by_hand(one, texts)]
    tunable = {one["name"]: one for one in options if one["tunable"] and one["name"] not in by_hand}
    asked = {name: NOT_SEARCHED[one["about"]] for name, one in tunable.items() if one.get("about")}
    known = [*tunable, *(one.name for one in parameters)]
    for name in only:
        if name not in known:
            raise Failure(USAGE, _unknown(name, start, known, options, by_hand))
    wanted = set(only) or {name for name in known if name not in asked}
    made = [_knob(one, start, texts) for name, one in tunable.items() if name in wanted]
    made += [one for one in parameters if one.name in wanted]
    return Space(
        tuple(one for one in made if one.values),
        {} if only else asked,
        start.settings.get("transport", TRANSPORT),
        () if only else tuple(by_hand),
        _several(start, by_hand[0]) if by_hand else "",
    )


def _several(start: Start, name: str) -> str:
    """The start with two values of a setting, for a shell."""
    return shlex.quote(start.variant(Changes.of({name: "A|B"})))


def _by_hand(option: Mapping[str, Any], texts: Mapping[str, Sequence[str]]) -> bool:
    """A tunable text, of which neither the library nor the machine says a value (library/transports.py)."""
    return bool(option["tunable"]) and option["type"] == "text" and not texts.get(option["name"])


def _unknown(
    name: str,
    start: Start,
    known: Sequence[str],
    options: Sequence[Mapping[str, Any]],
    by_hand: Sequence[str],
) -> str:
    if name in by_hand:
        return (
            f"--only {name}: netpipe knows no values of it to try; measure some beside each other with netpipe run "
            f"{_several(start, name)}, and tune the fastest"
        )
    if any(one["name"] == name for one in options):
        return f"--only {name}: this option of {start.module} changes what is measured and not how fast it is"
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known) or 'none'}"
    return f"--only {name}: {start.module} has no such setting to tune; {hint}"


def _knob(option: Mapping[str, Any], start: Start, texts: Mapping[str, Sequence[str]]) -> Knob:
    name, kind, default = option["name"], option["type"], option["default"]
    present = start.settings.get(name, default)
    values: Sequence[str]
    least, most = int(option.get("min") or 0), int(option.get("max") or 0)
    if kind == "bool":
        values = ("yes", "no")
    elif kind == "choice":
        values = option["choices"]
    elif kind in ("size", "int"):
        in_bytes = kind == "size" or option["unit"] == "bytes"
        values = [written(one, kind) for one in _numbers(kind, in_bytes, present, default, least, most)]
        if in_bytes and kind == "size":
            most = min(most, MOST_SIZE)
    else:
        values = texts.get(name, ())
    return Knob(
        name,
        tuple(dict.fromkeys(one for one in values if not _same(one, present, kind))),
        kind,
        least,
        most,
        option["help"],
    )


def _same(one: str, other: str, kind: str) -> bool:
    if kind in ("size", "int"):
        try:
            return number_of(one) == number_of(other)
        except (ValueError, IndexError):
            pass  # the worker will say that the start makes no sense
    return one == other


def _numbers(kind: str, in_bytes: bool, present: str, default: str, least: int, most: int) -> list[int]:
    """The candidates of a number."""
    try:
        now, usual = number_of(present), number_of(default)
    except (ValueError, IndexError):
        return []
    if now > 0:
        found = [round(now * factor) for factor in COARSE]
    elif kind == "size":
        found = list(SIZES_FROM_NOTHING)
    else:
        found = list(BYTES_FROM_NOTHING if in_bytes else NUMBERS_FROM_NOTHING)
    if kind == "size":
        found = [one for one in found if LEAST_SIZE <= one <= MOST_SIZE]
    return [one for one in dict.fromkeys([usual, *found]) if least <= one <= most]
