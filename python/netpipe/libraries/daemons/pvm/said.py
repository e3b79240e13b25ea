# SPDX-License-Identifier: Apache-2.0
"""What a pvmd wrote to its output and its log, as one line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from netpipe.libraries.starting.condense import condense

STAMP = re.compile(r"^\[[^\]]+\] (?:\S+ )?\d\d/\d\d \d\d:\d\d:\d\d ")  # before each line of its log
LAST = 8  # lines


def words(texts: Iterable[str], expected: tuple[str, ...]) -> str:
    """The last lines, without those that begin as expected of a pvmd that started well; empty where none is left."""
    lines = [STAMP.sub("", line) for text in texts for line in text.splitlines()]
    return condense("\n".join([line for line in lines if not line.startswith(expected)][-LAST:]))
