# SPDX-License-Identifier: Apache-2.0
"""Patterns of many ranks: pairs at once, many to one, one to many, and a victim under load. Over a test module that
takes any number of ranks, one of which may be slow (tests/modules/crowd.c), and over two MPIs.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from conftest import Netpipe, Outcome, Runner
from mpi import Mpis
from services import skip_without
from test_faults import module

from netpipe.reading.machine.crowding import cpu_set

SIZES = "1,4097,300001"
PAIRS = (
    "pairs",
    "pairs:pairing=neighbours,traffic=both",
    "pairs:pairing=all",
    "pairs:pairing=all,traffic=both,together=no",
)
ALL = (
    *PAIRS,
    "incast",
    "incast:arrivals=yes",
    "outcast",
    "cast:by=sends",
    "cast:by=sends,in_flight=3",
    "congestion",
    "congestion:load_bytes=8k,load=incast",
)


def possible(ranks: int) -> tuple[str, ...]:
    """Of ALL."""
    even_only = PAIRS[:2] if ranks % 2 else ()
    more = ALL[-2:] if ranks % 2 or ranks < 4 else ()
    return tuple(pattern for pattern in ALL if pattern not in (*even_only, *more))


def crowd(measure: Runner, ranks: int, *lines: str, settings: str = "") -> Outcome:
    variant = f"variant crowd{':' * bool(settings)}{settings}"
    return measure(module("crowd"), variant, f"ranks {ranks}", "schedule list", *lines)


def cells(point: dict[str, Any]) -> dict[tuple[int, int | None], dict[str, Any]]:
    return {(cell["rank"], cell["peer"]): cell for cell in point["cells"]}


def measured(point: dict[str, Any], name: str) -> float:
    (value,) = [one["median"] for one in point["measures"] if one["name"] == name]
    return float(value)


def check_all_of(done: Outcome, patterns: tuple[str, ...], sizes: set[int]) -> None:
    """Every size of each pattern was measured and its bytes were looked at."""
    for pattern in patterns:
        points = done.of("point", pattern=pattern)
        unsteady = {one["size_bytes"] for one in done.of("skipped", pattern=pattern)}
        assert {point["size_bytes"] for point in points} | unsteady == sizes, pattern
        assert all(point["verified_bytes"] > 0 for point in points), pattern


# Cold memory is more than twice the last cache for each rank: gigabytes where a virtual machine shows a host's cache.
@pytest.mark.parametrize(
    ("ranks", "buffers"),
    [
        *((ranks, "warm") for ranks in (2, 3, 4, 7)),
        (2, "cold"),
        *(pytest.param(ranks, "cold", marks=pytest.mark.deep) for ranks in (3, 4, 7)),
    ],
)
def test_every_byte_among_many_ranks_arrives(measure: Runner, ranks: int, buffers: str) -> None:
    done = crowd(
        measure,
        ranks,
        *(f"pattern {pattern}" for pattern in ALL),
        f"sizes {SIZES}",
        f"buffers {buffers}",
        "verify yes",
        "budget 0.1",
        "timeout 60",
    )
    assert done.code == 0, done.said
    impossible = {one["pattern"] for one in done.of("skipped") if one["size_bytes"] is None}
    assert impossible == set(ALL) - set(possible(ranks))
    check_all_of(done, possible(ranks), {int(size) for size in SIZES.split(",")})


@pytest.mark.parametrize("together", [pytest.param("yes", marks=pytest.mark.deep), "no"])
def test_a_slow_pair_is_named(measure: Runner, together: str) -> None:
    """Rank 3 sends three milliseconds late, many times what a message takes here."""
    done = crowd(
        measure,
        4,
        f"pattern pairs:pairing=all,together={together}",
        "sizes 8",
        "budget 1.5",
        settings="slow=3",
    )
    assert done.code == 0, done.said
    (point,) = done.of("point")
    found = cells(point)
    assert list(found) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    slow = [cell for pair, cell in found.items() if 3 in pair]
    quick = [cell for pair, cell in found.items() if 3 not in pair]
    assert min(c["median_ns"] for c in slow) > 4 * max(c["median_ns"] for c in quick)
    assert sum(c["slowest"] for c in slow) > 0
    assert sum(c["slowest"] for c in quick) == 0


def test_the_slowest_pair_is_the_time_and_the_rate_is_that_of_all(measure: Runner) -> None:
    done = crowd(
        measure,
        4,
        "pattern pairs",
        "pattern pairs:traffic=both",
        "sizes 64",
        "budget 0.5",
        settings="slow=3",
    )
    for point in done.of("point"):
        found = cells(point)
        assert list(found) == [(0, 2), (1, 3)]
        assert found[1, 3]["slowest"] > found[0, 2]["slowest"]
        assert point["median_ns"] > 4 * found[0, 2]["median_ns"]
        assert measured(point, "imbalance") > 4
        assert measured(point, "clock_error") == 0  # one host has one clock
        messages = 4 if "both" in point["pattern"] else 2
        assert point["bytes_per_s"] == pytest.approx(messages * 64e9 / point["median_ns"])


def test_incast_says_whose_message_came_last(measure: Runner) -> None:
    done = crowd(
        measure,
        4,
        "pattern incast:arrivals=yes",
        "pattern incast",
        "pattern outcast",
        "sizes 64",
        "budget 0.5",
        settings="slow=2",
    )
    points = {point["pattern"]: point for point in done.of("point")}
    for point in points.values():
        assert point["bytes_per_s"] == pytest.approx(3 * 64e9 / point["median_ns"])
    assert points["incast"]["cells"] == []
    found = cells(points["incast:arrivals=yes"])
    assert list(found) == [(1, None), (2, None), (3, None)]
    assert found[2, None]["median_ns"] > 4 * max(found[rank, None]["median_ns"] for rank in (1, 3))
    assert found[2, None]["slowest"] > found[1, None]["slowest"] + found[3, None]["slowest"]


def test_the_victim_is_measured_with_and_without_load(measure: Runner) -> None:
    done = crowd(measure, 4, "pattern congestion", "sizes 8", "budget 0.5")
    (point,) = done.of("point")
    # Of the medians of three numbers of each sample; the load moved something in every one.
    loaded, unloaded = point["median_ns"], measured(point, "unloaded")
    assert unloaded > 0
    assert loaded > 0
    rates = [rate for sample in done.of("sample") for rate in sample["measures"]["load"]]
    slowdowns = [one for sample in done.of("sample") for one in sample["measures"]["slowdown"]]
    assert len(slowdowns) == len(rates) > 0
    assert measured(point, "load") > 0
    for sample in done.of("sample"):
        for ns, without, factor in zip(
            sample["ns"], sample["measures"]["unloaded"], sample["measures"]["slowdown"], strict=True
        ):
            assert ns / sample["ops"] == pytest.approx(without * factor, rel=1e-3)


def test_modules_of_one_two_and_many_ranks_share_a_run(measure: Runner) -> None:
    done = measure(
        module("crowd"), "variant crowd", "variant pipe:ranks=2", "variant memcpy", "ranks 4", "schedule list",
        "sizes 8,4097", "verify yes", "budget 0.2",
    )  # fmt: skip
    assert done.code == 0, done.said
    ranks = {one["variant"]: len(one["ranks"]) for one in done.of("variant")}
    assert ranks == {"crowd": 4, "pipe:ranks=2": 2, "memcpy": 1}
    assert {point["variant"] for point in done.of("point")} == set(ranks)
    assert all(point["verified_bytes"] > 0 for point in done.of("point"))


@pytest.mark.parametrize(
    ("ranks", "pattern", "reason"),
    [
        (3, "pairs", "pattern pairs needs a multiple of 2 ranks, there are 3"),
        (2, "congestion", "pattern congestion needs 4 ranks, there are 2 (--ranks)"),
        (5, "congestion", "pattern congestion needs a multiple of 2 ranks, there are 5"),
    ],
)
def test_a_run_of_which_nothing_can_be_measured_says_so_and_fails(
    measure: Runner, ranks: int, pattern: str, reason: str
) -> None:
    done = crowd(measure, ranks, f"pattern {pattern}", "sizes 8", "budget 0.1")
    assert done.code == 3
    assert [one["reason"] for one in done.of("skipped")] == [reason]
    (error,) = done.of("error")
    assert error["message"] == f"nothing could be measured: {reason}"
    assert reason in done.said


def test_what_cannot_be_measured_beside_something_else_is_only_skipped(measure: Runner) -> None:
    done = crowd(measure, 3, "pattern pairs", "pattern incast", "sizes 8", "budget 0.1")
    assert done.code == 0, done.said
    assert not done.of("error")
    assert {one["pattern"] for one in done.of("skipped")} == {"pairs"}


@pytest.mark.parametrize("text", ["pairs:pairing=thirds", "congestion:load_bytes=0", "incast:arrivals=maybe"])
def test_options_that_make_no_sense_are_refused(measure: Runner, text: str) -> None:
    done = crowd(measure, 4, f"pattern {text}", "sizes 8")
    assert done.code == 2
    assert text.partition(":")[2].partition("=")[0] in done.said


def test_a_load_that_does_not_fit_into_memory_is_refused_before_it_starts(measure: Runner) -> None:
    done = crowd(measure, 8, "pattern congestion:load=incast,load_bytes=1G", "sizes 8")
    assert done.code == 2, done.said
    assert "congestion" in done.said
    assert "available" in done.said
    assert not done.of("sample")


@pytest.mark.parametrize(("library", "ranks"), [("openmpi", 3), ("openmpi", 4), ("mpich", 4)])
def test_every_byte_among_the_ranks_of_an_mpi_arrives(
    netpipe: Netpipe, with_mpis: Mpis, library: str, ranks: int
) -> None:
    with_mpis.need(library)
    asked = [word for pattern in possible(ranks) for word in ("--pattern", pattern)]
    done = netpipe(
        f"mpi@{library}:transport=shm", "--ranks", str(ranks), *asked,
        "--sizes", "1,70001", "--verify", "--budget", "0.05",
    )  # fmt: skip
    assert done.code == 0, done.said
    check_all_of(done, possible(ranks), {1, 70001})


@pytest.mark.deep
def test_sixty_four_ranks_on_few_processors_come_to_an_end(measure: Runner) -> None:
    patterns = ("pairs:pairing=all", "incast", "outcast", "congestion")
    done = crowd(
        measure,
        64,
        *(f"pattern {pattern}" for pattern in patterns),
        "sizes 4097",
        "verify yes",
        "budget 0.1",
        "timeout 60",
    )
    assert done.code == 0, done.said
    check_all_of(done, patterns, {4097})
    for point in done.of("point", pattern="pairs:pairing=all"):
        assert len(point["cells"]) == 64 * 63 // 2


def test_a_variant_chooses_its_own_number_of_ranks(measure: Runner) -> None:
    done = measure(
        module("crowd"),
        "variant crowd:ranks=3",
        "variant null",
        "pattern incast",
        "schedule list",
        "sizes 4097",
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 0, done.said
    opened = {one["variant"]: [rank["rank"] for rank in one["ranks"]] for one in done.of("variant")}
    assert opened == {"crowd:ranks=3": [0, 1, 2], "null": [0]}
    (point,) = done.of("point", variant="crowd:ranks=3")
    assert point["verified_bytes"] > 0
    (plan,) = done.of("plan")
    assert [one["options"]["ranks"] for one in plan["variants"]] == ["3", "1"]


def test_a_number_of_ranks_that_a_module_cannot_have_is_refused(measure: Runner) -> None:
    done = measure(module("crowd"), "variant crowd:ranks=65", "sizes 8", "schedule list")
    assert done.code == 2
    assert "option 'ranks' of module crowd: 65 is outside 2 to 64" in done.said
    assert not done.records


# ------------------------------------------------------------------------------------------------ netpipe's own layers

OWN = (
    "shm",
    "shm:wait=block",
    "shm:copy=pipeline,ring=16k",
    "pipe",
    "pipe:wait=poll",
    "unix",
    "unix:type=seqpacket",
    "tcp",
    "tcp:streams=3,connections=one",
)
# Patterns for two ranks, of which each pair is one.
IN_PAIRS = (
    "pingpong",
    "stream",
    "bidirectional",
    "burst",
    "window",
    "overhead",
    "overlap",
    "loggp",
    "offered",
)


@pytest.mark.parametrize(
    ("variant", "ranks"),
    [
        pytest.param(variant, ranks, marks=() if ranks == 3 else pytest.mark.deep)
        for variant in OWN
        for ranks in (3, 4, 7)
    ],
)
def test_every_byte_among_many_ranks_of_our_own_layers_arrives(
    measure: Runner, variant: str, ranks: int
) -> None:
    patterns = (*possible(ranks), *(IN_PAIRS if ranks % 2 == 0 else ()))
    done = measure(
        f"variant {variant}", f"ranks {ranks}", "schedule list", f"sizes {SIZES}",
        *(f"pattern {pattern}" for pattern in patterns), "verify yes", "budget 0.05", "timeout 60",
    )  # fmt: skip
    assert done.code == 0, done.said
    (opened,) = done.of("variant")
    assert [rank["rank"] for rank in opened["ranks"]] == list(range(ranks))
    check_all_of(done, patterns, {int(size) for size in SIZES.split(",")})


@pytest.mark.parametrize("pattern", ["put", "get", "put:sync=fence", "get:in_flight=4"])
def test_every_pair_reaches_into_the_memory_of_its_own_peer(measure: Runner, pattern: str) -> None:
    done = measure(
        "variant shm", "ranks 6", "schedule list", "sizes 8,70001", f"pattern {pattern}", "verify yes", "budget 0.1",
    )  # fmt: skip
    assert done.code == 0, done.said
    check_all_of(done, (pattern,), {8, 70001})
    assert all(list(cells(point)) == [(0, 5), (1, 4), (2, 3)] for point in done.of("point"))


def test_two_ranks_each_of_four_are_all_pairs_and_the_rate_is_that_of_all(measure: Runner) -> None:
    """Rank 3 sends late: it is in the pair of ranks 0 and 3."""
    done = crowd(
        measure,
        4,
        *(f"pattern {pattern}" for pattern in ("pingpong", "window", "bidirectional", "stream")),
        "sizes 64",
        "budget 0.5",
        settings="slow=3",
    )
    assert done.code == 0, done.said
    messages = {"pingpong": 2, "window": 2, "bidirectional": 4, "stream": 2}
    for point in done.of("point"):
        pattern = point["pattern"]
        assert point["bytes_per_s"] == pytest.approx(messages[pattern] * 64e9 / point["median_ns"]), pattern
        found = cells(point)
        assert list(found) == [(0, 3), (1, 2)], pattern
        # Rank 3 only receives a stream and a window.
        if pattern in ("pingpong", "bidirectional"):
            assert found[0, 3]["median_ns"] > 4 * found[1, 2]["median_ns"], pattern
            assert point["median_ns"] > 4 * found[1, 2]["median_ns"], pattern
            assert measured(point, "imbalance") > 4, pattern
            assert found[0, 3]["slowest"] > found[1, 2]["slowest"], pattern


def test_a_layer_is_told_whether_a_rank_has_messages_with_one_other(measure: Runner) -> None:
    """And that the ranks greet each other before. The module fails if a message goes to another rank all the same."""
    pairs = ("pingpong", "stream", "bidirectional", "burst", "window")
    others = ("ring", "exchange", "pairs:pairing=all", "incast", "congestion")
    done = crowd(
        measure,
        4,
        *(f"pattern {pattern}" for pattern in (*pairs, *others)),
        "sizes 4097",
        "verify yes",
        "budget 0.05",
        settings="mates=one",
    )
    assert done.code == 0, done.said
    check_all_of(done, pairs, {4097})
    reasons = {one["pattern"]: one["reason"] for one in done.of("skipped")}
    assert set(reasons) == set(others)
    assert all("here a rank has messages with several" in reason for reason in reasons.values())


@pytest.mark.parametrize("layer", ["shm", pytest.param("unix", marks=pytest.mark.deep)])
def test_sixty_four_ranks_of_our_own_layers_come_to_an_end(measure: Runner, layer: str) -> None:
    patterns = ("pingpong", "incast")
    done = measure(
        f"variant {layer}", "ranks 64", "schedule list", "sizes 4097", "budget 0.2", "timeout 60",
        *(f"pattern {pattern}" for pattern in patterns), "verify yes",
    )  # fmt: skip
    assert done.code == 0, done.said
    check_all_of(done, patterns, {4097})
    (point,) = done.of("point", pattern="pingpong")
    assert len(point["cells"]) == 32


@pytest.mark.deep
def test_sixty_four_ranks_of_tcp_and_pipe_meet_each_other(measure: Runner) -> None:
    for layer in ("tcp", "pipe"):
        done = measure(
            f"variant {layer}", "ranks 64", "schedule list", "sizes 8", "pattern pairs:pairing=all", "budget 0.2",
            "timeout 120",
        )  # fmt: skip
        assert done.code == 0, done.said
        assert len(done.of("point")[0]["cells"]) == 64 * 63 // 2


def test_a_module_that_cannot_have_the_ranks_of_the_run_is_refused_and_nothing_is_measured(
    measure: Runner,
) -> None:
    done = measure(
        module("silent"), "variant shm", "variant silent", "ranks 4", "schedule list", "sizes 8", "budget 0.1"
    )
    assert done.code == 2
    assert "module silent takes 2 ranks, and --ranks asks for 4; write silent:ranks=2" in done.said
    assert not done.of("sample")


def test_ranks_say_which_processors_they_may_run_on(measure: Runner) -> None:
    done = measure("variant shm", "ranks 4", "pin none", "schedule list", "sizes 8", "budget 0.1")
    assert done.code == 0, done.said
    (opened,) = done.of("variant")
    assert {tuple(sorted(cpu_set(rank["processors"]))) for rank in opened["ranks"]} == {
        tuple(sorted(os.sched_getaffinity(0)))
    }


# -------------------------------------------------------------------------------------------- layers over a library


@pytest.mark.deep
@pytest.mark.parametrize(
    "variant",
    [
        *("ucx", "libfabric", "libfabric:ep=msg", "zmq", "nng", "grpc"),
        *("verbs", "verbs:op=write", "verbs:op=write_imm", "sctp"),  # test_in_guest.py runs them in a guest
    ],
)
def test_windows_of_many_pairs_add_up_over_a_library(
    measure: Runner, listing: dict[str, Any], variant: str
) -> None:
    skip_without(listing, variant.partition(":")[0])
    sizes = {9, 65537}
    done = measure(
        f"variant {variant}", "ranks 4", "pattern window", "pattern window:directions=both", "schedule list",
        "sizes 9,65537", "verify yes", "budget 0.1", "timeout 60", limit_s=300.0,
    )  # fmt: skip
    assert done.code == 0, done.said
    (opened,) = done.of("variant")
    assert [rank["rank"] for rank in opened["ranks"]] == [0, 1, 2, 3]
    check_all_of(done, ("window", "window:directions=both"), sizes)
    below = 0  # medians of points that are far below that of the slower pair
    for point in done.of("point"):
        messages = 4 if "both" in point["pattern"] else 2
        assert point["bytes_per_s"] == pytest.approx(
            messages * point["size_bytes"] * 1e9 / point["median_ns"]
        )
        found = cells(point)
        assert list(found) == [(0, 3), (1, 2)]
        assert sum(cell["slowest"] for cell in found.values()) > 0
        # The time of a sample is that of its slower pair. Medians are of visits, and those of four ranks on two
        # processors may differ so much that one point is an exception.
        slower = max(cell["median_ns"] for cell in found.values())
        assert point["max_ns"] >= slower
        below += 2 * point["median_ns"] <= slower
        assert measured(point, "imbalance") >= 1
    assert below <= 1
