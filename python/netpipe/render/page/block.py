# SPDX-License-Identifier: Apache-2.0
"""What a page draws, as one block of text: compressed, and numbers that several lines have stand in it once.

The same times, rates and sizes are in up to five figures. gzip finds what repeats within 32 KiB, and the figures of a
large run lie further apart, so they are put together before. `read` in report/data.js does the reverse.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from typing import Any

SHARED = ("size", "x", "y", "low", "high")  # of a line of a figure, or of a series of a panel
LEVEL = 6  # of gzip, for data


def packed(content: bytes, level: int = 9) -> str:
    """gzip in base64, for `DecompressionStream` in the browser. Base64 has no letter that ends a script element."""
    return base64.b64encode(gzip.compress(content, level, mtime=0)).decode()


def block(data: Mapping[str, Any]) -> str:
    """The data of `plots` and what else the scripts read. Raises ValueError for a number that JSON does not have."""
    text = json.dumps(once(data), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return packed(text.encode(), LEVEL)


def once(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with `arrays`: all lists of numbers of lines and series, which have the place of each instead."""
    places: dict[tuple[float, ...], int] = {}

    def line(of: Mapping[str, Any]) -> dict[str, Any]:
        there = {key: tuple(of[key]) for key in SHARED if key in of}
        return {**of, **{key: places.setdefault(values, len(places)) for key, values in there.items()}}

    def views(some: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**view, "series": [line(of) for of in view["series"]]} if "series" in view else dict(view)
            for view in some
        ]

    made = {
        **data,
        "figures": {
            name: {**figure, "lines": [line(of) for of in figure["lines"]]}
            for name, figure in data["figures"].items()
        },
        "panels": [{**panel, "views": views(panel["views"])} for panel in data["panels"]],
        "yardsticks": views(data["yardsticks"]),
    }
    return {**made, "arrays": list(places)}
