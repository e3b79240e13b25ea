# SPDX-License-Identifier: Apache-2.0
"""What a prediction is made of, besides the curves: profiles of several launches of one program, over which variant
they were taken, and how many processors there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netpipe.profiles import NotAProfile, Profile, read
from netpipe.profiles.lines import is_profile

if TYPE_CHECKING:
    from netpipe.records import Run


def read_launches(paths: Sequence[Path]) -> tuple[list[Profile], tuple[Path, ...]]:
    """The profiles among these files, and the other files. Raises NotAProfile, also for profiles of two programs."""
    profiles = [path for path in paths if is_profile(path)]
    found = [read(path) for path in profiles]
    for path, one in zip(profiles[1:], found[1:], strict=True):
        if (one.header.command, one.header.ranks) != (found[0].header.command, found[0].header.ranks):
            raise NotAProfile(
                f"{path} is of another command than {profiles[0]}, and several profiles have to be launches of the "
                "same one"
            )
    return found, tuple(path for path in paths if path not in profiles)


def own_variant(profile: Profile, run: Run) -> str | None:
    """The library of the profile without settings, if the run has it. With settings nobody knows whether the program
    ran with the same ones.
    """
    return next((one.variant for one in run.variants if one.variant == profile.header.module), None)


def processors(run: Run) -> int | None:
    """Of the host that was measured, as its environment says."""
    for environment in run.environments:
        limits: Mapping[str, Any] = environment.facts.get("limits") or {}
        allowed = limits.get("allowed_cpu_count")
        if isinstance(allowed, int):
            return allowed
    return None
