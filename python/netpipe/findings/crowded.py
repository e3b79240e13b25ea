# SPDX-License-Identifier: Apache-2.0
"""A library's job has more ranks than processors. Of ranks that netpipe forks the facts of the host tell the same
(machine/placement.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from netpipe.findings import AS_RECORDED, SEVERE, CannotJudge, Confirm, Finding, Quantity, examples, rule
from netpipe.findings.curves import by_yielding, opened
from netpipe.findings.library import library_of, setting
from netpipe.libraries.settings import YIELDS
from netpipe.reading import Reading
from netpipe.reading.machine.crowding import Crowding
from netpipe.records import Rank, Run, Variant
from netpipe.units import listed


@rule("oversubscribed-job", "Oversubscribed", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for all variants with so many ranks on so many processors. A variant that was told not to yield has
    one of its own: there is an experiment.
    """
    if not any(rank.processors for variant in reading.run.variants for rank in variant.ranks):
        raise CannotJudge("the ranks did not record their processors")
    confirms = _experiments(reading)
    alike: dict[tuple[str, str], list[Crowding]] = {}
    for one in reading.crowded.values():
        if one.started:
            alone = one.variant if one.variant in confirms else ""
            alike.setdefault((str(one), alone), []).append(one)
    for (number, alone), (first, *others) in alike.items():
        names = listed([first.variant, *(one.variant for one in others)])
        was, its = ("were", "their") if others else ("was", "its")
        yield Finding(
            severity=SEVERE,
            variant=None if others else first.variant,
            host=first.host,
            what=f"{names} {was} measured with {number}: the ranks take turns, so {its} times contain context "
            "switches.",
            evidence={
                "ranks": Quantity(first.ranks, "ranks"),
                "processors": Quantity(first.processors, "processors"),
            },
            certainty=AS_RECORDED,
            cause="A library that polls for a message holds the processor that the sender needs; one that yields or "
            "sleeps gives it away. So two libraries differ here by how they wait, and not by how they communicate.",
            remedy="run fewer ranks, use more hosts (--hosts), or allow more processors (--launcher-args, the batch "
            "system's request)"
            + (
                f"; or {setting(reading, alone, *YIELDS)}"
                if alone
                else _own(reading, [one.variant for one in (first, *others)])
            ),
            confirm=confirms.get(alone),
        )


def _experiments(reading: Reading) -> dict[str, Confirm]:
    """By variant, with its first curve; of those that were told not to yield and could."""
    found: dict[str, Confirm] = {}
    for one in opened(reading):
        confirm = by_yielding(reading, one)
        if confirm is not None:
            found.setdefault(one.curve.variant, confirm)
    return found


def _own(reading: Reading, variants: Iterable[str]) -> str:
    """What the libraries themselves offer, each once."""
    libraries = {one.title: one for name in variants if (one := library_of(reading, name))}
    remedies = [
        f"; with {title}: {one.remedies['oversubscribed-job']}"
        for title, one in libraries.items()
        if "oversubscribed-job" in one.remedies
    ]
    return "".join(remedies)


def _job(ranks: int) -> Run:
    where = [Rank(rank=rank, host="node17", processors="0-3") for rank in range(ranks)]
    job = Variant(variant="mpi@mpich", module="mpi@mpich", launch_s=0.4, ranks=where)
    return examples.run(job, examples.point("mpi@mpich", 8, 1000.0, pattern="collective"))


def fires() -> Run:
    return _job(8)


def silent() -> Run:
    return _job(4)
