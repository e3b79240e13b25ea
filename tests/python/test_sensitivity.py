# SPDX-License-Identifier: Apache-2.0
"""How a program's time depends on the network: programs whose times can be added up by hand."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from profiled import rank
from test_prediction import LATENCY, Event, point, run_of, traced

from netpipe.prediction import Sensitivities, Sensitivity, sensitivities
from netpipe.prediction.predict import LEAST_ERROR, predict
from netpipe.prediction.sensitivity import FACTORS, REACH, SLOWER, Parameter
from netpipe.profiles import Profile
from netpipe.profiles.lines import write
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.records import SCHEMA, End, Header, Variant, encode
from netpipe.records import Rank as MeasuredRank
from netpipe.render import figures
from netpipe.render.drawing.picture import NothingToDraw, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.page.profile import page
from netpipe.render.page.programs.prediction import elsewhere
from netpipe.render.terminal.rows import Console
from netpipe.render.terminal.sensitivity import matters, print_sensitivities, sensitivity_json

if TYPE_CHECKING:
    from conftest import Netpipe

ERROR = math.exp(LEAST_ERROR)
COMPUTES = 10_000  # ns, before each message
TURNS = 5


def ping_pong(size: int = 8, computes: int = COMPUTES, took: float = LATENCY, turns: int = TURNS) -> Profile:
    """Each rank answers when it has computed, so that the other one waits for computation and message. Every call takes
    what the trace of such a program would have.
    """
    one: list[Event] = []
    other: list[Event] = []
    now = free = 0  # free: since when the other rank waits
    for _ in range(turns):
        sent = now + computes
        arrives = sent + round(took)
        answered = arrives + computes
        back = answered + round(took)
        one += [("Send", sent, 1, size, 1, 0), ("Recv", sent + 1, back - sent - 1, size, 1, 0)]
        other += [("Recv", free, arrives - free, size, 0, 0), ("Send", answered, 1, size, 0, 0)]
        now, free = back, answered + 1
    return traced(one, other)


@pytest.fixture(autouse=True)
def no_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in these traces but the program."""
    monkeypatch.setattr("netpipe.profiles.trace.first_part.PROFILER_NS", 0.0)


def flat_run(*sizes: tuple[int, float], overhead: float = 0.0) -> Reading:
    """Times by size, with a processor time of calls that is the same for all."""
    points = []
    for size, time in sizes:
        points += [point("pingpong", size, time), point("bidirectional", size, time)]
        for side in ("send", "recv"):
            points.append(point(f"overhead:side={side}", size, overhead))
    return run_of(*points)


def only(found: Sensitivities) -> Sensitivity:
    (one,) = found.variants
    return one


def parameter(one: Sensitivity, name: str) -> Parameter:
    (found,) = [each for each in one.parameters if each.name == name]
    return found


SMALL = flat_run((8, LATENCY), (1 << 20, 1e6))
TURN = 2 * (COMPUTES + LATENCY)  # ns
# of each rank in each turn: it waits for the other's computation and two messages
IN_MPI = COMPUTES + 2 * LATENCY


def test_small_messages_are_sensitive_to_latency_alone() -> None:
    one = only(sensitivities([ping_pong()], SMALL))
    latency = parameter(one, "latency")
    for step in latency.steps:
        assert step.whole.value == pytest.approx(1 + 2 * LATENCY * (step.factor - 1) / TURN)
    for name in ("overhead", "bandwidth"):
        assert parameter(one, name).share == Estimate(0.0, 0.0, 0.0)
        assert {step.whole for step in parameter(one, name).steps} == {Estimate(1.0, 1.0, 1.0)}
    assert matters(one).startswith("latency matters most")


def test_the_factors_are_octaves_and_that_of_one_changes_nothing() -> None:
    one = only(sensitivities([ping_pong()], SMALL))
    for each in one.parameters:
        assert [step.factor for step in each.steps] == sorted([1.0, *FACTORS])
        (plain,) = [step for step in each.steps if step.factor == 1]
        assert plain.mpi == plain.whole == Estimate(1.0, 1.0, 1.0)


def test_a_tolerance_is_the_latency_that_can_be_added() -> None:
    one = only(sensitivities([ping_pong()], SMALL))
    for tolerance in parameter(one, "latency").tolerances:
        # The program is slower by twice the added latency in each turn.
        assert one.added_ns(tolerance.factor) == pytest.approx(tolerance.slower * TURN / 2, rel=1e-3)
        assert tolerance.low is not None
        assert tolerance.high is not None
        assert tolerance.factor is not None
        assert 1 < tolerance.low < tolerance.factor < tolerance.high


