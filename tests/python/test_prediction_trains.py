# SPDX-License-Identifier: Apache-2.0
"""Several messages on their way between two ranks: the first takes its latency, those that follow the gap of pattern
`window`.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from profiled import ROOT, rank
from test_prediction import (
    EXCHANGE,
    LATENCY,
    RECV,
    SEND,
    Event,
    flat,
    one_message,
    plain,
    point,
    run_of,
    traced,
)
from test_prediction_runs import run, saved

from netpipe.prediction import sensitivities
from netpipe.prediction.costs import TRAINS, WINDOW, Costs, Factors, Sized, costs
from netpipe.prediction.predict import LARGEST_TRAIN, predict, wanted
from netpipe.prediction.replay import replay
from netpipe.profiles import Profile
from netpipe.profiles.lines import write
from netpipe.profiles.trace.calls import calls
from netpipe.records import Point
from netpipe.render.lacking import measure_command
from netpipe.render.terminal.rows import Console
from netpipe.render.terminal.sensitivity import matters, print_sensitivities

if TYPE_CHECKING:
    from conftest import Netpipe

GAP, GAP_BOTH = 300.0, 450.0  # ns, of every size
LARGE = 1 << 20
MANY = 4


def started(name: str, size: int, peer: int, first: int, many: int = MANY) -> list[Event]:
    """Calls of 1 ns, one behind the other; requests are numbered by their begin."""
    return [(name, first + number, 1, size, peer, 1 + first + number) for number in range(many)]


def waited(events: list[Event]) -> list[Event]:
    """One call for all of them, behind the last."""
    return [("Waitall", len(events), 90, size, peer, request) for _, _, _, size, peer, request in events]


def stream(size: int, many: int = MANY) -> Profile:
    """Rank 0 starts messages to rank 1, and both wait for all."""
    sends, receives = started("Isend", size, 1, 0, many), started("Irecv", size, 0, 0, many)
    return traced(sends + waited(sends), receives + waited(receives))


def both_ways(size: int) -> Profile:
    """Each rank posts its receives, starts as many messages, and waits for all."""
    ranks = []
    for peer in (1, 0):
        events = started("Irecv", size, peer, 0) + started("Isend", size, peer, MANY)
        ranks.append(events + waited(events))
    return traced(*ranks)


def with_gaps() -> Costs:
    return replace(plain(), gap=flat(GAP), gap_both=flat(GAP_BOTH))


def wall(program: Profile, known: Costs) -> float:
    return replay(calls(program), known).wall


# ---------------------------------------------------------------------------------------------------- the replay


def test_large_messages_of_a_train_follow_with_their_gap() -> None:
    # The first one moves when the sender is in its second call.
    assert wall(stream(LARGE), with_gaps()) == SEND + LATENCY + (MANY - 1) * GAP


def test_without_a_curve_of_gaps_each_large_message_takes_its_latency() -> None:
    assert wall(stream(LARGE), plain()) == SEND + MANY * LATENCY


def test_eager_messages_of_a_train_are_there_one_gap_after_the_other() -> None:
    assert wall(stream(8), with_gaps()) == LATENCY + (MANY - 1) * GAP
    assert wall(stream(8), plain()) == LATENCY + (MANY - 1) * RECV  # only their copies delay each other


def test_messages_each_way_follow_with_the_gap_of_both_directions() -> None:
    begin = MANY + MANY * SEND  # when both wait
    assert wall(both_ways(LARGE), with_gaps()) == begin + EXCHANGE + (MANY - 1) * GAP_BOTH
    one_way = replace(plain(), gap=flat(GAP))
    assert wall(both_ways(LARGE), one_way) == begin + MANY * EXCHANGE


@pytest.mark.parametrize("size", [8, LARGE])
def test_a_message_that_is_sent_later_than_the_one_before_is_there_takes_its_latency(size: int) -> None:
    apart = traced(
        [("Send", 0, 9, size, 1, 0), ("Send", 5009, 9, size, 1, 0)],
        [("Recv", 0, 50, size, 0, 0), ("Recv", 50, 5000, size, 0, 0)],
    )
    assert wall(apart, with_gaps()) == wall(apart, plain())


@pytest.mark.parametrize("size", [8, LARGE])
def test_programs_without_overlap_take_what_they_took(size: int) -> None:
    """Turns of a ping-pong, an exchange in each, and a message of a rank to itself."""
    ranks: list[list[Event]] = [[], []]
    for turn in range(5):
        begin, request = 10_000 * turn, 2 * turn + 1
        for me, there in ((0, 1), (1, 0)):
            ranks[me] += [
                ("Irecv", begin, 1, size, there, request),
                ("Send", begin + 1, 99, size, there, 0),
                ("Wait", begin + 100, 900, size, there, request),
                ("Irecv", begin + 1000, 1, size, me, request + 1),
                ("Send", begin + 1001, 99, size, me, 0),
                ("Wait", begin + 1100, 100, size, me, request + 1),
            ]
        ranks[0] += [("Send", begin + 3000, 9, size, 1, 0), ("Recv", begin + 3009, 2000, size, 1, 0)]
        ranks[1] += [("Recv", begin + 3000, 1000, size, 0, 0), ("Send", begin + 4000, 9, size, 0, 0)]
    made = calls(traced(*ranks))
    assert len(made.messages) == 5 * (2 + 2 + 2)
    assert not any(message.follows for message in made.messages)
    assert replay(made, with_gaps()) == replay(made, plain())


def test_what_another_rank_sends_waits_for_all_of_the_message_before() -> None:
    two = [started("Isend", LARGE, 2, 0, 1) for _ in range(2)]
    receives = started("Irecv", LARGE, 0, 0, 1) + started("Irecv", LARGE, 1, 1, 1)
    program = traced(*(sends + waited(sends) for sends in two), receives + waited(receives))
    assert wall(program, with_gaps()) == wall(program, plain()) == SEND + 2 * LATENCY


# ------------------------------------------------------------------------------------------------ which ones follow


def follows(program: Profile) -> list[bool]:
    return [message.follows for message in calls(program).messages]


def test_messages_that_are_started_one_after_the_other_follow_the_first() -> None:
    assert follows(stream(8)) == [False, *[True] * (MANY - 1)]


def test_blocking_sends_in_a_row_follow_each_other() -> None:
    sends: list[Event] = [("Send", 10 * number, 10, 8, 1, 0) for number in range(3)]
    receives: list[Event] = [("Recv", 0, 50, 8, 0, 0), ("Recv", 50, 10, 8, 0, 0), ("Recv", 60, 10, 8, 0, 0)]
    assert follows(traced(sends, receives)) == [False, True, True]


def test_a_late_receiver_makes_no_train() -> None:
    """The second message lies there for 49 us, and a message takes 50 ns, as the first one shows."""
    sends: list[Event] = [("Send", at, 9, 8, 1, 0) for at in (0, 1000, 20_000)]
    receives: list[Event] = [("Recv", at, 50, 8, 0, 0) for at in (0, 50_000, 50_100)]
    assert follows(traced(sends, receives)) == [False, False, False]


def test_messages_whose_receives_are_posted_are_on_their_way_until_both_are_received() -> None:
    """The second one begins long after the quickest message would have been there."""
    first: list[Event] = [("Send", 0, 9, LARGE, 1, 0)]
    sends: list[Event] = [("Isend", 1000, 1, LARGE, 1, 1), ("Isend", 3000, 1, LARGE, 1, 2)]
    receives: list[Event] = [("Irecv", 900, 1, LARGE, 0, 1), ("Irecv", 901, 1, LARGE, 0, 2)]
    waits: list[Event] = [("Waitall", 4000, 9000, LARGE, 0, request) for request in (1, 2)]
    assert follows(traced(first + sends, [("Recv", 0, 50, LARGE, 0, 0), *receives, *waits])) == [
        False,
        False,
        True,
    ]


def test_messages_to_other_ranks_make_no_train() -> None:
    sends: list[Event] = [("Send", 0, 9, 8, 1, 0), ("Send", 9, 9, 8, 2, 0)]
    receives: list[Event] = [("Recv", 0, 50, 8, 0, 0)]
    assert follows(traced(sends, receives, receives)) == [False, False]


# -------------------------------------------------------------------------------------------- what is measured for it


def test_the_window_is_measured_where_messages_follow_each_other() -> None:
    assert wanted(calls(stream(64)))["window"] == {64}
    assert "window:directions=both" not in wanted(calls(stream(64)))
    assert wanted(calls(both_ways(64)))["window:directions=both"] == {64}
    assert "window" not in wanted(calls(both_ways(64)))
    assert not set(TRAINS.values()) & set(wanted(calls(one_message())))


def test_a_window_of_huge_messages_is_not_measured_and_a_smaller_one_stands_for_it() -> None:
    need = wanted(calls(stream(64 << 20)))
    assert need["window"] == {LARGEST_TRAIN}
    assert need["pingpong"] == {LARGEST_TRAIN, 64 << 20}
    assert need["overhead:side=send"] == {64 << 20}


def test_the_pattern_has_as_many_messages_in_a_window_as_the_model_takes() -> None:
    source = (ROOT / "src/patterns/window.cpp").read_text()
    (default,) = re.findall(r'\{"in_flight", NP_INT, "(\d+)"', source)
    assert int(default) == WINDOW


def window_of(alone: float, gap: float, answer: float) -> float:
    """What an operation of the pattern takes, by LogGP."""
    return (alone + (WINDOW - 1) * gap + answer) / WINDOW


def curves(gap: float = GAP, gap_large: float = 90_000.0) -> list[Point]:
    return [
        point("pingpong", 1, 900),
        point("pingpong", 8, LATENCY),
        point("pingpong", LARGE, 100_000),
        point("bidirectional", 8, EXCHANGE),
        point("bidirectional", LARGE, 150_000),
        *(point(f"overhead:side={side}", 8, 0) for side in ("send", "recv")),
        point("window", 8, window_of(LATENCY, gap, 900)),
        point("window", LARGE, window_of(100_000, gap_large, 900)),
        point("window:directions=both", 8, window_of(EXCHANGE, GAP_BOTH, 0)),
    ]


def without_windows() -> list[Point]:
    return [one for one in curves() if not one.pattern.startswith("window")]


def test_a_gap_is_what_a_window_takes_beyond_its_first_message_and_the_answer() -> None:
    found = costs(run_of(*curves()))["mpi@x"]
    assert found.gap is not None
    assert found.gap_both is not None
    assert (found.gap(8), found.gap(LARGE)) == (pytest.approx(GAP), pytest.approx(90_000))
    assert found.gap_both(8) == pytest.approx(GAP_BOTH)
    assert not set(TRAINS.values()) & set(found.guessed)


def test_a_whole_window_takes_the_ends_of_its_own_interval() -> None:
    for bound, times in (("low", 0.9), ("high", 1.1)):
        found = costs(run_of(*curves()), bound)["mpi@x"]
        assert found.gap is not None
        whole = found.latency(8) + (WINDOW - 1) * found.gap(8) + found.latency(1)
        assert whole == pytest.approx(times * WINDOW * window_of(LATENCY, GAP, 900))


def test_a_gap_is_neither_below_zero_nor_longer_than_a_message() -> None:
    found = costs(run_of(*curves(gap=-50, gap_large=200_000)))["mpi@x"]
    assert found.gap is not None
    assert (found.gap(8), found.gap(LARGE)) == (0, 100_000)


def test_the_gap_changes_apart_from_the_latency_and_its_bytes_with_the_bandwidth() -> None:
    known = replace(plain(), gap=Sized({8: 300.0, LARGE: 100_300.0}))

    def gaps(factors: Factors) -> tuple[float, float]:
        changed = known.changed(factors).gap
        assert changed is not None
        return changed(8), changed(LARGE)

    assert gaps(Factors(gap=2)) == (600, 100_600)
    assert gaps(Factors(bandwidth=2)) == (300, 50_300)
    assert gaps(Factors(latency=2)) == (300, 100_300)
    assert known.changed(Factors(gap=2)).latency(8) == LATENCY


def test_a_train_without_a_window_is_guessed_and_the_command_measures_it() -> None:
    reading = run_of(*without_windows())
    lacking = predict(stream(8), reading)
    assert lacking.variants[0].guessed == ("window",)
    assert any("no curve of window" in note for note in lacking.notes)
    assert measure_command(lacking, [Path("p.jsonl")], reading.run, None) is not None
    assert predict(both_ways(8), reading).variants[0].guessed == ("window:directions=both",)
    alone = predict(one_message(), reading)
    assert alone.variants[0].guessed == ()
    assert measure_command(alone, [Path("p.jsonl")], reading.run, None) is None


def test_a_measured_window_shortens_the_prediction_of_a_train() -> None:
    reading = run_of(*without_windows())
    queued = predict(stream(LARGE), reading).variants[0].wall
    followed = predict(stream(LARGE), run_of(*curves())).variants[0].wall
    assert queued - followed == pytest.approx((MANY - 1) * 10_000e-9)


# -------------------------------------------------------------------------------------------------- gap and rate


def written(program: Profile, reading: list[Point], folder: Path) -> tuple[str, str]:
    program.ranks[:] = [rank(0), rank(1)]
    program.header.command = ["./app"]
    write(program, folder / "profile.jsonl")
    return str(folder / "profile.jsonl"), saved(run("a", *reading), folder)


def test_twice_the_rate_of_messages_is_half_the_gap(netpipe: Netpipe, tmp_path: Path) -> None:
    files = written(stream(8), curves(), tmp_path)
    gap, rate = (
        json.loads(netpipe("predict", *files, "--what", what, "--json").out)
        for what in ("gap=0.5x", "rate=2x")
    )
    assert gap == rate
    assert gap["what"]["gap"] == 0.5
    (one,) = gap["variants"]
    assert one["before_s"] - one["seconds"] == pytest.approx(
        (MANY - 1) * GAP / 2 * 1e-9 / 2
    )  # mean of two ranks


@pytest.mark.parametrize("what", ["rate=0x", "gap=-1x", "gap=nanx", "gap=infx", "rate=2"])
def test_gaps_that_no_network_has_are_refused(netpipe: Netpipe, tmp_path: Path, what: str) -> None:
    said = netpipe("predict", *written(stream(8), curves(), tmp_path), "--what", what)
    assert said.code == 2
    assert f"--what {what} is not understood" in said.err


def test_without_the_curve_a_gap_changes_nothing_and_that_is_said() -> None:
    reading = run_of(*without_windows())
    found = predict(stream(8), reading, factors=Factors(gap=8))
    assert found.variants[0].seconds == predict(stream(8), reading).variants[0].seconds
    assert any(note.startswith("gap changes nothing over mpi@x") for note in found.notes)
    assert not any("gap changes" in note for note in predict(stream(8), run_of(*curves())).notes)


def test_a_train_of_small_messages_is_sensitive_to_the_gap() -> None:
    (one,) = sensitivities([stream(8, many=100)], run_of(*curves())).variants
    by_name = {each.name: each for each in one.parameters}
    assert list(by_name) == ["latency", "overhead", "bandwidth", "gap"]
    assert by_name["gap"].share.value == pytest.approx(99 * GAP / (LATENCY + 99 * GAP), rel=1e-3)
    assert by_name["latency"].share.value == pytest.approx(900 / (LATENCY + 99 * GAP), rel=1e-3)
    (tolerance, *_) = by_name["gap"].tolerances
    assert tolerance.factor == pytest.approx(1 + 0.01 * (LATENCY + 99 * GAP) / (99 * GAP), rel=1e-3)
    assert matters(one).startswith("gap matters most")


def test_without_the_curve_nothing_is_said_about_the_gap() -> None:
    reading = run_of(*without_windows())
    found = sensitivities([stream(8)], reading)
    assert [each.name for each in found.variants[0].parameters] == ["latency", "overhead", "bandwidth"]
    assert any(note.startswith("nothing is said about the gap over mpi@x") for note in found.notes)
    there = sensitivities([stream(8)], run_of(*curves()))
    assert not any("gap" in note for note in there.notes)


@pytest.mark.parametrize(("width", "headings"), [(80, 6), (200, 3)])
def test_four_parameters_fit_on_a_terminal(width: int, headings: int) -> None:
    out = Console(file=io.StringIO(), width=width, highlight=False)
    print_sensitivities(out, sensitivities([stream(8)], run_of(*curves())))
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    tables = [line for line in lines if line.rstrip().endswith(("overhead", "gap")) and " " * 3 in line]
    assert len(tables) == headings
