# SPDX-License-Identifier: Apache-2.0
"""netpipe predict: what another library or network would make of a program."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.choices import complete_variants
from netpipe.command.options import own_option
from netpipe.command.presets import PRESETS
from netpipe.failure import USAGE, Failure
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.prediction import Factors
    from netpipe.profiles import Profile

LAUNCHES = int(PRESETS["default"]["launches"])  # of netpipe run
WHATS = "latency=0.5x, bandwidth=2x, overhead=0.5x, gap=0.5x (or rate=2x, which is the same) or eager=64k"
MULTIPLIED = ("latency", "bandwidth", "overhead", "gap", "rate")


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
    help="Measure the curves that this program needs over VARIANT and no RUN has, into --output; repeatable.",
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
@click.option(
    "--launches",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=LAUNCHES,
    help=f"With --measure: start everything this many times  [default: {LAUNCHES}]",
)
@click.option("--what", "whats", multiple=True, metavar="NAME=VALUE", help=f"What if: {WHATS}; repeatable.")
@click.option(
    "--sensitivity",
    "sensitive",
    is_flag=True,
    help="How the time depends on latency, overhead, bandwidth and gap, and how much of each the program tolerates.",
)
@own_option
@click.option(
    "--measured",
    type=(str, click.Path(path_type=Path, dir_okay=False)),
    multiple=True,
    metavar="VARIANT PROFILE",
    help="Hold the prediction for VARIANT against a profile of the program that was taken over it; repeatable.",
)
@click.option(
    "--events",
    type=click.IntRange(1),
    metavar="N",
    help="Replay at most N events of the traces, from the beginning of the program on  [default: 1000000; 50000 for "
    "--sensitivity]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    profile: Path,
    runs: tuple[Path, ...],
    variants: tuple[str, ...],
    output: Path,
    budget: str,
    launches: int,
    whats: tuple[str, ...],
    sensitive: bool,
    own: str | None,
    measured: tuple[tuple[str, Path], ...],
    events: int | None,
    as_json: bool,
) -> int:
    """Predict a program's time in MPI over other libraries.

    PROFILE is what netpipe profile wrote, and the RUNs have the curves of the libraries, or --measure gets them. The
    calls of the profile are replayed with the times of each variant: waiting for other ranks is part of it and shown
    apart. Profiles of several launches of the same program tell more than one: the median of their predictions counts.
    """
    from netpipe.cli.predict.measured import measure
    from netpipe.cli.predict.result import as_json as json_of
    from netpipe.findings.trust import doubt
    from netpipe.prediction import (
        Factors,
        UnknownVariant,
        held,
        named,
        one_run,
        own_variant,
        predict,
        processors,
        sensitivities,
    )
    from netpipe.prediction.replay import Stuck
    from netpipe.profiles import NotAProfile
    from netpipe.reading import Reading
    from netpipe.records import Run
    from netpipe.render.lacking import between_command, measure_command
    from netpipe.render.terminal.apps import Line
    from netpipe.render.terminal.rows import console
    from netpipe.render.terminal.sensitivity import print_sensitivities, sensitivity_json

    factors = _factors(whats)
    if sensitive and whats:
        raise Failure(USAGE, "--sensitivity changes each parameter in turn; leave --what out")
    try:
        files = (profile, *runs)
        profiles, runs = _launches(profile, runs)
        there = [Run.read(path, samples=False) for path in runs]
        others = _measured_profiles(measured, profiles[0])
        if variants:
            if output.absolute() in {path.absolute() for path in runs}:
                raise Failure(
                    USAGE,
                    f"{output} is one of the runs, which what is measured completes; give another --output",
                )

            def check(names: Sequence[str]) -> None:
                """Wrong names are refused before minutes of measuring."""
                _of_variants(others, names)
                if own is not None:
                    named(own, names)

            new = measure(profiles, there, variants, output, {"budget": budget}, launches, check, events)
            there += [new] if new else []
        if not there:
            raise Failure(
                USAGE,
                "name the runs that have the curves of the libraries, or get them with --measure "
                "mpi@NAME:transport=tcp",
            )
        # Judged one by one: together they are no run that was ever made.
        names = [*runs, *([output] if len(there) > len(runs) else [])]
        untrusted = "; ".join(
            filter(None, (doubt(Reading(run), str(name)) for run, name in zip(there, names, strict=True)))
        )
        whole = one_run(there)
        reading, cores = Reading(whole), processors(whole)
        own = own_variant(profiles[0], whole, own)
        with closing(Line(console(sys.stderr), say)) as line:
            found = predict(profiles, reading, own, factors, cores, events, line.show, untrusted)
            before = (
                predict(profiles, reading, own, None, cores, events, line.show, untrusted)
                if factors != Factors()
                else None
            )
            beside = held(before or found, _of_variants(others, [one.variant for one in found.variants]))
            curves = (
                sensitivities(profiles, reading, own, cores, events, line.show, untrusted)
                if sensitive
                else None
            )
    except (NotAProfile, Stuck) as error:
        raise Failure(USAGE, str(error)) from None
    except UnknownVariant as error:
        raise Failure(USAGE, f"--own {error}") from None
    if not found.variants:
        raise Failure(
            USAGE,
            "the runs have no ping-pong, which every prediction needs; measure what this program needs with --measure "
            "VARIANT",
        )
    get = measure_command(found, files, whole, own, events)
    far = between_command(found, profiles[0], whole, files)
    if as_json:
        commands = {"measure": get, "measure_between_hosts": far}
        click.echo(json.dumps(json_of(found, factors, before, beside) | commands | sensitivity_json(curves)))
        return 0
    from netpipe.render.terminal.predict import print_prediction

    if before is not None:
        say(f"what if: {', '.join(whats)}")
    print_prediction(console(), found, get, before, beside, far)
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


def _factors(whats: tuple[str, ...]) -> Factors:
    """Raises Failure (2)."""
    from netpipe.prediction import Factors
    from netpipe.units import bytes_of

    given: dict[str, Any] = {}
    for text in whats:
        name, _, value = text.partition("=")
        try:
            if name == "eager" and (size := bytes_of(value)) is not None:
                number: float = size
            elif name in MULTIPLIED and value.endswith("x"):
                number = float(value[:-1])
            else:
                raise ValueError
            if name == "rate":  # of messages: the inverse of the gap between them
                name, number = "gap", 1 / number if number else math.inf
            if not 0 <= number < math.inf or (number == 0 and name == "bandwidth"):
                raise ValueError
        except ValueError:
            raise Failure(USAGE, f"--what {text} is not understood; write {WHATS}") from None
        given[name] = number
    return Factors(**given)


def _measured_profiles(given: tuple[tuple[str, Path], ...], program: Profile) -> dict[str, list[Profile]]:
    """The profiles that the prediction is held against, by the variant that was given with them. Raises Failure (2)."""
    from netpipe.profiles import read
    from netpipe.profiles.same import difference

    found: dict[str, list[Profile]] = {}
    for variant, path in given:
        profile = read(path)
        if profile.header.ranks != program.header.ranks:
            raise Failure(
                USAGE,
                f"{path} has {profile.header.ranks} ranks and the predicted program {program.header.ranks}; name a "
                "profile of the same program",
            )
        if differs := difference(program, profile):
            raise Failure(
                USAGE,
                f"{path} is of a program that makes other calls than the predicted one: {differs}; name a profile of "
                "the same program, with the same problem",
            )
        found.setdefault(variant, []).append(profile)
    return found


def _of_variants(given: dict[str, list[Profile]], variants: Sequence[str]) -> dict[str, list[Profile]]:
    """By the variant of the prediction. Raises Failure (2) for one that it does not have."""
    from netpipe.prediction import UnknownVariant, named

    try:
        return {named(name, variants): profiles for name, profiles in given.items()}
    except UnknownVariant as error:
        raise Failure(USAGE, f"--measured {error}") from None
