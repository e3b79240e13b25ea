# SPDX-License-Identifier: Apache-2.0
"""The numbers behind a finding as text, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from netpipe.findings import Quantity
from netpipe.units import limits_text, measure_text

KNOWN_UNITS = ("ns", "1", "1/s", "bytes/s", "bytes")


def evidence_texts(evidence: Mapping[str, Quantity], most: int) -> tuple[tuple[str, str], ...]:
    """(name, number with its unit and interval) of each; with more than `most` of them the last says how many more."""
    texts = [
        (name.replace("_", " "), quantity_text(quantity)) for name, quantity in islice(evidence.items(), most)
    ]
    more = len(evidence) - len(texts)
    return (*texts, *([("and", f"{more} more; netpipe show --json has all")] if more else []))


def quantity_text(quantity: Quantity) -> str:
    """ "1.02 µs (1.01 to 1.03 µs)"; counts without decimals."""

    def text(value: float) -> str:
        if quantity.unit in KNOWN_UNITS:
            return measure_text(value, quantity.unit)
        return f"{value:g} {quantity.unit}"

    if quantity.low is None or quantity.high is None or quantity.low == quantity.high:
        return text(quantity.value)
    return f"{text(quantity.value)} ({limits_text(quantity.low, quantity.high, text)})"
