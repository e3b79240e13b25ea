# SPDX-License-Identifier: Apache-2.0
"""Replaying a profile with other costs: programs of a few calls, whose time can be added up by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from profiled import ANY, CALLS, NUMBERS, profile_of

from netpipe.cli.predict import _launches
from netpipe.cli.predict.measured import add_first
from netpipe.failure import Failure
from netpipe.prediction.costs import Costs, Factors, Sized, Times, costs
from netpipe.prediction.predict import predict, wanted
from netpipe.prediction.replay import Replayed, Stuck, replay
from netpipe.profiles import NotAProfile, Profile, Trace
from netpipe.profiles.contact import first_ns
from netpipe.profiles.lines import Communicator, write
from netpipe.profiles.trace.calls import calls
from netpipe.reading import Reading
from netpipe.records import SCHEMA, End, Header, Point, Run, Variant, encode
from netpipe.records import Rank as MeasuredRank

LATENCY, EXCHANGE, SEND, RECV = 1000.0, 1500.0, 100.0, 200.0  # ns, of every size
EAGER = 4096

Event = tuple[str, int, int, int, int, int]  # call, begin, took, bytes, peer, request


def traced(*ranks: Sequence[Event], tag: int = 7) -> Profile:
    """A profile of these calls; collectives are those of all ranks."""
    profile = profile_of(*([] for _ in ranks), calls=CALLS)
    profile.communicators[0] = Communicator(communicator=0, size=len(ranks), members=list(range(len(ranks))))
    for rank, events in enumerate(ranks):
        columns = {
            "begin_ns": [event[1] for event in events],
            "duration_ns": [event[2] for event in events],
            "bytes": [event[3] for event in events],
            "request": [event[5] for event in events],
            "peer": [event[4] for event in events],
            "tag": [tag for _ in events],
            "call": [NUMBERS[event[0]] for event in events],
            "communicator": [0 for _ in events],
            "phase": [1 for _ in events],
        }
        profile.traces[rank] = Trace.of(rank, {name: np.array(values) for name, values in columns.items()})
    return profile


def one_message() -> Profile:
    return traced([("Send", 0, 9, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])


def flat(time: float) -> Sized:
    return Sized({1: time, 1 << 30: time})


def plain(eager: Callable[[int], bool] = lambda size: size <= EAGER) -> Costs:
    return Costs("mpi@x", flat(LATENCY), flat(EXCHANGE), flat(SEND), flat(RECV), eager)


def replayed(*ranks: Sequence[Event]) -> Replayed:
    return replay(calls(traced(*ranks)), plain())


def test_a_receive_that_waits_takes_the_latency() -> None:
    found = replayed([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
    assert found.by_rank == {0: SEND, 1: LATENCY}


def test_a_message_that_is_there_costs_its_copy() -> None:
    found = replayed([("Send", 0, 5, 8, 1, 0)], [("Recv", 5000, 50, 8, 0, 0)])
    assert found.by_rank[1] == RECV
    assert found.waiting[1] == 0


def test_a_late_sender_is_waited_for() -> None:
    found = replayed([("Send", 3000, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
    assert found.by_rank[1] == 3000 + LATENCY
    assert found.waiting[1] == 3000


def test_a_large_message_waits_for_its_receiver() -> None:
    found = replayed([("Send", 0, 5, 1 << 20, 1, 0)], [("Recv", 4000, 50, 1 << 20, 0, 0)])
    assert found.by_rank == {0: 4000 + LATENCY, 1: LATENCY}
    assert found.waiting[0] == 4000


def test_computation_between_calls_stays() -> None:
    found = replayed(
        [("Send", 0, 5, 8, 1, 0), ("Send", 10_005, 5, 8, 1, 0)],
        [("Recv", 0, 50, 8, 0, 0), ("Recv", 50, 50, 8, 0, 0)],
    )
    assert found.wall == SEND + 10_000 + LATENCY


def test_a_started_send_moves_when_both_wait() -> None:
    large = 1 << 20
    found = replayed(
        [("Isend", 0, 10, large, 1, 1), ("Wait", 5010, 10, large, 1, 1)],
        [("Irecv", 0, 10, large, 0, 1), ("Wait", 2010, 10, large, 0, 1)],
    )
    # The sender comes to wait after its call, which costs a small send, and 5000 of computation.
    assert found.by_rank[0] == SEND + LATENCY
    assert found.wall == SEND + 5000 + LATENCY


def test_two_large_sends_at_once_meet_posted_receives() -> None:
    large = 1 << 20
    one = [("Irecv", 0, 1, large, 1, 1), ("Send", 1, 50, large, 1, 0), ("Wait", 51, 50, large, 1, 1)]
    other = [("Irecv", 0, 1, large, 0, 1), ("Send", 1, 50, large, 0, 0), ("Wait", 51, 50, large, 0, 1)]
    assert replayed(one, other).wall == 1 + EXCHANGE


def test_one_wait_for_several_messages() -> None:
    found = replayed(
        [("Send", 0, 5, 8, 1, 0), ("Send", 5, 5, 16, 1, 0)],
        [
            ("Irecv", 0, 0, 8, 0, 1),
            ("Irecv", 1, 0, 16, 0, 2),
            ("Waitall", 2, 50, 8, 0, 1),
            ("Waitall", 2, 50, 16, 0, 2),
        ],
    )
    # The second is copied when the first has been: that ends when the first has its latency, 2 ns after the call began.
    assert found.by_call["Waitall", 8] == LATENCY + RECV - 2


def test_messages_each_way_at_once_cost_an_exchange() -> None:
    one = [("Irecv", 0, 0, 8, 1, 1), ("Send", 0, 50, 8, 1, 0), ("Wait", 50, 50, 8, 1, 1)]
    other = [("Irecv", 0, 0, 8, 0, 1), ("Send", 0, 50, 8, 0, 0), ("Wait", 50, 50, 8, 0, 1)]
    assert replayed(one, other).wall == EXCHANGE


def test_a_collective_ends_after_the_last_rank_has_come() -> None:
    found = calls(traced([("Allreduce", 0, 9, 8, -2, 0)], [("Allreduce", 7000, 9, 8, -2, 0)]))
    known = plain()
    known.collectives["Allreduce", 2] = flat(300.0)
    done = replay(found, known)
    assert done.by_rank == {0: 7300, 1: 300}
    assert done.waiting == {0: 7000, 1: 0}
    assert done.without_curve == {}


def test_a_collective_without_a_curve_is_said() -> None:
    done = replay(calls(traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4)), plain())
    assert done.without_curve == {("Allreduce", 4): 1}
    assert done.wall == 2 * LATENCY


def test_the_root_of_a_broadcast_does_not_wait() -> None:
    known = plain()
    known.collectives["Bcast", 2] = flat(400.0)
    done = replay(calls(traced([("Bcast", 0, 9, 8, 0, 0)], [("Bcast", 9000, 9, 8, 0, 0)])), known)
    assert done.by_rank == {0: SEND, 1: 400}


def test_an_all_to_all_is_looked_up_by_what_goes_to_each() -> None:
    known = plain()
    known.collectives["Alltoall", 2] = Sized({512: 10.0, 1024: 77.0})
    done = replay(calls(traced(*[[("Alltoall", 0, 9, 2048, -2, 0)]] * 2)), known)
    assert done.wall == 77


def test_half_a_message_takes_what_it_took() -> None:
    found = calls(traced([("Send", 0, 5, 8, 1, 0)], []))
    assert found.unmatched == 1
    assert replay(found, plain()).by_rank[0] == 5


def test_calls_that_wait_for_each_other_are_named() -> None:
    large = 1 << 20
    both = calls(
        traced(
            [("Send", 0, 5, large, 1, 0), ("Recv", 5, 5, large, 1, 0)],
            [("Send", 0, 5, large, 0, 0), ("Recv", 5, 5, large, 0, 0)],
        )
    )
    with pytest.raises(Stuck, match="waits in MPI_Send"):
        replay(both, plain())


@pytest.mark.parametrize("sender", [0, 1])
def test_a_message_moves_also_if_the_trace_ends_before_its_sender_waits(sender: int) -> None:
    large, receiver = 1 << 20, 1 - sender
    made = {
        sender: [("Isend", 0, 10, large, receiver, 1)],
        receiver: [("Recv", 9000, 50, large, sender, 0)],
    }
    assert replayed(made[0], made[1]).by_rank == {sender: SEND, receiver: LATENCY}


@pytest.mark.parametrize("sender", [0, 1])
def test_a_message_moves_also_if_the_trace_ends_before_its_receiver_waits(sender: int) -> None:
    large, receiver = 1 << 20, 1 - sender
    made = {
        sender: [("Send", 0, 50, large, receiver, 0)],
        receiver: [("Irecv", 9000, 10, large, sender, 1)],
    }
    assert replayed(made[0], made[1]).by_rank[sender] == pytest.approx(9000 + LATENCY, abs=10)


def test_a_profile_without_a_trace_says_how_to_get_one() -> None:
    with pytest.raises(NotAProfile, match="--no-trace"):
        calls(profile_of([]))


def test_a_wildcard_receive_is_that_of_its_message() -> None:
    found = calls(
        traced(
            [("Send", 0, 5, 8, 1, 0)],
            [("Irecv", 0, 1, 8, ANY, 1), ("Wait", 1, 50, 8, 0, 1)],
        )
    )
    assert [(one.source, one.target) for one in found.messages] == [(0, 1)]
    assert found.unmatched == 0


# --------------------------------------------------------------------------------------------------------- costs


def test_sizes_between_and_beyond() -> None:
    sized = Sized({8: 10.0, 32: 40.0})
    assert sized(8) == 10
    assert sized(16) == pytest.approx(20)
    assert sized(4) == 10
    assert sized(64) == 80


def test_what_if() -> None:
    sized = Sized({1: 1000.0, 1 << 20: 101_000.0})
    changed = sized.changed(Factors(latency=0.5, bandwidth=2))
    assert changed(1) == 500
    assert changed(1 << 20) == 500 + 50_000


def point(pattern: str, size: int, time_ns: float, variant: str = "mpi@x") -> Point:
    half = 0.1 * time_ns
    return Point(
        variant=variant,
        pattern=pattern,
        size_bytes=size,
        median_ns=time_ns,
        low_ns=time_ns - half,
        high_ns=time_ns + half,
        half_width=0.1,
        samples=100,
        ops=1,
    )


def run_of(*points: Point) -> Reading:
    run = Run()
    run.points += points
    ranks = [MeasuredRank(rank=0), MeasuredRank(rank=1)]
    for name in dict.fromkeys(one.variant for one in points):
        run.variants.append(Variant(variant=name, module="mpi@x", ranks=ranks))
    return Reading(run)


def test_costs_of_a_run() -> None:
    reading = run_of(
        point("pingpong", 8, 1000), point("pingpong", 1 << 20, 50_000), point("collective:what=bcast", 8, 700)
    )
    found = costs(reading)["mpi@x"]
    assert found.latency(8) == 1000
    assert found.collective("Bcast", 2, 8) == 700
    assert found.collective("Bcast", 4, 8) is None
    assert found.collective("Reduce", 2, 8) is None
    assert set(found.guessed) == {"bidirectional", "overhead", "window", "window:directions=both"}
    assert costs(reading, "low")["mpi@x"].latency(8) == pytest.approx(900)


def test_the_interval_holds_the_error_on_the_own_library() -> None:
    program = traced([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
    for rank in program.ranks:
        rank.mpi_s = 3e-6  # measured; the model says half the send and receive of 1 us: 0.75 us in the mean
    found = predict(program, run_of(point("pingpong", 8, 1000)), own="mpi@x")
    assert found.residual is not None
    assert found.residual.predicted == pytest.approx(0.75e-6)
    assert found.variants[0].high >= 3e-6


def test_sizes_beyond_any_curve_are_said() -> None:
    program = traced([("Send", 0, 5, 9999, 1, 0)], [("Recv", 0, 50, 9999, 0, 0)])
    assert any("9999 bytes" in note for note in predict(program, run_of(point("pingpong", 8, 1000))).notes)


def test_a_program_of_collectives_alone() -> None:
    program = traced(*[[("Alltoall", 0, 9, 2048, -2, 0)]] * 2)
    assert wanted(calls(program))["pingpong"] == {8}
    # those to one rank, as the curve counts
    assert wanted(calls(program))["collective:what=alltoall"] == {1024}


def test_what_has_to_be_measured() -> None:
    program = traced(
        [("Send", 0, 5, 8, 1, 0), ("Allreduce", 9, 9, 16, -2, 0)],
        [("Recv", 0, 5, 8, 0, 0), ("Allreduce", 9, 9, 16, -2, 0)],
    )
    assert wanted(calls(program)) == {
        "pingpong": {8},
        "bidirectional": {8},
        "overhead:side=send": {8},
        "overhead:side=recv": {8},
        "overhead:side=send,call=blocking": {8},
        "collective:what=allreduce": {16},
    }


def test_reductions_are_measured_in_whole_doubles() -> None:
    program = traced(*[[("Allreduce", 0, 9, 4116, -2, 0)]] * 2)
    assert wanted(calls(program))["collective:what=allreduce"] == {4120}


# ------------------------------------------------------------------------------------------- terms of the model


def test_a_message_of_a_rank_to_itself_takes_what_it_took() -> None:
    found = replayed(
        [("Irecv", 0, 3, 1 << 20, 0, 1), ("Send", 3, 40, 1 << 20, 0, 0), ("Wait", 43, 7, 1 << 20, 0, 1)]
    )
    assert found.by_rank[0] == 3 + 40 + 7


def test_a_message_of_a_rank_to_itself_takes_as_much_longer_as_the_library_does() -> None:
    known = plain()
    known.within = Times(flat(6000.0), flat(2000.0))
    to_itself = [("Irecv", 0, 3, 4096, 0, 1), ("Send", 3, 40, 4096, 0, 0), ("Wait", 43, 7, 4096, 0, 1)]
    assert replay(calls(traced(to_itself)), known).by_rank[0] == 3 * (3 + 40 + 7)


def test_messages_to_itself_are_measured_where_the_program_sends_such() -> None:
    to_itself = [("Irecv", 0, 3, 4096, 0, 1), ("Send", 3, 40, 4096, 0, 0), ("Wait", 43, 7, 4096, 0, 1)]
    assert wanted(calls(traced(to_itself)))["itself"] == {4096}
    assert "itself" not in wanted(calls(one_message()))


def test_the_first_message_between_two_ranks_connects_them() -> None:
    known = plain()
    known.first = 10_000.0
    send, receive = ("Send", 0, 5, 8, 1, 0), ("Recv", 0, 50, 8, 0, 0)
    once = replay(calls(traced([send], [receive])), known)
    assert once.by_rank == {0: 10_000 + SEND, 1: 10_000 + LATENCY}
    twice = replay(
        calls(traced([send, ("Send", 5, 5, 8, 1, 0)], [receive, ("Recv", 50, 50, 8, 0, 0)])), known
    )
    assert twice.wall < 2 * 10_000


def test_the_first_collective_connects_and_the_second_does_not() -> None:
    known = plain()
    known.first = 10_000.0
    known.collectives["Allreduce", 2] = flat(300.0)
    done = replay(calls(traced(*[[("Allreduce", 0, 9, 8, -2, 0), ("Allreduce", 9, 9, 8, -2, 0)]] * 2)), known)
    assert done.by_rank == {0: 10_600, 1: 10_600}


def test_a_blocking_send_takes_what_blocking_sends_take() -> None:
    known = plain()
    known.blocking = flat(700.0)
    assert (
        replay(calls(traced([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])), known).by_rank[0] == 700
    )


def test_an_exchange_takes_no_less_than_a_message() -> None:
    found = costs(run_of(point("pingpong", 8, 1000), point("bidirectional", 8, 400)))["mpi@x"]
    assert found.exchange(8) == 1000


def test_the_first_message_is_read_off_the_run() -> None:
    found = costs(run_of(point("pingpong", 8, 1000), point("first", 4, 5e6)))["mpi@x"]
    assert found.first == 5e6


def test_what_the_model_does_not_explain_is_carried_over() -> None:
    program = traced([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
    for rank in program.ranks:
        rank.mpi_s = 3e-6
    reading = run_of(point("pingpong", 8, 1000, "mpi@a"), point("pingpong", 8, 9000, "mpi@b"))
    found = {one.variant: one for one in predict(program, reading, own="mpi@a").variants}
    assert found["mpi@a"].seconds == pytest.approx(3e-6)
    assert found["mpi@b"].seconds == pytest.approx(3e-6 + 0.75 * 8e-6)


@pytest.mark.parametrize("measured", [0.1e-6, 0.5e-6, 3e-6, 90e-6])
def test_over_its_own_library_a_prediction_is_what_the_profile_has(measured: float) -> None:
    program = traced([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
    for rank in program.ranks:
        rank.mpi_s = measured
    reading = run_of(point("pingpong", 8, 1000, "mpi@a"))  # by which it takes 0.75 us
    assert predict(program, reading, own="mpi@a").variants[0].seconds == pytest.approx(measured)


def test_of_several_launches_the_median_counts() -> None:
    launches = []
    for late in (0, 2000, 9000):
        program = traced([("Send", late, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
        for rank in program.ranks:
            rank.mpi_s = (1000 + late) * 1e-9
        launches.append(program)
    found = predict(launches, run_of(point("pingpong", 8, 1000)))
    assert found.launches == 3
    assert found.measured == pytest.approx(3e-6)
    assert (
        found.variants[0].seconds
        == predict(launches[1], run_of(point("pingpong", 8, 1000))).variants[0].seconds
    )


def test_the_first_call_that_exchanges_is_the_first_contact() -> None:
    program = traced(
        [("Bcast", 0, 900, 8, 0, 0), ("Send", 950, 5, 8, 1, 0)],
        [("Bcast", 0, 700, 8, 0, 0), ("Recv", 700, 300, 8, 0, 0)],
    )
    assert first_ns(program) == 700


def test_first_messages_are_added_to_a_run_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with path.open("wb") as file:
        for record in (
            Header(schema=SCHEMA, run="0" * 32),
            point("pingpong", 8, 1000),
            End(exit=0, reason="done"),
        ):
            file.write(encode(record) + b"\n" * (not encode(record).endswith(b"\n")))
    add_first(path, {"mpi@x": [7000, 9000, 8000], "mpi@y": []})
    found = costs(Reading(Run.read(path)))
    assert found["mpi@x"].first == 8000
    assert costs(Reading(Run.read(path)), "high")["mpi@x"].first == 9000


def test_a_library_that_takes_longer_for_messages_to_itself_is_predicted_to_take_longer() -> None:
    profile = traced(
        [("Irecv", 0, 3, 4096, 0, 1), ("Send", 3, 4000, 4096, 0, 0), ("Wait", 4003, 7, 4096, 0, 1)]
    )
    points = [
        msgspec.structs.replace(point(pattern, 4096, time), variant=variant)
        for variant, times in (("mpi@x", 2000.0), ("mpi@y", 8000.0))
        for pattern, time in (("pingpong", 1000.0), ("itself", times))
    ]
    reading = run_of(*points)
    found = predict(profile, reading, own="mpi@x")
    seconds = {one.variant: one.seconds for one in found.variants}
    assert seconds["mpi@x"] == pytest.approx(found.measured)
    assert seconds["mpi@y"] - seconds["mpi@x"] == pytest.approx(3 * 4010e-9)


def test_profiles_of_two_commands_are_refused(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        program = traced([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
        program.header.command = [name]
        paths.append(tmp_path / f"{name}.jsonl")
        write(program, paths[-1])
    launches, runs = _launches(paths[0], (paths[0], tmp_path / "run.jsonl"))
    assert len(launches) == 2
    assert runs == (tmp_path / "run.jsonl",)
    with pytest.raises(Failure, match="another command"):
        _launches(paths[0], (paths[1],))
