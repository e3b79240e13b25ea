# SPDX-License-Identifier: Apache-2.0
"""Launches that ran on other processors than those before them: some were taken away, or given back."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, WARNING, CannotJudge, Finding, Quantity, again, examples, rule
from netpipe.reading import Reading
from netpipe.records import Rank, Run, Variant
from netpipe.units import counted, listed

Cpus = tuple[tuple[str | None, int], ...]  # by rank: host and processor


@rule("launches-on-other-processors", "Launches on other processors", needs=("launches",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for the whole run, which names the first variant that was moved."""
    placed: dict[str, dict[Cpus, list[int]]] = {}
    for opened in reading.run.variants:
        cpus = tuple((rank.host, rank.cpu) for rank in opened.ranks if rank.cpu is not None)
        if cpus and len(cpus) == len(opened.ranks):
            placed.setdefault(opened.variant, {}).setdefault(cpus, []).append(opened.launch)
    if not placed:
        raise CannotJudge("the ranks did not record their processors")
    moved = {variant: places for variant, places in placed.items() if len(places) > 1}
    if not moved:
        return
    variant, places = next(iter(moved.items()))
    said = listed(
        f"processors {', '.join(str(cpu) for _, cpu in cpus)} in {counted(len(launches), 'launch', 'launches')}"
        for cpus, launches in places.items()
    )
    others = f", and so for {counted(len(moved) - 1, 'other variant')}" if len(moved) > 1 else ""
    yield Finding(
        severity=WARNING,
        variant=variant,
        what=f"Not all launches ran on the same processors: the ranks of {variant} had {said}{others}.",
        evidence={
            "placements": Quantity(len(places), "placements"),
            "variants": Quantity(len(moved), "variants"),
        },
        certainty=AS_RECORDED,
        cause="Each launch is placed on the processors that it may use when it starts (a cpuset, taskset, processors "
        "that were switched off). Intervals of the whole run contain the difference.",
        remedy="keep the processors (an exclusive cpuset, the batch system's request), or name them with --pin",
        experiment=again(reading),
    )


def _run(cpus: tuple[int, int]) -> Run:
    def opened(launch: int, on: tuple[int, int]) -> Variant:
        ranks = [Rank(rank=rank, host="node17", cpu=cpu) for rank, cpu in enumerate(on)]
        return Variant(launch=launch, variant="tcp", module="tcp", ranks=ranks)

    points = (examples.point("tcp", 8, 1000.0, launch=launch) for launch in range(2))
    return examples.run(opened(0, (1, 2)), opened(1, cpus), *points)


def fires() -> Run:
    return _run((1, 1))


def silent() -> Run:
    return _run((1, 2))
