# SPDX-License-Identifier: Apache-2.0
"""A prediction, as a table and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.render.terminal.split import differences_table, split_tables
from netpipe.units import TIME_STEPS, UNKNOWN, bracketed_text, digits, listed, time_text

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.prediction import Held
    from netpipe.prediction.predict import Predicted, Prediction


def print_prediction(
    out: Console,
    found: Predicted,
    get: str | None = None,
    before: Predicted | None = None,
    measured: Sequence[Held] = (),
    far: str | None = None,
) -> None:
    """The variants, the verdict, what the time is spent in, the model's own error, and what is missing. Where nothing
    is known, that comes first, in place of the verdict. `get`: the command that measures what is missing; `before`: the
    prediction as everything was measured, where `found` has what a user asks for; `measured`: what the program then
    took; `far`: the command that measures curves between hosts.
    """
    if found.unknown:
        print_paragraph(out, "!", "yellow", verdict(found))
        out.print()
    out.print(_variants(found, before))
    out.print()
    if not found.unknown:
        print_paragraph(out, "·", "bold", verdict(found))
    residual = found.residual
    if residual is None:
        print_paragraph(out, "!", "yellow", no_own_text(found))
    elif not found.unknown.startswith(residual.text):
        print_paragraph(out, "·", "dim", residual.text)
    for note in found.notes:
        print_paragraph(out, "!", "yellow", note)
    if get is not None:
        print_paragraph(
            out, "·", "dim", "this command measures the curves that are missing, and predicts with them:"
        )
        out.print(Text(f"    {get}"), soft_wrap=True)
    if far is not None:
        text = (
            "this command measures the curves between hosts that are missing; then name its run too, in place of any "
            "other run between hosts:"
        )
        print_paragraph(out, "·", "dim", text)
        out.print(Text(f"    {far}"), soft_wrap=True)
    if found.variants:
        out.print()
        for place, table in enumerate(split_tables(found, out.width, before)):
            if place:
                out.print()
            out.print(table)
    if residual is not None:
        out.print()
        out.print("where the model and the profile differ most", style="bold")
        out.print(differences_table(residual.by_call))
    if measured:
        _print_measured(out, measured)


def _variants(found: Predicted, before: Predicted | None) -> Rows:
    was = {one.variant: one for one in before.variants} if before else {}
    middle = [("before", "right")] if before else []
    compared = [("times the first", "right")] if found.pairs else []
    last = (("waiting", "right"), (whole_text(found), "right"))
    table = Rows(("over", "name"), *middle, ("in MPI", "right"), *compared, *last, apart=True)
    for one in found.variants:
        earlier = [f"{time_text(1e9 * was[one.variant].seconds)} ->"] if before else []
        cells = [times_first_text(found, one.variant)] if compared else []
        ends = (time_text(1e9 * one.waiting), time_text(1e9 * one.wall))
        table.add_row(one.variant, *earlier, seconds_text(one), *cells, *ends)
    return table


def _print_measured(out: Console, measured: Sequence[Held]) -> None:
    """Each prediction beside what the program took, and the calls in which they differ most."""
    out.print()
    out.print(measured_table(measured))
    for one in measured:
        out.print()
        out.print(f"over {one.prediction.variant} they differ most in", style="bold")
        out.print(differences_table(one.by_call))


def measured_table(measured: Sequence[Held]) -> Rows:
    table = Rows(
        ("over", "name"),
        ("predicted", "right"),
        ("measured", "right"),
        ("off by", "right"),
        ("interval", "left"),
    )
    for one in measured:
        error = UNKNOWN if one.error is None else f"{100 * one.error:+.0f} %"
        table.add_row(
            one.prediction.variant,
            seconds_text(one.prediction),
            time_text(1e9 * one.measured),
            error,
            "holds it" if one.holds else "misses it",
        )
    return table


def no_own_text(found: Predicted) -> str:
    """That the model was not held against the profile, and what would do that."""
    text = (
        "no variant of the run is known to be that of the profile, so nothing tells how well the model fits this "
        "application; the intervals are those of the curves, and of what the model was wrong by for other programs"
    )
    if not found.same_library:
        return text
    return (
        f"{text}. The profile was taken over the library of {listed(found.same_library)}; if with the same settings, "
        f"say so: --own {found.same_library[0]}"
    )


def whole_text(found: Predicted) -> str:
    """The heading of the time that all of it takes, with its computation."""
    return "whole run" if found.part is None else "this part"


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
