# SPDX-License-Identifier: Apache-2.0
"""Results of other programs. A program is one file in this folder, with a function marked by `peer` that reads the text
which the program prints. `netpipe import` finds it by itself.

Every program has its own conventions: what it calls the number, how many messages are in flight, whether buffers of
sending and receiving are apart. A reader says them with each curve, and they are kept in the run file, so that who lays
such a curve over another knows how the two differ (docs/how-to/compare-with-osu-and-imb.md).
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field


class NotReadable(ValueError):  # noqa: N818  (it reads as what it says)
    """A text that is not what this program prints; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Number:
    """One size of a curve. Times in ns of one operation, rates in bytes/s."""

    size_bytes: int
    time_ns: float
    bytes_per_s: float | None = None
    mean_ns: float | None = None
    min_ns: float | None = None
    max_ns: float | None = None
    p90_ns: float | None = None
    p99_ns: float | None = None
    p999_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One curve of a program's output."""

    # A pattern of netpipe where the program does the same, else the program's own name for its test.
    pattern: str
    source: str  # what its number is, and how it was measured
    numbers: Sequence[Number]
    ranks: int | None = None  # None: the output does not say


@dataclass(slots=True)
class Given:
    """What the user says because the output does not, and what the reader says about the output."""

    size_bytes: int | None = None
    notes: list[str] = field(default_factory=list)


Read = Callable[[str, Given], Iterable[Result]]


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    title: str
    mark: re.Pattern[str]  # is in each of its outputs, and in no other program's
    read: Read  # raises NotReadable


_known: dict[str, Peer] = {}


def peer(title: str, mark: str) -> Callable[[Read], Read]:
    """Register the function as the reader of its file."""

    def register(read: Read) -> Read:
        name = read.__module__.rpartition(".")[2]
        _known[name] = Peer(name, title, re.compile(mark, re.MULTILINE), read)
        return read

    return register


def names() -> tuple[str, ...]:
    """All programs. Loads none of their readers."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def get(name: str) -> Peer:
    """Raises KeyError for a name that is not in `names`."""
    if name not in _known and name in names():
        importlib.import_module(f"{__name__}.{name}")
    return _known[name]


def guess(text: str) -> Peer | None:
    """Whose output this is."""
    return next((one for one in map(get, names()) if one.mark.search(text)), None)


# ------------------------------------------------------------------------------------------ what readers share

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
US = 1e3  # ns in a microsecond
MEGA = 1e6  # bytes in a MB of OSU, and
MEBI = 2.0**20  # of IMB, perftest and ucx_perftest


MOST_BYTES = 1 << 50  # of a message
MOST_NS = 1e18  # 31 years: a record has no longer time
MOST_PER_S = 1e30
MOST_DIGITS = 15  # of a whole number


def real(text: str) -> float:
    """A number as a program prints it. Raises NotReadable if it is invalid or not finite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise NotReadable(f"{_short(text)} stands where a number should be")
    return value


def whole(text: str) -> int:
    """Digits as a number. Raises NotReadable for more than any number of bytes or processes has."""
    if len(text) > MOST_DIGITS:
        raise NotReadable(f"{_short(text)} is too large for a number of bytes or processes")
    return int(text)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")


def fault(number: Number) -> str:
    """Why no record can hold it, in words; empty: one can. What is not known is None or not a number."""
    size = number.size_bytes
    if not 0 <= size < MOST_BYTES:
        return "a size is not between 0 and 2^50 bytes"
    times = (number.mean_ns, number.min_ns, number.max_ns, number.p90_ns, number.p99_ns, number.p999_ns)
    known = [time for time in times if time is not None and not math.isnan(time)]
    if not 0 < number.time_ns <= MOST_NS or not all(0 <= time <= MOST_NS for time in known):
        return f"a time at {size} bytes is not above 0, or is longer than 31 years"
    if number.bytes_per_s is not None and not 0 <= number.bytes_per_s <= MOST_PER_S:
        return f"the rate at {size} bytes is none that a link can have"
    return ""


def numbers_of(line: str) -> list[float] | None:
    """The columns of a line that holds nothing but finite numbers (N/A stands for none: nan)."""
    words = line.split()
    try:
        values = [math.nan if word in ("N/A", "-") else float(word) for word in words]
    except ValueError:
        return None
    return values if values and not any(math.isinf(value) for value in values) else None


def rows(lines: Iterable[tuple[int, str]], columns: int, given: Given) -> Iterator[list[float]]:
    """Rows of so many numbers at least. One that is cut off is left out, and said."""
    for number, line in lines:
        values = numbers_of(line)
        if values is None:
            continue
        if len(values) < columns:
            given.notes.append(f"line {number} is cut off and was left out: {line.strip()[:40]!r}")
        elif values[0] >= 0 and values[0] == int(values[0]):
            yield values


def numbered(text: str, given: Given) -> list[tuple[int, str]]:
    """The lines of a text, from 1. The last one is left out if it has no end: nobody knows what is missing of it."""
    lines = list(enumerate(ESCAPES.sub("", text).splitlines(), start=1))
    if lines and not text.endswith("\n") and numbers_of(lines[-1][1]) is not None:
        given.notes.append(f"line {lines[-1][0]} has no end and was left out: the file was cut off there")
        lines.pop()
    return lines


def timed(size: float, time_us: float, **more: float | None) -> Number | None:
    """A size with its time; None for an invalid time. The rate is one size in that time."""
    if not time_us > 0:
        return None
    time_ns = time_us * US
    return Number(int(size), time_ns, size / time_ns * 1e9 if size else None, **more)


def rated(size: float, bytes_per_s: float) -> Number | None:
    """A size with its rate; None for an invalid rate. The time is that of one message at this rate."""
    return Number(int(size), size / bytes_per_s * 1e9, bytes_per_s) if size > 0 and bytes_per_s > 0 else None
