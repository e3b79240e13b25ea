# SPDX-License-Identifier: Apache-2.0
"""netpipe import: results of another program as a run file, to compare with ours."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.contents import TEXT, contents
from netpipe.escapes import printable
from netpipe.failure import USAGE, Failure
from netpipe.render.export import FORMATS, OF_ENDING

if TYPE_CHECKING:
    from netpipe.records import Point


@click.command
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="[default: the ending of FILE, or the number of columns of np.out]",
)
@click.option(
    "-o", "--output", metavar="RUN", help="The run file to write.  [default: FILE with the ending .jsonl]"
)
@click.option(
    "--variant", metavar="NAME", help="The variant of the curve in an np.out.  [default: the name of FILE]"
)
@click.option("--pattern", metavar="NAME", help="The pattern of that curve.  [default: pingpong]")
def command(
    file: str, form: str | None, output: str | None, variant: str | None, pattern: str | None
) -> None:
    """Convert np.out, CSV, Parquet or JSON to a run file.

    An np.out of NetPIPE 3 or 5 has no intervals, so the imported points have none. Its time is stored as the median,
    and the record says which statistic it is.
    """
    from netpipe.records import SCHEMA, End, Header, Rank, Variant, encode
    from netpipe.render.export import npout
    from netpipe.run_file import is_stream, make_room, now
    from netpipe.streams import say
    from netpipe.units import counted

    path = Path(file)
    if not path.name:
        raise Failure(USAGE, f"{path} is not a file")
    target = Path(output) if output else path.with_suffix(".jsonl")
    form = form or OF_ENDING.get(path.suffix.lower()) or guess(path)
    if form not in npout.FORMATS and (variant or pattern):
        raise Failure(
            USAGE, f"--{'variant' if variant else 'pattern'} is for an np.out; {form} names its curves itself"
        )
    points = read(path, form, variant or printable(path.stem), pattern or "pingpong")
    source = npout.FORMATS[form].source if form in npout.FORMATS else form
    make_room(target)
    with target.open("wb" if is_stream(target) else "xb") as run:
        argv = click.get_current_context().obj
        run.write(encode(Header(schema=SCHEMA, run=uuid.uuid4().hex, started=now(), argv=argv)))
        for one in dict.fromkeys(point.variant for point in points):
            rank = Rank(rank=0, settings={"imported_from": printable(path.name), "source": source})
            run.write(encode(Variant(variant=one, module=one.partition(":")[0], ranks=[rank])))
        for point in points:
            run.write(encode(point))
        run.write(encode(End(exit=0, reason="done")))
    say(f"{counted(len(points), 'point')} written to {target}")


def guess(path: Path) -> str:
    """npout3 or npout5, by the number of columns in the first line."""
    words = next((line.split() for line in text_of(path).splitlines() if line.strip()), [])
    form = {3: "npout3", 5: "npout5"}.get(len(words))
    if form is None:
        from netpipe.units import counted

        raise Failure(
            USAGE, f"{path} has {counted(len(words), 'column')}, and np.out has 3 or 5; give its --format"
        )
    return form


def text_of(path: Path) -> str:
    try:
        return contents(path, TEXT).decode()
    except UnicodeDecodeError:
        raise Failure(
            USAGE, f"{path} is not a text file, so it is not an np.out; give its --format"
        ) from None


def read(path: Path, form: str, variant: str, pattern: str) -> list[Point]:
    from netpipe.render.export import npout, table

    try:
        if form in npout.FORMATS:
            points = list(npout.read(text_of(path), form, variant, pattern))
        else:
            points = list(table.read(path, form))
    except (npout.NotNpOut, table.NotATable) as error:
        raise Failure(USAGE, f"{path}: {error}") from None
    if not points:
        raise Failure(USAGE, f"{path} has no points")
    return points
