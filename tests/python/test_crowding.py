# SPDX-License-Identifier: Apache-2.0
"""More ranks than processors, or more of their threads, and the operation of a pattern that stands for several: what
findings and tables say of them.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from netpipe import findings
from netpipe.findings import Finding, examples
from netpipe.reading import Reading
from netpipe.reading.machine.crowding import cpu_set
from netpipe.records import Environment, Plan, PlannedMode, PlannedVariant, Rank, Run, Variant
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


# ------------------------------------------------------------------------------------------------------------ threads


def threaded(
    threads: int,
    processors: str = "0;1",
    allowed: str | None = "0-1",
    where: str = "any",
    hosts: int = 1,
    waiting: float | None = 0.5,
    version: str | None = None,
) -> Run:
    """A run of a pattern with so many threads of each rank, whose two ranks or more have these processors."""
    ranks = [
        Rank(rank=n, host=f"node{n % hosts}", processors=own) for n, own in enumerate(processors.split(";"))
    ]
    name = f"threads:threads={threads}" + (f",processors={where}" if where != "any" else "")
    mode = PlannedMode(pattern=name, name="threads", options={"threads": str(threads), "processors": where})
    planned = [PlannedVariant(variant="mpi@a", module="mpi@a")]
    plan = Plan(variants=planned, patterns=["pingpong", name], modes=[mode], target=0.01)
    variant = Variant(variant="mpi@a", module="mpi@a", version=version, launch_s=0.1, ranks=ranks)
    measures = [] if waiting is None else [examples.measure("waiting", "1", waiting)]
    facts = {"limits": {"allowed_cpus": allowed}, "clock": {"tick_hz": 250}}
    environments = [Environment(host=f"node{n}", facts=facts) for n in range(hosts)]
    points = [
        examples.point("mpi@a", 8, 4e6, pattern=name, measures=measures),
        examples.point("mpi@a", 8, 1e3, pattern="pingpong"),
    ]
    return Run([plan, *environments, variant, *points])


def of_threads(made: Run, rule: str = "oversubscribed-threads") -> list[Finding]:
    return [one for one in findings.judge(Reading(made)).findings if one.rule == rule]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (threaded(4), "2 ranks with 4 threads each on 2 processors"),
        (threaded(2), "2 ranks with 2 threads each on 2 processors"),
        (threaded(2, allowed="0-3"), None),
        (threaded(3, allowed="0-3"), "2 ranks with 3 threads each on 4 processors"),
        (threaded(1), None),
        (threaded(2, allowed="0-3", where="rank"), "2 ranks with 2 threads each on 2 processors"),
        (threaded(2, processors="0-1;2-3", allowed="0-3", where="rank"), None),
        (threaded(2, allowed="0-1", hosts=2), None),
        (
            threaded(4, processors="0;0", allowed="0-1", hosts=2),
            "2 ranks with 4 threads each on 4 processors",
        ),
        (threaded(4, allowed=None), None),
        (threaded(2, allowed=None, where="rank"), "2 ranks with 2 threads each on 2 processors"),
    ],
)
def test_threads_are_held_against_the_processors_that_they_may_run_on(made: Run, said: str | None) -> None:
    reading = Reading(made)
    pattern = made.points[0].pattern
    crowd = reading.crowding_of("mpi@a", pattern)
    assert (str(crowd) if crowd else None) == said
    assert reading.crowding_of("mpi@a", "pingpong") is None
    assert [said in one.what for one in of_threads(made) if said] == ([True] if said else [])


def test_threads_that_share_processors_are_a_severe_finding_of_their_curve() -> None:
    (found,) = of_threads(threaded(4))
    assert (found.severity, found.variant, found.pattern) == ("severe", "mpi@a", "threads:threads=4")
    assert found.evidence["threads"].value == 8
    assert "At 8 B they waited for one 50 % of their time." in found.what
    assert found.experiment is None


def test_threads_that_never_waited_for_a_processor_take_no_turns() -> None:
    assert not of_threads(threaded(4, waiting=0.01))
    (unmeasured,) = of_threads(threaded(4, waiting=None))
    assert "waited" not in unmeasured.what


def test_threads_that_the_pattern_keeps_with_their_rank_are_let_go_in_the_experiment() -> None:
    made = threaded(2, where="rank")
    made.header = examples.run().header
    (found,) = of_threads(made)
    assert found.remedy.startswith("leave processors=rank out, or ")
    assert found.experiment == (
        "netpipe run mpi@a --pattern threads:threads=2,processors=rank --pattern threads:threads=2 --sizes 8"
    )


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("Open MPI 5.0.11", "; for a program with Open MPI: mpirun --bind-to none, "),
        ("MPICH 5.0.2", "; for a program with MPICH: mpiexec without -bind-to, "),
        ("Intel MPI 2021.13", "; for a program with Intel MPI: I_MPI_PIN_DOMAIN=N "),
        ("Unheard MPI 1", ""),
    ],
)
def test_each_library_binds_a_rank_with_threads_in_its_own_way(version: str, words: str) -> None:
    (found,) = of_threads(threaded(4, version=version))
    assert words in found.remedy if words else "program" not in found.remedy


def test_where_the_ranks_alone_are_too_many_the_job_says_so() -> None:
    made = threaded(2, processors="0-1;0-1;0-1")
    assert not of_threads(made)
    assert "3 ranks on 2 processors" in of_threads(made, "oversubscribed-job")[0].what
    crowd = Reading(made).crowding_of("mpi@a", "threads:threads=2")
    assert str(crowd) == "3 ranks with 2 threads each on 2 processors"


def test_a_message_of_a_thread_waits_for_time_slices_too() -> None:
    (found,) = of_threads(threaded(4), "time-slice")
    assert "threads:threads=4, 2 ranks with 4 threads each on 2 processors: 8 B takes" in found.what
    assert found.remedy == "a processor for each thread"
    assert not of_threads(threaded(4, allowed="0-7"), "time-slice")


def test_the_tables_say_how_many_threads_a_curve_has() -> None:
    made = threaded(4)
    assert "2 ranks with 4 threads each on 2 processors" in shown(made)
    rows = summary_table(Reading(made), several_patterns=True).rows
    assert {row[:2] for row in rows} == {
        ("mpi@a", "pingpong"),
        ("mpi@a, 2 ranks with 4 threads each on 2 processors", "threads:threads=4"),
    }
