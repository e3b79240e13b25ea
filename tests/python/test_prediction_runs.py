# SPDX-License-Identifier: Apache-2.0
"""The curves of a prediction: of several runs, on several numbers of ranks, and those that have to be measured."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from profiled import rank
from test_prediction import point, run_of, traced

from netpipe.cli.predict import measured as measuring
from netpipe.cli.predict.measured import request
from netpipe.events import Progress, Ready
from netpipe.failure import Failure
from netpipe.prediction import (
    Sensitivities,
    UnknownVariant,
    costs,
    held,
    one_run,
    own_variant,
    predict,
    sensitivities,
)
from netpipe.prediction.costs import Factors
from netpipe.prediction.lacking import MOST_SIZES, Part, lacking, needed, on_ranks, parts, without_first
from netpipe.prediction.runs import without_ranks
from netpipe.profiles import Profile
from netpipe.profiles.lines import write
from netpipe.profiles.trace.calls import calls
from netpipe.reading import Reading
from netpipe.records import SCHEMA, End, Header, Point, Run, Variant, encode
from netpipe.records import Rank as MeasuredRank
from netpipe.render.lacking import measure_command
from netpipe.render.terminal.live import Lines
from netpipe.render.terminal.predict import print_prediction
from netpipe.render.terminal.rows import Console
from netpipe.render.terminal.split import broken, cells, split_tables
from netpipe.render.terminal.split import parts as parts_of
from netpipe.session import _header

if TYPE_CHECKING:
    from conftest import Netpipe

SHM, TCP = "mpi@x:transport=shm", "mpi@x:transport=tcp"


def run(name: str, *points: Point, ranks: int = 2, completes: tuple[str, ...] = ()) -> Run:
    found = Run()
    found.header = Header(schema=SCHEMA, run=name * 32, completes=[one * 32 for one in completes])
    found.path = Path(f"{name}.jsonl")
    for variant in dict.fromkeys(one.variant for one in points):
        those = [MeasuredRank(rank=number) for number in range(ranks)]
        found.add(Variant(variant=variant, module="mpi@x", ranks=those))
    for one in points:
        found.add(one)
    found.end = End(exit=0, reason="done")
    return found


def one_message(mpi_s: float = 3e-6) -> Profile:
    program = traced([("Send", 0, 5, 8, 1, 0)], [("Recv", 0, 50, 8, 0, 0)])
    program.ranks[:] = [rank(0, mpi_s=mpi_s), rank(1, mpi_s=mpi_s)]
    program.header.command = ["./app"]
    return program


def names(whole: Run) -> list[str]:
    return list(dict.fromkeys(one.variant for one in whole.points))


# ------------------------------------------------------------------------------------------------- several runs


def test_a_variant_that_one_run_has_keeps_its_name() -> None:
    whole = one_run([run("a", point("pingpong", 8, 1000, SHM)), run("b", point("pingpong", 8, 9000, TCP))])
    assert names(whole) == [SHM, TCP]
    assert own_variant(one_message(), whole, SHM) == SHM


def test_a_variant_of_two_runs_is_two_with_their_labels_and_either_is_its_own() -> None:
    whole = one_run([run("a", point("pingpong", 8, 1000, SHM)), run("b", point("pingpong", 8, 9000, SHM))])
    assert names(whole) == [f"{SHM} @a", f"{SHM} @b"]
    assert own_variant(one_message(), whole, SHM) == f"{SHM} @a"
    assert own_variant(one_message(), whole, f"{SHM} @b") == f"{SHM} @b"


def test_the_library_of_the_profile_is_found_below_a_label_too() -> None:
    program = one_message()
    program.header.module = "mpi@x"
    two = [run(name, point("pingpong", 8, 1000, "mpi@x")) for name in "ab"]
    assert own_variant(program, one_run(two)) == "mpi@x @a"
    found = predict(program, Reading(one_run(two)), own_variant(program, one_run(two)))
    assert found.residual is not None
    assert own_variant(program, run("a", point("pingpong", 8, 1000, SHM))) is None


def test_a_variant_that_no_run_has_is_refused_with_those_that_they_have() -> None:
    with pytest.raises(UnknownVariant, match=f"{TCP} is no variant of the runs; they have {SHM}"):
        own_variant(one_message(), run("a", point("pingpong", 8, 1000, SHM)), TCP)


def test_a_run_that_completes_another_adds_to_its_curves() -> None:
    given = run("a", point("pingpong", 8, 1000, SHM))
    more = run(
        "b",
        point("pingpong", 1024, 5000, SHM),
        point("collective:what=bcast", 8, 700, SHM),
        point("pingpong", 8, 3000, TCP),
        completes=("a",),
    )
    found = costs(Reading(one_run([given, more])))
    assert list(found) == [SHM, TCP]
    assert (found[SHM].latency(8), found[SHM].latency(1024)) == (1000, 5000)
    assert found[SHM].collective("Bcast", 2, 8) == 700


def test_a_run_that_completes_one_that_completes_another_belongs_to_the_first() -> None:
    first = run("a", point("pingpong", 8, 1000, SHM))
    second = run("b", point("pingpong", 16, 2000, SHM), completes=("a",))
    third = run("c", point("pingpong", 32, 3000, SHM), completes=("b",))
    assert names(one_run([third, second, first])) == [SHM]


def test_runs_that_complete_each_other_end() -> None:
    two = [
        run("a", point("pingpong", 8, 1000, SHM), completes=("b",)),
        run("b", point("pingpong", 8, 1000, SHM), completes=("a",)),
    ]
    assert len(names(one_run(two))) == 2


# ------------------------------------------------------------------------------------------- numbers of ranks


@pytest.mark.parametrize(
    ("variant", "plain"),
    [
        ("mpi@x:ranks=4", "mpi@x"),
        (f"{SHM},ranks=16", SHM),
        ("mpi@x:ranks=4,transport=shm", SHM),
        (f"{SHM},ranks=4,wait=poll @a", f"{SHM},wait=poll @a"),
        ("mpi@x:ranks=4 @a", "mpi@x @a"),
    ],
)
def test_a_variant_without_its_number_of_ranks(variant: str, plain: str) -> None:
    assert without_ranks(variant) == plain


def test_collectives_of_several_numbers_of_ranks_are_those_of_one_variant() -> None:
    four = on_ranks(SHM, 4)
    whole = one_run(
        [
            run("a", point("pingpong", 8, 1000, SHM), point("collective", 8, 300, SHM)),
            run(
                "b",
                point("pingpong", 8, 7000, four),
                point("collective", 8, 900, four),
                ranks=4,
                completes=("a",),
            ),
        ]
    )
    (found,) = costs(Reading(whole)).values()
    assert found.latency(8) == 1000  # of two ranks
    assert found.collective("Allreduce", 2, 8) == 300
    assert found.collective("Allreduce", 4, 8) == 900


# ------------------------------------------------------------------------------------------------ what is lacking


def test_collectives_are_needed_on_the_ranks_of_their_communicator() -> None:
    two = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 2)
    four = traced(*[[("Allreduce", 0, 9, 16, -2, 0)]] * 4)
    need = needed([calls(two), calls(four)])
    assert need["collective:what=allreduce", 2] == {8}
    assert need["collective:what=allreduce", 4] == {16}
    assert need["pingpong", 2] == {8}


def test_a_barrier_is_measured_with_bytes() -> None:
    need = needed([calls(traced(*[[("Barrier", 0, 9, 0, -2, 0)]] * 2))])
    assert need["collective:what=barrier", 2] == {8}


def test_of_many_sizes_some_are_measured_the_least_and_the_largest_among_them() -> None:
    many = [("Send", 10 * size, 5, size, 1, 0) for size in range(1, 100)]
    there = [("Recv", 10 * size, 5, size, 0, 0) for size in range(1, 100)]
    sizes = needed([calls(traced(many, there))])["pingpong", 2]
    assert len(sizes) == MOST_SIZES
    assert {1, 99} <= sizes


NEED = {("pingpong", 2): {8, 64}, ("collective", 2): {8}, ("collective", 4): {8}}


def test_only_what_no_run_has_is_lacking() -> None:
    reading = run_of(point("pingpong", 8, 1000, SHM), point("collective", 8, 300, SHM))
    found = lacking(NEED, reading, [SHM, TCP])
    assert found == {SHM: {("pingpong", 2): {64}, ("collective", 4): {8}}, TCP: NEED}
    assert lacking(NEED, None, [SHM]) == {SHM: NEED}


def test_a_barrier_of_any_size_will_do() -> None:
    need = {("collective:what=barrier", 2): {8}}
    reading = run_of(point("collective:what=barrier", 64, 300, SHM))
    assert lacking(need, reading, [SHM, TCP]) == {SHM: {}, TCP: need}


def test_a_collective_on_other_ranks_is_no_substitute_and_its_own_is_found() -> None:
    four = on_ranks(SHM, 4)
    given = run("a", point("collective", 8, 900, four), point("pingpong", 8, 1, four), ranks=4)
    found = lacking(NEED, Reading(given), [SHM])
    assert found == {SHM: {("pingpong", 2): {64}, ("collective", 2): {8}}}


def test_first_messages_are_lacking_where_no_run_has_them() -> None:
    reading = run_of(point("pingpong", 8, 1000, SHM), point("first", 4, 300, SHM))
    assert without_first(reading, [SHM, TCP]) == [TCP]


def test_parts_measure_what_is_lacking_and_nothing_else() -> None:
    found = parts({SHM: {("pingpong", 2): {64}, ("collective", 4): {8}}, TCP: NEED})
    measured = {
        (variant, pattern, one.ranks, size)
        for one in found
        for variant in one.variants
        for pattern in one.patterns
        for size in one.sizes
    }
    assert measured == {
        (SHM, "pingpong", 2, 64),
        (SHM, "collective", 4, 8),
        (TCP, "pingpong", 2, 8),
        (TCP, "pingpong", 2, 64),
        (TCP, "collective", 2, 8),
        (TCP, "collective", 4, 8),
    }
    assert Part((SHM, TCP), ("collective",), (8,), 4) in found


def test_a_part_is_asked_for_with_its_sizes_launches_and_the_runs_that_it_completes() -> None:
    asked = request(Part((SHM,), ("collective",), (8, 64), 4), {"budget": "2"}, 4, ["a"])
    assert asked.variants == [f"{SHM},ranks=4"]
    assert asked.settings == {"schedule": "list", "sizes": "8,64", "budget": "2"}
    assert (asked.launches, asked.completes) == (4, ["a"])


# ------------------------------------------------------------------------------------------------------- commands


def saved(found: Run, folder: Path) -> str:
    path = folder / f"{found.path}"
    lines = [encode(one) for one in (found.header, *found.body(), found.end) if one is not None]
    path.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))
    return str(path)


@pytest.fixture
def program(tmp_path: Path) -> str:
    write(one_message(), tmp_path / "profile.jsonl")
    return str(tmp_path / "profile.jsonl")


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    return [
        saved(run("a", point("pingpong", 8, 1000, SHM)), tmp_path),
        saved(run("b", point("pingpong", 8, 9000, TCP)), tmp_path),
    ]


def test_predict_takes_several_runs_with_the_variant_of_the_profile(
    netpipe: Netpipe, program: str, two: list[str]
) -> None:
    found = json.loads(netpipe("predict", program, *two, "--own", SHM, "--json").out)
    assert [one["variant"] for one in found["variants"]] == [SHM, TCP]
    assert found["own"]["variant"] == SHM
    refused = netpipe("predict", program, *two, "--own", "mpi@y")
    assert refused.code == 2
    assert f"--own mpi@y is no variant of the runs; they have {SHM}, {TCP}" in refused.err


def test_the_page_carries_over_what_predict_does(
    netpipe: Netpipe, program: str, two: list[str], tmp_path: Path
) -> None:
    said = netpipe("report", program, *two, "--own", SHM, "-o", str(tmp_path / "page.html"))
    assert said.code == 0, said.err
    page = (tmp_path / "page.html").read_text()
    printed = netpipe("predict", program, *two, "--own", SHM).out
    assert "3.00 [" in printed
    assert "3.00 [" in page
    assert f"its own library ({SHM})" in page
    assert "By call and size" in page
    assert "Where the model and the profile differ most" in page


@pytest.mark.parametrize("command", ["report", "plot"])
def test_own_is_for_a_profile_beside_a_run_that_has_it(
    netpipe: Netpipe, program: str, two: list[str], command: str, tmp_path: Path
) -> None:
    target = ("-o", str(tmp_path / "out.svg"))
    alone = netpipe(command, *two, "--own", SHM, *target)
    assert alone.code == 2
    assert "--own says what a profile was taken over" in alone.err
    other = netpipe(command, program, *two, "--own", "mpi@y", *target)
    assert other.code == 2
    assert "--own mpi@y is no variant of the runs" in other.err
    assert not (tmp_path / "out.svg").exists()


def test_the_figure_carries_over_what_predict_does(
    netpipe: Netpipe, program: str, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(traced([("Send", 0, 600, 8, 1, 0)], [("Recv", 0, 900, 8, 0, 0)]), Path(program))
    used = []

    def seen(*arguments: Any) -> Sensitivities:
        used.append(arguments[2])
        return sensitivities(*arguments)

    monkeypatch.setattr("netpipe.prediction.sensitivities", seen)
    said = netpipe("plot", program, *two, "--own", SHM, "--format", "terminal")
    assert said.code == 0, said.err
    assert used == [SHM]


def test_what_if_shows_what_is_before_and_after(netpipe: Netpipe, program: str, two: list[str]) -> None:
    words = ("predict", program, two[1], "--what", "latency=0.5x")
    text = netpipe(*words).out
    assert "before" in text
    assert "4.50 µs -> 2.25 µs" in text  # the receive; the send is processor time
    (one,) = json.loads(netpipe(*words, "--json").out)["variants"]
    assert (one["before_s"], one["seconds"]) == (pytest.approx(6.75e-6), pytest.approx(4.5e-6))
    (plain,) = json.loads(netpipe(*words[:3], "--json").out)["variants"]
    assert plain["before_s"] is None


def test_a_prediction_is_held_against_what_was_measured(
    netpipe: Netpipe, program: str, two: list[str], tmp_path: Path
) -> None:
    write(one_message(mpi_s=9e-6), tmp_path / "tcp.jsonl")
    words = ("predict", program, *two, "--own", SHM, "--measured", TCP, str(tmp_path / "tcp.jsonl"))
    text = netpipe(*words).out
    assert "holds it" in text
    assert f"over {TCP} they differ most in" in text
    (one,) = json.loads(netpipe(*words, "--json").out)["measured"]
    assert (one["variant"], one["seconds"], one["holds"]) == (TCP, pytest.approx(9e-6), True)


def test_what_cannot_be_held_against_each_other_is_refused(
    netpipe: Netpipe, program: str, two: list[str], tmp_path: Path
) -> None:
    other = traced(*[[("Allreduce", 0, 9, 8, -2, 0)]] * 4)
    other.ranks[:] = [rank(number) for number in range(4)]
    write(other, tmp_path / "four.jsonl")
    for name, path, says in (
        ("mpi@y", program, "--measured mpi@y is no variant of the runs"),
        (TCP, str(tmp_path / "four.jsonl"), "has 4 ranks and the predicted program 2"),
    ):
        said = netpipe("predict", program, *two, "--measured", name, path)
        assert said.code == 2
        assert says in said.err


def test_of_several_measured_launches_the_median_counts_and_a_miss_is_said() -> None:
    found = predict(one_message(), run_of(point("pingpong", 8, 1000, SHM)))
    (one,) = held(found, {SHM: [one_message(mpi_s) for mpi_s in (1e-3, 3e-3, 2e-3)]})
    assert (one.measured, one.launches, one.holds) == (2e-3, 3, False)
    assert one.error == pytest.approx(found.variants[0].seconds / 2e-3 - 1)


class Checked:
    """A session whose plan has the names as they are given; it cannot measure `itself`."""

    asked: ClassVar[list[Any]] = []

    def __init__(self, request: Any) -> None:
        self.asked.append(request)
        named = [Variant(variant=one, module="mpi@x") for one in request.variants]
        self.plan = type("Plan", (), {"variants": named, "patterns": request.patterns})
        reasons = [{"reason": "no"} if pattern == "itself" else {} for pattern in request.patterns]
        self.answer = {"curves": reasons}
        self.longest_s = 30.0
        self.request = request


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests for which sessions were made."""
    monkeypatch.setattr("netpipe.session.Session", Checked)
    monkeypatch.setattr(Checked, "asked", [])
    return Checked.asked


