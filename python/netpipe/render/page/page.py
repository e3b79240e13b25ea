# SPDX-License-Identifier: Apache-2.0
"""The report: a whole run as one HTML file that needs no other file and no network.

The file contains its scripts (what it needs of plotly.js among them: library.py), styles and data, and its content
security policy forbids anything else. Whatever comes from the run file is text: the template escapes it, control
characters too, and the data for the plots is base64, in which no tag can end the script (block.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from netpipe.findings import Judgement, judge
from netpipe.findings.machine_state import state_sentences
from netpipe.findings.trust import tells, trust
from netpipe.reading import Reading
from netpipe.reading.curves import WIDE
from netpipe.reading.summary import Summary
from netpipe.render.drawing.scope import Scope
from netpipe.render.export.whole import sizes
from netpipe.render.figures import yardsticks
from netpipe.render.loggp import REMARK
from netpipe.render.losses import largest_of_each_kind, loss_sentence
from netpipe.render.next_step import next_step
from netpipe.render.openings import remark
from netpipe.render.page import counters, library, loggp, openings, pieces
from netpipe.render.page import findings as page_findings
from netpipe.render.page import tables as page_tables
from netpipe.render.page.block import block, packed
from netpipe.render.page.collectives import collective_rows
from netpipe.render.page.patterns import sections
from netpipe.render.page.plots import plots
from netpipe.render.page.script import bundled
from netpipe.render.page.stack import stack_rows
from netpipe.render.page.template import template, text_of
from netpipe.render.palette import HUES
from netpipe.render.pieces import REMARK as PIECES_REMARK
from netpipe.render.verdicts import verdict_sentences
from netpipe.render.words import answer, measured, other_answers, when, where
from netpipe.units import counted, listed, span_text, width_text


def write(reading: Reading, path: Path, title: str | None = None) -> None:
    """Writes the report. Raises OSError from the file system."""
    path.write_text(page(reading, title), encoding="utf-8")


def page(reading: Reading, title: str | None = None) -> str:
    """The report as one text."""
    scope = Scope((reading,))
    drawn = plots(scope)
    judgement = judge(reading)
    data = drawn.data | {
        "findings": msgspec.to_builtins(judgement.findings),
        "withdrawn": msgspec.to_builtins(judgement.withdrawn),
        "skipped_rules": msgspec.to_builtins(judgement.skipped),
    }
    draws = bool(data["curves"] or data["panels"] or data["yardsticks"])
    return template("report.html").render(
        _content(scope, title, judgement),
        findings=page_findings.section(judgement, several_hosts=len(reading.hosts) > 1),
        sections=sections(reading, drawn),
        figures=list(drawn.headings.items()),
        panels_of=drawn.placed,
        # The template marks these as safe: they go into the page unescaped.
        css=text_of("report.css"),
        script=text_of("tables.js") + bundled("report", "report"),
        library=library.compressed() if draws else "",
        points_csv=points_csv(reading) if data["curves"] else "",
        downloaded=downloaded(reading),
        draws=draws,
        data=block(data) if draws else "",
        drawn=data,
    )


MOST_DOWNLOADED = 5000  # sizes of curves; netpipe export writes those of larger runs


def points_csv(reading: Reading) -> str:
    """What `netpipe export --table sizes -o sizes.csv` writes, compressed and in base64; empty for a large run."""
    from netpipe.render.export.table import write as table_of

    if _sizes(reading) > MOST_DOWNLOADED:
        return ""
    return packed(table_of(sizes(reading, reading.run.points), "csv", "sizes"))


def downloaded(reading: Reading) -> str:
    """What the download has, and what it lacks."""
    count = counted(_sizes(reading), "point")
    if _sizes(reading) > MOST_DOWNLOADED:
        return (
            f"This page has no download of its {count}, since there are more than {MOST_DOWNLOADED}: "
            "netpipe export RUN --table sizes -o sizes.csv"
        )
    return (
        f"The download has the {count} of the curves, one for each size, with the median of the whole run and its "
        "interval. Each launch by itself, with its percentiles: netpipe export RUN -o launches.csv. The single samples "
        "are in the run file alone: netpipe.load(RUN, 'sample') in Python."
    )


def _sizes(reading: Reading) -> int:
    return sum(len(curve.points) for curve in reading.curves)


def points_remark(reading: Reading) -> str:
    """What the tables of points show."""
    visited = [point.visits is not None for point in reading.run.points]
    whole = (
        "A row has the numbers of the whole run at one size. Low and high are the 95 % interval of the median for the "
        "next run, ± is half of it; the percentiles are those of the launch whose median is nearest. Rows in italics "
        f"have an interval wider than {width_text(WIDE)}. netpipe export RUN writes each launch by itself."
    )
    recorded = (
        "Low and high are the 95 % interval of the median within a launch, ± is half of it. Rows in italics did not "
        "settle."
    )
    parts = ["Times are of one operation."]
    if any(visited):
        parts.append(whole)
    if not all(visited):
        parts += ["Of older and imported results each row is a launch:"] * any(visited) + [recorded]
    if reading.in_states:
        parts.append(
            "A curve in states of the machine has the times of its state; what was recorded with all states of the "
            "machine is left out."
        )
    return " ".join(parts)


def _content(scope: Scope, title: str | None, judgement: Judgement) -> dict[str, Any]:
    (reading,) = scope.readings
    run, lost = reading.run, reading.losses
    can_tell = tells(reading, judgement.findings)
    told = largest_of_each_kind(lost) if can_tell else ()
    largest, *others = told or ((),)
    several = len(reading.patterns) > 1
    skipped, errors = page_tables.problem_tables(run)
    shown = _Shown(scope)
    summaries = [one for one in reading.summaries if shown.curve(one.variant, one.pattern)]
    curves = [one for one in reading.curves if shown.curve(one.variant, one.pattern)]
    thin, tabled = page_tables.thinned(curves)
    counters_thin, by_launch = page_tables.thinned(curves, by_launch=True)
    # Of a pattern with many settings the answer shows the first, and of many curves those that are drawn at first; the
    # others are folded.
    many = [list(settings.values) for settings in reading.pattern_settings if len(settings.values) > 2]
    folded = {pattern for patterns in many for pattern in patterns[1:]}
    first = {(one.variant, one.pattern) for one in scope.first}
    answered = {(one.variant, one.pattern) for one in summaries if reading.is_idle(one.variant)} | first
    words = {(loss.variant, loss.pattern): loss_sentence(loss) for loss in lost}
    layers = [
        (layer, summary.pattern not in folded and (summary.variant, summary.pattern) in answered)
        for layer, summary in zip(_layers(scope, summaries, several, words), summaries, strict=True)
    ]
    opened, counted = reading.openings, run.counted
    shown_losses = [loss for loss in lost if shown.curve(loss.variant, loss.pattern)]
    return {
        "title": title or _title(reading),
        "measured": measured(reading, MOST_NAMED),
        "when": when(run),
        "left_out": shown.sentence(),
        "largest": largest,
        "tells": can_tell,
        "other_largest": list(chain.from_iterable(others)),
        "next_step": next_step(reading, judgement.findings),
        "trust": trust(reading, judgement.findings),
        "stacks": [stack_rows(one, several, first) for one in reading.stacks[:MOST_STACKS]],
        "collectives": collective_rows(reading.collectives, lambda name: shown.curve(*name)),
        "verdicts": verdict_sentences(reading.verdicts),
        "ratios": page_tables.ratio_table(reading.verdicts, several),
        "layers": [layer for layer, plain in layers if plain],
        "more_layers": [layer for layer, plain in layers if not plain],
        "loggp": loggp.table(reading.loggp),
        "loggp_remark": REMARK,
        "openings": openings.table(opened) if opened else None,
        "openings_remark": remark(opened),
        "summary": page_tables.summary_table(reading, several),
        "pieces": pieces.table(reading, [one.curve for one in scope.members], several),
        "pieces_remark": PIECES_REMARK,
        "losses": page_tables.loss_table(lost, several),
        "by_blocks": any(point.visits is not None for point in run.points),
        "loss_sizes": page_tables.loss_sizes_table(shown_losses),
        "few_kept": page_tables.few_kept(shown_losses),
        "states": state_sentences(reading.states),
        "pooled": bool(reading.in_states),
        "conventions": scope.conventions,
        "yardsticks": yardsticks.title(run),
        "thin": thin,
        "points_remark": points_remark(reading),
        "points": [
            (
                f"{curve.variant}, {curve.pattern}" if several else curve.variant,
                _state_of(summary),
                page_tables.point_table(curve, rated=not reading.is_idle(curve.variant)),
            )
            for curve, summary in zip(tabled, summaries, strict=True)
        ],
        "counters": [
            (f"{curve.variant}, {curve.pattern}" if several else curve.variant, made)
            for curve in by_launch
            if (made := counters.table(curve, counted.get(curve.variant, {}))) is not None
        ],
        "counters_remark": counters.REMARK,
        "counters_thin": counters_thin,
        "plan": page_tables.plan_table(run),
        "options": page_tables.options_table(run, shown.name),
        "settings": page_tables.settings_table(run, shown.name),
        "environments": page_tables.environment_tables(run),
        "skipped": skipped,
        "errors": errors,
        "about": _about(reading),
    }


class _Shown:
    """Of a run with very many curves the page shows those that it draws; only tables with a row for each have all."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._all = len(scope.members) == len(scope.chosen)
        self._curves = {(member.variant, member.pattern) for member in scope.members}
        self._names = {name for curve in self._curves for name in curve}

    def curve(self, variant: str, pattern: str) -> bool:
        return self._all or (variant, pattern) in self._curves

    def name(self, variant_or_pattern: str) -> bool:
        return self._all or variant_or_pattern in self._names

    def sentence(self) -> str:
        """What is left out; empty if nothing is."""
        left_out = self._scope.left_out
        if not left_out:
            return ""
        text = f"This run is large: the plots show {left_out}. "
        if not self._all:
            text += (
                "The answer, the points, the losses at every size, the options and the settings are of the same "
                "curves; the tables of all curves and losses are whole. "
            )
        return (
            text + "netpipe plot and show take --variant and --pattern, and netpipe export writes everything."
        )


