# SPDX-License-Identifier: Apache-2.0
"""What a user means by `mpi`: every library that was added, except one that simulates its machine. Simulated numbers do
not compare with real ones, so such a library must be named. Also what `all` stands for, and which variants of a default
run can be measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from netpipe import native
from netpipe.failure import UNAVAILABLE, USAGE, Failure, NotHere
from netpipe.launch.lists import apart
from netpipe.launch.plan import Plan
from netpipe.libraries import family_of
from netpipe.libraries.adding import layers
from netpipe.libraries.adding.added import lost
from netpipe.libraries.daemons import kinds
from netpipe.libraries.starting.description import launched, read
from netpipe.units import listed

# What is measured of a library when nothing else is said: each of these that it can choose, as the layers of netpipe
# are called. Between hosts it is its own choice, which may be a faster network than TCP's.
TRANSPORTS = ("shm", "tcp")
TRANSPORTS_FAR = ("", "tcp")
NEAR = "transport=shm"  # a setting under which a library reaches no other host
EVERY = "all"  # as a variant: the default ones, and each other module that is available here


def wants_expansion(variants: Sequence[str]) -> bool:
    per_library = layers.all_()
    return any(name_of(variant) in per_library for variant in variants)


def name_of(variant: str) -> str:
    """The module of a variant: tcp of tcp:wait=poll and of tcp#2."""
    return variant.partition(":")[0].partition("#")[0]


def expand(
    variants: Sequence[str],
    listing: Mapping[str, Any],
    refused: Callable[[str], str] | None = None,
    far: bool = False,
) -> tuple[tuple[str, ...], list[str]]:
    """`mpi` becomes every library over shared memory and over TCP (`far`, of a run between hosts: over what it chooses
    itself and over TCP), `mpi:eager=64k` those that can take it; other variants stay as they are. Also returns
    sentences about libraries that were left out. Raises NotHere: 3 if no library was added, 2 if none can take it.
    `refused` says why one cannot; by default the worker does.
    """
    refused = refused or refusal
    per_library = layers.all_()
    found: list[str] = []
    notes: list[str] = []
    for variant in variants:
        bare, copy = apart(variant)
        name, _, settings = bare.partition(":")
        if name not in per_library:
            found.append(variant)
            continue
        modules = {
            other: module
            for other, module in launched(listing).items()
            if other.partition("@")[0] == name and not simulated(module)
        }
        if not modules:
            layer = per_library[name]
            raise NotHere(
                UNAVAILABLE,
                f"no library for {layer.title} was added, so there is nothing to measure as {name}; add one with "
                f"'{layer.add_command()}'{layer.path_text} ('netpipe doctor' shows those of this machine)",
            )
        if not settings:
            found += [
                one + copy for other, module in modules.items() for one in each_transport(other, module, far)
            ]
            continue
        wanted = [one.partition("=")[0] for one in settings.split(",") if one]
        fitting = []
        for other, module in modules.items():
            common = listing.get("variant_options", [])
            options = {option["name"] for option in (*module["options"], *common)}
            unknown = [option for option in wanted if option not in options]
            why = f"it has no option '{unknown[0]}'" if unknown else refused(f"{other}:{settings}")
            if why:
                notes.append(f"{other} is left out of {bare}: {why}")
            else:
                fitting.append(f"{other}:{settings}{copy}")
        if not fitting:
            raise NotHere(USAGE, f"{bare}: no library that was added can take this; {notes[-1]}")
        found += fitting
    return tuple(dict.fromkeys(found)), notes


def refusal(variant: str) -> str:
    """Why the worker refuses to plan this variant; "" if it does not."""
    try:
        native.plan(Plan((("variant", variant),)).text())
    except Failure as failure:
        if failure.exit_code == USAGE:
            return failure.sentence
    return ""


def simulated(module: Mapping[str, Any]) -> bool:
    try:
        family = family_of(read(Path(module.get("description") or "")))
    except Failure:  # the launch says what is wrong with it
        return False
    return family is not None and family.simulates


def reaching(variants: Sequence[str], named: bool) -> tuple[tuple[str, ...], list[str]]:
    """Those that get to other hosts, and a sentence about the others. Raises Failure (3) for one that was named."""
    near = [
        one for one in variants if "@" in name_of(one) and NEAR in apart(one)[0].partition(":")[2].split(",")
    ]
    if near and named:
        raise Failure(
            UNAVAILABLE,
            f"{listed(near)}: shared memory ends at the host; choose another transport, or leave --hosts out",
        )
    if not near:
        return tuple(variants), []
    are = "is" if len(near) == 1 else "are"
    there = tuple(one for one in variants if one not in near)
    return there, [f"{listed(near)} {are} left out: shared memory ends at the host"]


def each_transport(name: str, module: Mapping[str, Any], far: bool = False) -> list[str]:
    choices = {
        choice
        for option in module["options"]
        if option["name"] == "transport"
        for choice in option["choices"]
    }
    transports = [one for one in (TRANSPORTS_FAR if far else TRANSPORTS) if not one or one in choices]
    return [f"{name}:transport={one}" if one else name for one in transports] or [name]


def added(listing: Mapping[str, Any], far: bool = False) -> list[str]:
    """Every library that was added and still has its files, over each transport: what a default run measures."""
    found = []
    per_library = layers.all_()
    for name, module in launched(listing).items():
        try:
            about = read(Path(module.get("description") or ""))
            here = about.launcher.is_file() and lost(about) is None
        except Failure:
            here = False
        if here and name.partition("@")[0] in per_library and not simulated(module):
            found += each_transport(name, module, far)
    return found


def with_every(variants: Sequence[str], every: Sequence[str]) -> tuple[str, ...]:
    """With what `all` stands for in its place; a variant that is named as well is not measured twice."""
    found = chain.from_iterable(every if one == EVERY else (one,) for one in variants)
    return tuple(dict.fromkeys(found))


def by_default(listing: Mapping[str, Any]) -> list[str]:
    """What a run without variants measures of netpipe's own layers, as each module says; the lowest layers first."""
    below = {module["name"]: module.get("below") for module in listing["modules"]}

    def place(module: Mapping[str, Any]) -> tuple[int, bool, str]:
        name, height = module["name"], 0
        while (name := below.get(name)) and height < len(below):
            height += 1
        return height, not module.get("idle"), module["name"]

    return [variant for module in sorted(listing["modules"], key=place) for variant in module["default"]]


def others(usual: Sequence[str], listing: Mapping[str, Any]) -> list[str]:
    """Modules that no usual variant is of, and that are not started by the launcher of a library."""
    there = {name_of(variant) for variant in usual}
    return [
        module["name"]
        for module in listing["modules"]
        if module["name"] not in there and not module.get("launched")
    ]


def available(
    variants: Sequence[str],
    listing: Mapping[str, Any],
    far: bool,
    spread: bool = False,
    served: bool = False,
) -> tuple[str, ...]:
    """The variants whose module can be used here, or (far) between hosts, and the libraries that were added; spread:
    their ranks are on several hosts; served: one rank is a server's, which starts no daemons. Layers with daemons are
    left out between hosts too: one host without them would end the run. Variants that the user names are not filtered:
    they fail with their reason.
    """
    here = {
        module["name"]
        for module in listing["modules"]
        if module["available"] and (module.get("crosses_hosts") or not far)
    }
    if served or spread:
        here -= set(kinds())
    return (*(variant for variant in variants if name_of(variant) in here), *added(listing, spread))
