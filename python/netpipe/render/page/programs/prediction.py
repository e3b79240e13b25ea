# SPDX-License-Identifier: Apache-2.0
"""What other libraries and networks would make of a profiled program, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netpipe.findings.trust import doubt
from netpipe.prediction import own_variant, predict, processors, sensitivities
from netpipe.render.figures import sensitivity as figure
from netpipe.render.page.programs.chart import Chart, charts
from netpipe.render.page.tables import Column, Table
from netpipe.render.terminal.predict import seconds_text, times_first_text, verdict, whole_text
from netpipe.render.terminal.sensitivity import sentences, tolerance_rows
from netpipe.render.terminal.split import cells, difference_rows, parts
from netpipe.units import capital, sentence, time_text

if TYPE_CHECKING:
    from netpipe.prediction import Sensitivity
    from netpipe.prediction.predict import Predicted
    from netpipe.profiles import Profile
    from netpipe.reading import Reading


@dataclass(frozen=True, slots=True)
class Dependence:
    """Of the program over one variant."""

    variant: str
    charts: tuple[Chart, ...]
    table: Table
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The section of the page."""

    verdict: str
    table: Table
    split: Table
    own: str  # how well the model fits the profile's own library; empty if the run lacks that
    differences: Table
    notes: tuple[str, ...]
    dependences: tuple[Dependence, ...]


def elsewhere(launches: Sequence[Profile], reading: Reading, own: str | None = None) -> Elsewhere:
    """`own` is the variant of the run that the profiles were taken over, by default the library without settings.
    Raises NotAProfile without a trace, Stuck where the trace is not whole, UnknownVariant if the run lacks `own`.
    """
    own, there = own_variant(launches[0], reading.run, own), processors(reading.run)
    untrusted = doubt(reading, "the run")
    found = predict(launches, reading, own, processors=there, untrusted=untrusted)
    curves = sensitivities(launches, reading, own, there, untrusted=untrusted)
    notes = dict.fromkeys(map(_sentence, [*found.notes, *curves.notes]))
    return Elsewhere(
        _verdict(found) if found.variants else "The run has no ping-pong, which every prediction needs.",
        _table(found),
        _split(found),
        sentence(capital(found.residual.text)) if found.residual else "",
        _differences(found),
        tuple(notes),
        tuple(map(_dependence, curves.variants)),
    )


def _verdict(found: Predicted) -> str:
    """As a sentence; a name at its beginning stays as it is."""
    text = verdict(found)
    return (
        sentence(text) if text.startswith(tuple(one.variant for one in found.variants)) else _sentence(text)
    )


def _title(text: str, one: Sensitivity) -> str:
    """Without the variant, which the heading has."""
    return capital(text.removeprefix(f"{one.variant}: "))


def _sentence(text: str) -> str:
    return sentence(capital(text))


def _table(found: Predicted) -> Table:
    columns = (
        Column("over", left=True),
        Column("in MPI"),
        *([Column("times the first")] if found.pairs else []),
        Column("waiting"),
        Column(whole_text(found)),
    )
    rows = tuple(
        (
            one.variant,
            seconds_text(one),
            *([times_first_text(found, one.variant)] if found.pairs else []),
            time_text(1e9 * one.waiting),
            time_text(1e9 * one.wall),
        )
        for one in found.variants
    )
    return Table(columns, rows)


def _split(found: Predicted) -> Table:
    """Time and share of each call and size over every variant."""
    names = (one.variant for one in found.variants)
    columns = (
        Column("call", left=True),
        Column("size"),
        *(column for name in names for column in (Column(name), Column("share"))),
    )
    rows = tuple(
        (
            part.call,
            part.size,
            *(text for one in found.variants for text in cells(part, one.by_call, one.seconds)),
        )
        for part in parts(found)
    )
    return Table(columns, rows)


def _differences(found: Predicted) -> Table:
    columns = (Column("call", left=True), Column("size"), Column("measured"), Column("by the model"))
    return Table(columns, tuple(difference_rows(found.residual.by_call)) if found.residual else ())


def _dependence(one: Sensitivity) -> Dependence:
    columns = (Column("", left=True), *(Column(each.name) for each in one.parameters))
    return Dependence(
        one.variant,
        tuple(replace(each, title=_title(each.title, one)) for each in charts([figure.of([one])])),
        Table(columns, tuple(tolerance_rows(one, one.parameters))),
        tuple(map(_sentence, sentences(one))),
    )
