# SPDX-License-Identifier: Apache-2.0
"""Another version of a library answered in the ranks than the one that its module was added for: the library was
upgraded, or another build of it was found first. The run file names the one that answered.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, WARNING, Finding, Quantity, examples, rule
from netpipe.libraries.adding import layers
from netpipe.reading import Reading
from netpipe.records import Run, Variant


@rule("another-library", "Another library than was added")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each module and version, whatever its variants."""
    opened: dict[str, list[Variant]] = {}
    for one in reading.run.variants:
        opened.setdefault(one.module, []).append(one)
    for module, all_ in opened.items():
        launches = {one.launch for one in all_}
        others: dict[tuple[str, str], list[Variant]] = {}
        for one in all_:
            if one.added_for and one.version:
                others.setdefault((one.added_for, one.version), []).append(one)
        for (added_for, version), there in others.items():
            of = {one.launch for one in there}
            where = "" if of == launches else f" in {len(of)} of {len(launches)} launches"
            yield Finding(
                severity=WARNING,
                variant=there[0].variant,
                what=f"{module} was added for {added_for}, and {version} answered{where}.",
                evidence={"launches": Quantity(len(of), "launches")},
                certainty=AS_RECORDED,
                cause="The module was compiled with the headers of the first: the settings that it offers and refuses, "
                "and its calls of the library, are those of that version.",
                remedy=remedy(module),
            )


def remedy(module: str) -> str:
    command = layers.again(module)
    return (
        f"{command}, with the options as before (netpipe modules names the compiler)"
        if command
        else "add it again as before: netpipe modules add"
    )


def _answered(version: str) -> Run:
    made = examples.run(examples.point("mpi@openmpi", 8, 400.0), variants=["mpi@openmpi"])
    for opened in made.variants:
        opened.version = version
        opened.added_for = "Open MPI 5.0.11" if version != "Open MPI 5.0.11" else None
    return made


def fires() -> Run:
    return _answered("Open MPI 5.0.12")


def silent() -> Run:
    return _answered("Open MPI 5.0.11")
