# SPDX-License-Identifier: Apache-2.0
"""What the layers counted at each size (retransmits, round-trip times, registrations) as a long table: one row a
counter of a point. Only written: `netpipe import` refuses it, for there are no times in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from netpipe.records import Counted, Point, Run
from netpipe.render.export.table import as_json, as_table

if TYPE_CHECKING:
    import polars

UP, GAUGE = "count", "gauge"  # visits add up; the largest value at the end of a visit


def write(run: Run, points: Sequence[Point], form: str) -> bytes:
    """The contents of the file, in one of table.FORMATS. `points` are those of the run that were chosen."""
    made = _frame(run, points)
    return as_json(made.to_dicts()) if form == "json" else as_table(made, form)


def _frame(run: Run, points: Sequence[Point]) -> polars.DataFrame:
    """launch, variant, pattern, size_bytes, counter, value, unit, kind (UP or GAUGE). Unit and kind are null in older
    files, which do not say them. A counter that the layer read and that stayed at zero has a row too.
    """
    import polars as pl

    counted = run.counted
    rows = [
        (at.launch, at.variant, at.pattern, at.size_bytes, name, value, *_said(counted, at.variant, name))
        for at in points
        for name, value in at.counters.items()
    ]
    texts = ("variant", "pattern", "counter", "unit", "kind")
    names = ("launch", "variant", "pattern", "size_bytes", "counter", "value", "unit", "kind")
    schema = {name: pl.String if name in texts else pl.Int64 for name in names}
    return pl.DataFrame(rows, schema=schema, orient="row", strict=False)


def _said(
    counted: Mapping[str, Mapping[str, Counted]], variant: str, name: str
) -> tuple[str | None, str | None]:
    of = counted.get(variant, {}).get(name)
    return (None, None) if of is None else (of.unit, GAUGE if of.gauge else UP)
