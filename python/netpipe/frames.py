# SPDX-License-Identifier: Apache-2.0
"""The records of a run file as data frames, with a column for each field."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from netpipe.columns import MEASURE
from netpipe.records import KINDS, Cell, Point, Record, read

if TYPE_CHECKING:
    import polars

R = TypeVar("R", bound=Record)


def load(path: str | os.PathLike[str], kind: str = "point") -> polars.DataFrame:
    """The records of one kind as a data frame with flat columns (`facts.cpu.model`).

    `kind` is a record type of docs/reference/record.md. `sample` gives a row for each timed batch, `plan` one
    for each planned variant, `variant` one for each rank. `cell` gives a row for each rank or pair of a point. The
    measures of a pattern are columns of `point` (`measure_columns`). Raises NotARun, OSError, or ValueError for an
    unknown kind.
    """
    return of_kind(read(path), kind)


def of_kind(records: Iterable[Record], kind: str) -> polars.DataFrame:
    """The same of records that were read or measured already. Raises ValueError for an unknown kind."""
    if kind == CELL:
        return cell_frame(record for record in records if isinstance(record, Point))
    if kind not in KINDS:
        raise ValueError(f"there is no record type '{kind}'; there are {', '.join([*KINDS, CELL, SIZE])}")
    wanted = KINDS[kind]
    return frame(wanted, (record for record in records if type(record) is wanted))


def frame(kind: type[R], records: Iterable[R]) -> polars.DataFrame:
    """Records of one kind as a data frame; columns have the types of the fields, also where all are null."""
    import polars

    rows = [row for record in records for row in record.rows()]
    types, nested = _columns(kind, polars)
    extra = {column: None for row in rows for column in row if column not in types and column not in nested}
    types |= {column: polars.Float64 for column in extra if column.startswith(MEASURE)}
    columns = {column: [row.get(column) for row in rows] for column in [*types, *extra]}
    return polars.DataFrame(columns, schema_overrides=types, strict=False)


CELL = "cell"  # no record of its own: the ranks and pairs inside points
SIZE = "size"  # neither: the points of all launches together, which netpipe.load computes


def cell_frame(points: Iterable[Point]) -> polars.DataFrame:
    """The ranks and pairs of points as a long table, one row each."""
    import polars

    of_point, _ = _columns(Point, polars)
    of_cell, _ = _columns(Cell, polars)
    types = {name: of_point[name] for name in ("launch", "variant", "pattern", "size_bytes")} | of_cell
    rows = [row for point in points for row in point.cell_rows()]
    return polars.DataFrame({name: [row[name] for row in rows] for name in types}, schema=types, strict=False)


def _columns(kind: type[msgspec.Struct], polars: Any, prefix: str = "") -> tuple[dict[str, Any], set[str]]:
    """The columns that the fields of a Struct give, with types; and the fields that become several."""
    plain = {int: polars.Int64, float: polars.Float64, str: polars.String, bool: polars.Boolean}
    types: dict[str, Any] = {}
    nested: set[str] = set()
    hints = get_type_hints(kind)  # without the bounds of numbers
    shape: dict[str, Any] = {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}
    exploded = getattr(kind, "exploded", {})
    for field_name, field_type in (shape | exploded).items():
        name = prefix + field_name
        outer: Any = get_origin(field_type)
        inner = next((t for t in get_args(field_type) or [field_type] if t is not type(None)), None)
        if outer is list:
            if inner in plain:
                types[name] = polars.List(plain[inner])
            elif field_name in exploded and isinstance(inner, type):
                below, _ = _columns(inner, polars)
                types[name] = polars.List(polars.Struct(below))
        elif isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            below, _ = _columns(inner, polars, name + ".")
            types |= below
            nested.add(name)
        elif inner in plain and outer is not dict:
            types[name] = plain[inner]
    return types, nested
