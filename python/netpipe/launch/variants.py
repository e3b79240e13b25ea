# SPDX-License-Identifier: Apache-2.0
"""What a user means by `mpi`: every library that was added, but for one that simulates its machine. Its numbers are no
neighbours of real ones, so who wants them names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.launch.description import SIMULATOR, launched, read

# Layers that one has per library, and the command that adds one.
PER_LIBRARY = {"mpi": "netpipe modules add mpi --mpicc PATH adds one"}
# What is measured of a library where nothing is said: each of these that it can choose.
TRANSPORTS = ("shm", "tcp")


def wants_expansion(variants: Sequence[str]) -> bool:
    return any(name_of(variant) in PER_LIBRARY for variant in variants)


def name_of(variant: str) -> str:
    return variant.partition(":")[0]


def expand(variants: Sequence[str], listing: Mapping[str, Any]) -> tuple[tuple[str, ...], list[str]]:
    """`mpi` as every library over shared memory and over TCP, `mpi:eager=64k` as those of them that have such an
    option; the others as they are. Also sentences about the libraries that were left out. Raises Failure: 3 where
    none was added, 2 where none has it.
    """
    found: list[str] = []
    notes: list[str] = []
    for variant in variants:
        name, _, settings = variant.partition(":")
        if name not in PER_LIBRARY:
            found.append(variant)
            continue
        modules = {
            other: module
            for other, module in launched(listing).items()
            if other.partition("@")[0] == name and not simulated(module)
        }
        if not modules:
            raise Failure(
                UNAVAILABLE,
                f"no MPI library was added, so there is none to measure; {PER_LIBRARY[name]}, and netpipe doctor "
                "shows those of this machine",
            )
        if not settings:
            found += [
                variant for other, module in modules.items() for variant in each_transport(other, module)
            ]
            continue
        wanted = [one.partition("=")[0] for one in settings.split(",") if one]
        fitting = []
        for other, module in modules.items():
            common = listing.get("variant_options", [])
            options = {option["name"] for option in (*module["options"], *common)}
            unknown = [option for option in wanted if option not in options]
            if not unknown:
                fitting.append(f"{other}:{settings}")
            else:
                notes.append(f"{other} is left out of {variant}: it has no option '{unknown[0]}'")
        if not fitting:
            raise Failure(USAGE, f"{variant}: no library that was added has these options; {notes[-1]}")
        found += fitting
    return tuple(dict.fromkeys(found)), notes


def simulated(module: Mapping[str, Any]) -> bool:
    try:
        return read(Path(module.get("description") or "")).family == SIMULATOR
    except Failure:  # whatever it is, that is said when it is launched
        return False


def each_transport(name: str, module: Mapping[str, Any]) -> list[str]:
    choices = {
        choice
        for option in module["options"]
        if option["name"] == "transport"
        for choice in option["choices"]
    }
    return [f"{name}:transport={transport}" for transport in TRANSPORTS if transport in choices] or [name]


def added(listing: Mapping[str, Any]) -> list[str]:
    """Every library that was added and whose launcher is still there, over each transport: a default run names them."""
    from netpipe.launch import description

    found = []
    for name, module in launched(listing).items():
        try:
            here = description.find(name).launcher.is_file()
        except Failure:
            here = False
        if here and name.partition("@")[0] in PER_LIBRARY and not simulated(module):
            found += each_transport(name, module)
    return found
