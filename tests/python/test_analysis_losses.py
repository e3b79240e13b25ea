# SPDX-License-Identifier: Apache-2.0
"""What a layer loses of the one below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from synthetic import point

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.reading.layers import STACK
from netpipe.reading.losses import Loss
from netpipe.records import Plan, PlannedVariant, Point, Rank, Run, Variant
from netpipe.render.losses import (
    added_text,
    kept_text,
    largest_losses,
    loss_sentence,
    unmeasured_sentences,
)
from netpipe.render.terminal.summary import loss_table

MODULES = Path(__file__).parents[2] / "src" / "modules"


def run(variants: Sequence[tuple[str, str | None, str | None]], points: Sequence[Point]) -> Run:
    """Variants as (name, module below, how it waits)."""
    planned = [
        PlannedVariant(variant=name, module=name.split(":")[0], options={"wait": wait} if wait else {})
        for name, _, wait in variants
    ]
    opened = [
        Variant(variant=name, module=name.split(":")[0], below=below, adds=f"what {name} adds")
        for name, below, _ in variants
    ]
    return Run([Plan(variants=planned), *opened, *points])


def losses(of: Run) -> tuple[Loss, ...]:
    return Reading(of).losses


def only(found: tuple[Loss, ...]) -> Loss:
    (loss,) = found
    return loss


def test_a_loss_by_hand() -> None:
    # 1000 ns (970 to 1030) over 500 ns (480 to 520) at 8 bytes; at 4096 bytes 8192 and 4096 ns: half of it is kept.
    got = only(
        losses(
            run(
                [("unix", None, None), ("tcp", "unix", None)],
                [
                    point("unix", 8, 500, 0.04),
                    point("unix", 4096, 4096),
                    point("tcp", 8, 1000, 0.03),
                    point("tcp", 4096, 8192),
                ],
            )
        )
    )
    assert (got.variant, got.below, got.adds, got.absent) == ("tcp", "unix", "what tcp adds", ())
    assert got.small is not None
    assert got.small.size_bytes == 8
    assert got.small.times.value == 2
    assert got.small.added_ns.value == 500
    assert got.small.added_ns.low == pytest.approx(500 - (30**2 + 20**2) ** 0.5)
    assert got.small.added_ns.high == pytest.approx(500 + (30**2 + 20**2) ** 0.5)
    assert got.small.kept.value == 0.5
    assert got.large is not None
    assert got.large.kept.value == pytest.approx(0.5)
    assert got.large.size_bytes == 4096
    assert [size.size_bytes for size in got.sizes] == [8, 4096]


@given(st.lists(st.floats(1, 1e7), min_size=1, max_size=12), st.floats(1e-4, 0.5))
def test_a_layer_that_is_the_one_below_loses_nothing(times: list[float], width: float) -> None:
    points = [
        point(name, 2 ** (place + 1), time, width)
        for name in ("unix", "tcp")
        for place, time in enumerate(times)
    ]
    got = only(losses(run([("unix", None, None), ("tcp", "unix", None)], points)))
    assert not any(size.seen for size in got.sizes)
    assert all(size.times.value == 1 and size.added_ns.value == 0 for size in got.sizes)


@given(st.floats(1.1, 100))
def test_what_is_kept_is_one_over_the_ratio_of_times(factor: float) -> None:
    points = [point("unix", 64, 1000, 0.01), point("tcp", 64, 1000 * factor, 0.01)]
    size = only(losses(run([("unix", None, None), ("tcp", "unix", None)], points))).sizes[0]
    assert size.times.value == pytest.approx(factor)
    assert size.kept.value == pytest.approx(1 / factor)
    assert size.kept.low <= size.kept.value <= size.kept.high < 1
    assert size.seen


def test_an_absent_layer_is_passed_over_and_named() -> None:
    points = [point("shm", 8, 100), point("tcp", 8, 1000)]
    got = only(losses(run([("shm", None, None), ("tcp", "unix", None)], points)))
    assert (got.below, got.absent) == ("shm", ("unix", "pipe"))


def test_what_the_run_says_of_its_layers_goes_before_what_is_known_here() -> None:
    variants = [("mine", None, None), ("unix", "mine", None), ("tcp", "unix", None)]
    points = [point("mine", 8, 100), point("tcp", 8, 1000)]
    assert only(losses(run(variants, points))).below == "mine"


def test_a_stack_that_stands_on_itself_ends() -> None:
    points = [point("a", 8, 100), point("c", 8, 100)]
    made = run([("a", "b", None), ("c", None, None)], points)
    made.plans[0].stack = {"b": "x", "x": "b"}
    assert losses(made) == ()


def test_a_variant_is_held_against_the_one_that_waits_as_it_does() -> None:
    variants = [
        ("unix", None, "block"),
        ("unix:wait=poll", None, "poll"),
        ("tcp", "unix", "block"),
        ("tcp:wait=poll", "unix", "poll"),
    ]
    got = losses(run(variants, [point(name, 8, 100) for name, _, _ in variants]))
    assert {loss.variant: loss.below for loss in got} == {"tcp": "unix", "tcp:wait=poll": "unix:wait=poll"}
    assert all(loss.waits is None for loss in got)


def test_a_library_that_yields_is_held_against_the_layer_that_polls() -> None:
    here = run(
        [("tcp", None, "block"), ("tcp:wait=poll", None, "poll"), ("mpi", "tcp", None)],
        [point("tcp", 8, 900), point("tcp:wait=poll", 8, 500), point("mpi", 8, 1000)],
    )
    for opened in here.variants:
        wait = {"tcp": "block", "tcp:wait=poll": "yield", "mpi": "yield"}[opened.variant]
        opened.ranks = [Rank(rank=0, host="node17", cpu=0, settings={"wait": wait})]
    (loss,) = losses(here)
    assert (loss.below, loss.waits) == ("tcp:wait=poll", None)


def test_an_option_with_a_word_of_its_own_is_what_its_module_found_it_to_be() -> None:
    """tcp:wait=sigio sleeps until a signal wakes it, and says so: it waits as a layer does that blocks."""
    variants = [
        ("unix", None, "block"),
        ("unix:wait=poll", None, "poll"),
        ("tcp:wait=sigio", "unix", "sigio"),
    ]
    made = run(variants, [point(name, 8, 100) for name, _, _ in variants])
    for opened in made.variants:
        opened.ranks = [Rank(rank=0, host="a")]
    made.variants[-1].ranks[0].settings["wait"] = "block"
    got = only(losses(made))
    assert (got.below, got.wait, got.waits) == ("unix", "block", None)
    del made.variants[-1].ranks[0].settings["wait"]
    got = only(losses(made))
    assert (got.wait, got.waits) == ("sigio", ("sigio", "block")), "nobody said what it is"


def test_where_none_waits_alike_it_is_the_plain_one_and_that_is_said() -> None:
    variants = [("unix:sndbuf=8k", None, "block"), ("unix", None, "block"), ("tcp:wait=poll", "unix", "poll")]
    got = only(losses(run(variants, [point(name, 8, 100) for name, _, _ in variants])))
    assert got.below == "unix"
    assert got.waits == ("poll", "block")


def test_a_library_waits_as_its_module_found_out_and_none_is_no_way_of_waiting() -> None:
    """It has no option of that name; the record of its first rank says how it waits."""
    for found, below, waits in (
        ("poll", "tcp:wait=poll", None),
        ("block", "tcp", None),
        ("hybrid", "tcp", ("hybrid", "block")),
        ("none", "tcp", None),
    ):
        made = run(
            [("tcp", None, "block"), ("tcp:wait=poll", None, "poll"), ("mpi", "tcp", None)],
            [point(name, 8, 100) for name in ("tcp", "tcp:wait=poll", "mpi")],
        )
        for opened in made.variants:
            opened.ranks = [Rank(rank=rank, host="a") for rank in (0, 1)]
        made.variants[-1].ranks[0].settings["wait"] = found
        got = only(losses(made))
        assert (got.below, got.waits) == (below, waits), found


def through_a_library(*measured: tuple[str, str], on: str | None = "tcp") -> Run:
    """An MPI over UCX, which moves its messages by `on`, beside others as (name, module below)."""
    names = [*measured, ("mpi@x", "ucx")]
    made = run([(name, below, None) for name, below in names], [point(name, 8, 100) for name, _ in names])
    for opened in made.variants:
        opened.ranks = [Rank(rank=rank, host="a") for rank in (0, 1)]
    if on:
        made.variants[-1].ranks[0].settings["below_stands_on"] = on
    return made


def test_an_mpi_over_a_library_is_held_against_it_where_it_stands_on_the_same() -> None:
    both = through_a_library(("ucx", "shm"), ("ucx:tls=tcp", "tcp"), ("tcp", "unix"), ("shm", "memcpy"))
    (got,) = (loss for loss in losses(both) if loss.variant == "mpi@x")
    assert (got.below, got.absent, got.through) == ("ucx:tls=tcp", (), None)
    assert unmeasured_sentences([got]) == ()
    (stack,) = Reading(both).stacks
    of_tcp = [(step.variant, step.depth) for step in stack.steps if step.variant in ("ucx:tls=tcp", "mpi@x")]
    assert of_tcp == [("ucx:tls=tcp", 2), ("mpi@x", 3)]


def test_an_mpi_over_a_library_that_was_not_measured_is_held_against_what_carries_its_messages() -> None:
    # The table of ucx says that it stands on shm, and the ucx of this run does: neither is what this MPI uses.
    for measured in ([], [("ucx", "shm")]):
        made = through_a_library(*measured, ("shm", "memcpy"), ("tcp", "unix"))
        (plan,) = made.plans
        plan.stack = {"ucx": "shm", "tcp": "unix", "shm": "memcpy"}
        (got,) = (loss for loss in losses(made) if loss.variant == "mpi@x")
        assert (got.below, got.absent, got.through) == ("tcp", ("ucx",), ("ucx", "tcp")), measured
        (sentence,) = unmeasured_sentences([got, got])
        assert sentence.startswith("mpi@x goes through ucx over tcp, which was not measured:"), sentence


def test_a_library_that_does_not_tell_what_it_stands_on_is_compared_as_any_other() -> None:
    (got,) = (
        loss for loss in losses(through_a_library(("ucx", "verbs"), on=None)) if loss.variant == "mpi@x"
    )
    assert (got.below, got.through) == ("ucx", None)


def test_times_that_are_not_above_0_have_no_ratio() -> None:
    """The error of two clocks makes a time under load negative."""
    for upper, lower in ((-5.0, 100.0), (100.0, -5.0), (0.0, 100.0), (100.0, 0.0)):
        points = [point("unix", 8, 100), point("tcp", 8, 100)]
        for one, time_ns in zip(points, (lower, upper), strict=True):
            one.median_ns = one.low_ns = one.high_ns = time_ns
        made = run([("unix", None, None), ("tcp", "unix", None)], points)
        got = only(losses(made))
        assert (list(got.sizes), got.small, got.large, got.other_state_sizes) == ([], None, None, 0)


def test_points_in_different_states_of_the_machine_are_not_compared() -> None:
    points = [
        point("unix", 8, 500),
        point("unix", 64, 500),
        point("tcp", 8, 1000, state=1),
        point("tcp", 64, 1000),
    ]
    got = only(losses(run([("unix", None, None), ("tcp", "unix", None)], points)))
    assert [size.size_bytes for size in got.sizes] == [64]
    assert got.other_state_sizes == 1
    assert got.small is not None
    assert got.small.size_bytes == 64


def test_what_goes_between_two_hosts_is_not_held_against_what_stays_on_one() -> None:
    made = run(
        [("tcp", "unix", None), ("mpi@x", "tcp", None)], [point("tcp", 8, 500), point("mpi@x", 8, 700)]
    )
    tcp, mpi = made.variants
    mpi.ranks = [Rank(rank=0, host="a"), Rank(rank=1, host="b")]
    tcp.ranks = [Rank(rank=0, host="a"), Rank(rank=1, host="a")]
    assert losses(made) == ()
    tcp.ranks = list(reversed(mpi.ranks))
    assert only(losses(made)).below == "tcp"


def test_a_layer_is_held_against_as_many_ranks() -> None:
    """The floor stays in one process: its time compares, and its rate is not that of two pairs."""
    measured = run(
        [
            ("memcpy", None, None),
            ("shm:ranks=2", "memcpy", None),
            ("shm:ranks=4", "memcpy", None),
            ("tcp:ranks=4", "shm", None),
        ],
        [
            point(name, size, time)
            for name, time in (
                ("memcpy", 10),
                ("shm:ranks=2", 100),
                ("shm:ranks=4", 200),
                ("tcp:ranks=4", 800),
            )
            for size in (8, 4096)
        ],
    )
    for opened in measured.variants:
        count = int(opened.variant.partition("=")[2] or 1)
        opened.ranks = [Rank(rank=rank) for rank in range(count)]
    found = {loss.variant: loss for loss in losses(measured)}
    assert {name: loss.below for name, loss in found.items()} == {
        "shm:ranks=2": "memcpy", "shm:ranks=4": "memcpy", "tcp:ranks=4": "shm:ranks=4",
    }  # fmt: skip
    assert found["tcp:ranks=4"].small is not None
    assert found["tcp:ranks=4"].small.times.value == 4
    assert found["tcp:ranks=4"].large is not None
    assert found["tcp:ranks=4"].large.times.value == 4


def test_patterns_are_not_compared_with_each_other() -> None:
    points = [point("unix", 8, 500, pattern="stream"), point("tcp", 8, 1000)]
    assert losses(run([("unix", None, None), ("tcp", "unix", None)], points)) == ()


def test_launches_are_paired_and_their_spread_is_in_the_interval() -> None:
    """One launch is twice as slow in both layers: the ratio is the same in each, and no spread is made up."""
    points = [
        point(name, 8, time * slow, 0.001, launch=launch)
        for launch, slow in enumerate((1, 2, 1))
        for name, time in (("unix", 500), ("tcp", 1000))
    ]
    size = only(losses(run([("unix", None, None), ("tcp", "unix", None)], points))).sizes[0]
    assert size.times.value == pytest.approx(2)
    assert size.times.low > 1.99
    assert size.times.high < 2.01
    # The nanoseconds do differ between launches: 500, 1000, 500.
    assert size.added_ns.value == pytest.approx(500)
    assert size.added_ns.high > 1000


def test_a_size_that_two_layers_never_had_in_one_block_is_no_loss() -> None:
    points = [
        examples.visited(name, size, 1000.0, launch)
        for name in ("unix", "tcp")
        for size in (8, 64)
        for launch in range(4)
    ]
    apart = []
    for one in points:
        visits = one.visit_times()
        if (one.variant, one.size_bytes) == ("tcp", 64):
            visits = msgspec.structs.replace(visits, block=list(range(9, 18)))
        apart.append(msgspec.structs.replace(one, visits=visits))
    (whole,) = losses(run([("unix", None, "block"), ("tcp", "unix", "block")], points))
    (some,) = losses(run([("unix", None, "block"), ("tcp", "unix", "block")], apart))
    assert whole.sizes.size.tolist() == [8, 64]
    assert some.sizes.size.tolist() == [8]
    assert all(one.times.known for one in some.sizes)
    assert some.other_state_sizes == 0


def test_a_size_that_one_launch_compares_is_not_counted_as_left_out() -> None:
    made = run(
        [("unix", None, None), ("tcp", "unix", None)],
        [
            *(point("unix", 8, 100, launch=launch) for launch in (0, 1)),
            *(point("tcp", 8, 200, launch=launch, state=launch) for launch in (0, 1)),
        ],
    )
    got = only(losses(made))
    assert [size.times.value for size in got.sizes] == [2]
    assert got.other_state_sizes == 0


def test_a_size_with_one_loose_point_is_not_settled() -> None:
    points = [point("unix", 8, 500, 0.2), point("tcp", 8, 1000)]
    assert (
        only(losses(run([("unix", None, None), ("tcp", "unix", None)], points))).sizes[0].converged is False
    )


def test_a_point_with_too_few_samples_shows_no_difference() -> None:
    """Its limits in the record are minimum and maximum, and of one sample both are the sample: no interval at all."""
    one_sample = point("tcp", 8, 700_000, half_width=0.0, samples=1)
    one_sample.half_width = None
    got = only(
        losses(run([("unix", None, None), ("tcp", "unix", None)], [point("unix", 8, 500), one_sample]))
    )
    assert got.small is not None
    assert got.small.times.value == 1400
    assert not got.small.seen
    assert loss_sentence(got).startswith("against unix: too few samples to compare at 8 B")
    assert largest_losses((got,)) == ()


def of_two_sizes(lower_ns: float, upper_ns: float, width: float) -> Loss:
    """The loss of a layer at 8 bytes and 4 KiB, with points of these half widths."""
    points = [
        point(name, size, ns, width)
        for name, ns in (("unix", lower_ns), ("tcp", upper_ns))
        for size in (8, 4096)
    ]
    return only(losses(run([("unix", None, None), ("tcp", "unix", None)], points)))


def said_of(got: Loss) -> tuple[str, str, str]:
    """By the sentence, and by the tables."""
    return loss_sentence(got), added_text(got.small), kept_text(got.large)


def test_the_sentence_and_the_tables_decide_alike() -> None:
    """A large difference that is not excluded is undecided in both, and one that is excluded is named in both."""
    sentence, added, kept = said_of(of_two_sizes(1000, 1300, 0.5))
    assert (added, kept) == ("undecided", "undecided")
    assert sentence == "against unix: undecided at 8 B; undecided at 4 KiB."
    sentence, added, kept = said_of(of_two_sizes(1000, 1010, 0.01))
    assert added.startswith("same ±")
    assert kept == added
    excluded = added.removeprefix("same ±")
    assert (
        sentence
        == f"against unix: no difference above {excluded} at 8 B; no difference above {excluded} at 4 KiB."
    )


def test_a_loss_in_a_sentence_has_its_interval_or_is_marked_as_rough() -> None:
    sentence, added, kept = said_of(of_two_sizes(1000, 2000, 0.01))
    assert added.startswith("+1.00 µs ±")
    width = added.removeprefix("+1.00 µs ")
    assert f"1.00 µs {width} more, 2.00× (" in sentence
    assert f"; keeps {kept} of its throughput at 4 KiB." in sentence
    got = of_two_sizes(1000, 2500, 0.5)
    assert got.small is not None
    small = msgspec.structs.replace(got.small, added_ns=Estimate(1500, 0, 4000))
    sentence, added, _ = said_of(replace(got, small=small))
    assert added == "+1.50 µs > ±100 %"
    assert "against unix: ~1.50 µs more, 2.50× (" in sentence


def test_the_known_stack_is_what_the_modules_say() -> None:
    said = {
        source.stem: below.group(1)
        for source in MODULES.glob("*/*.cpp")
        if (below := re.search(r"\bbelow = \"(\w+)\"", source.read_text()))
    }
    # Files that do not record the stack are older than all other modules.
    assert {module: said.get(module) for module in STACK} == STACK


def test_all_rows_are_at_the_same_two_sizes() -> None:
    """The ones that most of them have. A layer that was not measured there says nothing rather than something else."""
    stack = [("shm", None, None), ("pipe", "shm", None), ("unix", "pipe", None), ("tcp", "unix", None)]
    sizes = {
        "shm": (1, 8, 64, 4096, 8192),
        "pipe": (1, 8, 4096, 8192),
        "unix": (1, 8, 4096),
        "tcp": (1, 4096),
    }
    points = [
        point(name, size, 100 * place + size)
        for place, (name, of) in enumerate(sizes.items(), 1)
        for size in of
    ]
    got = losses(run(stack, points))
    assert [(loss.variant, loss.small and loss.small.size_bytes) for loss in got] == [
        ("pipe", 1),
        ("unix", 1),
        ("tcp", 1),
    ]
    assert [loss.large and loss.large.size_bytes for loss in got] == [4096] * 3
    got = losses(run(stack[:3], [one for one in points if one.variant != "tcp"]))
    assert [loss.small and loss.small.size_bytes for loss in got] == [8, 8]
    got = losses(run(stack[:2], [one for one in points if one.variant in ("shm", "pipe")]))
    assert [loss.large and loss.large.size_bytes for loss in got] == [8192]


def test_the_table_says_the_size_of_each_row_where_they_differ() -> None:
    """As they do where two patterns have no size in common."""

    def lost(*sizes: int) -> Loss:
        points = [point(name, size, ns) for name, ns in (("unix", 500), ("tcp", 700)) for size in sizes]
        return only(losses(run([("unix", None, None), ("tcp", "unix", None)], points)))

    def words(*rows: Loss) -> list[list[str]]:
        out = Console(width=200, file=StringIO(), color_system=None)
        out.print(loss_table(rows))
        return [line.split() for line in out.file.getvalue().splitlines()]  # type: ignore[attr-defined]

    head, _ = words(lost(8, 4096))
    assert " ".join(head).startswith("loss of against 8 B takes more by keeps at 4 KiB")
    head, first, second = words(lost(8, 4096), lost(16, 8192))
    assert " ".join(head).startswith("loss of against takes for more by keeps at")
    assert "8 B" in " ".join(first)
    assert "4 KiB" in " ".join(first)
    assert "16 B" in " ".join(second)
    assert "8 KiB" in " ".join(second)
