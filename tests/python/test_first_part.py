# SPDX-License-Identifier: Apache-2.0
"""A program of which only the first part is replayed: its trace ends early, or is too long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from profiled import rank
from test_prediction import point, run_of
from test_prediction_verdict import written
from traced import Event, traced

from netpipe.prediction import held, predict, sensitivities
from netpipe.prediction.predict import Predicted
from netpipe.profiles import NotAProfile, Profile, Trace
from netpipe.profiles.lines import EVENT_COLUMNS, write
from netpipe.profiles.trace.chosen import first_part
from netpipe.profiles.trace.first_part import FirstPart, replayed
from netpipe.profiles.trace.rows import truncated
from netpipe.render.page.programs.prediction import elsewhere
from netpipe.render.terminal.apps import Line

if TYPE_CHECKING:
    from conftest import Netpipe

TURNS, EVERY = 100, 10_000  # ns
SENDS, RECEIVES = 10, 4000  # ns that the calls of a turn take in the trace
OF_A_TURN = (SENDS + RECEIVES) / 2 * 1e-9  # seconds, mean over both ranks
TWO = run_of(point("pingpong", 8, 1000, "mpi@a"), point("pingpong", 8, 9000, "mpi@b"))
PART = "this is a prediction of the first part of the program, which has 50 % of its time in MPI"


def program(kept: int | None = None, times: int = 1, turns: int = TURNS) -> Profile:
    """Rank 0 sends a message to rank 1 in each turn. Of rank 0 the trace has the first `kept` events. The calls take
    `times` as long.
    """
    sends: list[Event] = [("Send", EVERY * turn, SENDS * times, 8, 1, 0) for turn in range(turns)]
    receives: list[Event] = [("Recv", EVERY * turn, RECEIVES * times, 8, 0, 0) for turn in range(turns)]
    made = traced(sends, receives)
    made.ranks[:] = [
        rank(number, seconds=turns * EVERY * 1e-9, mpi_s=turns * took * times * 1e-9, events=turns)
        for number, took in enumerate((SENDS, RECEIVES))
    ]
    made.header.command = ["./app"]
    if kept is not None:
        made.ranks[0].events_complete = False
        made.ranks[0].events = kept
        made.traces[0] = cut(made.traces[0], kept)
    return made


def cut(trace: Trace, kept: int) -> Trace:
    return Trace.of(trace.rank, {name: trace.column(name)[:kept] for name in EVENT_COLUMNS})


HALF = TURNS // 2 + 1  # the last event that is kept may be of half a call


def seconds(found: Predicted) -> dict[str, float]:
    return {one.variant: one.seconds for one in found.variants}


def part_of(found: Predicted) -> FirstPart:
    assert found.part is not None
    return found.part


# -------------------------------------------------------------------------------------------- which part it is


def test_a_whole_trace_is_replayed_whole() -> None:
    assert first_part([program()], 2 * TURNS) is None
    assert predict(program(), TWO).part is None


def test_where_the_trace_of_one_rank_ends_early_all_ranks_end() -> None:
    assert first_part([program(HALF)], 2 * TURNS) == {0: TURNS // 2, 1: TURNS // 2}
    (made,), part = replayed([program(HALF)], 2 * TURNS)
    assert (made.events, made.unmatched) == (TURNS, 0)
    assert part is not None
    assert part.share == pytest.approx(0.5)
    assert (part.events, part.of_events, part.bounded, part.early) == (TURNS, TURNS + HALF, False, (0,))


def test_a_trace_that_was_cut_off_with_its_file_ends_early() -> None:
    made = program()
    made.traces[1] = cut(made.traces[1], 20)
    assert truncated(made) == [1]
    assert first_part([made], 2 * TURNS) == {0: 19, 1: 19}


def test_all_launches_have_the_same_part() -> None:
    launches = [program(HALF), program(31), program()]
    assert first_part(launches, 2 * TURNS) == {0: 30, 1: 30}
    made, _ = replayed(launches, 6 * TURNS)
    assert [one.events for one in made] == [60] * 3


def test_the_bound_is_for_all_launches_together() -> None:
    made, part = replayed([program(), program()], 60)
    assert [one.events for one in made] == [30, 30]
    assert part is not None
    assert (part.events, part.of_events, part.bounded, part.early) == (60, 4 * TURNS, True, ())


def test_where_nothing_is_left_that_is_said() -> None:
    with pytest.raises(NotAProfile, match="the trace of rank 0 ends with its first call"):
        predict(program(1), TWO)
    with pytest.raises(NotAProfile, match="nothing can be replayed of so few events"):
        predict(program(), TWO, most_events=1)


# ------------------------------------------------------------------------------------------------- its numbers


def test_half_a_trace_is_compared_with_its_own_time() -> None:
    """The time of the other half would be added to each variant, whichever it is."""
    whole, half = (predict(program(kept), TWO, own="mpi@a") for kept in (None, HALF))
    assert half.measured == pytest.approx(TURNS / 2 * OF_A_TURN)
    assert half.residual is not None
    assert half.residual.measured == half.measured
    for variant, time in seconds(whole).items():
        assert seconds(half)[variant] == pytest.approx(time / 2, rel=0.02)
    for one, other in zip(whole.variants, half.variants, strict=True):
        assert other.wall == pytest.approx(one.wall / 2, rel=0.02)
        assert (other.low, other.high) == pytest.approx((one.low / 2, one.high / 2), rel=0.02)
    assert half.pairs[0].times.value == pytest.approx(whole.pairs[0].times.value, rel=0.02)


def test_what_share_the_part_has_is_said() -> None:
    found = predict(program(HALF), TWO, own="mpi@a")
    assert found.notes[0] == (
        f"{PART}: the first 100 of 151 events in the traces are replayed; the trace of rank 0 ends early, and netpipe "
        "profile --events N keeps more"
    )
    assert not any("have no other half" in note for note in found.notes)
    bounded = predict(program(), TWO, own="mpi@a", most_events=TURNS)
    assert bounded.notes[0].startswith(PART)
    assert bounded.notes[0].endswith("are replayed, and netpipe predict --events N replays more")


def test_sensitivity_is_that_of_the_part() -> None:
    found = sensitivities([program(HALF)], TWO, own="mpi@a")
    assert found.part is not None
    assert found.part.counts == {0: TURNS // 2, 1: TURNS // 2}
    assert "which has 50 % of its time in MPI" in found.notes[0]


def test_what_is_replayed_is_told() -> None:
    said: list[str] = []
    predict(program(), TWO, tell=said.append)
    assert said == ["reading the trace", "replaying mpi@a, 1 of 2", "replaying mpi@b, 2 of 2"]


# ------------------------------------------------------------------------------------- held against what was measured


@pytest.mark.parametrize("kept", [None, HALF, TURNS - 1], ids=["whole", "as early", "later"])
def test_the_same_part_is_measured(kept: int | None) -> None:
    found = predict(program(HALF), TWO, own="mpi@a")
    (one,) = held(found, {"mpi@a": [program(kept, times=2)]})
    assert one.measured == pytest.approx(TURNS * OF_A_TURN)
    assert one.error == pytest.approx(-0.5, abs=0.01)
    assert {name: there for name, _, there, _ in one.by_call} == pytest.approx(
        {"Recv": TURNS * RECEIVES / 2 * 1e-9, "Send": TURNS * SENDS / 2 * 1e-9}
    )


@pytest.mark.parametrize("kept", [None, HALF], ids=["whole", "part"])
def test_a_measured_trace_that_ends_before_is_refused(kept: int | None) -> None:
    found = predict(program(kept), TWO, own="mpi@a")
    with pytest.raises(NotAProfile, match="its trace of rank 0 ends before what is predicted") as refused:
        held(found, {"mpi@b": [program(), program(40)]})
    assert "the profile over mpi@b cannot be compared" in str(refused.value)


def test_a_program_that_made_fewer_calls_than_predicted_is_compared() -> None:
    """It may find fewer messages by a test: the trace of a program that ended is whole."""
    found = predict(program(), TWO, own="mpi@a", most_events=TURNS)
    (one,) = held(found, {"mpi@a": [program(turns=TURNS // 4)]})
    assert one.measured == pytest.approx(TURNS / 4 * OF_A_TURN)


# --------------------------------------------------------------------------------------------------- shown


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Half a program, and the curves."""
    return [*written(program(HALF), TWO, tmp_path, "half.jsonl"), "--own", "mpi@a"]


