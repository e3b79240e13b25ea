# SPDX-License-Identifier: Apache-2.0
"""Who waited for whom: traces of a few calls, whose waiting can be read off."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from profiled import profile_of
from rich.console import Console
from traced import Event, traced

from netpipe.profiles.lines import Profile
from netpipe.profiles.tables import tables
from netpipe.profiles.trace.waiting import PairWaiting, RankWaiting, Waiting, waiting
from netpipe.render.terminal.profile import print_profile

LARGE = 1 << 20


def judged(*ranks: Sequence[Event], **more: object) -> Waiting:
    return waiting(traced(*ranks, **more))  # type: ignore[arg-type]


def by_kind(one: RankWaiting) -> tuple[int, int, int]:
    return one.late_sender_ns, one.late_receiver_ns, one.collective_ns


def test_a_receive_waits_until_its_message_is_sent() -> None:
    found = judged([("Send", 3000, 50, 8, 1, 0)], [("Recv", 1000, 2500, 8, 0, 0)])
    assert by_kind(found.ranks[1]) == (2000, 0, 0)
    assert (found.ranks[1].mpi_ns, found.ranks[1].waiting_ns) == (2500, 2000)
    assert (found.ranks[0].waiting_ns, found.ranks[0].waited_for_ns) == (0, 2000)
    assert found.pairs == [PairWaiting(rank=1, late=0, waiting_ns=2000)]
    assert [(one.call, one.time_ns, one.waiting_ns) for one in found.calls] == [
        ("Recv", 2500, 2000),
        ("Send", 50, 0),
    ]


def test_a_message_that_is_there_is_not_waited_for() -> None:
    found = judged([("Send", 0, 50, 8, 1, 0)], [("Recv", 1000, 200, 8, 0, 0)])
    assert found.waiting_ns == 0
    assert found.mpi_ns == 250


def test_no_call_waits_longer_than_it_lasts() -> None:
    found = judged([("Send", 3000, 50, 8, 1, 0)], [("Recv", 1000, 400, 8, 0, 0)])
    assert found.ranks[1].waiting_ns == 400


def test_a_wait_for_receives_waits_for_the_last_sender() -> None:
    found = judged(
        [("Send", 3000, 50, 8, 2, 0)],
        [("Send", 4000, 50, 8, 2, 0)],
        [
            ("Irecv", 0, 10, 8, 0, 1),
            ("Irecv", 20, 10, 8, 1, 2),
            ("Waitall", 1000, 3100, 8, 0, 1),
            ("Waitall", 1000, 3100, 8, 1, 2),
        ],
    )
    assert by_kind(found.ranks[2]) == (3000, 0, 0)
    assert found.ranks[2].mpi_ns == 3120
    assert [(one.rank, one.late) for one in found.pairs] == [(2, 1)]


def test_a_send_waits_for_its_receiver_only_if_it_lasts_until_then() -> None:
    found = judged([("Send", 1000, 4500, LARGE, 1, 0)], [("Recv", 5000, 600, LARGE, 0, 0)])
    assert by_kind(found.ranks[0]) == (0, 4000, 0)
    buffered = judged([("Send", 1000, 50, 8, 1, 0)], [("Recv", 5000, 600, 8, 0, 0)])
    assert buffered.waiting_ns == 0


def test_a_wait_for_a_send_waits_for_the_receiver() -> None:
    found = judged(
        [("Isend", 0, 10, LARGE, 1, 1), ("Wait", 1000, 5000, LARGE, 1, 1)],
        [("Irecv", 4000, 10, LARGE, 0, 1), ("Wait", 4010, 2000, LARGE, 0, 1)],
    )
    assert by_kind(found.ranks[0]) == (0, 3000, 0)
    assert by_kind(found.ranks[1]) == (0, 0, 0)


def test_a_receiver_that_posted_early_is_not_late() -> None:
    found = judged(
        [("Send", 1000, 5000, LARGE, 1, 0)],
        [("Irecv", 0, 10, LARGE, 0, 1), ("Wait", 5500, 600, LARGE, 0, 1)],
    )
    assert found.waiting_ns == 0


def test_an_exchange_waits_for_the_other_way() -> None:
    found = judged(
        [("Sendrecv", 0, 3100, 8, 1, 0), ("Sendrecv_recv", 0, 3100, 8, 1, 0)],
        [("Sendrecv", 3000, 100, 8, 0, 0), ("Sendrecv_recv", 3000, 100, 8, 0, 0)],
    )
    assert found.ranks[0].waiting_ns == 3000
    assert found.ranks[0].mpi_ns == 3100
    assert found.ranks[1].waiting_ns == 0


def collective(name: str, root: int) -> Waiting:
    """Ranks 0, 1, 2 come at 0, 2000, 5000, and all leave at 6000."""
    return judged(*([(name, begin, 6000 - begin, 8, root, 0)] for begin in (0, 2000, 5000)))


@pytest.mark.parametrize(
    ("name", "root", "waits", "late"),
    [
        ("Allreduce", -2, [5000, 3000, 0], {2}),
        ("Barrier", -2, [5000, 3000, 0], {2}),
        ("Reduce", 0, [5000, 0, 0], {2}),
        ("Gather", 2, [0, 0, 0], set()),
        ("Bcast", 1, [2000, 0, 0], {1}),
        ("Scatter", 2, [5000, 3000, 0], {2}),
        ("Scan", -2, [0, 0, 0], set()),
        ("Neighbor_alltoall", -2, [0, 0, 0], set()),
    ],
)
def test_a_collective_waits_for_those_it_needs(
    name: str, root: int, waits: list[int], late: set[int]
) -> None:
    found = collective(name, root)
    assert [by_kind(one) for one in found.ranks] == [(0, 0, wait) for wait in waits]
    assert {one.late for one in found.pairs} == late


def test_a_scan_waits_for_the_ranks_before() -> None:
    found = judged(*([("Scan", begin, 6000 - begin, 8, -2, 0)] for begin in (4000, 1000, 2000)))
    assert [one.waiting_ns for one in found.ranks] == [0, 3000, 2000]


def test_there_are_three_pairs_the_longest_first() -> None:
    found = judged(
        [("Send", 9000, 10, 8, rank, 0) for rank in range(1, 5)],
        *([("Recv", 1000 * rank, 9100 - 1000 * rank, 8, 0, 0)] for rank in range(1, 5)),
    )
    assert [(one.rank, one.late, one.waiting_ns) for one in found.pairs] == [
        (1, 0, 8000),
        (2, 0, 7000),
        (3, 0, 6000),
    ]
    assert found.ranks[0].waited_for_ns == 8000 + 7000 + 6000 + 5000


def test_hosts_that_nothing_binds_to_each_other_are_not_compared() -> None:
    """Messages in one direction tell how much a clock is ahead at most, and not how much at least."""
    far, near = [("Send", 50_000, 10, 8, 1, 0)], [("Recv", 0, 51_000, 8, 0, 0)]
    found = judged(far, near, hosts=2)
    assert (found.hosts, found.clocks_apart, found.waiting_ns) == (2, 1, 0)
    assert judged(far, near).waiting_ns == 50_000


def test_hosts_are_compared_as_far_as_their_clocks_are_known() -> None:
    """They come out of the barrier together: by that the clock of the first is 8 us ahead, so it sends at 42 us."""
    far = [("Send", 50_000, 10, 8, 1, 0), ("Barrier", 60_000, 100, 0, -2, 0)]
    near = [("Recv", 0, 51_000, 8, 0, 0), ("Barrier", 52_000, 100, 0, -2, 0)]
    found = judged(far, near, hosts=2)
    assert (found.hosts, found.clocks_apart, found.clock_error_ns) == (2, 0, 100)
    assert by_kind(found.ranks[1]) == (42_000, 0, 0)


def test_a_collective_over_hosts_waits_for_all_of_them() -> None:
    begins = (0, 2000, 700_000, 703_000)
    found = judged(*([("Allreduce", begin, 9000, 8, -2, 0)] for begin in begins), hosts=2)
    assert found.clock_error_ns == 6500
    assert [one.waiting_ns for one in found.ranks] == [2500, 500, 3000, 0]


def test_a_collective_that_moves_nothing_binds_no_clocks() -> None:
    begins = (0, 2000, 700_000, 703_000)
    found = judged(*([("Allreduce", begin, 9000, 0, -2, 0)] for begin in begins), hosts=2)
    assert found.clocks_apart == 1
    assert [one.waiting_ns for one in found.ranks] == [2000, 0, 3000, 0]


def test_what_has_no_other_half_is_transfer() -> None:
    found = judged([("Recv", 0, 500, 8, 1, 0), ("Barrier", 600, 500, 0, -2, 0)], [])
    assert (found.waiting_ns, found.unmatched) == (0, 2)


def test_of_a_long_trace_the_first_part_is_judged() -> None:
    profile = traced(
        [("Send", 1000 * turn + 500, 10, 8, 1, 0) for turn in range(100)],
        [("Recv", 1000 * turn, 600, 8, 0, 0) for turn in range(100)],
    )
    found = waiting(profile, most_events=50)
    assert (found.events, found.of_events) == (50, 200)
    assert found.waiting_ns == 25 * 500
    assert waiting(profile).waiting_ns == 100 * 500


def test_calls_that_are_not_in_the_trace_are_counted() -> None:
    profile = traced([("Barrier", 0, 100, 0, -2, 0)], [("Barrier", 0, 100, 0, -2, 0)])
    profile.ranks[0].mpi_s = 700e-9
    profile.ranks[1].mpi_s = 0
    assert waiting(profile).untraced_ns == 600
    profile.ranks[1].events_complete = False
    assert waiting(profile).untraced_ns == 0


# ------------------------------------------------------------------------------------------------------------- shown


def said(profile: Profile, width: int = 120) -> str:
    out = io.StringIO()
    print_profile(Console(file=out, width=width), tables(profile))
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())


def words(profile: Profile) -> str:
    return " ".join(said(profile).split())


def test_the_late_rank_is_named() -> None:
    profile = traced([("Send", 900_000, 100_000, 8, 1, 0)], [("Recv", 0, 1_000_000, 8, 0, 0)])
    text = words(profile)
    assert (
        "→ 82 % of the time in MPI is waiting for other ranks; the rest is transfer. Rank 0 is late most: other ranks "
        "wait 900 µs for it, 100 % of all waiting. The longest waiting: rank 1 for rank 0 (900 µs)."
    ) in text
    assert re.search(r"^ +1 +1\.00 ms +900 µs +90 % +900 µs +0 ns +0 ns *$", said(profile), re.MULTILINE)
    assert re.search(r"^Recv +1 +1\.00 ms +900 µs +90 % *$", said(profile), re.MULTILINE)
    assert max(map(len, said(profile, 80).splitlines())) <= 80


def test_where_nobody_is_late_nobody_is_named() -> None:
    text = words(traced([("Send", 0, 100, 8, 1, 0)], [("Recv", 500, 100, 8, 0, 0)]))
    assert "0.0 % of the time in MPI is waiting for other ranks; the rest is transfer." in text
    assert "late most" not in text


def test_without_a_trace_it_is_said_how_to_get_one() -> None:
    text = words(profile_of([], []))
    assert "There is no trace" in text
    assert "profile the program again without --no-trace" in text


def test_a_damaged_trace_is_named() -> None:
    profile = traced([("Barrier", 0, 100, 0, -2, 0)], [("Barrier", 0, 100, 0, -2, 0)])
    profile.traces[1].columns["peer"] = "none"
    assert "cannot be told: the trace of rank 1 is damaged: peer cannot be read." in words(profile)


def test_many_ranks_are_those_that_wait_longest() -> None:
    ranks = [[("Barrier", 100 * rank, 5000 - 100 * rank, 0, -2, 0)] for rank in range(20)]
    text = said(traced(*ranks))
    assert re.search(r"^ *0 +5\.00 µs +1\.90 µs +38 % ", text, re.MULTILINE), text
    assert re.search(r"^ *4 others +", text, re.MULTILINE), text


def test_several_hosts_and_half_calls_are_said() -> None:
    profile = traced([("Recv", 0, 500, 8, 1, 0)], [("Barrier", 0, 5, 0, -2, 0)], hosts=2)
    text = words(profile)
    assert (
        "The ranks are on 2 hosts, whose clocks differ by times that the trace does not tell: waiting for a host of "
        "such a clock counts as transfer." in text
    )
    assert "2 calls lack their other half in the trace" in text
    text = words(traced(*([("Barrier", begin, 900, 0, -2, 0)] for begin in (0, 100, 50)), hosts=3))
    assert "The clocks of the hosts were compared by their messages, to ± 1.80 µs" in text
    assert "does not tell" not in text
