# SPDX-License-Identifier: Apache-2.0
"""netpipe predict: what another library or network would make of a program."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.choices import complete_variants
from netpipe.failure import USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.prediction import Factors, Sensitivities
    from netpipe.profiles import Profile
    from netpipe.reading import Reading
    from netpipe.records import Run

SMALLEST = 4  # bytes of the first message that is timed
WHATS = "latency=0.5x, bandwidth=2x, overhead=0.5x or eager=64k"


@click.command()
@click.argument("profile", type=click.Path(path_type=Path, dir_okay=False))
@click.argument(
    "runs", nargs=-1, metavar="[PROFILE]... [RUN]...", type=click.Path(path_type=Path, dir_okay=False)
)
@click.option(
    "--measure",
    "variants",
    multiple=True,
    metavar="VARIANT",
    shell_complete=complete_variants,
    help="Measure the curves that this program needs over VARIANT, into --output; repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("predict.jsonl"),
    metavar="FILE",
    help="With --measure: where the run goes  [default: predict.jsonl]",
)
@click.option("--budget", metavar="SECONDS", help="With --measure: for each curve  [default: 2]", default="2")
@click.option("--what", "whats", multiple=True, metavar="NAME=VALUE", help=f"What if: {WHATS}; repeatable.")
@click.option(
    "--sensitivity",
    "sensitive",
    is_flag=True,
    help="How the time depends on latency, overhead and bandwidth, and how much of each the program tolerates.",
)
@click.option(
    "--own",
    metavar="VARIANT",
    help="The variant of the runs that the profile was taken over  [default: the profile's library without settings]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    profile: Path,
    runs: tuple[Path, ...],
    variants: tuple[str, ...],
    output: Path,
    budget: str,
    whats: tuple[str, ...],
    sensitive: bool,
    own: str | None,
    as_json: bool,
) -> int:
    """Predict a program's time in MPI over other libraries.

    PROFILE is what netpipe profile wrote, and the RUNs have the curves of the libraries, or --measure gets them. The
    calls of the profile are replayed with the times of each variant: waiting for other ranks is part of it and shown
    apart. Profiles of several launches of the same program tell more than one: the median of their predictions counts.
    """
    from netpipe.prediction import Factors, own_variant, predict, processors
    from netpipe.prediction.replay import Stuck
    from netpipe.profiles import NotAProfile
    from netpipe.reading import Reading
    from netpipe.render.lacking import measure_command
    from netpipe.render.terminal.rows import console
    from netpipe.render.terminal.sensitivity import print_sensitivities, sensitivity_json

    factors = _factors(whats)
    if sensitive and whats:
        raise Failure(USAGE, "--sensitivity changes each parameter in turn; leave --what out")
    try:
        files = (profile, *runs)
        launches, runs = _launches(profile, runs)
        whole = launches[0]
        together = _runs(whole, runs, variants, output, budget)
        reading = Reading(together)
        if own is not None and all(curve.variant != own for curve in reading.curves):
            there = ", ".join(dict.fromkeys(curve.variant for curve in reading.curves))
            raise Failure(USAGE, f"--own {own} is no variant of the runs; they have {there or 'none'}")
        own = own or own_variant(whole, together)
        found = predict(launches, reading, own, factors, processors(together))
        curves = _sensitivities(launches, reading, own, processors(together)) if sensitive else None
    except (NotAProfile, Stuck) as error:
        raise Failure(USAGE, str(error)) from None
    if not found.variants:
        raise Failure(
            USAGE,
            "the runs have no ping-pong, which every prediction needs; measure what this program needs with --measure "
            "VARIANT",
        )
    profiles = [path for path in files if path not in runs]
    get = measure_command(found, profiles, together, own, whole.header.ranks)
    if as_json:
        click.echo(json.dumps(_as_json(found, factors) | {"measure": get} | sensitivity_json(curves)))
        return 0
    from netpipe.render.terminal.predict import print_prediction

    if factors != Factors():
        say(f"what if: {', '.join(whats)}")
    print_prediction(console(), found, get)
    if curves is not None:
        print_sensitivities(console(), curves)
    return 0


def _launches(first: Path, paths: tuple[Path, ...]) -> tuple[list[Profile], tuple[Path, ...]]:
    """The profiles, and those paths that are runs. Raises Failure (2) if they are not of one program."""
    from netpipe.prediction import read_launches
    from netpipe.profiles import NotAProfile, read
    from netpipe.profiles.lines import is_profile

    try:
        if not is_profile(first):
            read(first)  # which says what it is instead
        return read_launches((first, *paths))
    except NotAProfile as error:
        raise Failure(USAGE, str(error)) from None


def _sensitivities(
    launches: list[Profile], reading: Reading, own: str | None, processors: int | None
) -> Sensitivities:
    """With a line that says what is replayed."""
    from netpipe.prediction import sensitivities
    from netpipe.render.terminal.apps import Line
    from netpipe.render.terminal.rows import console

    line = Line(console(sys.stderr), say)
    try:
        return sensitivities(launches, reading, own, processors, line.show)
    finally:
        line.close()


def _factors(whats: tuple[str, ...]) -> Factors:
    """Raises Failure (2)."""
    from netpipe.prediction import Factors
    from netpipe.units import bytes_of

    given: dict[str, Any] = {}
    for text in whats:
        name, _, value = text.partition("=")
        try:
            if name == "eager" and (size := bytes_of(value)) is not None:
                given[name] = size
            elif name in ("latency", "bandwidth", "overhead") and value.endswith("x"):
                given[name] = float(value[:-1])
            else:
                raise ValueError
            if (
                not math.isfinite(given[name])
                or given[name] < 0
                or (name == "bandwidth" and given[name] == 0)
            ):
                raise ValueError
        except ValueError:
            raise Failure(USAGE, f"--what {text} is not understood; write {WHATS}") from None
    return Factors(**given)


def _runs(
    whole: Profile, paths: tuple[Path, ...], variants: tuple[str, ...], output: Path, budget: str
) -> Run:
    """All runs as one, with what is measured now."""
    from netpipe.reading.across import merge

    if variants:
        measured = _measure(whole, variants, output, budget)
        paths = (*paths, measured)
    if not paths:
        raise Failure(
            USAGE,
            "name the runs that have the curves of the libraries, or get them with --measure mpi@NAME:transport=tcp",
        )
    return merge.read(list(paths))


def _measure(whole: Profile, variants: tuple[str, ...], output: Path, budget: str) -> Path:
    """Just the curves that the prediction needs. Raises Failure."""
    from netpipe.applications.contact import first_contacts
    from netpipe.launch.lists import expand
    from netpipe.prediction.predict import wanted
    from netpipe.profiles.calls import calls
    from netpipe.session import Request, Session

    need = wanted(calls(whole))
    sizes = sorted({size for some in need.values() for size in some if size > 0})
    ranks = whole.header.ranks
    say(
        f"measuring {len(need)} patterns at {len(sizes)} sizes over {', '.join(variants)}, at most {budget} s each"
    )
    session = Session(
        Request(
            list(expand(variants)),
            patterns=list(need),
            settings={
                "schedule": "list",
                "sizes": ",".join(map(str, _fewer(sizes))),
                "budget": budget,
                "ranks": str(ranks) if any(name.startswith("collective") for name in need) else "2",
            },
        )
    )
    result = session.measure(output)
    if result.exit_code:
        why = next(
            (f"{one.variant}, {one.pattern}: {one.message}" for one in result.run.errors), "it was ended"
        )
        raise Failure(result.exit_code, f"the measurement failed ({why}); what was measured is in {output}")
    say("measuring what the first message takes")
    add_first(output, first_contacts(list(expand(variants))))
    return output


def add_first(path: Path, contacts: Mapping[str, Sequence[int]]) -> None:
    """Adds to a run what the first message between two ranks took in each launch, in nanoseconds, by variant. Raises
    OSError.
    """
    from netpipe.prediction.costs import FIRST
    from netpipe.records import Point
    from netpipe.run_file import append

    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        for variant, times in contacts.items():
            if times:
                middle = median(times)
                point = Point(
                    variant=variant,
                    pattern=FIRST,
                    size_bytes=SMALLEST,
                    samples=len(times),
                    ops=1,
                    single=True,
                    median_ns=middle,
                    low_ns=min(times),
                    high_ns=max(times),
                    half_width=(max(times) - min(times)) / 2 / middle,
                )
                append(file, point)
    finally:
        os.close(file)


def _fewer(sizes: list[int], most: int = 24) -> list[int]:
    """So many sizes that cover the others, the least and the largest among them."""
    if len(sizes) <= most:
        return sizes
    step = (len(sizes) - 1) / (most - 1)
    return sorted({sizes[round(place * step)] for place in range(most)})


def _as_json(found: Any, factors: Factors) -> dict[str, Any]:
    return {
        "what": asdict(factors),
        "measured_s": found.measured,
        "launches": found.launches,
        "variants": [
            {
                "variant": one.variant,
                "seconds": one.seconds,
                "low": one.low,
                "high": one.high,
                "waiting": one.waiting,
                "wall": one.wall,
                "by_call": [
                    {"call": name, "bytes": size, "seconds": time}
                    for (name, size), time in sorted(one.by_call.items(), key=lambda item: -item[1])
                ],
                "guessed": one.guessed,
                "missing": [
                    {"call": name, "ranks": ranks, "calls": count}
                    for (name, ranks), count in one.missing.items()
                ],
                "beyond": one.beyond,
            }
            for one in found.variants
        ],
        "fastest": found.fastest.variant if found.fastest else None,
        "tiers": found.tiers,
        "pairs": [
            {
                "faster": one.faster,
                "slower": one.slower,
                "times": one.times.value,
                "low": one.times.low,
                "high": one.times.high,
                "decided": one.decided,
            }
            for one in found.pairs
        ],
        "unknown": found.unknown or None,
        "own": asdict(found.residual) if found.residual else None,
        "notes": found.notes,
        "wanted": {name: sorted(sizes) for name, sizes in found.wanted.items()},
    }
