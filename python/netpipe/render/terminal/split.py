# SPDX-License-Identifier: Apache-2.0
"""What a predicted time is spent in, by call and size: over every variant, and where model and measurement differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netpipe.render.terminal.rows import GAP, Rows, pieces
from netpipe.units import UNKNOWN, share_text, size_text, time_text

if TYPE_CHECKING:
    from netpipe.prediction.predict import Predicted
    from netpipe.prediction.shares import Key

CALLS = 8  # rows, before the one of all other calls together
HEADING = 14  # columns of a line of a heading, where the name may be broken
DIFFERENT = 4  # rows of a table of differences
TO = " -> "  # between what is and what would be

Difference = tuple[str, int, float, float]  # call, bytes, seconds measured and predicted


@dataclass(frozen=True, slots=True)
class Part:
    """Of the time: one call with one size, or all that take less."""

    call: str
    size: str
    keys: tuple[Key, ...]

    def of(self, times: Mapping[Key, float]) -> float:
        """Seconds."""
        return sum(times.get(key, 0.0) for key in self.keys)


def parts(found: Predicted) -> list[Part]:
    """Those that take most over any variant, the most first."""
    most: dict[Key, float] = {}
    for one in found.variants:
        for key, time in one.by_call.items():
            most[key] = max(time, most.get(key, 0.0))
    keys = sorted(most, key=lambda key: (-most[key], key))
    made = [Part(name, size_text(size), ((name, size),)) for name, size in keys[:CALLS]]
    if rest := keys[CALLS:]:
        made.append(Part(f"{len(rest)} more", "", tuple(rest)))
    return made


def cells(
    part: Part, times: Mapping[Key, float], whole: float, before: Mapping[Key, float] | None = None
) -> tuple[str, str]:
    """The time, after what it was before, and its share of the whole."""
    time = part.of(times)
    was = "" if before is None else f"{time_text(1e9 * part.of(before))}{TO}"
    return f"{was}{time_text(1e9 * time)}", share_text(time / whole) if whole else UNKNOWN


def split_tables(found: Predicted, width: int, before: Predicted | None = None) -> list[Rows]:
    """Two columns for each variant, time and share, with as many variants beside each other as there is room for.
    `before`: the prediction as everything was measured; its times then stand before those of `found`.
    """
    rows = parts(found)
    was = {one.variant: one.by_call for one in before.variants} if before else {}
    left = (
        max(len(row.call) for row in rows)
        + GAP
        + max(len(text) for text in ("size", *(r.size for r in rows)))
    )
    tables: list[list[tuple[list[str], list[tuple[str, str]]]]] = []
    used = width
    for one in found.variants:
        texts = [cells(row, one.by_call, one.seconds, was.get(one.variant)) for row in rows]
        heading = broken(one.variant)
        needs = 2 * GAP + max(len(text) for text in (*heading, *(time for time, _ in texts)))
        needs += max(len(share) for _, share in texts)
        if used + needs > width:
            tables.append([])
            used = left
        used += needs
        tables[-1].append((heading, texts))
    return [_table(rows, one) for one in tables]


def _table(rows: Sequence[Part], columns: Sequence[tuple[list[str], list[tuple[str, str]]]]) -> Rows:
    lines = max(len(heading) for heading, _ in columns)
    headings = [[""] * (lines - len(heading)) + heading for heading, _ in columns]
    first, *others = zip(*headings, strict=True)
    last = not others
    table = Rows(
        ("call" if last else "", "left"),
        ("size" if last else "", "right"),
        *((text, "right") for name in first for text in (name, "")),
    )
    for place, names in enumerate(others, 2):
        words = ("call", "size") if place == lines else ("", "")
        table.add_row(*words, *(text for name in names for text in (name, "")), style="bold")
    for place, row in enumerate(rows):
        table.add_row(row.call, row.size, *(text for _, texts in columns for text in texts[place]))
    return table


def broken(name: str) -> list[str]:
    """The name of a variant on lines of at most HEADING columns, where its pieces are not longer."""
    lines = [""]
    for piece in pieces(name):
        if lines[-1] and len(lines[-1]) + len(piece) > HEADING:
            lines.append("")
        lines[-1] += piece
    return lines


def differences_table(rows: Sequence[Difference]) -> Rows:
    table = Rows(("call", "left"), ("size", "right"), ("measured", "right"), ("by the model", "right"))
    for row in difference_rows(rows):
        table.add_row(*row)
    return table


def difference_rows(rows: Sequence[Difference]) -> Iterator[tuple[str, str, str, str]]:
    """Where model and measurement differ most: call, size, and the times."""
    for name, size, measured, predicted in rows[:DIFFERENT]:
        yield name, size_text(size), time_text(1e9 * measured), time_text(1e9 * predicted)