def test_what_is_tolerated_without_end_is_said_so() -> None:
    for tolerance in parameter(only(sensitivities([ping_pong()], SMALL)), "overhead").tolerances:
        assert (tolerance.factor, tolerance.low, tolerance.high) == (None, None, None)


def test_large_messages_are_sensitive_to_bandwidth() -> None:
    large = flat_run((8, LATENCY), (4096, 101 * LATENCY))
    one = only(sensitivities([ping_pong(4096, took=101 * LATENCY)], large))
    bandwidth = parameter(one, "bandwidth")
    turn = 2 * (COMPUTES + 101 * LATENCY)
    for step in bandwidth.steps:
        assert step.whole.value == pytest.approx(1 + 200 * LATENCY * (1 / step.factor - 1) / turn)
    slower = [one.factor for one in bandwidth.tolerances]
    assert all(factor is not None and factor < 1 for factor in slower)
    assert slower == sorted(slower, key=lambda factor: -(factor or 0.0))
    assert matters(one).startswith("bandwidth matters most")


def test_a_message_that_is_there_costs_overhead() -> None:
    """The receiver is late, so nobody waits for the message, and its copy is what it costs."""
    late = traced([("Send", 0, 100, 8, 1, 0)], [("Recv", 50_000, 300, 8, 0, 0)])
    one = only(sensitivities([late], flat_run((8, LATENCY), overhead=200.0)))
    assert parameter(one, "overhead").share.value == pytest.approx(1.0)
    assert parameter(one, "latency").share.value == 0


def test_slack_is_tolerated_before_a_curve_bends() -> None:
    """A message that arrives 9 us before it is needed can be 9 us later, and every one beyond that counts."""
    late = traced([("Send", 0, 0, 8, 1, 0)], [("Recv", 10_000, 0, 8, 0, 0)])
    one = only(sensitivities([late], flat_run((8, LATENCY))))
    for tolerance in parameter(one, "latency").tolerances:
        assert one.added_ns(tolerance.factor) == pytest.approx(9000 + tolerance.slower * 10_000, rel=0.05)


def test_shares_and_the_rest_are_the_whole_time_in_mpi() -> None:
    one = only(sensitivities([ping_pong()], SMALL))
    assert parameter(one, "latency").share.value == pytest.approx(2 * LATENCY / IN_MPI, rel=0.05)
    assert one.rest == pytest.approx(COMPUTES / IN_MPI, rel=0.05)


def test_waiting_for_computation_is_said_to_be_none_of_them() -> None:
    found = sensitivities([ping_pong()], SMALL)
    assert any("computation of other ranks" in note for note in found.notes)
    assert not any("computation" in note for note in sensitivities([ping_pong(computes=1)], SMALL).notes)


def test_what_the_replay_does_not_explain_may_depend_on_the_parameter_or_not() -> None:
    """The profile has twice the time that the model says."""
    program = traced([("Send", 0, 0, 8, 1, 0)], [("Recv", 0, 2000, 8, 0, 0)])
    one = only(sensitivities([program], flat_run((8, LATENCY)), own="mpi@x"))
    assert one.unexplained == pytest.approx(0.5)
    (doubled,) = [step.mpi for step in parameter(one, "latency").steps if step.factor == 2]
    assert doubled.value == pytest.approx(1.5)
    assert doubled.high >= 2.0 * 0.999
    assert doubled.low <= 1 + 0.5 / ERROR + 1e-9


def test_a_model_that_says_too_much_takes_no_more_than_the_whole() -> None:
    program = traced([("Send", 0, 0, 8, 1, 0)], [("Recv", 0, 700, 8, 0, 0)])
    one = only(sensitivities([program], flat_run((8, LATENCY)), own="mpi@x"))
    assert parameter(one, "latency").share.value == pytest.approx(1.0)
    assert one.unexplained is not None
    assert one.unexplained < 0


def test_a_change_is_no_surer_than_a_prediction() -> None:
    latency = parameter(only(sensitivities([ping_pong()], SMALL)), "latency")
    for step in latency.steps:
        if step.factor != 1:
            change, low, high = step.whole.value - 1, step.whole.low - 1, step.whole.high - 1
            near, far = sorted([abs(low), abs(high)])
            assert near <= abs(change) / ERROR * 1.001
            assert far >= abs(change) * ERROR * 0.999


def test_launches_that_differ_widen_the_interval() -> None:
    alike = [ping_pong(computes=10_000)] * 3
    apart = [ping_pong(computes=computes) for computes in (1000, 10_000, 60_000)]
    one, other = (
        [
            step.whole
            for step in parameter(only(sensitivities(some, SMALL)), "latency").steps
            if step.factor == 16
        ]
        for some in (alike, apart)
    )
    assert other[0].high / other[0].low > one[0].high / one[0].low


