# SPDX-License-Identifier: Apache-2.0
"""Which variant a prediction calls the fastest, and when it says that it cannot know."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from test_prediction import Event, point, run_of, traced

from netpipe.cli.predict.result import as_json
from netpipe.prediction import Factors, sensitivities
from netpipe.prediction.costs import BOUNDS
from netpipe.prediction.predict import Predicted, predict
from netpipe.prediction.ranking import LEAST_RATIO, Pair, Replays, pairs, tiers
from netpipe.profiles import NotAProfile, Profile
from netpipe.profiles.lines import write
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.records import SCHEMA, End, Environment, Header, Point, encode
from netpipe.render.lacking import measure_command
from netpipe.render.page.programs.prediction import elsewhere
from netpipe.render.terminal.predict import print_prediction, verdict
from netpipe.render.terminal.rows import Console

if TYPE_CHECKING:
    from conftest import Netpipe


def one_message(size: int = 8) -> Profile:
    return traced([("Send", 0, 9, size, 1, 0)], [("Recv", 0, 50, size, 0, 0)])


def measured(**times: float) -> Reading:
    """A run of these variants: the time of a ping-pong, in nanoseconds."""
    return run_of(*(point("pingpong", 8, time, f"mpi@{name}") for name, time in times.items()))


def on(reading: Reading, *hosts: str) -> Reading:
    for variant in reading.run.variants:
        variant.ranks = [
            msgspec.structs.replace(rank, host=host) for rank, host in zip(variant.ranks, hosts, strict=True)
        ]
    return reading


def printed(found: Predicted) -> str:
    stream = io.StringIO()
    print_prediction(Console(file=stream, width=400), found)
    return stream.getvalue()


def replays(variant: str, value: float, width: float = 1.0, launches: int = 1) -> Replays:
    ends = {"value": value, "low": value / width, "high": value * width}
    return Replays(variant, {bound: [time] * launches for bound, time in ends.items()})


# ------------------------------------------------------------------------------------------------------- by pairs


def test_two_variants_differ_although_their_intervals_meet() -> None:
    found = predict(one_message(), measured(a=1000, b=1700))
    first, second = found.variants
    assert first.high > second.low
    assert found.fastest is first
    assert verdict(found).startswith("mpi@a is the fastest; mpi@b takes 1.70 [1.22")


def test_two_variants_are_undecided_within_the_error_of_ratios() -> None:
    found = predict(one_message(), measured(a=1000, b=1300))
    assert found.fastest is None
    assert verdict(found) == "undecided: mpi@a or mpi@b may be the fastest"


def test_those_that_are_surely_slower_are_named_also_where_the_fastest_is_not() -> None:
    found = predict(one_message(), measured(a=1000, b=1010, c=9000))
    assert found.tiers == [("mpi@a", "mpi@b"), ("mpi@c",)]
    assert verdict(found) == (
        "mpi@a or mpi@b is the fastest, and which of them is undecided; mpi@c is slower"
    )
    text = printed(found)
    assert "times the first" in text
    assert "1.01 [0.7" in text


def test_a_variant_is_in_the_first_tier_unless_it_is_surely_slower_than_another() -> None:
    sure, unsure = Estimate(2.0, 1.4, 3.0), Estimate(1.3, 0.9, 1.8)
    found = [Pair("a", "b", unsure), Pair("a", "c", sure), Pair("b", "c", unsure), Pair("c", "d", sure)]
    assert tiers("abcd", found) == [("a", "b"), ("c",), ("d",)]


def test_the_interval_of_a_ratio_is_at_least_the_error_of_ratios() -> None:
    (found,) = pairs([replays("a", 1.0), replays("b", 2.0)], [0.0], None)
    assert (found.faster, found.slower) == ("a", "b")
    assert found.times.value == pytest.approx(2.0)
    assert found.times.low == pytest.approx(2.0 / math.exp(LEAST_RATIO))
    assert found.times.high == pytest.approx(2.0 * math.exp(LEAST_RATIO))


def test_the_faster_of_a_pair_is_found_in_either_order() -> None:
    one, other = replays("a", 1.0), replays("b", 2.0)
    assert pairs([one, other], [0.0], None) == pairs([other, one], [0.0], None)


def test_the_curves_of_both_widen_the_interval() -> None:
    (found,) = pairs([replays("a", 1.0, width=1.6), replays("b", 2.0, width=1.6)], [0.0], None)
    apart = math.hypot(math.log(1.6), math.log(1.6), LEAST_RATIO)
    assert found.times.low == pytest.approx(2.0 / math.exp(apart))
    assert not found.decided


def test_how_far_launches_are_apart_cancels_and_how_far_their_ratios_are_does_not() -> None:
    same = [1.0, 4.0, 16.0]
    one, twice, mixed = (
        Replays(name, dict.fromkeys(BOUNDS, times))
        for name, times in (("a", same), ("b", [2 * time for time in same]), ("b", [1.0, 8.0, 64.0]))
    )
    (steady,) = pairs([one, twice], [0.0] * 3, None)
    assert steady.times.low == pytest.approx(2.0 / math.exp(LEAST_RATIO))
    (unsteady,) = pairs([one, mixed], [0.0] * 3, None)
    assert unsteady.times.low < steady.times.low


def test_what_is_carried_over_is_common_to_all_other_libraries() -> None:
    """Half of it is in the interval of each alone, which is 2 here; in the ratio most of that cancels."""
    (found,) = pairs([replays("a", 1.0), replays("b", 3.0)], [4.0], "own")
    assert found.times.value == pytest.approx(7 / 5)
    limits = (2 + 3) / (2 + 1), (6 + 3) / (6 + 1)  # with half of it, and with one and a half
    assert found.times.high == pytest.approx(
        7 / 5 * math.exp(math.hypot(math.log(limits[0] / (7 / 5)), LEAST_RATIO))
    )
    assert found.times.low == pytest.approx(
        7 / 5 / math.exp(math.hypot(math.log(7 / 5 / limits[1]), LEAST_RATIO))
    )


def test_over_its_own_library_all_of_it_is_known() -> None:
    (found,) = pairs([replays("own", 1.0), replays("b", 9.0)], [4.0], "own")
    assert found.times.high == pytest.approx(
        13 / 5 * math.exp(math.hypot(math.log(15 / 13), LEAST_RATIO))  # 9 + 6 over 1 + 4
    )


def test_the_verdict_in_json() -> None:
    told = as_json(predict(one_message(), measured(a=1000, b=1010, c=9000)), Factors(), None, ())
    assert told["fastest"] is None
    assert told["tiers"] == [("mpi@a", "mpi@b"), ("mpi@c",)]
    assert [(one["faster"], one["slower"], one["decided"]) for one in told["pairs"]] == [
        ("mpi@a", "mpi@b", False),
        ("mpi@a", "mpi@c", True),
        ("mpi@b", "mpi@c", True),
    ]
    assert told["unknown"] is None


# ------------------------------------------------------------------------------------------ when nothing is known


def assert_nothing_is_ranked(found: Predicted, why: str) -> None:
    assert why in found.unknown
    assert found.fastest is None
    assert found.tiers == []
    assert verdict(found).startswith("these numbers are no predictions")
    lines = printed(found).splitlines()
    assert "these numbers are no predictions" in lines[0]
    assert not any("fastest" in line for line in lines)
    told = as_json(found, Factors(), None, ())
    assert told["fastest"] is None
    assert told["unknown"] == found.unknown


def test_ranks_that_share_processors_are_not_ranked() -> None:
    found = predict(one_message(), measured(a=1000, b=9000), processors=1)
    assert_nothing_is_ranked(found, "2 ranks shared 1 processor of node0")


def test_the_page_ranks_nothing_either() -> None:
    program = one_message()
    program.header.host, program.header.processors = "node0", 1
    assert elsewhere([program], measured(a=1000, b=9000)).verdict.startswith(
        "These numbers are no predictions"
    )
    assert elsewhere([one_message()], measured(a=1000, b=9000)).verdict.startswith("mpi@a is the fastest")


def test_the_processors_are_those_of_the_host_of_the_profile() -> None:
    program = one_message()
    program.header.host, program.header.processors = "node0", 2
    assert predict(program, measured(a=1000, b=9000), processors=1).fastest is not None
    program.header.processors = 1
    assert predict(program, measured(a=1000, b=9000), processors=8).unknown
    program.header.host = "login"  # which says nothing of node0
    assert predict(program, measured(a=1000, b=9000), processors=8).fastest is not None


def test_ranks_share_processors_host_by_host() -> None:
    program = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4)
    for rank in program.ranks:
        rank.host = "alone" if rank.rank == 3 else "full"
    found = predict(program, measured(a=1000, b=9000), processors=2)  # 4 ranks on 2 hosts of 2 processors
    assert_nothing_is_ranked(found, "3 ranks shared 2 processors of full")


def hosts(program: Profile, *names: str) -> Profile:
    for rank, name in zip(program.ranks, names, strict=True):
        rank.host = name
    return program


def test_messages_between_hosts_are_not_predicted_by_curves_within_one() -> None:
    program = hosts(one_message(), "n1", "n2")
    found = predict(program, on(measured(a=1000, b=9000), "n1", "n1"))
    assert_nothing_is_ranked(found, "the curves of mpi@a and mpi@b were measured within one")
    assert "netpipe run --hosts" in found.unknown
    assert sensitivities([program], on(measured(a=1000), "n1", "n1")).variants == []


def test_curves_between_hosts_tell_what_messages_between_hosts_take() -> None:
    found = predict(hosts(one_message(), "n1", "n2"), on(measured(a=1000, b=9000), "n1", "n2"))
    assert found.fastest is not None
    assert found.notes == predict(one_message(), measured(a=1000, b=9000)).notes


def test_curves_between_hosts_for_a_program_on_one_are_said() -> None:
    program = hosts(one_message(), "n1", "n1")
    found = predict(program, on(measured(a=1000), "n1", "n2"), own="mpi@a")
    assert any("over mpi@a all messages" in note and "between hosts" in note for note in found.notes)
    assert found.residual is None, "what the program ran over was not measured"


def test_curves_of_collectives_between_hosts_for_ranks_of_one_host_are_said() -> None:
    program = hosts(traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 3), "n1", "n1", "n2")
    found = predict(program, on(measured(a=1000), "n1", "n2"))
    assert any("over mpi@a the messages within a host" in note for note in found.notes)


def test_curves_of_another_host_are_said() -> None:
    program = hosts(one_message(), "n1.cluster", "n1.cluster")
    assert not any("n1" in note for note in predict(program, on(measured(a=1000), "n1", "n1")).notes)
    found = predict(program, on(measured(a=1000), "n2", "n2"))
    assert any("the curves are of n2, and the profile of n1.cluster" in note for note in found.notes)


SETUP: list[Event] = [("Comm_split", 0, 900, 0, -2, 0)]


def test_calls_that_the_replay_leaves_as_they_were_are_named() -> None:
    send: Event = ("Send", 900, 9000, 8, 1, 0)
    found = predict(traced([*SETUP, send], [*SETUP, ("Recv", 900, 9000, 8, 0, 0)]), measured(a=1000, b=9000))
    assert any("9 % of the time in MPI" in note and "MPI_Comm_split" in note for note in found.notes)
    assert found.fastest is not None


def test_a_program_of_such_calls_is_not_ranked() -> None:
    send: Event = ("Send", 900, 5, 8, 1, 0)
    found = predict(traced([*SETUP, send], [*SETUP, ("Recv", 900, 5, 8, 0, 0)]), measured(a=1000, b=9000))
    assert_nothing_is_ranked(
        found, "99 % of the time in MPI is that of calls which the replay leaves as they were"
    )


# ----------------------------------------------------------------------------------- curves that are not to be trusted

LOADED = {"load": {"average_1": 6.6, "other_busy_processes": 3}, "cpu": {"logical": 2}}
LOAD = "that this has to be fixed first: load"


def test_curves_that_nobody_should_trust_rank_nothing(netpipe: Netpipe, tmp_path: Path) -> None:
    curves = complete(*(point(pattern, 8, 9000, "mpi@y") for pattern in COMPLETE))
    files = written(one_message(), curves, tmp_path, "a.jsonl")
    assert json.loads(netpipe("predict", *files, "--json").out)["fastest"] is not None
    curves.run.add(Environment(facts=LOADED))
    files = written(one_message(), curves, tmp_path, "a.jsonl")
    assert "✗ Load." in netpipe("show", files[1]).out
    told = json.loads(netpipe("predict", *files, "--json").out)
    assert (told["fastest"], told["tiers"], told["pairs"]) == (None, [], [])
    assert told["unknown"] == f"netpipe show says of {files[1]} {LOAD}"
    printed = " ".join(netpipe("predict", *files, "--sensitivity").out.split())
    assert "nothing is ranked: netpipe show says of" in printed
    assert "sensitive to: netpipe show says of" in printed
    assert LOAD in elsewhere([one_message()], curves).verdict


def test_of_several_runs_those_that_nobody_should_trust_are_named(netpipe: Netpipe, tmp_path: Path) -> None:
    loaded, quiet = complete(), complete()
    program, good = written(one_message(), quiet, tmp_path, "a.jsonl")
    bad = tmp_path / "bad.jsonl"
    records = [Header(schema=SCHEMA, run="1" * 32), Environment(facts=LOADED), *loaded.run.variants]
    records += [*loaded.run.points, End(exit=0, reason="done")]
    bad.write_bytes(b"".join(encode(one).rstrip(b"\n") + b"\n" for one in records))
    told = json.loads(netpipe("predict", program, good, str(bad), "--json").out)
    assert told["unknown"] == f"netpipe show says of {bad} {LOAD}"


# --------------------------------------------------------------------------- a profile that contradicts the curves


def taking(seconds: float) -> Profile:
    """The message, and this long in MPI: the model says 0.75 us where it takes 1 us."""
    program = one_message()
    for rank in program.ranks:
        rank.mpi_s = seconds
    return program


@pytest.mark.parametrize(("seconds", "times"), [(0.05e-6, "15.0 times as much"), (7.5e-6, "10.0 times less")])
def test_a_profile_that_contradicts_the_curves_is_not_ranked(seconds: float, times: str) -> None:
    curves = measured(own=1000, b=9000)
    found = predict(taking(seconds), curves, own="mpi@own")
    assert_nothing_is_ranked(found, f"{times}: the curves are not what the program met")
    assert "over its own library (mpi@own) the profile has" in found.unknown
    assert printed(found).count("over its own library") == 1


def test_what_a_program_is_sensitive_to_is_not_said_where_its_profile_contradicts_the_curves() -> None:
    found = sensitivities([one_message()], measured(own=1000), own="mpi@own")  # it has 29.5 ns in its calls
    assert found.variants == []
    assert "25.4 times as much: the curves are not what the program met" in found.notes[0]


def test_twice_what_the_model_says_is_still_ranked() -> None:
    for seconds in (0.38e-6, 1.49e-6):
        found = predict(taking(seconds), measured(own=1000, b=9000), own="mpi@own")
        assert not found.unknown
        assert found.fastest is not None


# --------------------------------------------------------------------------------------------- by call and size


def late_and_early() -> Profile:
    """A receive that took little of what the model says of it, and a collective that took more."""
    return traced(
        [("Send", 0, 9, 8, 1, 0), ("Allreduce", 9, 4000, 8, -2, 0), ("Send", 4009, 9, 64, 1, 0)],
        [("Recv", 0, 50, 8, 0, 0), ("Allreduce", 50, 3959, 8, -2, 0), ("Recv", 4009, 90, 64, 0, 0)],
    )


@pytest.mark.parametrize("what", [None, Factors(latency=0.1), Factors(latency=5.0)])
def test_rows_by_call_and_by_size_add_up_to_the_prediction(what: Factors | None) -> None:
    program = late_and_early()
    for rank, trace in zip(program.ranks, program.traces.values(), strict=True):
        rank.mpi_s = float(trace.column("duration_ns").sum()) * 1e-9
    curves = run_of(
        *(point("pingpong", 8, time, name) for name, time in (("mpi@own", 2000), ("mpi@b", 300))),
        *(point("collective:what=allreduce", 8, 2500, name) for name in ("mpi@own", "mpi@b")),
    )
    for launches in ([program], [program, program]):
        found = predict(launches, curves, own="mpi@own", factors=what)
        for one in found.variants:
            assert sum(one.by_call.values()) == pytest.approx(one.seconds)
            by_size: dict[int, float] = {}
            for (_, size), seconds in one.by_call.items():
                assert seconds > 0
                by_size[size] = by_size.get(size, 0.0) + seconds
            assert sum(by_size.values()) == pytest.approx(one.seconds)


# ---------------------------------------------------------------------------------------------- curves that are missing


def written(program: Profile, reading: Reading, folder: Path, *names: str) -> tuple[str, ...]:
    """The profile under these names, and a run, as files."""
    program.header.command = ["./app"]
    for name in names:
        write(program, folder / name)
    run = reading.run
    records = [
        Header(schema=SCHEMA, run="0" * 32),
        *run.environments,
        *run.variants,
        *run.points,
        End(exit=0, reason="done"),
    ]
    text = b"".join(encode(one).rstrip(b"\n") + b"\n" for one in records)
    (folder / "run.jsonl").write_bytes(text)
    return *(str(folder / name) for name in names), str(folder / "run.jsonl")


COMPLETE = (
    "pingpong",
    "bidirectional",
    "overhead:side=send",
    "overhead:side=recv",
    "overhead:side=send,call=blocking",
)


def complete(*more: Point) -> Reading:
    return run_of(*(point(pattern, 8, 1000, "mpi@x:transport=tcp|a") for pattern in COMPLETE), *more)


def test_more_ranks_than_any_curve_has(netpipe: Netpipe, tmp_path: Path) -> None:
    program = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4)
    curves = complete(point("collective:what=allreduce", 8, 700, "mpi@x:transport=tcp|a"))
    first, second, run = files = written(program, curves, tmp_path, "a.jsonl", "b.jsonl")
    said = netpipe("predict", *files)
    assert said.code == 0, said.err
    assert "the run has no curve of Allreduce on 4 ranks; a tree of messages stands for each" in said.out
    command = f"netpipe predict {first} {second} {run} --measure 'mpi@x:transport=tcp|a'"
    assert f"    {command}\n" in said.out
    told = json.loads(netpipe("predict", *files, "--json").out)
    assert told["measure"] == command
    assert told["variants"][0]["missing"] == [{"call": "Allreduce", "ranks": 4, "calls": 1}]
    own = netpipe("predict", *files, "--own", "mpi@x:transport=tcp|a", "--json").out
    assert json.loads(own)["measure"].startswith(f"netpipe predict {first} {second} {run} --own 'mpi@x:")


def test_where_nothing_is_missing_no_command_is_printed(netpipe: Netpipe, tmp_path: Path) -> None:
    files = written(one_message(), complete(), tmp_path, "a.jsonl")
    assert "--measure" not in netpipe("predict", *files).out
    assert json.loads(netpipe("predict", *files, "--json").out)["measure"] is None


def test_sizes_beyond_the_curves_are_measured_too() -> None:
    curves = complete()
    found = predict(one_message(9999), curves)
    assert found.variants[0].beyond == 9999
    assert measure_command(found, [Path("p.jsonl")], curves.run, None) is not None


def test_what_measure_cannot_get_is_not_promised() -> None:
    """Curves between hosts."""
    program = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 2)
    curves = complete()
    found = predict(program, curves)
    assert found.variants[0].missing
    assert measure_command(found, [Path("p.jsonl")], curves.run, None) is not None
    assert measure_command(found, [Path("p.jsonl")], on(curves, "n1", "n2").run, None) is None


# ---------------------------------------------------------------------------------------------- ranks that are missing


def test_what_a_profile_lacks_of_its_ranks_is_said(netpipe: Netpipe, tmp_path: Path) -> None:
    """Of four ranks one was killed, one has calls and no trace, and one is not in the file, which has no last line."""
    program = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4)
    for rank in program.ranks:
        rank.events = 1
    program.ranks[1].state = "unfinished"
    program.end = None
    del program.ranks[3], program.entries[3], program.traces[3], program.traces[2]
    lacks = [
        "the file is incomplete: it has no last line, and rank 3 of 4 is not in it",
        "rank 1 never called MPI_Finalize: what it did until the end counts",
        "the file lacks the trace of rank 2, or the end of it",
    ]
    whole = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4)
    whole.header.command = ["./app"]
    write(whole, tmp_path / "whole.jsonl")
    cut, run = written(program, complete(), tmp_path, "cut.jsonl")
    assert json.loads(netpipe("predict", cut, run, "--json").out)["notes"][:3] == lacks
    told = " ".join(netpipe("predict", cut, run).out.split())
    assert all(text in told for text in lacks)
    both = json.loads(netpipe("predict", str(tmp_path / "whole.jsonl"), cut, run, "--json").out)["notes"]
    assert both[:3] == [f"launch 2: {text}" for text in lacks]
    assert not any("launch 1" in note for note in both)


# --------------------------------------------------------------------------------------------------------- threads


def threaded(second_begins: int) -> Profile:
    """A rank of which two threads send, the second that many ns after the first, whose call takes 100."""
    program = traced(
        [("Send", 0, 100, 8, 1, 0), ("Send", second_begins, 100, 8, 1, 0)],
        [("Recv", 0, 50, 8, 0, 0), ("Recv", 50, 50, 8, 0, 0)],
    )
    for rank in program.ranks:
        rank.threads = "multiple"
    return program


def test_threads_that_call_at_the_same_time_are_refused() -> None:
    with pytest.raises(NotAProfile, match="several threads of rank 0 were in calls of MPI at the same time"):
        predict(threaded(99), measured(a=1000))
    with pytest.raises(NotAProfile, match="several threads of rank 0"):
        sensitivities([threaded(99)], measured(a=1000))


def test_threads_that_call_in_turn_are_replayed() -> None:
    assert predict(threaded(100), measured(a=1000)).variants


def test_calls_that_overlap_without_threads_are_a_matter_of_the_clock() -> None:
    program = threaded(99)
    for rank in program.ranks:
        rank.threads = "serialized"
    assert predict(program, measured(a=1000)).variants


def test_one_call_that_is_several_events_is_no_second_thread() -> None:
    pair: list[Event] = [("Irecv", 0, 10, 8, 1, 1), ("Irecv", 10, 10, 8, 1, 2)]
    waits: list[Event] = [("Waitall", 20, 90, 8, 1, 1), ("Waitall", 20, 90, 8, 1, 2)]
    program = traced([*pair, *waits], [("Send", 0, 5, 8, 0, 0), ("Send", 5, 5, 8, 0, 0)])
    for rank in program.ranks:
        rank.threads = "multiple"
    assert predict(program, measured(a=1000)).variants
