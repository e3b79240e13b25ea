# SPDX-License-Identifier: Apache-2.0
"""netpipe plot: figures for print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from netpipe.command.choices import OneOf
from netpipe.command.drawing import FORMATS, format_of
from netpipe.command.options import matching, own_option, pattern_option, runs_argument, variant_option
from netpipe.escapes import printable
from netpipe.failure import USAGE, Failure
from netpipe.render import figures, kernel_figures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from netpipe.profiles import Profile
    from netpipe.reading import Reading
    from netpipe.render.drawing.scope import Scope


TERMINAL = "terminal"  # no file
OF_PROFILES = "sensitivity"  # the figure of a profile with the runs beside it


@click.command(short_help="Draw a figure of RUN [run.jsonl] into a file or the terminal.")
@runs_argument
@click.option(
    "--figure",
    metavar="NAME",
    type=OneOf((*figures.names(), *kernel_figures.names())),
    default="throughput",
    show_default=True,
    help="What to draw; --list shows the names. With results of netpipe apps: "
    f"{' or '.join(kernel_figures.names())}.",
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
    figure: str,
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

    Several runs are overlaid. RUN may also be a file of netpipe apps, alone: then speed-ups or times are drawn
    over the number of processes. With a profile of netpipe profile beside the runs, sensitivity is drawn.

    throughput, signature (throughput over time) and saturation (size over time) are the classic graphs of NetPIPE.
    A bare name, as in --pattern overlap, selects all settings of a pattern or a module.
    """
    from netpipe.kernels.lines import are_applications
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.run_file import check_target
    from netpipe.streams import say

    files = runs or (Path("run.jsonl"),)
    for path in files:
        if are_applications(path):
            _refuse(path, files)
            _plot_kernels(path, figure, listing, variants, output, file_format, title)
            return
    profiles, files = _profiles(files)
    if profiles and click.get_current_context().get_parameter_source("figure") is ParameterSource.DEFAULT:
        figure = OF_PROFILES
    readings = _readings(files, profiles, own)
    scope = scope_of(readings, figure, variants, patterns, sizes, measures, scale, fitted)
    scope = replace(scope, profiles=profiles, own=own or "")
    if listing:
        _list((one.name, one.help, figures.why_not(one, scope)) for one in figures.every())
        return
    check(figure, sizes, measures, scale, fitted)
    if file_format == TERMINAL:
        _print(scope, figure, output, title)
        return
    format_name = file_format or format_of(output, ", or give --format")
    target = output or Path(f"{figure}.{format_name}")
    check_target(target)
    try:
        write(scope, figure, target, format_name, title)
    except NothingToDraw as why:
        raise Failure(USAGE, f"cannot draw {figure}: {why}") from None
    say(f"the figure is in {target}")


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
    """The profiles among the files, and the others. Raises Failure (2) for what is drawn of none of them."""
    from netpipe.profiles.lines import NotAProfile, is_profile

    if not any(map(is_profile, files)):
        return (), files
    from netpipe.prediction import read_launches

    try:
        profiles, runs = read_launches(files)
    except NotAProfile as error:
        raise Failure(USAGE, str(error)) from None
    if not runs:
        path = files[0]
        raise Failure(
            USAGE,
            f"{path} is a profile, not a run; netpipe report {path} draws its figures, and with a run beside it the "
            f"figure {OF_PROFILES} is drawn from it",
        )
    context = click.get_current_context()
    figure = context.params["figure"]
    default = context.get_parameter_source("figure") is ParameterSource.DEFAULT
    if not default and figure != OF_PROFILES and not context.params["listing"]:
        raise Failure(USAGE, f"the figure {figure} is drawn from runs alone; leave the profile out")
    return tuple(profiles), runs


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
        _of_runs(figure).section == "patterns"
    ):  # these lay settings over each other: a bare name never stands for one alone
        found += tuple(pattern for _, pattern in there if pattern.partition(":")[0] in patterns)
    log = None if scale == "auto" else scale == "log"
    scope = Scope(readings, variants, found, tuple(map(_bytes, sizes)), measures, log, fitted)
    _check_sizes(scope)
    return scope


