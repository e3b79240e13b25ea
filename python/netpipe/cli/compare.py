# SPDX-License-Identifier: Apache-2.0
"""netpipe compare: runs held against the first of them, or variants of one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.comparing import compared_runs
from netpipe.command.drawing import format_of
from netpipe.command.options import pattern_option, variant_option
from netpipe.failure import USAGE, Failure
from netpipe.run_file import check_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netpipe.command.more import More
    from netpipe.reading.across.compared import Compared
    from netpipe.records import Run


@click.command
@click.argument("runs", metavar="RUN [RUN]...", nargs=-1, type=click.Path(path_type=Path))
@variant_option
@pattern_option
@click.option("--sizes", "every_size", is_flag=True, help="Show every size of every curve.")
@click.option("--json", "as_json", is_flag=True, help="Print all ratios and differences as JSON.")
@click.option(
    "--figure",
    "target",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also draw the ratios into FILE.svg, .png or .pdf.",
)
def command(
    runs: tuple[Path, ...],
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    every_size: bool,
    as_json: bool,
    target: Path | None,
) -> None:
    """Compare RUNs with the first: faster, slower or undecided.

    For each variant and pattern that two runs have: the ratio of their times by size and over all sizes, with 95 %
    intervals that hold together. The runs may be results of other programs (netpipe import). Also says what else
    differs between the runs: hosts, kernels, libraries, settings.

    One RUN and two variants or more (--variant tcp --variant unix): each against the first of them, by the visits that
    were measured back to back. What the machine does meanwhile cancels, so smaller differences are found. To compare
    two settings, measure them in one run.
    """
    if not runs:
        raise Failure(USAGE, "name the runs to compare, or one run and two of its variants")
    if target:
        check_target(target)
        format_of(target)
    from netpipe.records import Run

    read = [Run.read(path, samples=False) for path in runs]
    found = compared_runs(read, variants, patterns)
    needed = what_it_takes(found, read)
    if target:
        _draw(found, target)
    if as_json:
        import msgspec

        from netpipe.escapes import printable_json

        click.echo(printable_json(msgspec.json.encode(answer(found) | {"more": needed}).decode()))
        return
    from netpipe.render.terminal.compare import print_commands, print_comparison, print_differences
    from netpipe.render.terminal.rows import console, print_paragraph

    out = console()
    for label, differences, paces in found.others:
        out.print(f"{label} against {found.first}", style="bold")
        print_differences(out, differences, paces)
        out.print()
    print_comparison(out, found.between, every_size)
    if needed:
        print_paragraph(out, "!", "yellow", needed.sentence)
        print_commands(out, needed.commands)
    for source in found.sources:
        print_paragraph(out, "·", "dim", source)


def what_it_takes(found: Compared, runs: Sequence[Run]) -> More | None:
    """To tell of each curve that is undecided over all sizes whether it differs by 5 %: no difference is said where
    that is excluded. Of more than two runs nobody asks which ones to continue.
    """
    from netpipe.command.more import more, of_times
    from netpipe.reading.blocks.verdicts import ALIKE, Word

    if len(runs) > 2:
        return None
    undecided = [one.overall for one in found.between if one.word is Word.UNDECIDED and one.overall.known]
    paces = found.others[0][2] if found.others else ()
    return more([of_times(times, ALIKE) for times in undecided], runs, paces)


def _draw(found: Compared, target: Path) -> None:
    """Raises Failure (2) for more curves than a page holds."""
    from netpipe.render.drawing.paper.draw import draw
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.render.figures.comparison import of_runs
    from netpipe.streams import say

    labels = [label for label, *_ in found.others] or [one.label for one in found.between]
    others = " and ".join(dict.fromkeys(labels))
    try:
        draw(of_runs(found.between), f"{others} against {found.first}", target, format_of(target))
    except NothingToDraw as why:
        raise Failure(USAGE, f"cannot draw the comparison: {why}") from None
    say(f"the figure is in {target}")


def answer(found: Compared) -> dict[str, Any]:
    """What --json prints."""
    return {
        "against": found.first,
        "runs": [
            {"label": label, "differences": differences, "yardsticks": paces}
            for label, differences, paces in found.others
        ],
        "curves": found.between,
        "sources": found.sources,
    }
