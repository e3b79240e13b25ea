# SPDX-License-Identifier: Apache-2.0
"""np.out, the file of the classic NetPIPE, in its two formats; written and read.

3.7.2: `bytes Mbps seconds`, where "Mbps" is 2^20 bit/s, 4.9 % more than the decimal unit; the minimum of the trials'
means. 5.x: `bytes avg_Gbps min_Gbps max_Gbps avg_us`, decimal, over its trials. Neither has a header, a name or an
interval. What is written has more digits than the classic ones wrote, so that nanoseconds survive there and back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from netpipe.records import Point

MBPS_3 = 2.0**20 / 8  # bytes per second in one "Mbps" of 3.7.2
GBPS = 1e9 / 8


class NotNpOut(ValueError):  # noqa: N818  (it reads as what it says)
    """A line that an np.out file cannot have; the sentence names it."""


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    columns: tuple[str, ...]
    source: str  # what its times are, for who reads an imported run
    write: Callable[[Point], str]
    read: Callable[[list[float], str, str], Point]


def _rate(point: Point, time_ns: float | None) -> float:
    """Bytes per second if an operation took that long; the pattern decided which bytes count."""
    moved = (point.bytes_per_s or 0) * point.median_ns
    return moved / time_ns if time_ns else 0.0


def _write_3(point: Point) -> str:
    return f"{point.size_bytes:8d} {_rate(point, point.median_ns) / MBPS_3:.8g} {point.median_ns / 1e9:.12f}"


def _read_3(numbers: list[float], variant: str, pattern: str) -> Point:
    size, mbps, seconds = numbers
    rate = mbps * MBPS_3
    # 3.7.2 writes eight decimals of a second: what is faster than 5 ns is 0 there, and only its rate is known.
    time_ns = seconds * 1e9 if seconds > 0 else size / rate * 1e9 if rate > 0 else 0.0
    return _point(variant, pattern, size, time_ns, rate)


def _write_5(point: Point) -> str:
    mean = point.mean_ns or point.median_ns
    slowest, fastest = point.max_ns or mean, point.min_ns or mean
    rates = " ".join(f"{_rate(point, time_ns) / GBPS:.8g}" for time_ns in (mean, slowest, fastest))
    return f"{point.size_bytes:8d} {rates} {mean / 1e3:.9f}"


def _read_5(numbers: list[float], variant: str, pattern: str) -> Point:
    size, average, least, most, microseconds = numbers
    time_ns = microseconds * 1e3
    point = _point(variant, pattern, size, time_ns, average * GBPS)
    if average > 0:
        point.mean_ns = time_ns
        point.max_ns = time_ns * average / least if least > 0 else None
        point.min_ns = time_ns * average / most if most > 0 else None
    return point


def _point(variant: str, pattern: str, size: float, time_ns: float, rate: float) -> Point:
    if size != int(size) or size < 0 or not time_ns > 0 or rate < 0:
        raise ValueError
    return Point(variant=variant, pattern=pattern, size_bytes=int(size), median_ns=time_ns, bytes_per_s=rate)


FORMATS = {
    form.name: form
    for form in (
        Format(
            "npout3", ("bytes", "Mbps", "seconds"), "NetPIPE 3: the fastest trial's mean", _write_3, _read_3
        ),
        Format(
            "npout5",
            ("bytes", "avg_Gbps", "min_Gbps", "max_Gbps", "avg_us"),
            "NetPIPE 5: the mean of the trials, and the slowest and fastest",
            _write_5,
            _read_5,
        ),
    )
}


def write(points: Iterable[Point], form: str) -> str:
    """The points of one curve, in ascending order of size, as the text of an np.out."""
    chosen = FORMATS[form]
    ordered = sorted(points, key=lambda point: point.size_bytes)
    return "".join(chosen.write(point) + "\n" for point in ordered)


def read(text: str, form: str, variant: str, pattern: str) -> Iterator[Point]:
    """Raises NotNpOut with the number of the line. Empty lines and comments (#) are passed over."""
    chosen = FORMATS[form]
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            numbers = [float(word) for word in words]
            if len(numbers) != len(chosen.columns) or not all(map(math.isfinite, numbers)):
                raise ValueError
            point = chosen.read(numbers, variant, pattern)
        except (ValueError, ZeroDivisionError):
            hint = next(
                (f.name for f in FORMATS.values() if len(f.columns) == len(words) and f is not chosen), None
            )
            raise NotNpOut(
                f"line {number} is {line.strip()[:60]!r}, and {form} has {' '.join(chosen.columns)}"
                + (f"; is it {hint}?" if hint else "")
            ) from None
        yield point