def check(
    figure: str, sizes: tuple[str, ...], measures: tuple[str, ...], scale: str, fitted: bool = False
) -> None:
    """Raises Failure (2) for an option that the figure does not take, an invalid size, and a figure that no run has."""
    takes = _of_runs(figure).options
    for option, given in (
        ("size", sizes),
        ("measure", measures),
        ("scale", scale != "auto"),
        ("fit", fitted),
    ):
        if given and option not in takes:
            takers = ", ".join(one.name for one in figures.every() if option in one.options)
            raise Failure(USAGE, f"--{option} has no effect on the figure {figure}; it applies to {takers}")
    for size in sizes:
        _bytes(size)


def _of_runs(name: str) -> figures.Figure:
    """Raises Failure (2) for a figure of kernels."""
    if name in kernel_figures.names():
        raise Failure(USAGE, f"the figure {name} is drawn from results of netpipe apps, and this is a run")
    return figures.get(name)


def write(scope: Scope, figure: str, target: Path, format_name: str, title: str | None) -> None:
    """Draws the figure into a file. Raises NothingToDraw, and OSError."""
    from netpipe.render.drawing.draw import draw

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


def _refuse(path: Path, files: tuple[Path, ...]) -> None:
    """Raises Failure (2) for what cannot be said of results of kernels: other files, and options of curves."""
    if len(files) > 1:
        raise Failure(USAGE, f"{path} has results of kernels, which are drawn alone; leave the others out")
    context = click.get_current_context()
    for option in ("patterns", "sizes", "measures", "fitted", "scale", "own"):
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            (one,) = [one for one in context.command.params if one.name == option]
            raise Failure(USAGE, f"{path} has results of kernels, not a run; leave {one.opts[0]} out")


def _plot_kernels(
    path: Path,
    figure: str,
    listing: bool,
    variants: tuple[str, ...],
    output: Path | None,
    file_format: str | None,
    title: str | None,
) -> None:
    """A figure of what `netpipe apps` has measured, by default the first. Raises Failure (2)."""
    from netpipe.kernels import NotApplications, read
    from netpipe.kernels.table import rows
    from netpipe.render.drawing import kernels
    from netpipe.render.drawing.draw import draw
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.run_file import check_target
    from netpipe.streams import say

    try:
        found = rows(read(path).results)
    except NotApplications as error:
        raise Failure(USAGE, str(error)) from None
    chosen, _ = matching(variants, (), [(row.cell.variant, "") for row in found])
    found = [row for row in found if not chosen or row.cell.variant in chosen]
    if click.get_current_context().get_parameter_source("figure") is ParameterSource.DEFAULT:
        figure = kernel_figures.every()[0].name

    def why_not(one: kernel_figures.KernelFigure) -> str | None:
        try:
            one.panels(found, one.title)
        except NothingToDraw as why:
            return str(why)
        return None

    if listing:
        _list((one.name, one.help, why_not(one)) for one in kernel_figures.every())
        return
    if figure not in kernel_figures.names():
        has = " and ".join(kernel_figures.names())
        raise Failure(
            USAGE, f"{path} has results of kernels, of which there is no figure {figure}: only {has}"
        )
    if file_format == TERMINAL:
        raise Failure(USAGE, f"--format {TERMINAL} is for runs; netpipe apps shows its results as a table")
    format_name = file_format or format_of(output, ", or give --format")
    target = output or Path(f"{figure}.{format_name}")
    check_target(target)
    try:
        chosen_figure = kernel_figures.get(figure)
        panels = chosen_figure.panels(found, chosen_figure.title)
        draw(panels, kernels.subtitle(found), target, format_name, title, chosen_figure.help)
    except NothingToDraw as why:
        raise Failure(USAGE, f"cannot draw {figure}: {why}") from None
    say(f"the figure is in {target}")


def _list(every: Iterable[tuple[str, str, str | None]]) -> None:
    """The name, help and lack of figures: those with data first, each with its line of help; then the others."""
    import shutil
    import textwrap

    found = list(every)
    width = max(len(name) for name, _, _ in found) + 2
    columns = max(60, shutil.get_terminal_size().columns)
    for heading, some in (
        ("This run has the data for", [(name, text) for name, text, why in found if why is None]),
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