def test_of_ranks_that_share_processors_nothing_is_said() -> None:
    found = sensitivities([ping_pong()], SMALL, processors=1)
    assert found.variants == []
    (note,) = found.notes
    assert "shared 1 processor of" in note


def test_of_calls_without_the_other_half_nothing_is_said() -> None:
    """As in the profile of a program of whose ranks one has left nothing behind."""
    program = ping_pong()
    del program.traces[1]
    found = sensitivities([program], SMALL)
    assert found.variants == []
    (note,) = found.notes
    assert note.startswith(
        "nothing is said about what the program is sensitive to: 100 % of the time in MPI is that of calls which"
    )


def test_calls_that_take_what_they_took_are_told() -> None:
    program = traced(
        [("Send", 0, 1, 8, 1, 0), ("Comm_split", 10, 50, 0, -2, 0)],
        [("Recv", 0, 1000, 8, 0, 0), ("Comm_split", 1000, 50, 0, -2, 0)],
    )
    notes = sensitivities([program], SMALL).notes
    assert any(
        note.startswith("9 % of the time in MPI is that of calls which the replay leaves") for note in notes
    )


def test_a_long_trace_is_cut_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netpipe.prediction.sensitivity.MOST_EVENTS", 12)
    found = sensitivities([ping_pong()], SMALL)
    assert any(note.startswith("the sensitivity is that of the first part") for note in found.notes)
    assert found.part is not None
    assert found.part.events == 12
    assert f"the first 12 of {found.part.of_events} events" in found.notes[0]
    assert sensitivities([ping_pong()], SMALL, most_events=found.part.of_events).part is None


def test_the_time_is_that_of_the_prediction_for_messages_to_itself_too() -> None:
    program = traced(
        [
            ("Irecv", 0, 3, 4096, 0, 1),
            ("Send", 3, 4000, 4096, 0, 0),
            ("Wait", 4003, 7, 4096, 0, 1),
            ("Send", 5000, 10, 8, 1, 0),
        ],
        [("Recv", 0, 8000, 8, 0, 0)],
    )
    program.ranks[0].mpi_s, program.ranks[1].mpi_s = 4020e-9, 8000e-9
    reading = run_of(
        *(
            point(pattern, 4096, time, variant)
            for variant, within in (("mpi@x", 2000.0), ("mpi@y", 8000.0))
            for pattern, time in (("pingpong", 1000.0), ("itself", within))
        )
    )
    told = predict(program, reading, own="mpi@x")
    assert told.residual is not None
    rest = told.residual.measured - told.residual.predicted
    assert rest > 0
    curves = sensitivities([program], reading, own="mpi@x").variants
    unexplained = {one.variant: one.unexplained for one in curves}
    for one in told.variants:
        assert unexplained[one.variant] == pytest.approx(rest / one.seconds)


# ----------------------------------------------------------------------------------------------------------- shown


def printed(found: Sensitivities, width: int = 80) -> str:
    stream = io.StringIO()
    print_sensitivities(Console(file=stream, width=width, highlight=False), found)
    return stream.getvalue()


def test_the_tables_fit_on_a_terminal() -> None:
    text = printed(sensitivities([ping_pong()], SMALL))
    assert max(map(len, text.splitlines())) <= 80
    assert "1 % slower" in text
    assert "…" not in text
    assert f"> {REACH:.0f} ×" in text
    assert "16 ×" in text


def test_numbers_that_are_not_known_are_null_in_json() -> None:
    said = json.loads(json.dumps(sensitivity_json(sensitivities([ping_pong()], SMALL))))
    (one,) = said["sensitivity"]["variants"]
    by_name = {each["name"]: each for each in one["parameters"]}
    assert by_name["overhead"]["tolerances"][0]["factor"] is None
    assert by_name["latency"]["tolerances"][0]["added_ns"] == pytest.approx(0.01 * TURN / 2, rel=1e-3)
    assert [each["slower"] for each in by_name["latency"]["tolerances"]] == list(SLOWER)
    assert sensitivity_json(None) == {}


def test_what_hardly_takes_any_time_does_not_matter() -> None:
    small = Estimate(0.001, 0.0005, 0.002)
    one = Sensitivity(
        "mpi@x", 1.0, 8, tuple(Parameter(name, small, (), ()) for name in ("latency", "overhead")), None
    )
    assert matters(one).startswith("none of these matters")


def test_undecided_which_matters_most() -> None:
    def of(name: str, low: float, value: float, high: float) -> Parameter:
        return Parameter(name, Estimate(value, low, high), (), ())

    one = Sensitivity("mpi@x", 1.0, 8, (of("latency", 0.2, 0.4, 0.6), of("bandwidth", 0.1, 0.3, 0.5)), None)
    assert matters(one) == "undecided which matters most: the intervals of latency and bandwidth meet"