def test_the_command_says_it_on_the_terminal_and_in_json(netpipe: Netpipe, files: list[str]) -> None:
    said = netpipe("predict", *files)
    assert said.code == 0, said.err
    assert PART in " ".join(said.out.split())
    assert "this part" in said.out.splitlines()[0]
    part = {"share": pytest.approx(0.5), "events": TURNS, "of_events": TURNS + HALF, "ends_early": [0]}
    told = json.loads(netpipe("predict", *files, "--sensitivity", "--json").out)
    assert (told["part"], told["sensitivity"]["part"]) == (part, part)


def test_more_or_fewer_events_can_be_asked_for(netpipe: Netpipe, files: list[str]) -> None:
    told = json.loads(netpipe("predict", *files, "--events", "40", "--sensitivity", "--json").out)
    assert (told["part"]["events"], told["sensitivity"]["part"]["events"]) == (40, 40)
    assert "--events 40 --measure" in told["measure"]
    assert netpipe("predict", *files, "--events", "0").code == 2


def test_the_command_shows_what_it_does(
    netpipe: Netpipe, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Line, "show", lambda _, text: said.append(text))
    assert netpipe("predict", *files, "--what", "latency=2x").code == 0
    assert said == 2 * ["reading the trace", "replaying mpi@a, 1 of 2", "replaying mpi@b, 2 of 2"]


def test_the_page_says_it_too() -> None:
    found = elsewhere([program(HALF)], TWO, "mpi@a")
    assert any(note.startswith(f"T{PART[1:]}") for note in found.notes)
    assert [column.name for column in found.table.columns][-1] == "this part"


def test_a_whole_program_says_nothing_of_parts(netpipe: Netpipe, files: list[str], tmp_path: Path) -> None:
    write(program(), tmp_path / "whole.jsonl")
    files[0] = str(tmp_path / "whole.jsonl")
    said = netpipe("predict", *files).out
    assert "first part" not in said
    assert "whole run" in said.splitlines()[0]
    assert json.loads(netpipe("predict", *files, "--json").out)["part"] is None