def test_nothing_is_measured_where_the_runs_lack_nothing(
    asked: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    need = needed([calls(one_message())])
    there = [point(pattern, size, 100, SHM) for (pattern, _), sizes in need.items() for size in sizes]
    given = run("a", *there, point("first", 4, 100, SHM))
    assert measuring.measure([one_message()], [given], [SHM], tmp_path / "out.jsonl", {}, 4) is None
    assert "the runs have all curves that this program needs" in capsys.readouterr().err
    assert len(asked) == 1  # which names the patterns


def test_what_is_lacking_goes_into_one_run_part_by_part(
    asked: list[Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    program = traced(*[[("Allreduce", 0, 9, 16, -2, 0), ("Barrier", 9, 9, 0, -2, 0)]] * 4)
    onto = []

    def measured(session: Any, given: dict[str, Any], shown: object) -> Any:
        onto.append(given["onto"])
        points = [
            point(pattern, 8, 1, one)
            for one in session.request.variants
            for pattern in session.request.patterns
        ]
        saved(run("out", *points, completes=("a",)), tmp_path)
        return type("Result", (), {"exit_code": 0, "run": Run()})

    monkeypatch.setattr("netpipe.command.measuring.measure", measured)
    monkeypatch.setattr("netpipe.applications.contact.first_contacts", lambda names, tell: {names[0]: [700]})
    given = run("a", point("pingpong", 8, 100, SHM))
    found = measuring.measure([program], [given], [SHM], tmp_path / "out.jsonl", {"budget": "2"}, 3)
    assert found is not None
    assert costs(Reading(one_run([given, found])))[SHM].first == 700
    _, *parts = asked
    assert onto == [False, *[True] * (len(parts) - 1)]
    assert {one.launches for one in parts} == {3}
    assert {tuple(one.completes) for one in parts} == {("a" * 32,)}
    assert [(list(one.variants), list(one.patterns), one.settings["sizes"]) for one in parts][1:] == [
        ([f"{SHM},ranks=4"], ["collective:what=allreduce"], "16"),
        ([f"{SHM},ranks=4"], ["collective:what=barrier"], "8"),
    ]
    said = capsys.readouterr().err
    assert "in 3 launches, about" in said
    assert "3 of 3: collective:what=barrier at 1 size on 4 ranks" in said


def test_what_is_measured_never_replaces_a_run_that_it_completes(
    asked: list[Any], netpipe: Netpipe, program: str, two: list[str]
) -> None:
    said = netpipe("predict", program, *two, "--measure", TCP, "--output", two[1])
    assert said.code == 2
    assert "is one of the runs" in said.err
    found = predict(one_message(), run_of(point("pingpong", 8, 1000, SHM)))
    whole = run("a", point("pingpong", 8, 1000, SHM))
    for name, more in (("a.jsonl", ""), ("predict.jsonl", " --output more-predict.jsonl")):
        files = [Path("profile.jsonl"), Path(name)]
        expected = f"netpipe predict profile.jsonl {name} --measure {SHM}{more}"
        assert measure_command(found, files, whole, None) == expected


def test_a_wrong_name_is_refused_before_anything_is_measured(
    asked: list[Any],
    netpipe: Netpipe,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    two: list[str],
) -> None:
    monkeypatch.setattr("netpipe.command.measuring.measure", lambda *_: pytest.fail("it measures"))
    for option in (("--own", "mpi@y"), ("--measured", "mpi@y", program)):
        said = netpipe("predict", program, two[0], "--measure", TCP, *option)
        assert said.code == 2
        assert f"{option[0]} mpi@y is no variant of the runs; they have {SHM}, {TCP}" in said.err


def test_the_launches_of_a_part_are_counted_from_one() -> None:
    said: list[str] = []
    ready = Ready(variants=1, points=2, budget_s=3.0)
    for so_far, launch in ((0, 3), (4, 4), (4, 5)):
        part = measuring.OfPart(Lines(said.append), so_far)
        part.show(Progress(Run(), ready, launch, 3 + so_far - launch, []))
    assert [text.partition(":")[0] for text in said] == [
        "4th of 4 launches",
        "1st of 4 launches",
        "2nd of 4 launches",
    ]


def test_what_no_variant_can_measure_is_left_out_and_named(
    asked: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    alone = traced([("Irecv", 0, 3, 4096, 0, 1), ("Send", 3, 40, 4096, 0, 0), ("Wait", 43, 7, 4096, 0, 1)])
    need = needed([calls(alone)])
    there = [
        point(pattern, size, 100, SHM)
        for (pattern, _), sizes in need.items()
        for size in sizes
        if pattern != "itself"
    ]
    given = run("a", *there, point("first", 4, 100, SHM))
    with pytest.raises(Failure, match="nothing that the runs lack can be measured"):
        measuring.measure([alone], [given], [SHM], tmp_path / "out.jsonl", {}, 4)
    assert "left out: itself at 1 size on 2 ranks" in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------------- tables


def many() -> Profile:
    """Ten sizes."""
    some = [("Send", 100 * size, 5, size, 1, 0) for size in range(1, 11)]
    return traced(some, [("Recv", 100 * size, 5, size, 0, 0) for size in range(1, 11)])


def test_the_split_has_every_variant_and_all_of_the_time() -> None:
    six = [f"mpi@library{number}:transport=shm" for number in range(6)]
    reading = run_of(*(point("pingpong", 8, 1000.0 * (1 + place), name) for place, name in enumerate(six)))
    found = predict(many(), reading)
    for one in found.variants:
        assert sum(part.of(one.by_call) for part in parts_of(found)) == pytest.approx(
            sum(one.by_call.values())
        )
    assert parts_of(found)[-1].call.endswith(" more")
    tables = split_tables(found, 80)
    assert len(tables) > 1
    assert all(table.fits(80) for table in tables)


def test_a_heading_is_a_name_on_several_lines() -> None:
    assert broken("mpi@openmpi:transport=shm") == ["mpi@openmpi:", "transport=shm"]
    assert broken("tcp") == ["tcp"]


def test_a_cell_has_the_time_before_and_after_and_its_share() -> None:
    reading = run_of(point("pingpong", 8, 1000, SHM))
    found = predict(one_message(), reading, factors=Factors(latency=0.5))
    first = parts_of(found)[0]
    (one,) = found.variants
    (was,) = predict(one_message(), reading).variants
    time, share = cells(first, one.by_call, one.seconds, was.by_call)
    assert time == "500 ns -> 250 ns"
    assert share.endswith("%")


def test_sessions_write_the_runs_that_they_complete() -> None:
    assert _header([], completes=["a" * 32]).completes == ["a" * 32]


def test_nothing_is_cut_at_eighty_columns() -> None:
    six = [f"mpi@library{number}:transport=shm" for number in range(6)]
    reading = run_of(*(point("pingpong", 8, 1000.0 * (1 + place), name) for place, name in enumerate(six)))
    before = predict(many(), reading, own=six[0])
    found = predict(many(), reading, own=six[0], factors=Factors(latency=0.5))
    out = Console(file=io.StringIO(), width=80)
    print_prediction(out, found, None, before, held(before, {six[0]: [many()]}))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in six)
