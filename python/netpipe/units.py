# SPDX-License-Identifier: Apache-2.0
"""Numbers and lists as people read them. Inside netpipe numbers are unscaled; only what is shown passes through here.

Sizes are binary (KiB, MiB), rates decimal bits (1 Mbps = 10^6 bit/s), times decimal, with three significant digits.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Steps = tuple[tuple[float, str], ...]  # a unit and its size, the largest first
SIZE_STEPS: Steps = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
TIME_STEPS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
RATE_STEPS = ((1e12, "Tbps"), (1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps"))
COUNT_STEPS = ((1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"))
# of sizes and numbers in options: the worker's
SIZE_UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d{1,18})([kMG]?)", re.ASCII)  # what is longer, the worker refuses
UNKNOWN = "\u2013"  # an en dash
_PERTURBATION_BYTES = 16  # a size this near to a round one is written as "64 KiB+3"


def digits(number: float, significant: int = 3) -> str:
    """Significant digits without an exponent: 0.0512, 5.12, 51.2, 512, 5120."""
    if not math.isfinite(number):
        return UNKNOWN
    if number == 0:
        return "0"
    # Rounded first, or 9.996 would be given two decimals and become 10.00.
    rounded = float(f"{number:.{significant - 1}e}")
    places = max(0, significant - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:.{places}f}"


def bytes_of(text: str) -> int | None:
    """64k as 65536; None for an invalid size."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * SIZE_UNITS[found[2]] if found else None


def unit_of(number: float, steps: Steps, smallest: str, significant: int = 3) -> tuple[float, str]:
    """The unit in which people read the number, and its size. It is chosen after rounding: 999.6 ns are 1.00 µs, not
    1000 ns.
    """
    rounded = float(f"{number:.{significant - 1}e}") if math.isfinite(number) else number
    return next(((step, unit) for step, unit in steps if abs(rounded) >= step), (1.0, smallest))


def _stepped(number: float, steps: Steps, smallest: str, significant: int) -> str:
    if significant == 3 and number >= 1:  # a table has hundreds of thousands of these
        step, unit = 1.0, smallest
        for at, name in steps:
            if number >= at:
                step, unit = at, name
                break
        shown = number / step
        # Away from where rounding adds a digit, or leads to the next unit.
        if shown < 9.99:
            return f"{shown:.2f} {unit}"
        if 10 <= shown < 99.9:
            return f"{shown:.1f} {unit}"
        if 100 <= shown < 999:
            return f"{shown:.0f} {unit}"
    step, unit = unit_of(number, steps, smallest, significant)
    return f"{digits(number / step, significant)} {unit}"


def bracketed_text(value: float, low: float, high: float, steps: Steps, smallest: str) -> str:
    """A value and its limits in the unit of the value: "24.1 [23.9 24.3] µs"; without limits that are no interval."""
    step, unit = unit_of(value, steps, smallest)
    limits = "" if low == high else f" [{digits(low / step)} {digits(high / step)}]"
    return f"{digits(value / step)}{limits} {unit}"


def size_text(size_bytes: float | None) -> str:
    """1536 -> "1.5 KiB", 65539 -> "64 KiB+3", 13 -> "13 B". A fractional size (n½) is rounded to three digits."""
    if size_bytes is None:
        return UNKNOWN
    for step, unit in SIZE_STEPS:
        if size_bytes < step - _PERTURBATION_BYTES:
            continue
        if size_bytes != int(size_bytes):
            return f"{digits(size_bytes / step)} {unit}"
        quarters = round(size_bytes * 4 / step)
        offset = int(size_bytes) - quarters * step // 4
        if abs(offset) <= _PERTURBATION_BYTES and quarters:
            return f"{quarters / 4:g} {unit}" + (f"{offset:+d}" if offset else "")
        if size_bytes >= step:
            return f"{digits(size_bytes / step)} {unit}"
    return f"{size_bytes:g} B" if size_bytes == int(size_bytes) else f"{digits(size_bytes)} B"


def time_text(time_ns: float | None, significant: int = 3) -> str:
    """5020.0 -> "5.02 µs"."""
    return UNKNOWN if time_ns is None else _stepped(time_ns, TIME_STEPS, "ns", significant)


def rate_text(bytes_per_s: float | None, significant: int = 3) -> str:
    """1.5e9 -> "12.0 Gbps"."""
    return UNKNOWN if bytes_per_s is None else _stepped(bytes_per_s * 8, RATE_STEPS, "bps", significant)


