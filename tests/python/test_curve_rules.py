# SPDX-License-Identifier: Apache-2.0
"""Rules about layers and ranks, each on the cases that its two examples leave out."""

from __future__ import annotations

import msgspec
import pytest

from netpipe.findings import Finding, crowded, examples, judge
from netpipe.findings.curves import broken_guideline, daemon_route, no_overlap
from netpipe.reading import Reading
from netpipe.records import Cell, PlannedMode, Rank, Run


def found_by(rule: str, made: Run) -> list[Finding]:
    return [finding for finding in judge(Reading(made)).findings if finding.rule == rule]


def with_settings(made: Run, module: str, options: dict[str, str], settings: dict[str, str]) -> Run:
    """The run, with one module's options and what its rank 0 recorded."""
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options=options) if one.module == module else one
            for one in plan.variants
        ]
    for variant in made.variants:
        if variant.module == module:
            variant.ranks[:] = [
                Rank(rank=rank, host="node17", cpu=rank, settings=settings) for rank in (0, 1)
            ]
    return made


# ---------------------------------------------------------------------------------------------------------- packets


def stepping_at(below: int, above: int, segment: int) -> Run:
    """A curve that steps up by 40 % between two sizes, with so many bytes in a packet."""
    sizes = ((below, 1000.0), (above, 1400.0))
    points = [examples.visited("udp", size, ns, launch) for launch in range(4) for size, ns in sizes]
    made = examples.run(*points, variants=("udp",))
    return with_settings(made, "udp", {}, {"message_bytes_per_datagram": str(segment)})


@pytest.mark.parametrize(
    ("below", "above", "packets"),
    [
        (939, 981, "2 packets of 976 B instead of 1"),
        (976, 977, "2 packets of 976 B instead of 1"),
        (1878, 1961, "3 packets of 976 B instead of 2"),  # 2 x 976 = 1952
        (2896, 3025, "4 packets of 976 B instead of 3"),
        (3756, 3922, "5 packets of 976 B instead of 4"),
    ],
)
def test_each_packet_more_is_a_step_of_its_own(below: int, above: int, packets: str) -> None:
    (found,) = found_by("segment-step", stepping_at(below, above, 976))
    assert packets in found.what
    assert not found_by("step", stepping_at(below, above, 976))


@pytest.mark.parametrize(("below", "above"), [(900, 940), (1953, 2040), (4850, 5000)])
def test_a_step_within_a_packet_or_beyond_the_fourth_has_another_cause(below: int, above: int) -> None:
    assert not found_by("segment-step", stepping_at(below, above, 976))
    assert found_by("step", stepping_at(below, above, 976))


# ------------------------------------------------------------------------------------------------------------ ranks


def collective(operation: str) -> Run:
    """Two ranks, of which rank 0 takes four times as long as the other one."""
    pattern = f"collective:what={operation}"
    cells = [Cell(rank=0, median_ns=4000.0, slowest=1000), Cell(rank=1, median_ns=1000.0, slowest=0)]
    made = examples.run(examples.point("tcp", 8, 4000.0, pattern=pattern, cells=cells))
    for plan in made.plans:
        plan.modes[:] = [PlannedMode(pattern=pattern, name="collective", options={"what": operation})]
    return made


def test_the_root_of_an_operation_is_no_slow_rank() -> None:
    assert found_by("slowest-rank", collective("allreduce"))
    for operation in ("bcast", "reduce", "gather", "gatherv", "scatter", "scatterv"):
        assert not found_by("slowest-rank", collective(operation)), operation
        (skipped,) = [
            one for one in judge(Reading(collective(operation))).skipped if one.rule == "slowest-rank"
        ]
        assert skipped.reason.startswith("only operations with a root")


# --------------------------------------------------------------------------- what a library calls its setting


def of_library(made: Run, version: str) -> Run:
    """The run, all of whose variants are of one version of a library."""
    for variant in made.variants:
        variant.version = version
    return made


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        (
            "Open MPI 4.1.4",
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "OMPI_MCA_coll_tuned_use_dynamic_rules=1"),
        ),
        ("MPICH 4.0.2", ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE=0")),
        ("Intel MPI 2021.13", ("I_MPI_ADJUST_ALLREDUCE",)),
    ],
)
def test_a_slow_collective_is_mended_by_the_variable_of_its_library(
    version: str, settings: tuple[str, ...]
) -> None:
    (found,) = found_by("broken-guideline", of_library(broken_guideline.fires(), version))
    assert all(setting in found.remedy for setting in settings)
    assert found.remedy.endswith("to find it: netpipe tune mpi@x --goal collective=allreduce")


def test_of_an_unknown_library_the_remedies_name_no_variable() -> None:
    for module, rule in (
        (broken_guideline, "broken-guideline"),
        (no_overlap, "no-overlap"),
        (crowded, "oversubscribed-job"),
    ):
        (found,) = found_by(rule, of_library(module.fires(), "Unheard MPI 1"))
        assert "=1" not in found.remedy
        assert "MPI_A" not in found.remedy


@pytest.mark.parametrize(
    ("version", "setting"),
    [
        ("Open MPI 5.0.11", "OMPI_MCA_btl_tcp_progress_thread=1"),
        ("MPICH 4.0.2", "MPIR_CVAR_ASYNC_PROGRESS=1"),
        ("Intel MPI 2021.13", "I_MPI_ASYNC_PROGRESS=1"),
    ],
)
def test_without_overlap_each_library_has_its_own_progress_thread(version: str, setting: str) -> None:
    (found,) = found_by("no-overlap", of_library(no_overlap.fires(), version))
    assert found.remedy.startswith(setting)
    assert "MPI_Test" in found.remedy


@pytest.mark.parametrize(
    ("version", "setting"),
    [
        ("Open MPI 4.1.4", "OMPI_MCA_mpi_yield_when_idle=1"),
        ("MPICH 4.0.2", "ch3:sock"),
        ("LAM/MPI 7.1.4", "rpi=sysv"),
    ],
)
def test_ranks_without_a_processor_each_yield_by_the_setting_of_their_library(
    version: str, setting: str
) -> None:
    (found,) = found_by("oversubscribed-job", of_library(crowded.fires(), version))
    assert f"; with {version.rpartition(' ')[0]}: " in found.remedy
    assert setting in found.remedy


def test_pvm_and_lam_are_told_each_in_its_own_words_how_to_avoid_the_daemon() -> None:
    (pvm,) = found_by("daemon-route", daemon_route.fires())
    assert "PvmRouteDirect" in pvm.remedy
    assert "rpi" not in pvm.remedy
    made = of_library(examples.run(examples.point("mpi@lam", 8, 4e4), variants=("mpi@lam",)), "LAM/MPI 7.1.4")
    (lam,) = found_by("daemon-route", with_settings(made, "mpi@lam", {"rpi": "lamd"}, {}))
    assert "-ssi rpi usysv" in lam.remedy
    assert "Pvm" not in lam.remedy


def test_a_packet_is_made_larger_where_it_was_bounded() -> None:
    made = stepping_at(939, 981, 976)
    (found,) = found_by("segment-step", made)
    assert "MTU on the whole way" in found.remedy
    for plan in made.plans:
        plan.variants[:] = [
            msgspec.structs.replace(one, options={"payload": "1000", "gso": "no"}) for one in plan.variants
        ]
    (found,) = found_by("segment-step", made)
    assert found.remedy.startswith("a larger payload")
    assert "ethtool" not in found.remedy
