# SPDX-License-Identifier: Apache-2.0
"""Curves within a host and curves between hosts: which run is which, and which messages take which."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import traced
from test_prediction import EXCHANGE, LATENCY, SEND, Event, flat, plain, point
from test_prediction_runs import SHM, TCP, names, run, saved

from netpipe.prediction import costs, one_run, own_variant, predict, sensitivities
from netpipe.prediction.costs import Costs
from netpipe.prediction.lacking import lacking, without_first
from netpipe.prediction.replay import replay
from netpipe.profiles import Profile
from netpipe.profiles.lines import write
from netpipe.profiles.trace.calls import calls
from netpipe.reading import Reading
from netpipe.records import Point, Run
from netpipe.render.lacking import between_command, measure_command
from netpipe.render.terminal.sensitivity import sentences

if TYPE_CHECKING:
    from conftest import Netpipe

FAR = 9000.0  # ns, of a message of every size between hosts
NEAR_HOSTS, FAR_HOSTS = ("node0", "node0"), ("node0", "node1")
SEND_8: Event = ("Send", 0, 9, 8, 1, 0)
RECV_8: Event = ("Recv", 0, 50, 8, 0, 0)


def on(found: Run, hosts: Sequence[str]) -> Run:
    for variant in found.variants:
        variant.ranks = [
            msgspec.structs.replace(rank, host=hosts[rank.rank % len(hosts)]) for rank in variant.ranks
        ]
    return found


def near(name: str = "a", *more: Point, variant: str = SHM) -> Run:
    return on(run(name, point("pingpong", 8, LATENCY, variant), *more), NEAR_HOSTS)


def far(name: str = "b", *more: Point, variant: str = SHM, completes: tuple[str, ...] = ()) -> Run:
    return on(run(name, point("pingpong", 8, FAR, variant), *more, completes=completes), FAR_HOSTS)


def two_hosts(*ranks: Sequence[Event]) -> Profile:
    return traced.traced(*ranks, hosts=2)


def message_between() -> Profile:
    return two_hosts([SEND_8], [RECV_8])


def both(first: Run, *others: Run) -> Reading:
    return Reading(one_run([first, *others]))


# ------------------------------------------------------------------------------------------------- which run is which


@pytest.mark.parametrize("order", [1, -1])
def test_a_run_within_a_host_and_one_between_hosts_are_the_curves_of_one_variant(order: int) -> None:
    (found,) = costs(both(*[near(), far()][::order])).values()
    assert found.variant == SHM
    assert (found.latency(8), found.of(far=True).latency(8)) == (LATENCY, FAR)


def test_curves_between_hosts_alone_are_those_of_all_messages_and_so_are_those_within_one() -> None:
    for alone, time in ((near(), LATENCY), (far(), FAR)):
        (found,) = costs(both(alone)).values()
        assert found.far is None
        assert found.of(far=True).latency(8) == found.of(far=False).latency(8) == time


def test_a_variant_of_two_runs_within_a_host_stays_two_and_is_not_joined() -> None:
    whole = one_run([near("a"), near("c"), far("b")])
    assert set(names(whole)) == {f"{SHM} @a", f"{SHM} @c", f"{SHM} @b"}
    assert all(one.far is None for one in costs(Reading(whole)).values())


def test_the_own_variant_is_found_by_its_plain_name() -> None:
    for order in ([near(), far()], [far(), near()]):
        assert own_variant(message_between(), one_run(order), SHM) == SHM


def test_what_completes_a_run_between_hosts_within_one_is_no_curve_between_hosts() -> None:
    more = on(run("c", point("pingpong", 8, LATENCY, SHM), completes=("b",)), NEAR_HOSTS)
    (found,) = costs(both(far(), more)).values()
    assert (found.latency(8), found.of(far=True).latency(8)) == (LATENCY, FAR)


def test_what_completes_a_run_between_hosts_adds_to_its_curves() -> None:
    more = far("c", point("collective:what=bcast", 8, 700, SHM), completes=("b",))
    (found,) = costs(both(near(), far(), more)).values()
    assert found.of(far=True).collective("Bcast", 2, 8) == 700
    assert found.collective("Bcast", 2, 8) is None


def test_curves_on_more_ranks_belong_to_their_side() -> None:
    variant = f"{SHM},ranks=4"
    four = on(run("c", point("collective", 8, 900, variant), ranks=4, completes=("b",)), FAR_HOSTS)
    (found,) = costs(both(near(), far(), four)).values()
    assert found.of(far=True).collective("Allreduce", 4, 8) == 900
    assert found.collective("Allreduce", 4, 8) is None


# ----------------------------------------------------------------------------------------- which message is which


def test_messages_and_collectives_know_whether_they_go_between_hosts() -> None:
    reduce: Event = ("Allreduce", 100, 9, 8, -2, 0)
    rows: list[list[Event]] = [
        [SEND_8, ("Send", 9, 9, 8, 2, 0), reduce],
        [RECV_8, reduce],
        [RECV_8, reduce],
        [reduce],
    ]
    made = calls(two_hosts(*rows))
    assert {(one.source, one.target): one.far for one in made.messages} == {(0, 1): False, (0, 2): True}
    assert [one.far for one in made.groups] == [True]
    assert [one.far for one in calls(traced.traced(*rows)).groups] == [False]


def apart() -> Costs:
    """All costs between hosts are nine times those within one."""
    known = replace(plain(), first=500.0)
    return replace(
        known,
        far=replace(
            known, latency=flat(9 * LATENCY), exchange=flat(9 * EXCHANGE), send=flat(9 * SEND), first=4500.0
        ),
    )


def test_each_message_takes_the_costs_of_its_side() -> None:
    assert replay(calls(traced.traced([SEND_8], [RECV_8])), apart()).by_rank == {
        0: 500 + SEND,
        1: 500 + LATENCY,
    }
    assert replay(calls(message_between()), apart()).by_rank == {0: 4500 + 9 * SEND, 1: 4500 + 9 * LATENCY}


def test_a_larger_message_takes_those_of_its_side_too() -> None:
    large = 1 << 20
    sent, received = [("Send", 0, 9, large, 1, 0)], [("Recv", 0, 50, large, 0, 0)]
    assert replay(calls(two_hosts(sent, received)), apart()).wall == 4500 + 9 * LATENCY
    assert replay(calls(traced.traced(sent, received)), apart()).wall == 500 + LATENCY


def test_a_collective_takes_those_of_its_side_and_what_is_missing_says_so() -> None:
    made = calls(two_hosts(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4))
    known = apart()
    known.collectives = {("Allreduce", 4): flat(300.0)}
    assert known.far is not None
    assert replay(made, known).without_curve == {("Allreduce between hosts", 4): 1}
    known.far.collectives = {("Allreduce", 4): flat(7000.0)}
    found = replay(made, known)
    assert found.without_curve == {}
    assert found.wall == 4500 + 7000


# ------------------------------------------------------------------------------------------------- predictions


def test_a_program_on_two_hosts_is_predicted_with_both() -> None:
    program = two_hosts([SEND_8, ("Send", 9, 9, 8, 2, 0)], [RECV_8], [RECV_8], [])
    for rank in program.ranks:
        rank.mpi_s = 4e-6
    found = predict(program, both(near(), far()), own=SHM)
    assert not found.unknown
    assert found.residual is not None
    by_call = found.residual.by_call
    (received,) = [predicted for name, _, _, predicted in by_call if name == "Recv"]
    # Each sends for half a message, which is guessed; the second begins when the first has been sent.
    assert received == pytest.approx((LATENCY + FAR + LATENCY / 2) / 4 * 1e-9)
    assert not any("are taken to cost" in note for note in found.notes)


def test_without_curves_between_hosts_nothing_is_ranked_and_the_remedy_is_named() -> None:
    found = predict(message_between(), both(near()))
    assert "were measured within one" in found.unknown
    assert "netpipe run --hosts A,B measures between hosts; name that run too" in found.unknown


def test_a_variant_without_curves_between_hosts_leaves_the_others_their_predictions() -> None:
    reading = both(near(), far(), near("c", variant=TCP))
    found = predict(message_between(), reading)
    assert not found.unknown
    assert [one.variant for one in found.variants] == [SHM]
    assert any(note.startswith(f"{TCP} is left out: the program's ranks") for note in found.notes)
    curves = sensitivities([message_between()], reading)
    assert [one.variant for one in curves.variants] == [SHM]
    assert any(note.startswith(f"{TCP} is left out") for note in curves.notes)
    within = predict(traced.traced([SEND_8], [RECV_8]), reading)
    assert {one.variant for one in within.variants} == {SHM, TCP}
    assert not any("left out" in note for note in within.notes)


def test_a_run_between_hosts_without_a_ping_pong_is_no_such_curve() -> None:
    other = on(run("b", point("collective", 8, 700, SHM)), FAR_HOSTS)
    found = predict(message_between(), both(near(), other))
    assert "were measured within one" in found.unknown


def test_curves_between_hosts_alone_are_said_to_stand_for_messages_within_one() -> None:
    program = two_hosts([SEND_8, ("Send", 9, 9, 8, 2, 0)], [RECV_8], [RECV_8], [])
    assert any(
        "messages within a host are taken to cost" in note for note in predict(program, both(far())).notes
    )


def test_what_is_missing_between_hosts_is_said_and_not_promised() -> None:
    reading = both(near(), far())
    found = predict(message_between(), reading)
    assert found.variants[0].guessed == ("bidirectional between hosts", "overhead between hosts")
    assert any(
        "no curve of bidirectional between hosts and overhead between hosts" in one for one in found.notes
    )
    assert measure_command(found, [Path("p.jsonl")], reading.run, None) is None
    within = predict(traced.traced([SEND_8], [RECV_8]), reading)
    assert within.variants[0].guessed == ("bidirectional", "overhead")
    assert measure_command(within, [Path("p.jsonl")], reading.run, None) is not None


POINT_TO_POINT = (
    "--pattern pingpong --pattern bidirectional --pattern overhead:side=send --pattern overhead:side=recv "
    "--pattern overhead:side=send,call=blocking"
)


def command_of(program: Profile, reading: Reading, *files: Path) -> str | None:
    return between_command(predict(program, reading), program, reading.run, files)


def test_the_whole_command_that_measures_between_hosts() -> None:
    """Of messages and a collective between hosts, at their sizes; what stays within a host is no part of it."""
    reduce: Event = ("Allreduce", 100, 9, 24, -2, 0)
    near_by, far_off = ("Send", 0, 9, 8, 1, 0), ("Send", 9, 9, 4096, 2, 0)
    program = two_hosts(
        [near_by, far_off, reduce], [RECV_8, reduce], [("Recv", 0, 50, 4096, 0, 0), reduce], [reduce]
    )
    reading = both(near(variant=TCP), near("c", variant="mpi@y"), near("d", variant=SHM))
    assert command_of(program, reading) == (
        f"netpipe run {TCP},ranks=2 {TCP},ranks=4 mpi@y:ranks=2 mpi@y:ranks=4 --hosts node0:2,node1:2 "
        f"{POINT_TO_POINT} --pattern collective:what=allreduce --sizes 24,4096 --output far.jsonl"
    ), "shared memory ends at the host"
    assert command_of(message_between(), both(near(variant=TCP)), Path("far.jsonl")) == (
        f"netpipe run {TCP} --hosts node0,node1 {POINT_TO_POINT} --sizes 8 --output more-far.jsonl"
    )
    assert command_of(message_between(), both(near(variant=SHM))) is None
    assert command_of(traced.traced([SEND_8], [RECV_8]), both(near(variant=TCP))) is None


@pytest.mark.parametrize("within", [True, False])
def test_only_what_is_lacking_between_hosts_asks_for_it(within: bool) -> None:
    """Whether there are curves within a host beside them, or they stand for all messages."""
    reduce: Event = ("Allreduce", 100, 9, 8, -2, 0)
    program = two_hosts([SEND_8, reduce], [RECV_8, reduce])
    measured = [
        point(pattern, 8, FAR, TCP)
        for pattern in (
            "bidirectional",
            "overhead:side=send",
            "overhead:side=recv",
            "collective:what=allreduce",
        )
    ]
    beside = [near(variant=TCP)] if within else []
    assert command_of(program, both(*beside, far("b", *measured, variant=TCP))) is None
    for lacks in range(len(measured)):
        some = far("b", *measured[:lacks], *measured[lacks + 1 :], variant=TCP)
        command = command_of(program, both(*beside, some))
        assert command is not None
        assert command.startswith(f"netpipe run {TCP} --hosts node0,node1 --pattern pingpong ")
    larger = two_hosts([("Send", 0, 9, 16, 1, 0)], [("Recv", 0, 50, 16, 0, 0)])
    asked = command_of(larger, both(*beside, far("b", *measured, variant=TCP)))
    assert asked is not None
    assert " --sizes 16 " in asked


def test_what_two_hosts_do_not_have_is_not_asked_for_again() -> None:
    """An operation of three ranks, each on a host of its own."""
    program = traced.traced(*[[("Allreduce", 100, 9, 8, -2, 0)]] * 3, hosts=3)
    command = command_of(program, both(near(variant=TCP)))
    assert command == (f"netpipe run {TCP} --hosts node0,node1 {POINT_TO_POINT} --sizes 8 --output far.jsonl")
    measured = [
        point(pattern, 8, FAR, TCP)
        for pattern in ("bidirectional", "overhead:side=send", "overhead:side=recv")
    ]
    reading = both(near(variant=TCP), far("b", *measured, variant=TCP))
    assert predict(program, reading).variants[0].missing == {("Allreduce between hosts", 3): 1}
    assert command_of(program, reading) is None


def test_sizes_beyond_the_curves_between_hosts_are_said() -> None:
    size = 4096
    program = two_hosts([("Send", 0, 9, size, 1, 0)], [("Recv", 0, 50, size, 0, 0)])
    reading = both(near("a", point("pingpong", 2 * size, 9000, SHM)), far())
    found = predict(program, reading)
    assert (found.variants[0].beyond, found.variants[0].beyond_far) == (0, size)
    assert any("the largest message between hosts has 4096 bytes" in note for note in found.notes)


def test_measure_gets_what_is_lacking_within_a_host_whatever_was_measured_between_hosts() -> None:
    need = {("pingpong", 2): {8}}
    reading = both(far("b", point("first", 4, 300, SHM)))
    assert lacking(need, reading, [SHM]) == {SHM: need}
    assert without_first(reading, [SHM]) == [SHM]
    assert lacking(need, both(near(), far()), [SHM]) == {SHM: {}}


def test_the_latency_that_is_added_is_that_between_hosts_of_a_program_that_has_both() -> None:
    (one,) = sensitivities([message_between()], both(near(), far())).variants
    assert (one.latency_ns, one.between_hosts) == (FAR, True)
    assert any("latency is 9.00 µs for 8 B between hosts" in text for text in sentences(one))
    (one,) = sensitivities([traced.traced([SEND_8], [RECV_8])], both(near(), far())).variants
    assert (one.latency_ns, one.between_hosts) == (LATENCY, False)


def test_predict_takes_both_runs(netpipe: Netpipe, tmp_path: Path) -> None:
    program = message_between()
    program.header.command = ["./app"]
    write(program, tmp_path / "profile.jsonl")
    files = [saved(near(), tmp_path), saved(far(), tmp_path)]
    other = on(run("c", point("pingpong", 8, 2 * FAR, TCP)), FAR_HOSTS)
    said = netpipe("predict", str(tmp_path / "profile.jsonl"), *files, saved(other, tmp_path), "--json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert [one["variant"] for one in found["variants"]] == [SHM, TCP]
    assert found["unknown"] is None
    assert found["variants"][0]["by_call"][0]["seconds"] == pytest.approx(FAR / 2 * 1e-9)
    assert found["measure_between_hosts"].startswith(f"netpipe run {TCP} --hosts node0,node1 ")
    printed = netpipe("predict", str(tmp_path / "profile.jsonl"), *files, saved(other, tmp_path)).out
    assert f"    {found['measure_between_hosts']}\n" in printed
