# SPDX-License-Identifier: Apache-2.0
"""Several values of one setting: window:in_flight=1|4|16 is three patterns, tcp:sndbuf=64k|1M two variants, and
send_offset=0..64:8 (0 to 64 in steps of 8) nine. Several such settings give every combination; the last one changes
fastest. The worker interprets the values; only the numbers of a range are understood here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable

from netpipe.failure import USAGE, Failure
from netpipe.units import SIZE_UNITS

BETWEEN = "|"
ENVIRONMENT = "env"  # an option of libraries in whose value | stands for a comma (docs/modules/mpi.md)
MOST = 1000  # values of one text: nobody means more
_NUMBER = r"(\d{1,18})([kMG]?)"  # what is longer, the worker refuses
_COPY = re.compile(r"#([2-9]|[1-9]\d{1,3})$")  # the worker's
_RANGE = re.compile(rf"{_NUMBER}\.\.{_NUMBER}(?::{_NUMBER})?")


def expand(texts: Iterable[str]) -> tuple[str, ...]:
    """Every variant or pattern that the texts stand for, each once, in their order. Raises Failure (2)."""
    return tuple(dict.fromkeys(one for text in texts for one in _expanded(text)))


def copies(texts: Iterable[str]) -> tuple[str, ...]:
    """`expand` of variants, where a text that is given twice is measured beside itself: tcp tcp is tcp and tcp#2."""
    seen: Counter[str] = Counter()
    found: dict[str, None] = {}
    for text in texts:
        seen[text] += 1
        mark = f"#{seen[text]}" if seen[text] > 1 else ""
        found |= dict.fromkeys(f"{one}{mark}" for one in _expanded(text))
    return tuple(found)


def apart(variant: str) -> tuple[str, str]:
    """A variant and the mark of its copy: tcp#2 is tcp and #2."""
    found = _COPY.search(variant)
    return (variant[: found.start()], found.group()) if found else (variant, "")


def _expanded(text: str) -> list[str]:
    name, colon, settings = text.partition(":")
    if not colon:
        return [text]
    choices = [_values(text, setting) for setting in settings.split(",")]
    if math.prod(map(len, choices)) > MOST:
        raise Failure(
            USAGE,
            f"{text} stands for more than {MOST} variants or patterns; shorten its lists or widen their steps",
        )
    return [f"{name}:{','.join(combination)}" for combination in itertools.product(*choices)]


def _values(text: str, setting: str) -> list[str]:
    key, equals, value = setting.partition("=")
    if key == ENVIRONMENT:
        return [setting]
    values = value.split(BETWEEN)
    if len(values) > 1 and "" in values:
        kept = BETWEEN.join(filter(None, values)) or f"A{BETWEEN}B"
        raise Failure(USAGE, f"{text}: a value of {key} is empty; write {key}={kept}")
    return [f"{key}{equals}{one}" for value in values for one in _range(text, key, value)]


def _range(text: str, key: str, value: str) -> list[str]:
    found = _RANGE.fullmatch(value)
    if found is None:
        return [value]
    numbers = found.groups()
    first, last, step = (
        int(number or 1) * SIZE_UNITS[unit or ""]
        for number, unit in zip(numbers[::2], numbers[1::2], strict=True)
    )
    if last < first or step == 0:
        wrong = "its step is 0" if step == 0 else "it ends before it begins"
        raise Failure(
            USAGE,
            f"{text}: {value} is not a valid range of {key}: {wrong}; write FIRST..LAST:STEP, such as 0..64:8",
        )
    if (last - first) // step >= MOST:
        raise Failure(USAGE, f"{text}: {value} stands for more than {MOST} values of {key}; use a wider step")
    return [str(number) for number in range(first, last + 1, step)]
