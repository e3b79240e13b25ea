# SPDX-License-Identifier: Apache-2.0
"""netpipe import: results of another program as a run file, to compare with ours."""

from __future__ import annotations

import math
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe import peers
from netpipe.contents import TEXT, contents
from netpipe.escapes import printable
from netpipe.failure import USAGE, Failure
from netpipe.render.export import FORMATS, OF_ENDING
from netpipe.units import bytes_of

if TYPE_CHECKING:
    from netpipe.records import Point


@click.command
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice((*FORMATS, *peers.names())),
    help="[default: the ending of FILE, or what is in it]",
)
@click.option(
    "-o", "--output", metavar="RUN", help="The run file to write  [default: FILE with the ending .jsonl]"
)
@click.option(
    "--variant",
    metavar="NAME",
    help="The variant of the curves, for formats that do not name it  [default: the name of FILE]",
)
@click.option("--pattern", metavar="NAME", help="For np.out: the pattern of the curve  [default: pingpong]")
@click.option("--size", metavar="BYTES", help="The size of the messages, for programs that do not print it.")
def command(
    file: str,
    form: str | None,
    output: str | None,
    variant: str | None,
    pattern: str | None,
    size: str | None,
) -> None:
    """Convert the results of another program to a run file.

    FILE is what the program printed: NetPIPE 3 or 5 (np.out), the OSU or Intel MPI benchmarks, iperf3 -J, sockperf,
    ucx_perftest, perftest, nccl-tests; or points of netpipe as CSV, Parquet or JSON.

    None of these programs prints intervals, so the imported points have none. What each calls its number differs; the
    record says which statistic it is, and how it was measured.
    """
    from netpipe.render.export import npout

    path = Path(file)
    if not path.name:
        raise Failure(USAGE, f"{path} is not a file")
    target = Path(output) if output else path.with_suffix(".jsonl")
    form = form or OF_ENDING.get(path.suffix.lower()) or guess(path)
    if form == "json" and path.suffix.lower() == ".json":
        form = guess_json(path)
    if form in peers.names():
        if pattern:
            raise Failure(USAGE, f"--pattern is for an np.out; the output of {form} says what was measured")
        curves, notes = read_peer(path, form, variant or printable(path.stem), size)
    else:
        if size:
            raise Failure(USAGE, f"--size is for programs that do not print it; {form} has the sizes")
        if form not in npout.FORMATS and (variant or pattern):
            raise Failure(
                USAGE,
                f"--{'variant' if variant else 'pattern'} is for an np.out; {form} names its curves itself",
            )
        points = read(path, form, variant or printable(path.stem), pattern or "pingpong")
        curves, notes = [(npout.FORMATS[form].source if form in npout.FORMATS else form, points)], []
    write(path, target, curves, notes)


def write(path: Path, target: Path, curves: list[tuple[str, list[Point]]], notes: list[str]) -> None:
    """The run file. curves: what the numbers are, and the points."""
    from netpipe.records import SCHEMA, End, Header, Rank, Variant, encode
    from netpipe.run_file import is_stream, make_room, now
    from netpipe.streams import say
    from netpipe.units import counted

    make_room(target)
    sources: dict[str, list[str]] = {}
    for source, points in curves:
        for point in points:
            sources.setdefault(point.variant, [])
            if source not in sources[point.variant]:
                sources[point.variant].append(source)
    with target.open("wb" if is_stream(target) else "xb") as run:
        argv = click.get_current_context().obj
        run.write(encode(Header(schema=SCHEMA, run=uuid.uuid4().hex, started=now(), argv=argv)))
        for one, of in sources.items():
            rank = Rank(rank=0, settings={"imported_from": printable(path.name), "source": "; ".join(of)})
            run.write(encode(Variant(variant=one, module=one.partition(":")[0], ranks=[rank])))
        for _, points in curves:
            for point in points:
                run.write(encode(point))
        run.write(encode(End(exit=0, reason="done")))
    for note in notes:
        say(note)
    say(f"{counted(sum(len(points) for _, points in curves), 'point')} written to {target}")


def read_peer(
    path: Path, form: str, variant: str, size: str | None
) -> tuple[list[tuple[str, list[Point]]], list[str]]:
    """What each number is, and the points; and what is to be said. Raises Failure (2)."""
    from netpipe.records import Point

    given = peers.Given(size_bytes=None if size is None else size_of(size))
    try:
        results = list(peers.get(form).read(text_of(path), given))
    except peers.NotReadable as error:
        raise Failure(USAGE, f"{path}: {error}") from None
    ranks = {one.ranks for one in results}
    curves, seen = [], set()
    for one in results:
        name = f"{variant}:ranks={one.ranks}" if len(ranks) > 1 and one.ranks else variant
        points = []
        for number in one.numbers:
            if wrong := peers.fault(number):
                raise Failure(USAGE, f"{path}: {wrong}")
            key = (name, one.pattern, number.size_bytes)
            if key in seen:
                raise Failure(
                    USAGE,
                    f"{path} has {one.pattern} at {number.size_bytes} bytes twice; import one output at a time",
                )
            seen.add(key)
            points.append(
                Point(
                    variant=name,
                    pattern=one.pattern,
                    size_bytes=number.size_bytes,
                    median_ns=number.time_ns,
                    bytes_per_s=number.bytes_per_s,
                    mean_ns=known(number.mean_ns),
                    min_ns=known(number.min_ns),
                    max_ns=known(number.max_ns),
                    p90_ns=known(number.p90_ns),
                    p99_ns=known(number.p99_ns),
                    p999_ns=known(number.p999_ns),
                )
            )
        curves.append((one.source, points))
    if not any(points for _, points in curves):
        raise Failure(USAGE, f"{path} has no points" + (f": {given.notes[0]}" if given.notes else ""))
    return curves, given.notes


def known(value: float | None) -> float | None:
    """None for a column in which the program printed N/A."""
    return None if value is None or math.isnan(value) else value


def size_of(text: str) -> int:
    """64 or 64k in bytes. Raises Failure (2)."""
    size = bytes_of(text)
    if size is None or size >= peers.MOST_BYTES:
        raise Failure(USAGE, f"--size {text} is not a number of bytes; write 64 or 64k")
    return size


def guess(path: Path) -> str:
    """The program that printed it, by its marks; npout3 or npout5 by the number of columns in the first line."""
    text = text_of(path)
    if known := peers.guess(text):
        return known.name
    if is_run(path):
        raise Failure(USAGE, f"{path} is a run of netpipe already; name it to show, plot, report or compare")
    words = next((line.split() for line in text.splitlines() if line.strip()), [])
    form = {3: "npout3", 5: "npout5"}.get(len(words))
    if form is None:
        from netpipe.units import counted

        raise Failure(
            USAGE,
            f"{path} has {counted(len(words), 'column')}, and np.out has 3 or 5; no other known program prints this; "
            "give its --format",
        )
    return form


def is_run(path: Path) -> bool:
    from netpipe.records import Header, NotARun
    from netpipe.records import read as records

    try:
        return isinstance(next(records(path)), Header)
    except (NotARun, StopIteration):
        return False


def guess_json(path: Path) -> str:
    """json, or the program whose JSON it is."""
    try:
        known = peers.guess(text_of(path))
    except Failure:
        return "json"
    return known.name if known else "json"


def text_of(path: Path) -> str:
    try:
        return contents(path, TEXT).decode()
    except UnicodeDecodeError:
        raise Failure(
            USAGE, f"{path} is not a text file, so no program's output; give its --format"
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
