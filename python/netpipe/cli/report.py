# SPDX-License-Identifier: Apache-2.0
"""netpipe report: writes a run, several overlaid ones, a profile or results of kernels as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from netpipe.command.options import own_option, runs_argument
from netpipe.failure import USAGE, Failure


@click.command(short_help="Write RUN [run.jsonl] as one HTML page that needs no network.")
@runs_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page  [default: the first RUN with the ending .html]",
)
@click.option("--title", metavar="TEXT", help="The title, instead of the names of the modules.")
@own_option
def command(runs: tuple[Path, ...], output: Path | None, title: str | None, own: str | None) -> None:
    """Write RUN [run.jsonl] as one self-contained HTML page.

    It contains the results, plots, losses, points and findings. Several runs are overlaid: each
    variant then says where its ranks were (--pin, or several hosts), or which file it is from.

    RUN may also be a profile, of netpipe profile: then the page has where the program's time went, who sent
    to whom, and the sizes of its messages. With runs beside it, it also has what other libraries and networks
    would make of the program. A file of netpipe apps, alone, has speed-ups, times and what was verified.
    """
    from netpipe.kernels.lines import are_applications
    from netpipe.profiles.lines import is_profile
    from netpipe.run_file import check_target
    from netpipe.streams import say

    files = runs or (Path("run.jsonl"),)
    target = output or files[0].with_suffix(".html")
    if is_profile(target):
        raise Failure(USAGE, f"{target} is a profile and is not overwritten; choose another name")
    if are_applications(target):
        raise Failure(USAGE, f"{target} has results of kernels and is not overwritten; choose another name")
    if own is not None and (not any(map(is_profile, files)) or all(map(is_profile, files))):
        raise Failure(USAGE, "--own says what a profile was taken over, of the variants of a run beside it")
    if any(map(is_profile, files)):
        check_target(target)
        _profile(files, target, title, own)
    elif any(map(are_applications, files)):
        check_target(target)
        _applications(files, target, title)
    else:
        from netpipe.reading import Reading
        from netpipe.reading.across import merge
        from netpipe.render.page import page

        check_target(target)
        page.write(Reading(merge.read(files)), target, title)
    say(f"the report is in {target}")


def _profile(files: tuple[Path, ...], target: Path, title: str | None, own: str | None) -> None:
    """The page of a profile, of several launches the first one, and what the runs beside it would make of all. Raises
    Failure (2).
    """
    from netpipe.prediction import UnknownVariant, read_launches, read_runs
    from netpipe.prediction.replay import Stuck
    from netpipe.profiles import NotAProfile
    from netpipe.profiles.lines import is_profile
    from netpipe.reading import Reading
    from netpipe.render.page import profile
    from netpipe.render.page.programs.prediction import elsewhere

    try:
        launches, runs = read_launches(files)
        there = elsewhere(launches, Reading(read_runs(runs)), own) if runs else None
    except (NotAProfile, Stuck) as error:
        raise Failure(USAGE, str(error)) from None
    except UnknownVariant as error:
        raise Failure(USAGE, f"--own {error}") from None
    source = next(path for path in files if is_profile(path))
    if len(launches) > 1 and not runs:
        raise Failure(
            USAGE,
            "several profiles tell what other libraries would make of a program; name a run with their curves too",
        )
    profile.write(launches[0], target, title, source, there)


def _applications(files: tuple[Path, ...], target: Path, title: str | None) -> None:
    """The page of results of kernels. Raises Failure (2)."""
    from netpipe.kernels import NotApplications, read
    from netpipe.kernels.lines import are_applications
    from netpipe.render.page.programs import apps

    if len(files) > 1:
        first = next(path for path in files if are_applications(path))
        raise Failure(
            USAGE, f"{first} has results of kernels, which have a page of their own; leave the others out"
        )
    try:
        apps.write(read(files[0]), target, title, files[0])
    except NotApplications as error:
        raise Failure(USAGE, str(error)) from None