def test_the_figure_has_both_times_for_each_variant() -> None:
    (panel,) = figures.get("sensitivity").panels(Scope((SMALL,), profiles=(ping_pong(),)))
    assert [view.label for view in panel.views] == [
        "mpi@x: whole run, times as long",
        "mpi@x: time in MPI, times as long",
    ]
    for view in panel.views:
        assert isinstance(view, Picture)
        assert [line.label for line in view.lines] == ["latency", "overhead", "bandwidth"]
        assert view.lines[0].x == (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
        assert all(
            low <= y <= high
            for line in view.lines
            for low, y, high in zip(line.low, line.y, line.high, strict=True)
        )


def test_the_figure_says_of_which_first_part_of_the_program_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Scope((SMALL, SMALL), profiles=(ping_pong(),))
    assert figures.get("sensitivity").panels(both)[0].note == ""
    monkeypatch.setattr("netpipe.prediction.sensitivity.MOST_EVENTS", 12)
    (note,) = {panel.note for panel in figures.get("sensitivity").panels(both)}
    assert note.startswith("The sensitivity is that of the first part of the program, which has ")
    assert note.endswith(", and netpipe predict --events N replays more.")
    assert note.count("the first 12 of ") == 1, "once, however many runs there are"


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        (Scope((SMALL,)), "no profile"),
        (Scope((), profiles=(ping_pong(),)), "no run"),
        (Scope((run_of(point("stream", 8, 9.0)),), profiles=(ping_pong(),)), "no ping-pong"),
    ],
)
def test_a_figure_that_cannot_be_drawn_says_what_it_needs(scope: Scope, why: str) -> None:
    with pytest.raises(NothingToDraw, match=why):
        figures.get("sensitivity").panels(scope)


def test_the_page_of_a_profile_with_a_run_has_curves_and_tolerances() -> None:
    program = ping_pong()
    text = page(program, there=elsewhere([program], SMALL))
    assert 'id="elsewhere"' in text
    assert text.count('<svg class="chart"') == 2
    assert "5 % slower" in text
    assert 'id="elsewhere"' not in page(program)


# --------------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    program = ping_pong()
    program.ranks[:] = [rank(0), rank(1)]
    program.header.command = ["./app"]
    write(program, tmp_path / "profile.jsonl")
    ranks = [MeasuredRank(rank=0), MeasuredRank(rank=1)]
    records = [
        Header(schema=SCHEMA, run="0" * 32),
        Variant(variant="mpi@x", module="mpi@x", ranks=ranks),
        point("pingpong", 8, LATENCY),
        End(exit=0, reason="done"),
    ]
    lines = [encode(one) for one in records]
    (tmp_path / "run.jsonl").write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))
    return tmp_path / "profile.jsonl", tmp_path / "run.jsonl"


def test_predict_prints_and_writes_the_sensitivity(netpipe: Netpipe, files: tuple[Path, Path]) -> None:
    words = ("predict", *map(str, files), "--sensitivity")
    said = netpipe(*words)
    assert said.code == 0, said.err
    assert "whole run" in said.out
    assert "5 % slower" in said.out
    as_json = json.loads(netpipe(*words, "--json").out)
    assert as_json["sensitivity"]["variants"][0]["variant"] == "mpi@x"
    assert "sensitivity" not in json.loads(netpipe("predict", *map(str, files), "--json").out)


def test_plot_draws_the_sensitivity_of_a_profile_beside_a_run(
    netpipe: Netpipe, files: tuple[Path, Path], tmp_path: Path
) -> None:
    said = netpipe("plot", *map(str, files), "-o", str(tmp_path / "s.svg"))
    assert said.code == 0, said.err
    assert "Sensitivity of a program to the network" in (tmp_path / "s.svg").read_text()


def test_report_has_the_section_if_there_is_a_run(
    netpipe: Netpipe, files: tuple[Path, Path], tmp_path: Path
) -> None:
    said = netpipe("report", *map(str, files), "-o", str(tmp_path / "page.html"))
    assert said.code == 0, said.err
    assert 'id="elsewhere"' in (tmp_path / "page.html").read_text()


def test_what_does_not_go_together_is_refused(netpipe: Netpipe, files: tuple[Path, Path]) -> None:
    for words, says in (
        (("predict", *files, "--sensitivity", "--what", "latency=2x"), "leave --what out"),
        (("plot", *files, "--figure", "latency"), "leave the profile out"),
    ):
        said = netpipe(*map(str, words))
        assert said.code == 2
        assert says in said.err
