# SPDX-License-Identifier: Apache-2.0
"""The points of a run as a table in CSV, Parquet and JSON, written and read: one row a point, one column a field of the
`point` record (docs/reference/record.md), three columns a measure. Three more tables are only written: one row a size
with all launches together (whole.py), one row a rank or pair, and one row a counter (counters.py). The intervals of
points are those inside a launch, those of sizes are for the next run.

JSON is a list with an object a row; the measures of a point are under `measures`, as in the record. CSV has no room for
histograms, which are left out there, nor for lists of objects: `cells` is JSON text.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from netpipe.columns import MEASURE, measure_columns, measure_of
from netpipe.contents import TABLE, contents
from netpipe.escapes import printable, printable_json
from netpipe.frames import cell_frame, frame
from netpipe.records import Point

if TYPE_CHECKING:
    import polars

FORMATS = ("csv", "parquet", "json")
# The columns of the table of sizes: what holds for all launches together (whole.py).
SIZES = (
    *("variant", "pattern", "size_bytes", "samples", "median_ns", "low_ns", "high_ns", "half_width"),
    *("bytes_per_s", "mean_ns", "min_ns", "max_ns", "converged"),
)
LISTS = ("measures", "cells")  # JSON text in CSV; measures also in tables of older versions
FORMULA = r"^'*[=+\-@\t\r]"  # a cell that a spreadsheet would run, or that has been kept from it


class NotATable(ValueError):  # noqa: N818  (it reads as what it says)
    """A file without a table of points; the sentence names the row."""


def write(points: Iterable[Point], form: str, table: str = "points") -> bytes:
    """The contents of the file."""
    chosen = list(points)
    if form == "json":
        return as_json(_objects(chosen, table))
    if table == "sizes":
        return as_table(size_frame(chosen), form)
    return as_table(cell_frame(chosen) if table == "cells" else frame(Point, chosen), form)


def size_frame(points: Iterable[Point]) -> polars.DataFrame:
    """The table of sizes of points of the whole run (whole.py), as a data frame."""
    made = frame(Point, points)
    return made.select(*SIZES, *(name for name in made.columns if name.startswith(MEASURE)))


def size_rows(points: Iterable[Point]) -> list[dict[str, Any]]:
    """The same as objects, whose measures are a list."""
    return [
        {name: getattr(point, name) for name in SIZES} | {"measures": msgspec.to_builtins(point.measures)}
        for point in points
    ]


def as_json(rows: list[dict[str, Any]]) -> bytes:
    """A list of objects."""
    text = msgspec.json.format(msgspec.json.encode(rows), indent=1).decode()
    return printable_json(text).encode() + b"\n"


def as_table(made: polars.DataFrame, form: str) -> bytes:
    """A data frame as CSV or Parquet."""
    if form == "csv":
        return printable(_plain(made).write_csv()).encode()
    file = io.BytesIO()
    made.write_parquet(file)
    return file.getvalue()


def _objects(points: list[Point], table: str) -> list[dict[str, Any]]:
    if table == "cells":
        return [row for point in points for row in point.cell_rows()]
    if table == "sizes":
        return size_rows(points)
    return [point.fields() for point in points]


def _plain(whole: polars.DataFrame) -> polars.DataFrame:
    """Without lists, and with an apostrophe before each text that a spreadsheet would take for a formula."""
    import polars as pl

    whole = whole.drop([name for name in whole.columns if name.startswith("histogram.")])
    if "cells" in whole.columns:
        texts = [msgspec.json.encode(cells).decode() if cells else None for cells in whole["cells"].to_list()]
        whole = whole.with_columns(pl.Series("cells", texts, dtype=pl.String))
    text = pl.col(pl.String)
    return whole.with_columns(
        pl.when(text.str.contains(FORMULA)).then("'" + text).otherwise(text).name.keep()
    )


def read(path: Path, form: str) -> Iterator[Point]:
    """Raises NotATable, OSError, or Failure (2) for a file without an end."""
    for number, row in enumerate(_rows(path, form), start=1):
        try:
            point = msgspec.convert({**_folded(row), "type": "point"}, Point)
        except (msgspec.ValidationError, _Unreadable) as error:
            raise NotATable(
                f"row {number} is not a point: {str(error)[:1].lower()}{str(error)[1:]}"
            ) from None
        if not math.isfinite(point.median_ns) or point.size_bytes < 0:
            said = f"{point.median_ns:g} ns at {point.size_bytes} bytes"
            raise NotATable(f"row {number} is not a point: it says {said}")
        yield point


def _rows(path: Path, form: str) -> Iterable[Mapping[str, Any]]:
    whole = contents(path, TABLE)  # polars would not say in an OSError which file it is
    if form == "json":
        try:
            rows = _json(whole)
        except _Unreadable as error:
            raise NotATable(f"it is not JSON: {error}") from None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise NotATable("it is not a list of objects")
        return rows
    import polars

    try:
        # All of the file decides on the types: a column may begin with a thousand empty fields.
        if form == "csv":
            text = polars.col(polars.String)
            names = {"variant": polars.String, "pattern": polars.String}  # also one of digits alone
            table = polars.read_csv(whole, infer_schema_length=None, schema_overrides=names).with_columns(
                polars.when(text.str.contains(rf"^'{FORMULA[1:]}"))
                .then(text.str.slice(1))
                .otherwise(text)
                .name.keep()
            )
        else:
            table = polars.read_parquet(whole)
    except polars.exceptions.PolarsError as error:
        raise NotATable(str(error).splitlines()[0]) from None
    return table.iter_rows(named=True)


class _Unreadable(ValueError):  # noqa: N818  (it reads as what it says)
    """A value that cannot be what its column says."""


def _json(text: Any) -> Any:
    """Raises _Unreadable."""
    try:
        return msgspec.json.decode(text)
    except RecursionError:
        raise _Unreadable("it is nested too deeply") from None
    except (ValueError, TypeError) as error:
        raise _Unreadable(str(error)) from None


def _folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Columns with a dot as the nested objects that they came from, columns of measures as measures, and JSON text as
    the lists that it holds. What has no value is left out.
    """
    folded: dict[str, Any] = {}
    measures = []
    for name, value in row.items():
        outer, dot, inner = name.partition(".")
        if name in LISTS and not isinstance(value, list):
            folded[name] = _json(value) if value else []
        elif name.startswith(MEASURE):
            if value is not None and (measure := _measure(name, row)):
                measures.append(measure)
        elif not dot:
            folded.setdefault(name, value)
        elif value is not None:
            nested = folded.get(outer) or {}
            if not isinstance(nested, dict):
                raise _Unreadable(f"{outer} has a value of its own and {name}")
            folded[outer] = {**nested, inner: value}
    return folded | ({"measures": measures} if measures else {})


def _measure(column: str, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The measure whose median stands in this column; None for the columns of limits."""
    for limit in ("_low", "_high"):
        if column.removesuffix(limit) in row and column.endswith(limit):
            return None
    name, unit = measure_of(column)
    _, low, high = measure_columns(name, unit)
    return {"name": name, "unit": unit, "median": row[column], "low": row.get(low), "high": row.get(high)}
