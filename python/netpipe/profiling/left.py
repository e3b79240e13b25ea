# SPDX-License-Identifier: Apache-2.0
"""The folder of a job, in which its ranks write (src/profiler/part.h). A netpipe that is killed leaves it, with all
that was recorded until then, and a profile can be made of that.
"""

from __future__ import annotations

import shlex
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from netpipe.failure import USAGE, Failure
from netpipe.libraries.starting.processes import all_with
from netpipe.libraries.starting.scratch import claimed
from netpipe.profiles import NotAProfile, Profile, merge, read
from netpipe.profiles.lines import SCHEMA, End, Header, write

FOLDERS = ".netpipe-profile-"  # how their names begin
HEADER = "header.jsonl"  # the first line of the profile that comes of it
Save = Callable[[Profile], None]  # puts a profile where it was asked for; may raise OSError


def has_parts(folder: Path) -> bool:
    return next(folder.glob("[0-9]*.part"), None) is not None


def note(folder: Path, header: Header) -> None:
    """Keeps what no rank knows, for `rescue`. Raises OSError."""
    write(Profile(iter([header])), folder / HEADER)


def rescue(folder: Path, save: Save, version: str = "") -> tuple[Profile, merge.Parts]:
    """Makes a profile of such a folder and removes it, unless somebody may still write there. Raises OSError, and
    Failure (2) where there is nothing, or not yet.
    """
    folder = folder.resolve()
    with claimed(folder) as ours:
        if ours is False:
            raise Failure(
                USAGE,
                f"{folder} belongs to a netpipe profile that still runs, or to another user; that one writes its "
                "profile when the program ends",
            )
        found = merge.find(folder)
        if not found.parts:
            raise Failure(USAGE, f"no rank has left anything in {folder}{found.why and f': {found.why}'}")
        whole = merge.merge(found, _noted(folder, version), End(exit_code=None))
        assert whole.end is not None
        whole.end.wall_s = round(max(one.seconds for one in whole.ranks), 3)
        save(whole)
        if ours and folder.name.startswith(FOLDERS) and not any(all_with(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)
    return whole, found


def _noted(folder: Path, version: str) -> Header:
    try:
        return read(folder / HEADER).header
    except (OSError, NotAProfile):
        return Header(schema=SCHEMA, profile=uuid.uuid4().hex, netpipe=version or None)


def offer(folder: Path) -> str:
    """A sentence about one that was found."""
    return f"{folder} has what a netpipe profile that was killed had recorded; {remedy(folder)}, and rm -r removes it"


def remedy(folder: Path) -> str:
    return f"netpipe profile --from {shlex.quote(str(folder))} -o FILE makes a profile of it"
