# SPDX-License-Identifier: Apache-2.0
"""The report: a whole run as one HTML file that needs nothing else and asks nothing of any network.

Scripts (plotly.js among them), styles and data stand in the file, and its content security policy forbids all
else. Whatever comes from the run file is text: the template escapes it, and the data for the plots is JSON in
which no tag can end the script.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netpipe.findings.floor import floors
from netpipe.findings.offered import shortfalls
from netpipe.findings.posting import posting
from netpipe.reading.curves import curves
from netpipe.reading.launches import launches
from netpipe.reading.loggp import loggp
from netpipe.reading.losses import losses
from netpipe.reading.modes import several_modes
from netpipe.reading.openings import openings
from netpipe.reading.states import states
from netpipe.reading.summary import Summary, summarise
from netpipe.reading.sweeps import families
from netpipe.records import Run
from netpipe.render import loggp as loggp_table
from netpipe.render.openings import page_table, remark
from netpipe.render.page import tables as page_tables
from netpipe.render.page.patterns import sections
from netpipe.render.page.plots import plots
from netpipe.render.palette import style
from netpipe.render.remarks import floor_sentence, posting_sentence, shortfall_sentence
from netpipe.render.sentences import (
    answer,
    begun_sentence,
    begun_together,
    doubts,
    ending_doubts,
    is_floor,
    largest_losses,
    launch_sentence,
    listed,
    loss_sentence,
    measured,
    modes_sentence,
    state_sentences,
    when,
    where,
)
from netpipe.render.units import span_text

MOST_MODES = 12  # curves whose modes are named; the plot of the distribution says it of all
TEMPLATES = Path(__file__).parent / "templates"


def write(run: Run, path: Path, title: str | None = None) -> None:
    """Writes the report. Raises OSError from the file system."""
    path.write_text(page(run, title), encoding="utf-8")


def page(run: Run, title: str | None = None) -> str:
    """The report as one text."""
    import jinja2
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawn = plots(run)
    draws = bool(drawn.data["curves"] or drawn.data["panels"] or drawn.data["yardsticks"])
    return environment.get_template("report.html").render(
        _content(run, title),
        sections=sections(run, drawn),
        figures=list(drawn.headings.items()),
        panels_of=drawn.placed,
        # These stand in the page as they are: the template marks them so.
        css=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=(TEMPLATES / "report.js").read_text(encoding="utf-8"),
        # A closing tag inside a string of the library would end its script.
        plotly=get_plotlyjs().replace("</script", "<\\/script") if draws else "",
        draws=draws,
        data=safe_json(drawn.data),
        drawn=drawn.data,
    )


def safe_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character in it that HTML or old JavaScript could take
    for its own.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _content(run: Run, title: str | None) -> dict[str, Any]:
    found = curves(run)
    summaries = tuple(map(summarise, found))
    lost = losses(run)
    seen = states(run)
    several = len({curve.pattern for curve in found}) > 1
    skipped, errors = page_tables.problem_tables(run)
    thin, shown = page_tables.thinned(found)
    # Of a pattern with many settings the first one stands for all where the answer is.
    many = [list(family.members) for family in families(run) if len(family.members) > 2]
    later = {pattern for members in many for pattern in members[1:]}
    words = {(loss.variant, loss.pattern): loss_sentence(loss) for loss in lost}
    layers = [
        (layer, summary.pattern not in later)
        for layer, summary in zip(_layers(summaries, several, words), summaries, strict=True)
    ]
    return {
        "title": title or _title(run),
        "measured": measured(run),
        "alarms": [doubt.what + "." for doubt in ending_doubts(run)],
        "when": when(run),
        "largest": largest_losses(lost),
        "layers": [layer for layer, plain in layers if plain],
        "more_layers": [layer for layer, plain in layers if not plain],
        "loggp": loggp_table.page_table(loggp(run)),
        "loggp_remark": loggp_table.REMARK,
        "openings": page_table(opened) if (opened := openings(run)) else None,
        "openings_remark": remark(opened),
        "summary": page_tables.summary_table(summaries, several),
        "losses": page_tables.loss_table(lost, several),
        "loss_sizes": page_tables.loss_sizes_table(lost),
        "doubts": doubts(run, summaries, lost, seen),
        "postings": [posting_sentence(one) for one in posting(run)],
        "shortfalls": [shortfall_sentence(shortfall) for shortfall in shortfalls(run)],
        "floors": [sentence for floor in floors(run) if (sentence := floor_sentence(floor))],
        "states": state_sentences(seen),
        "launches": [launch_sentence(spread) for spread in launches(run)],
        "begun": [begun_sentence(begun) for begun in begun_together(found)],
        "modes": [f"{one.variant} ({one.pattern}) {modes_sentence(one)}" for one in several_modes(run)][
            :MOST_MODES
        ],
        "thin": thin,
        "points": [
            (
                f"{curve.variant}, {curve.pattern}" if several else curve.variant,
                _state_of(summary),
                page_tables.point_table(curve),
            )
            for curve, summary in zip(shown, summaries, strict=True)
        ],
        "plan": page_tables.plan_table(run),
        "options": page_tables.options_table(run),
        "settings": page_tables.settings_table(run),
        "environments": page_tables.environment_tables(run),
        "skipped": skipped,
        "errors": errors,
        "about": _about(run),
    }


def _title(run: Run) -> str:
    names = [curve.variant for curve in curves(run)] or [opening.variant for opening in openings(run)]
    variants = list(dict.fromkeys(name for name in names if not is_floor(name)))
    what = listed(variants) if len(variants) <= 6 else f"{len(variants)} layers"
    host = next((e.host for e in run.environments if e.host), run.header.host if run.header else None)
    return f"{what or 'A run without points'}{f' on {host}' if host else ''}"


def _layers(
    summaries: Sequence[Summary], several: bool, loss_of: dict[tuple[str, str], str]
) -> list[dict[str, Any]]:
    """A line for each curve, with the colour that it has in the plots."""
    colors: dict[str, int] = {}
    made = []
    for summary in summaries:
        floor = is_floor(summary.variant)
        color = None if floor else style(colors.setdefault(summary.variant, len(colors)), 0)[0]
        made.append(
            {
                "name": f"{summary.variant}, {summary.pattern}" if several else summary.variant,
                "color": color,
                "answer": answer(summary),
                "loss": loss_of.get((summary.variant, summary.pattern)),
            }
        )
    return made


def _state_of(summary: Summary) -> str:
    if summary.converged is None or summary.converged == summary.points:
        return f"{summary.points} points"
    return f"{summary.points} points, {summary.points - summary.converged} not converged"


def _about(run: Run) -> list[tuple[str, str]]:
    """What identifies the run."""
    header = run.header
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
