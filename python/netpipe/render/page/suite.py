# SPDX-License-Identifier: Apache-2.0
"""The report of a suite: its figures, tables and published values, and below them the report of its runs. One file, as
the report of a run is; figures are in it as data.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netpipe.reading import Reading
from netpipe.render.page import page
from netpipe.render.page.tables import Column, Table
from netpipe.render.page.template import template, text_of
from netpipe.units import UNKNOWN

KINDS = {".svg": "image/svg+xml", ".png": "image/png"}
END_OF_HEADER = "</header>"  # of the page of a run: what is foreign in it is escaped, so this is its own
MOST_ROWS = 400  # of a table; the file has all

Cells = Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure or a table of the suite."""

    title: str
    without: str = ""
    files: tuple[Path, ...] = ()
    columns: tuple[str, ...] = ()
    rows: Cells = ()
    note: str = ""

    @property
    def images(self) -> list[str]:
        return [
            f"data:{KINDS[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
            for path in self.files
            if path.suffix in KINDS
        ]

    @property
    def table(self) -> Table:
        return table(self.columns, self.rows[:MOST_ROWS])


@dataclass(frozen=True, slots=True)
class Check:
    title: str
    said: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Content:
    title: str
    source: str
    size: str  # a sentence
    figures: tuple[Drawn, ...]
    tables: tuple[Drawn, ...]
    published: tuple[tuple[str, ...], Cells, str]  # and a sentence below it
    stands_for: tuple[tuple[str, str, str], ...]  # in the paper, here, why
    checks: tuple[Check, ...]
    fleet: tuple[str, ...]  # sentences
    missing: tuple[str, ...]  # sentences


def table(columns: Sequence[str], rows: Cells) -> Table:
    """A column is one of words if any of its cells is a text."""
    words = [any(isinstance(row[place], str) for row in rows) for place in range(len(columns))]
    return Table(
        tuple(Column(name.replace("_", " "), left=left) for name, left in zip(columns, words, strict=True)),
        tuple(tuple(_cell(cell) for cell in row) for row in rows),
    )


def _cell(cell: object) -> str:
    if cell is None or cell == "":
        return UNKNOWN if cell is None else ""
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def write(content: Content, readings: Reading | None, path: Path) -> None:
    """Raises OSError."""
    columns, rows, note = content.published
    section = template("suite_section.html").render(
        source=content.source,
        size=content.size,
        figures=content.figures,
        tables=content.tables,
        published=table(columns, rows),
        published_note=note,
        stands_for=content.stands_for,
        checks=content.checks,
        fleet=content.fleet,
        missing=content.missing,
    )
    if readings is None:
        text = template("suite.html").render(title=content.title, section=section, css=text_of("report.css"))
    else:
        before, end, after = page.page(readings, content.title).partition(END_OF_HEADER)
        text = f"{before}{end}\n{section}{after}"
    path.write_text(text, encoding="utf-8")
