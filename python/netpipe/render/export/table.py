# SPDX-License-Identifier: Apache-2.0
"""The points of a run as a table: CSV, Parquet and JSON; written and read. One row a point, one column a field of the
`point` record (docs/reference/record.md). Histograms do not fit into CSV and are left out there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from netpipe.records import Point, frame

FORMATS = ("csv", "parquet", "json")
LISTS = ("measures", "cells")  # JSON text where there are columns


class NotATable(ValueError):  # noqa: N818  (it reads as what it says)
    """A file that is no table of points; the sentence names the row."""


def write(points: Iterable[Point], form: str, path: Path) -> None:
    """Raises OSError."""
    chosen = list(points)
    if form == "json":
        path.write_bytes(
            msgspec.json.format(msgspec.json.encode([p.fields() for p in chosen]), indent=1) + b"\n"
        )
        return
    table = frame(Point, chosen)
    if form == "csv":
        path.write_text(
            table.drop([name for name in table.columns if name.startswith("histogram.")]).write_csv()
        )
    else:
        table.write_parquet(path)


def read(path: Path, form: str) -> Iterator[Point]:
    """Raises NotATable, or OSError."""
    for number, row in enumerate(_rows(path, form), start=1):
        try:
            yield msgspec.convert({**_folded(row), "type": "point"}, Point)
        except (msgspec.ValidationError, json.JSONDecodeError) as error:
            raise NotATable(f"row {number} is no point: {str(error)[:1].lower()}{str(error)[1:]}") from None


def _rows(path: Path, form: str) -> Iterable[Mapping[str, Any]]:
    if form == "json":
        try:
            rows = json.loads(path.read_bytes())
        except ValueError as error:
            raise NotATable(f"it is no JSON: {error}") from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise NotATable("it is no list of objects")
        return rows
    import polars

    try:
        # All of the file decides on the types: a column may begin with a thousand empty fields.
        table = (
            polars.read_csv(path, infer_schema_length=None) if form == "csv" else polars.read_parquet(path)
        )
    except polars.exceptions.PolarsError as error:
        raise NotATable(str(error).splitlines()[0]) from None
    return table.iter_rows(named=True)


def _folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns with a dot as the nested objects that they came from; an object of nothing is none, and text where
    there were lists of objects is these again.
    """
    folded: dict[str, Any] = {}
    for name, value in row.items():
        outer, dot, inner = name.partition(".")
        if name in LISTS and not isinstance(value, list):
            folded[name] = json.loads(value) if value else []
        elif not dot:
            folded.setdefault(name, value)
        elif value is not None:
            folded[outer] = {**(folded.get(outer) or {}), inner: value}
    return folded
