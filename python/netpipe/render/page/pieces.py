# SPDX-License-Identifier: Apache-2.0
"""Latency and rate of curves by pieces, for the report."""

from __future__ import annotations

from collections.abc import Sequence

from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.render.page.tables import Column, Table
from netpipe.render.pieces import COLUMNS, rows

MOST_SIZES = 4000  # of all curves together: fitting more would take seconds


def table(reading: Reading, curves: Sequence[Curve], several_patterns: bool) -> Table | None:
    """A row for each piece; None for a run that is too large, or has nothing to fit."""
    if sum(len(curve.points) for curve in curves) > MOST_SIZES:
        return None
    made = []
    for curve in curves:
        fit = reading.fit_of(curve)
        if fit is None:
            continue
        name = [fit.variant, *([fit.pattern] if several_patterns else [])]
        made += [(*name, *row) for row in rows(fit, rated=not reading.is_idle(fit.variant))]
    words = ("variant", *(["pattern"] if several_patterns else []))
    columns = (*(Column(word, left=True) for word in words), *map(Column, COLUMNS))
    return Table(columns, tuple(made)) if made else None
