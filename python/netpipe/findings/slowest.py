# SPDX-License-Identifier: Apache-2.0
"""One rank, one pair of ranks or one host holds up the others. reading/cells.py has the test and its thresholds, and
reading/slow_hosts.py those of hosts.

Operations with a root are not judged: it does something else than the other ranks, and takes another time for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netpipe.findings import NOTE, CannotJudge, Finding, Quantity, examples, rule
from netpipe.reading import Reading
from netpipe.reading.cells import Slowest
from netpipe.records import Cell, Run
from netpipe.units import percent_text, size_text, times_text

LEAST_SAID = 0.001  # of chances: smaller ones are said to be smaller
ROOTED = frozenset({"bcast", "reduce", "gather", "gatherv", "scatter", "scatterv"})


@rule("slowest-rank", "One rank is slower", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each curve: the host, rank or pair that stands out at most sizes."""
    if not any(point.cells for point in reading.run.points):
        raise CannotJudge("no pattern timed ranks or pairs apart")
    if all(reading.operations.get(point.pattern) in ROOTED for point in reading.run.points if point.cells):
        raise CannotJudge(
            "only operations with a root timed ranks apart, where the root differs from the others"
        )
    hosts = {one.variant: {rank.rank: rank.host for rank in one.ranks} for one in reading.run.variants}
    for one in reading.slowest:
        if reading.operations.get(one.pattern) in ROOTED:
            continue
        if one.host is not None:
            yield _of_host(one)
            continue
        yield Finding(
            severity=NOTE,
            variant=one.variant,
            pattern=one.pattern,
            size_bytes=one.size_bytes,
            what=f"{one.variant} {one.pattern}: {_sentence(one, hosts.get(one.variant, {}))}",
            evidence={
                "rank": Quantity(one.rank, "rank"),
                **({"peer": Quantity(one.peer, "rank")} if one.peer is not None else {}),
                "slowest_share": Quantity(one.share, "1"),
                "times_the_others": Quantity(one.times, "1"),
                "sizes": Quantity(one.sizes, "sizes"),
            },
            certainty="Four standard deviations above chance, and a median a tenth above that of the others.",
            cause="Its processor, its memory or its way to the others is slower, or it has more to do.",
            remedy="look at where that rank runs (netpipe show, report: settings by rank) and what else runs there",
        )


def _of_host(one: Slowest) -> Finding:
    """All ranks of a host, or all pairs between it and others, are slower than those without it."""
    what = "rank" if one.peer is None else "pair"
    own = (
        f"the {one.cells} ranks on {one.host}"
        if one.peer is None
        else f"the {one.cells} pairs with {one.host}"
    )
    sizes = f", and stood out at {one.sizes} of {one.all_sizes} sizes" if one.sizes > 1 else ""
    chance = one.chance or 0.0
    often = percent_text(chance) if chance >= LEAST_SAID else f"less than {percent_text(LEAST_SAID)}"
    return Finding(
        title="One host is slower",
        severity=NOTE,
        variant=one.variant,
        pattern=one.pattern,
        size_bytes=one.size_bytes,
        host=one.host,
        what=f"{one.variant} {one.pattern}: one of {own} was the slowest of {one.of} {what}s in "
        f"{percent_text(one.share)} of the operations at {size_text(one.size_bytes)}; each of them is slower than all "
        f"others, with {times_text(one.times)} their median{sizes}.",
        evidence={
            f"{what}s of the host": Quantity(one.cells, f"{what}s"),
            "slowest_share": Quantity(one.share, "1"),
            "times_the_others": Quantity(one.times, "1"),
            "chance": Quantity(chance, "1"),
            "sizes": Quantity(one.sizes, "sizes"),
        },
        certainty="Four standard deviations above chance, and each of them a tenth above the median of the others. "
        f"That all of some host are the slowest happens by chance at {often} of sizes.",
        cause="The host, its memory or its way to the others is slower, or something else runs there.",
        remedy="netpipe doctor on that host and on another, and a look at its port and at what else runs there",
    )


def _sentence(one: Slowest, hosts: Mapping[int, str | None]) -> str:
    """hosts: of the ranks of its variant, as far as they are known."""
    several = len(set(hosts.values())) > 1

    def named(rank: int) -> str:
        return f"{rank} ({hosts[rank]})" if several and hosts.get(rank) else str(rank)

    if one.peer is None:
        who, what = f"rank {named(one.rank)}", "ranks"
    else:
        who, what = f"the pair of ranks {named(one.rank)} and {named(one.peer)}", "pairs"
    sizes = f", and stood out at {one.sizes} of {one.all_sizes} sizes" if one.sizes > 1 else ""
    return (
        f"{who} was the slowest of {one.of} {what} in {percent_text(one.share)} of the operations at "
        f"{size_text(one.size_bytes)}, with {times_text(one.times)} the median of the others{sizes}."
    )


def _ranks(slow_ns: float) -> Run:
    cells = [Cell(rank=rank, median_ns=1000.0, slowest=50) for rank in range(3)]
    cells.append(Cell(rank=3, median_ns=slow_ns, slowest=850))
    return examples.run(examples.point("tcp", 8, 1000.0, pattern="collective", cells=cells))


def fires() -> Run:
    return _ranks(1400.0)


def silent() -> Run:
    return _ranks(1020.0)  # often the last, but by too little to matter
