# SPDX-License-Identifier: Apache-2.0
"""What is too fast to be true is said, and what processors, adapters and accelerators can do is not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from synthetic import LAYERS
from synthetic import run as whole_run

from netpipe.findings import examples, judge
from netpipe.reading import Reading
from netpipe.reading.plausible import OF_ANY, OF_MEMCPY, OF_YARDSTICK
from netpipe.records import Rank, Record, Variant
from netpipe.render.page.page import page
from netpipe.render.terminal.summary import print_summary

MIB = 1 << 20
ONE_HOST = ("a", "a")


def measured(
    *records: Record, hosts: tuple[str, ...] = ONE_HOST, below: str | None = "shm", idle: bool = False
) -> Reading:
    """A run with memcpy, and with `mine`, which stands on `below`."""
    run = examples.run(*records, variants=["memcpy"], stack={"memcpy": ""})
    ranks = [Rank(rank=rank, host=host) for rank, host in enumerate(hosts)]
    run.variants[0].ranks = [Rank(rank=0, host="a")]
    run.add(Variant(variant="shm", module="shm", below="memcpy"))
    run.add(Variant(variant="mine", module="mine", below=below, idle=idle, ranks=ranks))
    return Reading(run)


def mine(rate: float, size_bytes: int = MIB, **other: object) -> Record:
    return examples.point("mine", size_bytes, size_bytes / rate * 1e9, **other)


def copy(rate: float, size_bytes: int = MIB, **other: object) -> Record:
    return examples.point("memcpy", size_bytes, size_bytes / rate * 1e9, **other)


@pytest.mark.parametrize(("times", "wrong"), [(0.5, False), (2.3, False), (30, False), (50, True)])
def test_a_layer_of_processes_is_held_to_what_they_can_copy(times: float, wrong: bool) -> None:
    """Two processes, each with `OF_MEMCPY` times memcpy at the most."""
    assert 30 < 2 * OF_MEMCPY < 50
    found = measured(copy(1e10), mine(times * 1e10)).too_fast
    assert [one.source for one in found] == ["copy"] * wrong


def test_memcpy_of_another_size_pattern_or_state_is_no_limit() -> None:
    others = (
        copy(1e10, MIB // 2),
        copy(1e10, pattern="put"),
        copy(1e10, state=1),
        examples.yardstick(0),
        examples.yardstick(1, state=1, bounce_ns=300),
    )
    assert measured(*others, mine(9e11)).too_fast == ()


@pytest.mark.parametrize(("times", "wrong"), [(100, False), (500, True)])
def test_without_memcpy_the_yardstick_is_the_limit(times: float, wrong: bool) -> None:
    assert 100 < 2 * OF_YARDSTICK < 500
    found = measured(examples.yardstick(0), mine(times * 1.1e10)).too_fast
    assert [one.source for one in found] == ["yardstick"] * wrong


@pytest.mark.parametrize(("hosts", "below"), [(("a", "b"), "shm"), (ONE_HOST, None), (ONE_HOST, "cuda")])
def test_adapters_and_accelerators_may_be_faster_than_processors(
    hosts: tuple[str, ...], below: str | None
) -> None:
    """Eight adapters of 400 Gbit/s, or the memory of an accelerator, against one core that copies."""
    for real in (4e11, 8e12):
        assert measured(copy(1e10), mine(real), hosts=hosts, below=below).too_fast == ()
    (found,) = measured(copy(1e10), mine(3 * OF_ANY), hosts=hosts, below=below).too_fast
    assert found.source == "memory"


def test_the_worst_size_is_named_and_all_are_counted() -> None:
    sizes = (64 * 1024, MIB, 8 * MIB)
    reading = measured(
        *(copy(1e10, size) for size in (8, *sizes)),
        examples.point("mine", 8, 19.5),
        *(examples.point("mine", size, 19.5) for size in sizes),
    )
    (found,) = reading.too_fast
    assert (found.size_bytes, found.sizes) == (8 * MIB, 3)
    (finding,) = [one for one in judge(reading).findings if one.rule == "too-fast"]
    assert "at 8 MiB a message takes 19.5 ns. That is 3440 Tbps" in finding.what


def test_who_says_that_it_is_idle_is_believed() -> None:
    fast = mine(1e15, bytes_per_s=None)
    assert measured(copy(1e10), fast, idle=True).too_fast == ()
    assert measured(copy(1e10), mine(1e15), idle=True).too_fast == ()


def test_a_wide_interval_is_no_proof() -> None:
    assert measured(copy(1e10), mine(41e10, half_width=0.1)).too_fast == ()
    assert measured(copy(1e10), mine(41e10, half_width=0.001)).too_fast != ()


def test_no_loss_is_computed_from_an_impossible_curve() -> None:
    sizes = (8, MIB, 8 * MIB)
    reading = measured(
        *(copy(1e10, size) for size in sizes),
        *(examples.point("mine", size, 19.5) for size in sizes),
        below="memcpy",
    )
    assert reading.losses == ()
    stream = io.StringIO()
    print_summary(Console(file=stream, width=150), reading)
    assert "892" not in stream.getvalue()
    assert "Too fast to be true" in page(reading)
    slower = measured(
        *(copy(1e10, size) for size in sizes), *(mine(5e9, size) for size in sizes), below="memcpy"
    )
    assert len(slower.losses) == 1


def test_a_run_of_all_layers_is_plausible() -> None:
    assert Reading(whole_run(LAYERS)).too_fast == ()
