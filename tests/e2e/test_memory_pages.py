# SPDX-License-Identifier: Apache-2.0
"""The pages that messages are in (`pages` and `node` of every variant): what is recorded is what the kernel says of
them, and what cannot be had is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, Runner
from test_conformance import MODULES

QUICK = ("pattern pingpong", "schedule list", "sizes 8,65537", "verify yes", "budget 0.05")
HUGE = 2 << 20


def transparent() -> bool:
    """Whether this kernel gives huge pages to memory that asks for them."""
    folder = Path("/sys/kernel/mm/transparent_hugepage")
    if not folder.is_dir():
        return False
    return (
        "[never]" not in (folder / "enabled").read_text()
        and int((folder / "hpage_pmd_size").read_text()) == HUGE
    )


def of_ranks(done: Outcome, variant: str, fact: str) -> set[Any]:
    (opened,) = done.of("variant", variant=variant)
    return {rank[fact] for rank in opened["ranks"]}


def test_curves_over_small_and_huge_pages_stand_side_by_side(measure: Runner) -> None:
    small, huge = "tcp:pages=small", "tcp:pages=huge"
    done = measure("variant tcp", f"variant {small}", f"variant {huge}", *QUICK)
    measured = ["tcp", small, *([huge] if transparent() else [])]
    for variant in measured:
        points = done.of("point", variant=variant)
        assert len(points) == 2, variant
        assert all(point["verified_bytes"] > 0 for point in points)
    assert of_ranks(done, "tcp", "huge_bytes") == {None}
    assert of_ranks(done, small, "huge_bytes") == {0}
    (plan,) = done.of("plan")
    assert [one["options"]["pages"] for one in plan["variants"]] == ["auto", "small", "huge"]
    (launch,) = done.of("launch")
    pools = 2 * plan["buffers"]["pool_bytes"]
    if not transparent():
        assert done.code == 3, done.said
        (error,) = done.of("error", variant=huge)
        assert "pages=huge: " in error["message"]
        return
    assert done.code == 0, done.said
    (huge_bytes,) = of_ranks(done, huge, "huge_bytes")
    assert huge_bytes >= 2 * HUGE
    assert huge_bytes % HUGE == 0
    assert launch["buffer_bytes"] == pools + huge_bytes


def test_a_node_that_there_is_not_is_refused_and_the_others_are_measured(measure: Runner) -> None:
    done = measure("variant tcp:node=1023", "variant tcp", *QUICK)
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert error["variant"] == "tcp:node=1023"
    assert "message memory cannot be bound to this NUMA node (mbind: " in error["message"]
    assert {point["variant"] for point in done.of("point")} == {"tcp"}


@pytest.mark.parametrize(
    "module", [name for name in ("memcpy", "shm", "tcp", "cma", "ucx") if name in MODULES]
)
def test_message_memory_is_on_its_node(measure: Runner, module: str) -> None:
    done = measure(f"variant {module}:node=0", *QUICK)
    if done.code == 3:  # a container that may not bind memory
        (error,) = done.of("error")
        assert re.search(
            r"\((mbind|get_mempolicy): (Operation not permitted|Function not impl)", error["message"]
        )
        return
    assert done.code == 0, done.said
    assert of_ranks(done, f"{module}:node=0", "memory_node") == {0}
    assert len(done.of("point")) == 2


@pytest.mark.parametrize("pages", ["small", "huge"])
def test_memory_that_two_ranks_map_has_no_pages_of_one_of_them(measure: Runner, pages: str) -> None:
    done = measure(f"variant shm:pages={pages}", *QUICK)
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert "memory that other processes map as well" in error["message"]
    assert not done.of("point")


def test_puts_reach_memory_on_huge_pages(measure: Runner) -> None:
    if "cma" not in MODULES or not transparent():
        pytest.skip("there is no module cma, or there are no huge pages")
    done = measure(
        "variant cma:pages=huge", "pattern put", "pattern get", "pattern strided", *QUICK[1:2],
        "sizes 8,65536", *QUICK[3:],
    )  # fmt: skip
    assert done.code == 0, done.said
    assert len(done.of("point")) == 6
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))
