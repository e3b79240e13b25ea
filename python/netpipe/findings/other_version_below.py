# SPDX-License-Identifier: Apache-2.0
"""A layer goes through another version of the library than the one below it in the table: MPI packages bring their own
UCX along. The loss between the two is then a difference of two versions as well, and may even be a gain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, NOTE, Finding, examples, rule
from netpipe.reading import Reading
from netpipe.records import Rank, Run

NUMBER = re.compile(r"\d+(?:\.\d+)*")


@rule("other-version-below", "Another version below", needs=("losses",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each such pair of layers, whatever their patterns."""
    opened = {one.variant: one for one in reading.run.variants}
    for upper, below in dict.fromkeys((loss.variant, loss.below) for loss in reading.losses):
        above, beneath = opened[upper], opened[below]
        uses = above.ranks[0].settings.get("below_version") if above.ranks else None
        if above.below != beneath.module or not uses or not beneath.version or same(uses, beneath.version):
            continue
        layer = beneath.module
        yield Finding(
            severity=NOTE,
            variant=upper,
            what=(
                f"{upper} goes through {uses}, and {below} was measured with {beneath.version}: the loss between "
                f"them is not that of {upper} alone, and can be a gain."
            ),
            certainty=AS_RECORDED,
            cause=f"MPI packages bring a {layer} of their own along; netpipe's module {layer} uses the one that it was "
            "built with.",
            remedy=f"compare an MPI that uses the {layer} of this system, as that of the distribution does: apt "
            "install mpich libmpich-dev, then netpipe modules add mpi --mpicc /usr/bin/mpicc.mpich; or build netpipe "
            f"where the headers of {uses} are",
        )


def same(one: str, other: str) -> bool:
    """Are these one version, as far as both tell? "libfabric 1.17" is "libfabric 1.17.0"; without numbers nobody knows,
    and nothing is said.
    """
    numbers = [NUMBER.search(text) for text in (one, other)]
    if None in numbers:
        return True
    parts = [number.group().split(".") for number in numbers if number]
    return all(a == b for a, b in zip(*parts, strict=False))


def _over(version: str) -> Run:
    made = examples.run(
        examples.point("ucx", 8, 400.0),
        examples.point("mpi@openmpi", 8, 350.0),
        variants=["ucx", "mpi@openmpi"],
        stack={"mpi@openmpi": "ucx", "ucx": "shm"},
    )
    for opened in made.variants:
        over = opened.module != "ucx"
        settings = {"below_stands_on": "shm", "below_version": version} if over else {}
        opened.version = "Open MPI 5.0.11" if over else "UCX 1.13.0"
        opened.ranks[:] = [Rank(rank=rank, host="node17", settings=settings) for rank in (0, 1)]
    return made


def fires() -> Run:
    return _over("UCX 1.20.1")


def silent() -> Run:
    return _over("UCX 1.13.0")