MOST_STACKS = 4  # trees of layers, one for each pattern
MOST_NAMED = 6  # layers in a sentence; more are a number


def _title(reading: Reading) -> str:
    run = reading.run
    names = [curve.variant for curve in reading.curves] or [opening.variant for opening in reading.openings]
    variants = list(dict.fromkeys(name for name in names if not reading.is_idle(name)))
    what = listed(variants) if len(variants) <= MOST_NAMED else f"{len(variants)} layers"
    host = next((e.host for e in run.environments if e.host), run.header.host if run.header else None)
    return f"{what or 'A run without points'}{f' on {host}' if host else ''}"


def _layers(
    scope: Scope, summaries: Sequence[Summary], several: bool, loss_of: dict[tuple[str, str], str]
) -> list[dict[str, Any]]:
    """A line for each curve, with its colour in the plots."""
    (reading,) = scope.readings
    made = []
    for summary in summaries:
        idle = reading.is_idle(summary.variant)
        color = None if idle else scope.color(summary.variant) % HUES
        made.append(
            {
                "name": f"{summary.variant}, {summary.pattern}" if several else summary.variant,
                "color": color,
                "answer": answer(summary, idle),
                "loss": loss_of.get((summary.variant, summary.pattern)),
                "others": other_answers(reading, reading.by_name[summary.variant, summary.pattern]),
            }
        )
    return made


def _state_of(summary: Summary) -> str:
    points, typical = counted(summary.points, "point"), summary.typical_half_width
    return points if typical is None else f"{points}, typically {width_text(typical)}"


def _about(reading: Reading) -> list[tuple[str, str]]:
    """What identifies the run."""
    run, header = reading.run, reading.run.header
    lines = [
        ("run", header.run if header else None),
        ("measured by", f"netpipe {header.netpipe}" if header and header.netpipe else None),
        ("started", when(run)),
        ("where", where(run)),
        ("command", " ".join(header.argv) if header and header.argv else None),
        ("took", span_text(run.end.seconds) if run.end and run.end.seconds is not None else None),
        ("ended", f"{run.end.reason} (exit {run.end.exit})" if run.end else None),
        ("file", run.path.name if run.path else None),
    ]
    return [(name, text) for name, text in lines if text]
