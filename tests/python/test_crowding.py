# SPDX-License-Identifier: Apache-2.0
"""More ranks than processors, and the operation of a pattern that stands for several: what the tables say of both."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from netpipe import findings
from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.machine.crowding import cpu_set
from netpipe.records import Plan, PlannedMode, PlannedVariant, Rank, Run, Variant
from netpipe.render.page.tables import summary_table
from netpipe.render.terminal.summary import print_summary


def opened(variant: str, ranks: int, processors: str | None, hosts: int = 1) -> Variant:
    where = [
        Rank(rank=rank, host=f"node{rank * hosts // ranks}", processors=processors) for rank in range(ranks)
    ]
    return Variant(variant=variant, module=variant, launch_s=0.1, ranks=where)


def run(*variants: Variant, what: str = "allreduce") -> Run:
    names = [one.variant for one in variants]
    mode = PlannedMode(pattern="collective", name="collective", options={"what": what})
    planned = [PlannedVariant(variant=name, module=name) for name in names]
    plan = Plan(variants=planned, patterns=["collective"], modes=[mode], target=0.01)
    points = [examples.point(name, 8, 7e6, pattern="collective") for name in names]
    return Run([plan, *variants, *points])


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-1", {0, 1}),
        ("3", {3}),
        ("0-2,8", {0, 1, 2, 8}),
        (None, set()),
        ("", set()),
        ("0-", set()),
        ("a", set()),
    ],
)
def test_processors_are_read_as_the_kernel_lists_them(text: str | None, cpus: set[int]) -> None:
    assert cpu_set(text) == cpus


@pytest.mark.parametrize(
    ("ranks", "processors", "hosts", "said"),
    [
        (4, "0-1", 1, "4 ranks on 2 processors"),
        (2, "1", 1, "2 ranks on 1 processor"),
        (4, "0-3", 1, None),
        (4, "0-1", 2, None),
        (8, "0-1", 2, "8 ranks on 4 processors"),
        (4, None, 1, None),
    ],
)
def test_ranks_are_held_against_the_processors_of_their_hosts(
    ranks: int, processors: str | None, hosts: int, said: str | None
) -> None:
    found = Reading(run(opened("mpi@a", ranks, processors, hosts))).crowded
    assert [str(one) for one in found.values()] == ([said] if said else [])


def shown(of: Run) -> str:
    out = io.StringIO()
    print_summary(Console(file=out, width=140), Reading(of))
    return out.getvalue()


def test_the_table_says_what_was_measured_with_how_many_ranks_on_how_many_processors() -> None:
    both = run(opened("mpi@a", 4, "0-1"), opened("mpi@b", 4, "0-1"))
    assert "collective, allreduce, 4 ranks on 2 processors" in shown(both).splitlines()[1]
    one = shown(run(opened("mpi@a", 4, "0-1"), opened("mpi@b", 2, "0-1"), what="bcast"))
    assert one.splitlines()[1].startswith("collective, bcast ")
    assert "mpi@a, 4 ranks on 2 processors" in one
    assert "mpi@b, " not in one


def test_the_report_says_the_same() -> None:
    table = summary_table(Reading(run(opened("mpi@a", 4, "0-1"))), several_patterns=False)
    assert table.rows[0][:2] == ("mpi@a, 4 ranks on 2 processors", "collective, allreduce")


def test_jobs_that_are_oversubscribed_alike_are_one_finding() -> None:
    jobs = [opened(f"mpi@{name}", ranks, "0-1") for name, ranks in (("a", 4), ("b", 4), ("c", 8), ("d", 2))]
    found = [one for one in findings.judge(Reading(run(*jobs))).findings if one.rule == "oversubscribed-job"]
    assert [one.variant for one in found] == [None, "mpi@c"]
    assert found[0].what.startswith(
        "mpi@a and mpi@b were measured with 4 ranks on 2 processors: the ranks take turns"
    )
    assert found[0].what.endswith("so their times contain context switches.")


def test_a_job_that_is_oversubscribed_is_a_severe_finding() -> None:
    said = shown(run(opened("mpi@a", 4, "0-1")))
    assert "mpi@a was measured with 4 ranks on 2 processors: the ranks take turns" in " ".join(said.split())
