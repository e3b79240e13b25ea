# SPDX-License-Identifier: Apache-2.0
"""The names of columns: nested objects of a record as flat names, and the measures of a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

MEASURE = "measure_"  # what the columns of measures begin with
_SUFFIXES = {"ns": "_ns", "bytes/s": "_bytes_per_s", "1/s": "_per_s", "1": ""}  # the unit in a column's name


def measure_columns(name: str, unit: str) -> tuple[str, str, str]:
    """The columns of a measure: its median and the limits of the median's interval. `overlap` in ns is
    measure_overlap_ns, measure_overlap_ns_low and measure_overlap_ns_high. A unit without a suffix of its own stands in
    brackets, and so does one whose suffix would be taken for part of the name.
    """
    column = f"{MEASURE}{name}{_SUFFIXES.get(unit, '')}"
    if unit not in _SUFFIXES or measure_of(column) != (name, unit):
        column = f"{MEASURE}{name}[{unit}]"
    return column, f"{column}_low", f"{column}_high"


def measure_of(column: str) -> tuple[str, str]:
    """The name and the unit of the measure whose median stands in this column."""
    text = column.removeprefix(MEASURE)
    if text.endswith("]") and "[" in text:
        name, _, unit = text[:-1].rpartition("[")
        return name, unit
    unit = next(unit for unit, suffix in _SUFFIXES.items() if text.endswith(suffix))
    return text.removesuffix(_SUFFIXES[unit]), unit


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as one: {"a": {"b": 1}} is {"a.b": 1}. Lists stay; lists of objects become JSON text."""
    row: dict[str, Any] = {}
    for key, inner in value.items():
        name = prefix + key
        if isinstance(inner, Mapping):
            row.update(flat(inner, name + "."))
        elif isinstance(inner, list) and any(isinstance(item, (Mapping, list)) for item in inner):
            row[name] = msgspec.json.encode(inner).decode()
        else:
            row[name] = inner
    return row


# ------------------------------------------------------------------------------------- nested facts

DEEPEST = 32  # objects in objects; a worker takes 16 from another host, and real ones have 5
LARGEST = 10**30  # of a number: arithmetic with a larger one ends in infinities


def check(value: Any, levels: int = DEEPEST) -> None:
    """Facts are whatever a host says: what rules and tables of facts would fail at is damage. Raises ValueError."""
    if isinstance(value, (dict, list)):
        if levels == 0:
            raise ValueError("JSON is nested too deeply")
        for item in value.values() if isinstance(value, dict) else value:
            check(item, levels - 1)
    elif isinstance(value, (int, float)) and abs(value) > LARGEST:
        raise ValueError("a value is out of range")