def width_text(half_width: float) -> str:
    """Relative half width of an interval; the exact number means nothing once it exceeds the median."""
    return f"±{percent_text(half_width)}" if half_width <= 1 else "more than ±100 %"


def percent_text(fraction: float | None) -> str:
    """0.0123 -> "1.2 %": one decimal below 10 %, none above."""
    if fraction is None or not math.isfinite(fraction):
        return UNKNOWN
    percent = fraction * 100
    return f"{percent:.1f} %" if abs(percent) < 9.95 else f"{percent:.0f} %"


def capped_percent_text(half_width: float | None) -> str:
    """The same of half an interval: of a wide one the exact number says nothing, and would widen a table."""
    return "> 100 %" if half_width is not None and 1 < half_width < math.inf else percent_text(half_width)


def times_text(factor: float | None) -> str:
    """2.3456 -> "2.35" and a multiplication sign."""
    return UNKNOWN if factor is None else f"{digits(factor)}\u00d7"


def measure_text(value: float | None, unit: str) -> str:
    """A value in its unit: ns, 1 (a ratio), 1/s, bytes/s, bytes, or any other."""
    if value is None:
        return UNKNOWN
    if unit == "ns":
        return time_text(value)
    if unit == "bytes/s":
        return rate_text(value)
    if unit == "bytes":
        return size_text(value)
    if unit == "1/s":
        return _stepped(value, COUNT_STEPS, "/s", 3)
    return f"{digits(value)} {unit}".removesuffix(" 1").rstrip()


def span_text(seconds: float | None) -> str:
    """A duration in the order of what people wait for: "0.4 s", "12 s", "3 min 20 s"."""
    if seconds is None:
        return UNKNOWN
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def launch_text(place: int, launches: int) -> str:
    """1st of 4 launches: not "launch 1", since launches are numbered from 0. `place` counts from 1."""
    teen = 10 <= place % 100 <= 20
    ending = "th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending} of {counted(launches, 'launch', 'launches')}"


def counted(number: int, word: str, plural: str | None = None) -> str:
    """1, "point" -> "1 point"; 2, "point" -> "2 points"."""
    return f"{number} {word if number == 1 else plural or word + 's'}"


MOST_LISTED = 40  # nobody reads on


def listed(words: Iterable[str]) -> str:
    """Words as people list them: "a, b and c". Of very many the first, and how many more there are."""
    several = list(words)
    if len(several) > MOST_LISTED:
        several[MOST_LISTED - 1 :] = [f"{len(several) - MOST_LISTED + 1} more"]
    return " and ".join([", ".join(several[:-1]), several[-1]] if len(several) > 1 else several)


def capital(text: str) -> str:
    """The first letter in upper case, the rest as it is."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends like a sentence or is empty."""
    words = text.strip()
    return words if not words or words.endswith((".", "!", "?", ")")) else f"{words}."


def sizes_text(sizes: Sequence[int]) -> str:
    """ "12 B", "3 sizes from 12 B to 64 KiB"."""
    if len(sizes) == 1:
        return size_text(sizes[0])
    return f"{len(sizes)} sizes from {size_text(sizes[0])} to {size_text(sizes[-1])}"


def limits_text(low: float, high: float, text: Callable[[float], str]) -> str:
    """An interval in the words of a function from here: "24.5 to 24.8 µs"; a shared unit is said once."""
    first, last = text(low), text(high)
    number, _, unit = first.rpartition(" ")
    return f"{number if number and last.endswith(f' {unit}') else first} to {last}"


def share_text(fraction: float) -> str:
    """0.1234 -> "12.3 %": for limits that rounding to whole percents would make equal."""
    return f"{100 * fraction:.1f} %"


def per_second_text(rate: float) -> str:
    """312456.7 -> "312 000 /s", with thin spaces."""
    rounded = float(f"{rate:.2e}")
    return f"{rounded:,.0f} /s".replace(",", "\u202f") if rounded >= 100 else f"{rounded:g} /s"


def counts_text(number: int) -> str:
    """9999, 100,021."""
    return f"{number:,}" if number >= 10_000 else str(number)


def volume_text(total_bytes: int) -> str:
    """Of a sum, a few bytes more than a round size mean nothing: 1.25 KiB."""
    return re.sub(r"[+-]\d+$", "", size_text(total_bytes))


def exact_percent_text(share: float | None) -> str:
    """Three digits: 97.2 %, 0.00715 %. A share of calls that is small is not none."""
    return UNKNOWN if share is None else measure_text(100 * share, "%")
