# SPDX-License-Identifier: Apache-2.0
"""netpipe plot: figures for print."""

from __future__ import annotations

from pathlib import Path

import click

from netpipe.cli._choices import complete_measured
from netpipe.failure import USAGE, Failure

# Those of render.pictures and render.figures, whose loading would slow every `netpipe --help`; a test holds
# them together.
FIGURES = ("throughput", "latency", "signature", "saturation", "loss")
OPENINGS = ("memory", "startup")  # those of render.openings
FORMATS = ("svg", "png", "pdf")


@click.command
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--figure",
    type=click.Choice((*FIGURES, *OPENINGS)),
    default="throughput",
    show_default=True,
    help="What to draw.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to; its ending names the format. Default: the figure's name in this folder.",
)
@click.option(
    "--format", "file_format", type=click.Choice(FORMATS), help="Default: the ending of --output, or svg."
)
@click.option(
    "--variant",
    "variants",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_measured("variant"),
    help="Only this variant; repeat for more.",
)
@click.option(
    "--pattern",
    "patterns",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_measured("pattern"),
    help="Only this pattern; repeat for more.",
)
@click.option("--title", metavar="TEXT", help="Instead of the figure's own.")
@click.option(
    "--scale",
    type=click.Choice(("auto", "linear", "log")),
    default="auto",
    show_default=True,
    help="The axis of throughput; auto is log where a linear one would press curves flat.",
)
def command(
    runs: tuple[Path, ...],
    figure: str,
    output: Path | None,
    file_format: str | None,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    title: str | None,
    scale: str,
) -> None:
    """Draw a figure of RUN [run.jsonl] as SVG, PNG or PDF.

    Several runs are laid over each other.

    throughput, signature (throughput over time) and saturation (size over time) are the classic graphs of
    NetPIPE; latency is the time over the size, loss what each layer keeps of the throughput of the one below. memory
    and startup are of netpipe memory: what opening a library costs, over the number of processes.
    """
    from netpipe import Run
    from netpipe.cli.show import matching
    from netpipe.reading import Reading
    from netpipe.render import openings
    from netpipe.render.figures.draw import draw
    from netpipe.render.figures.pictures import NothingToDraw, picture

    chosen = file_format or _format_of(output)
    target = output or Path(f"{figure}.{chosen}")
    log = None if scale == "auto" else scale == "log"
    whole = [Reading(Run.read(path)) for path in runs or (Path("run.jsonl"),)]
    if figure not in OPENINGS:
        variants, patterns = matching(
            variants, patterns, [name for reading in whole for name in reading.by_name]
        )
    try:
        if figure in OPENINGS:
            drawn = openings.picture(whole, figure, variants, title)
        else:
            drawn = picture(whole, figure, variants, patterns, title, log)
    except NothingToDraw as why:
        raise Failure(USAGE, str(why)) from None
    draw(drawn, target, chosen)
    click.echo(f"netpipe: the figure is in {target}", err=True)


def _format_of(output: Path | None) -> str:
    if output is None or not output.suffix:
        return "svg"
    ending = output.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise Failure(USAGE, f"{output} names no format; end it in .svg, .png or .pdf, or say --format")
    return ending
