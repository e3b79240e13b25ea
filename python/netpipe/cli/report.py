# SPDX-License-Identifier: Apache-2.0
"""netpipe report: writes a run, several overlaid ones, or a profile as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from netpipe.command.options import runs_argument
from netpipe.failure import USAGE, Failure


@click.command
@runs_argument
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The page. Default: the first RUN with the ending .html.",
)
@click.option("--title", metavar="TEXT", help="The title, instead of the names of the modules.")
def command(runs: tuple[Path, ...], output: Path | None, title: str | None) -> None:
    """Write RUN [run.jsonl] as one self-contained HTML page.

    It contains the results, plots, losses, points and findings. Several runs are overlaid: each
    variant then says where its ranks were (--pin, or several hosts), or which file it is from.

    RUN may also be a profile, of netpipe profile: then the page has where the program's time went, who sent
    to whom, and the sizes of its messages.
    """
    from netpipe.profiles.lines import is_profile
    from netpipe.run_file import check_target
    from netpipe.streams import say

    files = runs or (Path("run.jsonl"),)
    target = output or files[0].with_suffix(".html")
    if is_profile(target):
        raise Failure(USAGE, f"{target} is a profile and is not overwritten; choose another name")
    if profiles := [path for path in files if is_profile(path)]:
        if len(files) > 1:
            raise Failure(
                USAGE, f"{profiles[0]} is a profile, which has a page of its own; leave the other files out"
            )
        from netpipe.profiles import read
        from netpipe.render.page import profile

        check_target(target)
        profile.write(read(files[0]), target, title, files[0])
    else:
        from netpipe.reading import Reading
        from netpipe.reading.across import merge
        from netpipe.render.page import page

        check_target(target)
        page.write(Reading(merge.read(files)), target, title)
    say(f"the report is in {target}")
