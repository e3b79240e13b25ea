# SPDX-License-Identifier: Apache-2.0
"""Rules about layers and ranks, each on the cases that its two examples leave out."""

from __future__ import annotations

import msgspec
import pytest

from netpipe.findings import Finding, examples, judge
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
