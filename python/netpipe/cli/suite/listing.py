# SPDX-License-Identifier: Apache-2.0
"""What is in a suite, what of it can be made here, and how long it takes: `netpipe suite list` and `show`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.cli.suite import files
from netpipe.cli.suite.parts import DOCTOR
from netpipe.cli.suite.planning import planned, spelled_out, why_not
from netpipe.cli.suite.runs.base import Site
from netpipe.failure import DONE, UNAVAILABLE, Failure
from netpipe.remembered import remembered
from netpipe.streams import say

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Planned

MADE, NOT_MADE = ("✓", "green"), ("✗", "bold red")


def print_list(sizes: bool) -> int:
    """`sizes`: with how long each takes here, which asks the worker for each plan."""
    from rich.text import Text

    from netpipe.render.terminal.rows import Rows, console

    code = DONE
    headers = [("suite", "name"), ("takes", "right"), ("what it measures", "left")]
    table = Rows(*(headers if sizes else [headers[0], headers[2]]))
    for name in files.names():
        try:
            said = files.texts(files.find(name))
            takes = [_takes(files.find(name))] if sizes else []
        except Failure as failure:
            say(failure.sentence)
            code = failure.exit_code
            continue
        table.add_row(name, *takes, Text(said["summary"]))
        table.add_row("", *([""] if sizes else []), Text(said["source"], style="dim"))
    out = console()
    out.print(table)
    out.print()
    if sizes:
        out.print(
            "Takes: measuring at the default size on this machine, without starting the libraries; ≤ is the bound of "
            "its plan, ~ the estimate that its file gives for kernels and profiles."
        )
    out.print("netpipe suite show NAME says what is in one, netpipe suite run NAME measures it.")
    return code


def _takes(path: Path) -> str:
    """≤ 3 min; a dash where nothing of it is here."""
    return estimate(list(planned(files.load(path), build=False).values()))


def estimate(runs: Sequence[Planned]) -> str:
    """How long these take: "≤ 3 min", "~ 2 h" where no plan bounds all of it, a dash where nobody knows."""
    from netpipe.units import span_text

    there = [one for one in runs if one.available]
    known = [one.longest_s for one in there]
    if not there or None in known:
        return "–"
    bounded = all(one.bounded for one in there)
    return f"{'≤' if bounded else '~'} {span_text(sum(filter(None, known)))}"


def print_estimate(out: Console, runs: Sequence[Planned]) -> None:
    from netpipe.units import span_text

    there = [one for one in runs if one.available]
    bound = sum(one.longest_s or 0.0 for one in there if one.bounded)
    rest = [one for one in there if not one.bounded]
    if not there:
        return
    out.print()
    if not rest:
        out.print(f"In all at most {span_text(bound)} of measuring.")
        return
    known = sum(one.longest_s or 0.0 for one in rest)
    names = ", ".join(one.run.name for one in rest)
    took = f", which took {span_text(known)} where the suite was written" if known else ""
    out.print(f"At most {span_text(bound)} of measuring, and the kernels of {names}{took}.")


def show(path: Path, size: str, site: Site) -> int:
    from netpipe.render.terminal.rows import Rows, console, print_paragraph
    from netpipe.units import counted

    with remembered():
        suite = files.load(path, size)
        runs = planned(suite, site, build=False)
    out = console()
    out.print(suite.summary, style="bold", markup=False)
    print_paragraph(out, "·", "dim", suite.source)
    print_paragraph(
        out,
        "·",
        "dim",
        f"sizes: {', '.join(suite.sizes)}; this is {size}, measuring takes {estimate(list(runs.values()))}",
    )
    out.print()
    table = Rows(("run", "name"), ("kind", "left"), ("takes", "right"), ("of", "left"))
    for name, one in runs.items():
        table.add_row(name, one.run.does, estimate([one]), _of(one.run), style="" if one.available else "dim")
    out.print(table)
    out.print()
    first: dict[str, str] = {}  # by reason: the first result that it was said of
    for part in suite.results:
        run = runs[part.run]
        why = why_not(spelled_out(part, run), run)
        words = f"{part.name}: {_needs(part, run)}"
        if why:
            words += f"; not here, like {first[why]}" if why in first else f"; not here: {why}"
            first.setdefault(why, part.name.partition(":")[0])
        print_paragraph(out, *(NOT_MADE if why else MADE), words)
    for title, why in suite.not_measured:
        print_paragraph(out, "·", "dim", f"{title}: not part of the suite: {why}")
    for words in _left_out(runs):
        print_paragraph(out, "!", "yellow", words)
    for name, one in runs.items():
        for note in one.notes:
            print_paragraph(out, "!", "yellow", f"run {name}: {note}")
    if suite.stands_for:
        out.print()
        out.print("What stands for what", style="bold")
        for paper, here, why in suite.stands_for:
            print_paragraph(out, "·", "dim", f"{paper}: {here}; {why}")
    if suite.published:
        out.print()
        out.print(
            f"{counted(len(suite.published), 'published value')} will stand beside those measured here."
        )
    return DONE if any(one.available for one in runs.values()) else UNAVAILABLE


def _left_out(runs: Mapping[str, Planned]) -> Iterator[str]:
    """A sentence for each reason why runs leave variants out."""
    found: dict[str, dict[str, list[str]]] = {}  # by reason and run
    for name, one in runs.items():
        for variant, why in one.left_out.items():
            found.setdefault(why, {}).setdefault(name, []).append(variant)
    for why, of_runs in found.items():
        if len(of_runs) == 1:
            ((name, variants),) = of_runs.items()
            yield f"run {name} leaves out {', '.join(variants)}: {why}"
        else:
            each = ", ".join(f"{name} ({', '.join(variants)})" for name, variants in of_runs.items())
            yield f"these runs leave variants out: {each}: {why}"


def _of(run: Part) -> str:
    """What a run measures, in short."""
    given = run.given
    if "kernels" in given:
        on = given["ranks"] or "all processors"
        return f"{' '.join(given['kernels'])}, class {given['classes'] or 'smallest'}, on {on}"
    names = " ".join(given["variants"]) or "every layer of this host"
    patterns = f"; {' '.join(given['pattern'])}" if given.get("pattern") else ""
    return f"{names}{patterns}"


def _needs(part: Part, run: Planned) -> str:
    """What it is made from."""
    chosen = [*part.variants, *part.patterns]
    what = f"{run.run.name}" + (f" ({', '.join(chosen)})" if chosen else "")
    if part.kind == "figure":
        return f"figure {part.given['figure']} of the run {what}"
    if DOCTOR in part.given:
        return f"the machine as the run {what} found it, as netpipe doctor --strict does"
    if part.kind == "check":
        return f"the run {what} against the {part.given['baseline']} one of the history"
    kind = part.shows or part.given.get("form", "")
    return f"table {kind} of the run {what}"
