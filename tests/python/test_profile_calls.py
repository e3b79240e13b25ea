# SPDX-License-Identifier: Apache-2.0
"""The calls of a trace: every send with its receive, every collective with all its ranks, whatever is missing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from profiled import CALLS, NUMBERS, profile_of
from traced import Event, traced

from netpipe.profiles import NotAProfile, Profile
from netpipe.profiles.lines import Communicator
from netpipe.profiles.trace.calls import Calls, Kind, calls
from netpipe.profiles.trace.chosen import first_events

NOBODY = -2  # MPI_PROC_NULL
ANYBODY = -1


def found(*ranks: Sequence[Event], **more: object) -> Calls:
    return calls(traced(*ranks, **more))  # type: ignore[arg-type]


def pairs(made: Calls) -> set[tuple[int, int, int, int, int]]:
    """Source, target, bytes, when it was sent and when its receive began."""
    return {(one.source, one.target, one.bytes, one.sent_ns, one.posted_ns) for one in made.messages}


def kinds(made: Calls, rank: int) -> list[Kind]:
    return [one.kind for one in made.ranks[rank]]


def test_messages_of_one_stream_keep_their_order() -> None:
    made = found(
        [("Send", 0, 5, 8, 1, 0), ("Send", 10, 5, 16, 1, 0)],
        [("Recv", 100, 5, 64, 0, 0), ("Recv", 200, 5, 64, 0, 0)],
    )
    assert pairs(made) == {(0, 1, 8, 0, 100), (0, 1, 16, 10, 200)}
    assert made.unmatched == 0


def test_tags_and_communicators_are_streams_of_their_own() -> None:
    sends: list[Event] = [("Send", 0, 5, 8, 1, 0), ("Send", 10, 5, 16, 1, 0)]
    receives: list[Event] = [("Recv", 100, 5, 16, 0, 0), ("Recv", 200, 5, 8, 0, 0)]
    by_tag = found(sends, receives, tags=[[1, 2], [2, 1]])
    by_communicator = found(sends, receives, communicators=[[0, 1], [1, 0]])
    assert pairs(by_tag) == pairs(by_communicator) == {(0, 1, 8, 0, 200), (0, 1, 16, 10, 100)}


def test_a_message_to_oneself_has_both_halves() -> None:
    made = found([("Irecv", 0, 5, 8, 0, 1), ("Send", 10, 5, 8, 0, 0), ("Wait", 20, 5, 8, 0, 1)])
    assert pairs(made) == {(0, 0, 8, 10, 0)}
    assert kinds(made, 0) == [Kind.START, Kind.SEND, Kind.WAIT]


def test_a_receive_from_anybody_is_of_who_sent() -> None:
    """The call that completes it tells who, and with which tag."""
    made = found(
        [("Send", 0, 5, 8, 2, 0)],
        [("Send", 100, 5, 16, 2, 0)],
        [
            ("Irecv", 0, 5, 64, ANYBODY, 1),
            ("Irecv", 5, 5, 64, ANYBODY, 2),
            ("Waitany", 10, 95, 64, 1, 1),
            ("Waitany", 120, 5, 64, 0, 2),
        ],
        tags=[[3], [4], [-1, -1, 4, 3]],
    )
    assert pairs(made) == {(0, 2, 8, 0, 5), (1, 2, 16, 100, 0)}
    sources = [[made.messages[number].source for number in one.receives] for one in made.ranks[2]]
    assert sources == [[1], [0], [1], [0]]


def test_tests_complete_what_they_find() -> None:
    made = found(
        [("Isend", 0, 5, 8, 1, 1), ("Test", 50, 5, 8, 1, 1)],
        [("Irecv", 0, 5, 8, 0, 1), ("Testsome", 90, 5, 8, 0, 1)],
    )
    assert kinds(made, 0) == kinds(made, 1) == [Kind.START, Kind.WAIT]
    assert made.ranks[0][1].sends == made.ranks[1][1].receives == [0]
    assert made.messages[0].received_ns == 95


def test_a_persistent_request_is_a_message_each_time() -> None:
    sender: list[Event] = [("Send_init", 0, 5, 8, 1, 0)]
    receiver: list[Event] = [("Recv_init", 0, 5, 8, 0, 0)]
    for turn in (1, 2):
        sender += [("Start_send", 100 * turn, 5, 8, 1, turn), ("Wait", 100 * turn + 20, 5, 8, 1, turn)]
        receiver += [("Start_recv", 100 * turn, 5, 8, 0, turn), ("Wait", 100 * turn + 20, 9, 8, 0, turn)]
    made = found(sender, receiver)
    assert pairs(made) == {(0, 1, 8, 100, 100), (0, 1, 8, 200, 200)}
    assert kinds(made, 0) == [Kind.OTHER, Kind.START, Kind.WAIT, Kind.START, Kind.WAIT]


def test_requests_that_one_call_starts_have_its_time_once() -> None:
    made = found([("Start_send", 0, 90, 8, peer, peer) for peer in (1, 2, 3)], [], [], [])
    assert [one.took_ns for one in made.ranks[0]] == [90, 0, 0]
    assert [one.before_ns for one in made.ranks[0]] == [0, 0, 0]


def exchange(begin: int, to: int, source: int) -> list[Event]:
    return [("Sendrecv", begin, 50, 8, to, 0), ("Sendrecv_recv", begin, 50, 8, source, 0)]


def test_an_exchange_is_one_call_that_does_both() -> None:
    made = found(exchange(0, 1, 1), exchange(10, 0, 0))
    assert kinds(made, 0) == kinds(made, 1) == [Kind.BOTH]
    assert pairs(made) == {(0, 1, 8, 0, 10), (1, 0, 8, 10, 0)}


def test_a_shift_ends_at_nobody() -> None:
    """The ends of a chain send or receive only."""
    made = found(exchange(0, 1, NOBODY), exchange(0, 2, 0), exchange(0, NOBODY, 1))
    assert [kinds(made, rank) for rank in range(3)] == [[Kind.SEND], [Kind.BOTH], [Kind.RECV]]
    assert made.unmatched == 0


def test_an_exchange_keeps_the_half_that_has_its_other_half() -> None:
    made = found(exchange(0, 1, 1), [("Recv", 0, 50, 8, 0, 0)])
    assert kinds(made, 0) == [Kind.SEND]
    assert made.unmatched == 1


def test_an_exchange_that_is_started_ends_with_its_wait() -> None:
    def started(peer: int) -> list[Event]:
        return [
            ("Isendrecv", 0, 5, 8, peer, 1),
            ("Sendrecv_recv", 0, 5, 8, peer, 0),
            ("Wait", 50, 40, 8, peer, 1),
        ]

    made = found(started(1), started(0))
    assert kinds(made, 0) == [Kind.START, Kind.WAIT]
    assert (len(made.ranks[0][1].sends), len(made.ranks[0][1].receives)) == (1, 1)
    assert {one.received_ns for one in made.messages} == {90}


def test_an_exchange_that_is_started_learns_its_sender_with_its_wait() -> None:
    def started(to: int, source: int) -> list[Event]:
        return [
            ("Isendrecv", 0, 5, 8, to, 1),
            ("Sendrecv_recv", 0, 5, 8, ANYBODY, 1),
            ("Wait", 50, 40, 8, source, 1),
        ]

    made = found(started(1, 2), started(2, 0), started(0, 1))
    assert {(one.source, one.target, one.received_ns) for one in made.messages} == {
        (0, 1, 90),
        (1, 2, 90),
        (2, 0, 90),
    }
    assert made.unmatched == 0


def test_a_receive_from_anybody_learns_its_sender_beyond_what_is_read() -> None:
    profile = traced(
        [("Send", 0, 5, 8, 1, 0), ("Barrier", 500, 5, 0, -2, 0)],
        [("Irecv", 10, 5, 8, ANYBODY, 1), ("Barrier", 500, 5, 0, -2, 0), ("Wait", 900, 5, 8, 0, 1)],
    )
    made = calls(profile, chosen=first_events(profile, 2))
    assert made.events == 2
    assert pairs(made) == {(0, 1, 8, 0, 10)}


def test_messages_to_nobody_are_none() -> None:
    made = found(
        [("Send", 0, 5, 8, NOBODY, 0), ("Irecv", 10, 5, 8, NOBODY, 1), ("Wait", 20, 5, 8, NOBODY, 1)]
    )
    assert set(kinds(made, 0)) == {Kind.OTHER}
    assert (made.messages, made.unmatched) == ([], 0)


def test_what_has_no_other_half_takes_what_it_took() -> None:
    made = found(
        [("Send", 0, 5, 8, 1, 0), ("Send", 10, 5, 8, 1, 0)],
        [("Recv", 0, 5, 8, 0, 0), ("Irecv", 10, 5, 8, 2, 1), ("Wait", 20, 700, 8, 2, 1)],
        [],
    )
    assert kinds(made, 0) == [Kind.SEND, Kind.OTHER]
    assert kinds(made, 1) == [Kind.RECV, Kind.START, Kind.OTHER]
    assert made.unmatched == 2


def test_a_send_that_is_missing_does_not_shift_the_others() -> None:
    """Of phase 0, say: what was received before it was sent was another message."""
    receives: list[Event] = [("Recv", 1000 + 100_000 * turn, 50, 8, 0, 0) for turn in range(3)]
    sends: list[Event] = [("Send", 100_000 * turn, 50, 8, 1, 0) for turn in (1, 2)]
    made = found(sends, receives)
    assert pairs(made) == {(0, 1, 8, 100_000, 101_000), (0, 1, 8, 200_000, 201_000)}
    assert made.unmatched == 1
    assert kinds(made, 1) == [Kind.OTHER, Kind.RECV, Kind.RECV]


def test_clocks_of_two_hosts_do_not_tell_that() -> None:
    made = found([("Send", 900_000, 50, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)], hosts=2)
    assert (len(made.messages), made.unmatched) == (1, 0)


def test_the_clock_of_another_host_is_no_computation() -> None:
    day = 86_400 * 10**9
    made = found([("Barrier", 1000, 50, 0, -2, 0)], [("Barrier", day, 50, 0, -2, 0)], hosts=2)
    assert made.ranks[1][0].before_ns == 1000
    assert made.ranks[0][0].before_ns == 1000


def test_a_trace_that_ends_early_leaves_the_rest_alone() -> None:
    profile = traced(
        [("Send", 0, 5, 8, 1, 0), ("Barrier", 10, 5, 0, -2, 0)],
        [
            ("Recv", 0, 9, 8, 0, 0),
            ("Barrier", 10, 5, 0, -2, 0),
            ("Recv", 20, 9, 8, 0, 0),
            ("Barrier", 30, 5, 0, -2, 0),
        ],
    )
    profile.ranks[0].events_complete = False
    made = calls(profile)
    assert made.truncated == [0]
    assert kinds(made, 1) == [Kind.RECV, Kind.COLLECTIVE, Kind.OTHER, Kind.OTHER]
    assert made.unmatched == 2


def test_collectives_are_counted_on_each_communicator() -> None:
    profile = traced(
        *([("Allreduce", 0, 5, 8, -2, 0), ("Barrier", 10, 5, 0, -2, 0)] for _ in range(3)),
        communicators=[[1, 0], [1, 0], [2, 0]],
    )
    profile.communicators[1] = Communicator(communicator=1, size=2, members=[0, 1])
    profile.communicators[2] = Communicator(communicator=2, size=1, members=[2])
    made = calls(profile)
    assert {(one.name, frozenset(one.members)) for one in made.groups} == {
        ("Allreduce", frozenset({0, 1})),
        ("Allreduce", frozenset({2})),
        ("Barrier", frozenset({0, 1, 2})),
    }
    assert made.unmatched == 0


@pytest.mark.parametrize(
    "events",
    [
        [("Barrier", 0, 5, 0, -2, 0), ("Bcast", 0, 5, 8, 0, 0)],
        [("Bcast", 0, 5, 8, 1, 0), ("Bcast", 0, 5, 8, 0, 0)],
    ],
)
def test_ranks_that_do_not_agree_leave_a_collective_as_it_was(events: list[Event]) -> None:
    """On all of them: one that waited for the others would wait for ever."""
    made = found(*([event] for event in events))
    assert [kinds(made, rank) for rank in (0, 1)] == [[Kind.OTHER], [Kind.OTHER]]
    assert made.unmatched == 2


def test_a_collective_that_is_started_is_no_message() -> None:
    made = found(*([("Iallreduce", 0, 5, 8, -2, 1), ("Wait", 50, 70, 8, -2, 1)] for _ in range(2)))
    assert kinds(made, 0) == [Kind.OTHER, Kind.OTHER]
    assert made.ranks[0][1].took_ns == 70


def test_what_each_rank_gives_is_kept() -> None:
    made = found(*([("Gatherv", 0, 5, size, 0, 0)] for size in (8, 24, 16)))
    assert [made.groups[0].gives(rank) for rank in range(3)] == [8, 24, 16]


def test_the_computation_has_no_part_of_the_profiler() -> None:
    profile = traced([("Barrier", 1000, 5, 0, -2, 0), ("Barrier", 1010, 5, 0, -2, 0)])
    assert [one.before_ns for one in calls(profile, 25).ranks[0]] == [975, 0]


def test_the_first_part_of_a_long_trace_is_read_of_all_ranks() -> None:
    profile = traced(*([("Barrier", 100 * turn, 5, 0, -2, 0) for turn in range(100)] for _ in range(2)))
    made = calls(profile, chosen=first_events(profile, 50))
    assert [len(some) for some in made.ranks.values()] == [25, 25]
    assert (made.events, made.unmatched) == (50, 0)
    assert first_events(profile, 200) is None


def test_no_trace_and_a_foreign_call_are_said() -> None:
    with pytest.raises(NotAProfile, match="has no trace"):
        calls(profile_of([], []))
    profile: Profile = traced([("Barrier", 0, 5, 0, -2, 0)])
    profile.header.calls = CALLS[: NUMBERS["Barrier"]]
    with pytest.raises(NotAProfile, match="the trace of rank 0 is damaged: it has a call"):
        calls(profile)
