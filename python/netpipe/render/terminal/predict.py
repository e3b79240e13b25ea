# SPDX-License-Identifier: Apache-2.0
"""A prediction, as a table and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import (
    TIME_STEPS,
    UNKNOWN,
    bracketed_text,
    digits,
    listed,
    share_text,
    size_text,
    time_text,
)

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.prediction.predict import Predicted, Prediction

CALLS = 8  # rows of the table by call


def print_prediction(out: Console, found: Predicted, get: str | None = None) -> None:
    """The variants, the verdict, what the time is spent in, the model's own error, and what is missing. Where nothing
    is known, that comes first, in place of the verdict. `get`: the command that measures what is missing.
    """
    if found.unknown:
        print_paragraph(out, "!", "yellow", verdict(found))
        out.print()
    compared = [("times the first", "right")] if found.pairs else []
    table = Rows(
        ("over", "name"), ("in MPI", "right"), *compared, ("waiting", "right"), ("whole run", "right")
    )
    for one in found.variants:
        cells = [times_first_text(found, one.variant)] if compared else []
        table.add_row(
            one.variant, seconds_text(one), *cells, time_text(1e9 * one.waiting), time_text(1e9 * one.wall)
        )
    out.print(table)
    out.print()
    if not found.unknown:
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
    if get is not None:
        print_paragraph(
            out, "·", "dim", "this command measures the curves that are missing, and predicts with them:"
        )
        out.print(Text(f"    {get}"), soft_wrap=True)
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
    """Which is the fastest, as far as the intervals of the ratios tell."""
    if found.unknown:
        return f"these numbers are no predictions, and nothing is ranked: {found.unknown}"
    if len(found.variants) < 2:
        return "one variant, so there is nothing to rank; name more runs, or runs with more variants"
    first, *others = found.tiers
    slower = [name for tier in others for name in tier]
    if not slower:
        return f"undecided: {_either(first)} may be the fastest"
    if len(first) > 1:
        return (
            f"{_either(first)} is the fastest, and which of them is undecided; {listed(slower)} "
            f"{'is' if len(slower) == 1 else 'are'} slower"
        )
    return (
        f"{first[0]} is the fastest; {slower[0]} takes {times_text(found, first[0], slower[0])} times as long"
    )


def times_first_text(found: Predicted, variant: str) -> str:
    """How many times as long it takes as the first in the table."""
    first = found.variants[0].variant
    return "1" if variant == first else times_text(found, first, variant)


def times_text(found: Predicted, one: str, other: str) -> str:
    """How many times as long the other one takes, with the interval."""
    pair = found.pair(one, other)
    if pair is None:
        return UNKNOWN
    times = pair.times if pair.faster == one else pair.times.inverse()
    return f"{digits(times.value)} [{digits(times.low)} {digits(times.high)}]"


def _either(names: Sequence[str]) -> str:
    """a or b; a, b or c"""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


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
