# SPDX-License-Identifier: Apache-2.0
"""The parameters of the LogGP model as cells of a table, for the terminal and for the report: a row for each range of
sizes.
"""

from __future__ import annotations

from netpipe.reading.estimate import Estimate
from netpipe.reading.models.loggp import Line, LogGP, Range, told_from_zero
from netpipe.units import percent_text, rate_text, size_text, time_text

NAME = "LogGP"
COLUMNS = ("sizes", "L", "o_s", "o_r", "g", "1/G", "misfit")
REMARK = (
    "LogGP: a message of s bytes costs the sender o_s and the receiver o_r, takes L + (s - 1) G to arrive, and the "
    "next one can leave g + (s - 1) G after it. o_s and o_r are those of the smallest message of the range. In "
    "brackets: 95 % intervals; < means that the parameter cannot be told from 0. Misfit: how far the worst size is "
    "from its line."
)


def curve_name(one: LogGP) -> str:
    """The variant, with the setting of the pattern if it has one."""
    setting = one.pattern.partition(":")[2]
    return f"{one.variant}, {setting}" if setting else one.variant


def cells(part: Range) -> list[str]:
    """A text for each of COLUMNS."""
    first = part.from_bytes
    lines = (part.o_s, part.o_r, part.gap, part.transfer)
    return [
        f"{size_text(first)} to {size_text(part.to_bytes)}",
        _time(part.transfer.fixed_ns),
        _time(_at(part.o_s, first)),
        _time(_at(part.o_r, first)),
        _time(part.gap.fixed_ns),
        _rate(part.gap.per_byte_ns),
        percent_text(max(line.misfit for line in lines)),
    ]


def _at(line: Line, size_bytes: int) -> Estimate:
    """The value of the line at a size, with the interval of its fixed part."""
    more = line.at(size_bytes) - line.fixed_ns.value
    fixed = line.fixed_ns
    return Estimate(fixed.value + more, fixed.low + more, fixed.high + more) if fixed.known else fixed


def _time(value: Estimate) -> str:
    if not value.known:
        return time_text(value.value)
    if not told_from_zero(value):
        return f"< {time_text(value.high)}"
    return f"{time_text(value.value)} [{time_text(value.low)} {time_text(value.high)}]"


def _rate(per_byte_ns: Estimate) -> str:
    """Bytes per second: one over the time of a byte."""
    if per_byte_ns.known and not told_from_zero(per_byte_ns):
        return f"> {rate_text(1e9 / per_byte_ns.high)}" if per_byte_ns.high > 0 else "–"
    return rate_text(1e9 / per_byte_ns.value) if per_byte_ns.value > 0 else "–"
