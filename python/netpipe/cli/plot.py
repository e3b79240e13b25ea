# SPDX-License-Identifier: Apache-2.0
"""netpipe plot: figures for print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.command.choices import OneOf
from netpipe.command.drawing import FORMATS, format_of
from netpipe.command.options import (
    matching,
    own_option,
    pattern_option,
    refuse,
    runs_argument,
    variant_option,
)
from netpipe.escapes import printable
from netpipe.failure import USAGE, Failure
from netpipe.render import figures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from netpipe.profiles import Profile
    from netpipe.reading import Reading
    from netpipe.render.drawing.scope import Scope


TERMINAL = "terminal"  # no file
Kinds = tuple[str, ...]
OF_RUNS, OF_KERNELS = (figures.RUN,), (figures.KERNELS,)
OF_PROFILE, OF_BOTH = (figures.PROFILE,), (figures.PROFILE, figures.RUN)
DEFAULT = {OF_RUNS: "throughput", OF_PROFILE: "by_call", OF_BOTH: "sensitivity", OF_KERNELS: "speedup"}
FROM = {
    figures.RUN: "runs",
    figures.PROFILE: "a profile of netpipe profile",
    figures.KERNELS: "results of netpipe apps",
}
IS = {figures.RUN: "is a run", figures.PROFILE: "is a profile", figures.KERNELS: "has results of kernels"}
# Options that choose curves of runs, or how they are drawn.
OF_CURVES = ("patterns", "sizes", "measures", "fitted", "scale", "own")


@click.command(short_help="Draw a figure of RUN [run.jsonl] into a file or the terminal.")
@runs_argument
@click.option(
    "--figure",
    metavar="NAME",
    type=OneOf(figures.names()),
    help="What to draw; --list shows the names.  [default: throughput; of a profile by_call, of one beside a run "
    "sensitivity, of results of netpipe apps speedup]",
)
@click.option(
    "--list", "listing", is_flag=True, help="List all figures and whether RUN has the data for them."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; its ending names the format  [default: the figure's name, in this folder]",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice((*FORMATS, TERMINAL)),
    help="terminal prints the figure in characters instead.  [default: the ending of --output, or svg]",
)
@variant_option
@pattern_option
@click.option(
    "--size",
    "sizes",
    metavar="BYTES",
    multiple=True,
    help="Only this message size, such as 64k; repeat for more.",
)
@click.option(
    "--measure", "measures", metavar="NAME", multiple=True, help="Only this measure; repeat for more."
)
@click.option(
    "--fit", "fitted", is_flag=True, help="Draw curves as points, with their latency and rate by pieces."
)
@click.option("--title", metavar="TEXT", help="Replaces the figure's own title.")
@click.option(
    "--scale",
    type=click.Choice(("auto", "linear", "log")),
    default="auto",
    show_default=True,
    help="The axis of throughput; auto is log if a linear axis would flatten some curves.",
)
@own_option
def command(
    runs: tuple[Path, ...],
    figure: str | None,
    listing: bool,
    output: Path | None,
    file_format: str | None,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    sizes: tuple[str, ...],
    measures: tuple[str, ...],
    fitted: bool,
    title: str | None,
    scale: str,
    own: str | None,
) -> None:
    """Draw a figure of RUN [run.jsonl] as SVG, PNG or PDF, or on the terminal.

    Several runs are overlaid. RUN may also be a profile of netpipe profile: then any figure of its page is drawn,
    or with runs beside it sensitivity. Of a file of netpipe apps, alone, speed-ups or times are drawn over the
    number of processes.

    throughput, signature (throughput over time) and saturation (size over time) are the classic graphs of NetPIPE.
    A bare name, as in --pattern overlap, selects all settings of a pattern or a module.
    """
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.run_file import check_target
    from netpipe.streams import say

    files = runs or (Path("run.jsonl"),)
    kinds = kinds_of(files)
    name = figure or DEFAULT[kinds]
    if kinds == OF_KERNELS:
        scope = _of_kernels(files, variants)
    elif kinds == OF_PROFILE:
        scope = _of_profile(files)
    else:
        profiles, files = _profiles(files)
        readings = _readings(files, profiles, own)
        scope = scope_of(readings, name, variants, patterns, sizes, measures, scale, fitted)
        scope = replace(scope, profiles=profiles, own=own or "")
    fits(name, kinds, str(files[0]))
    if listing:
        which = "This profile" if kinds == OF_PROFILE else "This run"
        _list(which, ((one.name, one.help, figures.why_not(one, scope)) for one in figures.every(*kinds)))
        return
    if figures.RUN in kinds:
        check(name, sizes, measures, scale, fitted)
    if file_format == TERMINAL:
        _print(scope, name, output, title)
        return
    format_name = file_format or format_of(output, ", or give --format")
    target = output or Path(f"{name}.{format_name}")
    check_target(target)
    try:
        write(scope, name, target, format_name, title)
    except NothingToDraw as why:
        raise Failure(USAGE, f"cannot draw {name}: {why}") from None
    say(f"the figure is in {target}")


def kinds_of(files: tuple[Path, ...]) -> Kinds:
    """What these files are together. One that is nothing known, or does not exist, counts as a run."""
    from netpipe.kernels.lines import are_applications
    from netpipe.profiles.lines import is_profile

    if any(map(are_applications, files)):
        return OF_KERNELS
    profiles = list(map(is_profile, files))
    return OF_PROFILE if all(profiles) else OF_BOTH if any(profiles) else OF_RUNS


def fits(name: str, kinds: Kinds, what: str = "this") -> None:
    """Raises Failure (2) for a figure that is not drawn from files of these kinds. `what`: the first file."""
    needs = figures.get(name).needs
    if set(kinds) <= set(needs):
        return
    drawn = " and ".join(FROM[kind] for kind in needs)
    if set(needs) < set(kinds):
        out = "the profile" if figures.PROFILE not in needs else "the runs"
        raise Failure(USAGE, f"the figure {name} is drawn from {drawn} alone; leave {out} out")
    raise Failure(
        USAGE,
        f"the figure {name} is drawn from {drawn}, and {what} {IS[kinds[-1]]}; choose one of "
        f"{', '.join(one.name for one in figures.every(*kinds))}",
    )


def _print(scope: Scope, figure: str, output: Path | None, title: str | None) -> None:
    """The figure in characters, as wide as the terminal. Raises Failure (2)."""
    import shutil

    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.render.terminal.figure import lines_of

    if output is not None:
        raise Failure(USAGE, f"--format {TERMINAL} prints the figure; leave --output out")
    try:
        panels = figures.get(figure).panels(scope)
        panels = [replace(panel, title=title) for panel in panels] if title else panels
        lines = lines_of(panels, shutil.get_terminal_size().columns)
    except NothingToDraw as why:
        raise Failure(USAGE, f"cannot draw {figure}: {why}") from None
    for line in [*lines, printable(scope.subtitle)]:
        click.echo(line)
    for name, text in scope.conventions.items():
        click.echo(f"{printable(name)}: {printable(text)}")


def _readings(files: tuple[Path, ...], profiles: tuple[Profile, ...], own: str | None) -> tuple[Reading, ...]:
    """Of each run; beside a profile of all runs together, as a prediction reads them. Raises Failure (2) if they lack
    the variant `own`.
    """
    from netpipe import Run
    from netpipe.prediction import UnknownVariant, own_variant, read_runs
    from netpipe.reading import Reading

    if not profiles:
        if own is not None:
            raise Failure(USAGE, "--own says what a profile was taken over, and there is none beside the run")
        return tuple(Reading(Run.read(path, samples=False)) for path in files)
    run = read_runs(files)
    try:
        own_variant(profiles[0], run, own)
    except UnknownVariant as error:
        raise Failure(USAGE, f"--own {error}") from None
    return (Reading(run),)


def _profiles(files: tuple[Path, ...]) -> tuple[tuple[Profile, ...], tuple[Path, ...]]:
    """The profiles among the files, and the others. Raises Failure (2) for a damaged one, and for several programs."""
    from netpipe.prediction import read_launches
    from netpipe.profiles.lines import NotAProfile, is_profile

    if not any(map(is_profile, files)):
        return (), files
    try:
        profiles, runs = read_launches(files)
    except NotAProfile as error:
        raise Failure(USAGE, str(error)) from None
    return tuple(profiles), runs


def _of_profile(files: tuple[Path, ...]) -> Scope:
    """Raises Failure (2) for several profiles, and for options of curves."""
    from netpipe.render.drawing.scope import Scope

    refuse(("variants", *OF_CURVES), f"{files[0]} is a profile, not a run")
    if len(files) > 1:
        raise Failure(
            USAGE, "a figure shows one profile; name one, or also a run: then sensitivity is drawn from all"
        )
    profiles, _ = _profiles(files)
    return Scope((), profiles=profiles)


def _of_kernels(files: tuple[Path, ...], variants: tuple[str, ...]) -> Scope:
    """Raises Failure (2) for other files beside it, and for options of curves."""
    from netpipe.kernels import NotApplications, read
    from netpipe.kernels.lines import are_applications
    from netpipe.kernels.table import rows
    from netpipe.render.drawing.scope import Scope

    path = next(path for path in files if are_applications(path))
    if len(files) > 1:
        raise Failure(USAGE, f"{path} has results of kernels, which are drawn alone; leave the others out")
    refuse(OF_CURVES, f"{path} has results of kernels, not a run")
    try:
        found = rows(read(path).results)
    except NotApplications as error:
        raise Failure(USAGE, str(error)) from None
    chosen, _ = matching(variants, (), [(row.cell.variant, "") for row in found])
    return Scope((), kernels=tuple(row for row in found if not chosen or row.cell.variant in chosen))


def scope_of(
    readings: tuple[Reading, ...],
    figure: str,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    sizes: tuple[str, ...],
    measures: tuple[str, ...],
    scale: str,
    fitted: bool = False,
) -> Scope:
    """What these options choose. Raises Failure (2) for what the runs do not have."""
    from netpipe.render.drawing.scope import Scope

    there = [name for reading in readings for name in reading.by_name]
    there += [(opened.variant, "") for reading in readings for opened in reading.run.variants]
    variants, found = matching(variants, patterns, there)
    if (
        figures.get(figure).section == "patterns"
    ):  # these lay settings over each other: a bare name never stands for one alone
        found += tuple(pattern for _, pattern in there if pattern.partition(":")[0] in patterns)
    log = None if scale == "auto" else scale == "log"
    scope = Scope(readings, variants, found, tuple(map(_bytes, sizes)), measures, log, fitted)
    _check_sizes(scope)
    return scope


def check(
    figure: str, sizes: tuple[str, ...], measures: tuple[str, ...], scale: str, fitted: bool = False
) -> None:
    """Raises Failure (2) for an option that the figure does not take, for an invalid size, and for a figure that no
    run has.
    """
    fits(figure, OF_RUNS)
    takes = figures.get(figure).options
    for option, given in (
        ("size", sizes),
        ("measure", measures),
        ("scale", scale != "auto"),
        ("fit", fitted),
    ):
        if given and option not in takes:
            takers = ", ".join(one.name for one in figures.every(*OF_RUNS) if option in one.options)
            raise Failure(USAGE, f"--{option} has no effect on the figure {figure}; it applies to {takers}")
    for size in sizes:
        _bytes(size)


def write(scope: Scope, figure: str, target: Path, format_name: str, title: str | None) -> None:
    """Draws the figure into a file. Raises NothingToDraw, and OSError."""
    from netpipe.render.drawing.paper.draw import draw

    chosen = figures.get(figure)
    panels = chosen.panels(scope)
    draw(panels, scope.subtitle, target, format_name, title, chosen.help, scope.conventions)


def _bytes(text: str) -> int:
    from netpipe.reading.sweeps import number

    found = number(text)
    if found is None:
        raise Failure(USAGE, f"--size {text} is not a size; write bytes, or 64k, 1M")
    return int(found)


def _check_sizes(scope: Scope) -> None:
    """Raises Failure (2) for a size that no run measured."""
    from netpipe.units import size_text

    known = {point.size_bytes for reading in scope.readings for point in reading.run.points}
    for size in scope.sizes:
        if size not in known:
            near = min(known, key=lambda one: abs(one - size), default=None)
            hint = f"; the nearest is {near} ({size_text(near)})" if near is not None else ""
            raise Failure(USAGE, f"the run has no points of {size} bytes{hint}")


def _list(which: str, every: Iterable[tuple[str, str, str | None]]) -> None:
    """The name, help and lack of figures: those with data first, each with its line of help; then the others."""
    import shutil
    import textwrap

    found = list(every)
    width = max(len(name) for name, _, _ in found) + 2
    columns = max(60, shutil.get_terminal_size().columns)
    for heading, some in (
        (f"{which} has the data for", [(name, text) for name, text, why in found if why is None]),
        (
            "It lacks the data for",
            [(name, why.partition(";")[0]) for name, _, why in found if why is not None],
        ),
    ):
        if some:
            click.echo(f"{heading}:")
            for name, text in some:
                lines = textwrap.wrap(printable(text), columns - width - 2) or [""]
                click.echo(f"  {name:<{width}}{lines[0]}")
                for line in lines[1:]:
                    click.echo(f"  {'':<{width}}{line}")
