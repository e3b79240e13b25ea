# SPDX-License-Identifier: Apache-2.0
"""A prediction, as a table and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import TIME_STEPS, UNKNOWN, bracketed_text, digits, share_text, size_text, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.prediction.predict import Predicted, Prediction

CALLS = 8  # rows of the table by call


def print_prediction(out: Console, found: Predicted) -> None:
    """The variants, the verdict, what the time is spent in, the model's own error, and what is missing."""
    table = Rows(("over", "name"), ("in MPI", "right"), ("waiting", "right"), ("whole run", "right"))
    for one in found.variants:
        table.add_row(one.variant, seconds_text(one), time_text(1e9 * one.waiting), time_text(1e9 * one.wall))
    out.print(table)
    out.print()
    print_paragraph(out, "·", "bold", verdict(found))
    residual = found.residual
    if residual is None:
        print_paragraph(
            out,
            "!",
            "yellow",
            "no variant of the run is that of the profile, so nothing tells how well the model fits this application; "
            "the intervals are those of the curves, and of what the model was wrong by for other programs",
        )
    else:
        print_paragraph(
            out,
            "·",
            "dim",
            f"over its own library ({residual.variant}) the profile has {time_text(1e9 * residual.measured)} in MPI, "
            f"and the model says {time_text(1e9 * residual.predicted)}",
        )
    for note in found.notes:
        print_paragraph(out, "!", "yellow", note)
    if found.variants:
        out.print()
        out.print(_by_call(found))
    if residual is not None and residual.error > 0.1:
        out.print()
        out.print("where the model and the profile differ most", style="bold")
        rows = Rows(("call", "left"), ("size", "right"), ("measured", "right"), ("by the model", "right"))
        for name, size, measured, predicted in residual.by_call[:4]:
            rows.add_row(name, size_text(size), time_text(1e9 * measured), time_text(1e9 * predicted))
        out.print(rows)


def verdict(found: Predicted) -> str:
    """Which is the fastest, as far as the intervals tell."""
    if len(found.variants) < 2:
        return "one variant, so there is nothing to rank; name more runs, or runs with more variants"
    first, second = found.variants[:2]
    if found.fastest is not None:
        times = digits(second.seconds / first.seconds)
        return f"{first.variant} is the fastest: {times} times as fast as {second.variant}"
    tied = [one.variant for one in found.variants if one.low <= first.high]
    return f"undecided: the intervals of {', '.join(tied)} meet"


def seconds_text(one: Prediction) -> str:
    return bracketed_text(1e9 * one.seconds, 1e9 * one.low, 1e9 * one.high, TIME_STEPS, "ns")


def _by_call(found: Predicted) -> Rows:
    """The calls that take most over the first variant, over the first and the last one."""
    first, last = found.variants[0], found.variants[-1]
    columns = [("call", "left"), ("size", "right"), (first.variant, "right"), ("share", "right")]
    if last is not first:
        columns.append((last.variant, "right"))
    table = Rows(*columns)
    most = sorted(first.by_call, key=lambda key: -max(first.by_call[key], last.by_call.get(key, 0.0)))
    for key in most[:CALLS]:
        name, size = key
        cells = [name, size_text(size), time_text(1e9 * first.by_call[key])]
        cells.append(share_text(first.by_call[key] / first.seconds) if first.seconds else UNKNOWN)
        if last is not first:
            cells.append(time_text(1e9 * last.by_call.get(key, 0.0)))
        table.add_row(*cells)
    return table
