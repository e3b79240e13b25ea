# SPDX-License-Identifier: Apache-2.0
"""What a prediction is made of, besides the curves: profiles of several launches of one program, over which variant
they were taken, and how many processors there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netpipe.prediction.runs import of_program
from netpipe.profiles import NotAProfile, Profile, read
from netpipe.profiles.lines import is_profile
from netpipe.reading.across.merge import name_of

if TYPE_CHECKING:
    from netpipe.records import Run


class UnknownVariant(ValueError):  # noqa: N818  (it reads as what it says)
    """A variant that no run has; the text is a sentence for people."""


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


def own_variant(profile: Profile, run: Run, asked: str | None = None) -> str | None:
    """The variant of the run that the profile was taken over: the one that was asked for, else the library of the
    profile without settings, if the run has it. With settings nobody knows whether the program ran with the same ones.
    Raises UnknownVariant if the run lacks the one that was asked for.
    """
    there = list(dict.fromkeys(of_program(point.variant) for point in run.points))
    try:
        return named(asked or profile.header.module or "", there)
    except UnknownVariant:
        if asked:
            raise
        return None


def of_library(profile: Profile, variants: Sequence[str]) -> tuple[str, ...]:
    """Those of the library that the profile was taken over, with any settings."""
    module = profile.header.module
    return tuple(one for one in variants if module and name_of(one).partition(":")[0] == module)


def named(name: str, variants: Sequence[str]) -> str:
    """The variant of this name; of the same one in several runs the first, unless the name has the label of a run too.
    Raises UnknownVariant.
    """
    wanted = of_program(name)
    for one in variants:
        if wanted in (one, name_of(one)):
            return one
    raise UnknownVariant(f"{name} is no variant of the runs; they have {', '.join(variants) or 'none'}")


def processors(run: Run) -> int | None:
    """Of the host that was measured, as its environment says."""
    for environment in run.environments:
        limits: Mapping[str, Any] = environment.facts.get("limits") or {}
        allowed = limits.get("allowed_cpu_count")
        if isinstance(allowed, int):
            return allowed
    return None
