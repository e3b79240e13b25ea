# SPDX-License-Identifier: Apache-2.0
"""Runs against each other: compare and check, on made-up runs whose truth is known."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from repeated import SIZES, made, same
from rich.console import Console

from netpipe.cli import group
from netpipe.failure import Failure
from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.across.between import RUNS_APART, wider
from netpipe.reading.across.differences import differences, paces
from netpipe.reading.across.gate import Result as Outcome
from netpipe.reading.across.gate import gate, judged
from netpipe.reading.across.merge import merged
from netpipe.reading.blocks.verdicts import SizeVerdict, Word
from netpipe.reading.estimate import Estimate, unsure
from netpipe.records import End, Environment, Header, Point, Rank, Run, Variant, Yardstick, encode
from netpipe.render import figures
from netpipe.render.drawing.paper.draw import drawn
from netpipe.render.drawing.picture import NothingToDraw, Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures.comparison import MOST_TICKS, OPEN, ratio_axis
from netpipe.render.terminal.compare import nothing_seen, ratio_text


def written(run: Run, path: Path, started: str = "2026-11-01T10:00:00Z", host: str = "node17") -> Path:
    """As a file, with what a real run has around its points."""
    run_id = hashlib.sha256(f"{started} {path.name}".encode()).hexdigest()[:32]
    header = Header(schema=1, run=run_id, netpipe="0.1.0", started=started, host=host, argv=["run"])
    lines = [encode(header), encode(Environment(host=host, facts={"cpu": {"model": "A"}}))]
    lines += [encode(record) for record in run.body() if not isinstance(record, (Header, End, Environment))]
    path.write_bytes(b"".join([*lines, encode(End(exit=0, reason="done", seconds=1.0))]))
    return path


def call(*words: object) -> Result:
    return CliRunner().invoke(group, [str(word) for word in words], obj=[], standalone_mode=False)


def test_runs_that_do_not_differ_are_told_apart_in_at_most_one_of_twenty() -> None:
    told = curves = 0
    for seed in range(100):
        two = [made({"tcp": same, "shm": same, "pipe": same}, 2 * seed + n, run_noise=0.003) for n in (0, 1)]
        found = Reading(merged(two)).between
        assert len(found) == 3
        told += sum(one.differs for one in found)
        curves += len(found)
    assert told <= 0.05 * curves


def test_three_percent_more_are_found() -> None:
    """With one launch more than a run has by default, on a machine whose launches differ by 0.5 %."""
    found = 0
    for seed in range(40):
        before = made({"tcp": same, "shm": same, "pipe": same}, 2 * seed, launches=5)
        after = made({"tcp": lambda _: 1.03, "shm": same, "pipe": same}, 2 * seed + 1, launches=5)
        (tcp,) = [one for one in Reading(merged([before, after])).between if one.variant == "tcp"]
        found += tcp.differs and tcp.overall.covers(1.03)
    assert found >= 38


def test_a_difference_from_some_size_on_is_found_where_it_is() -> None:
    before = made({"tcp": same, "shm": same, "pipe": same}, 1)
    after = made({"tcp": lambda size: 1.5 if size >= 1 << 16 else 1.0, "shm": same, "pipe": same}, 2)
    tcp, *others = Reading(merged([before, after])).between
    assert [at.size_bytes for at in tcp.of(Word.SLOWER)] == [size for size in SIZES if size >= 1 << 16]
    assert not tcp.of(Word.FASTER)
    assert not any(one.differs for one in others)


def test_points_without_visits_decide_nothing() -> None:
    before, after = made({"tcp": same}, 1), made({"tcp": lambda _: 2.0}, 2)
    for run in (before, after):
        run.points[:] = [
            msgspec.structs.replace(point, visits=None, low_ns=None, high_ns=None) for point in run.points
        ]
    (tcp,) = Reading(merged([before, after])).between
    assert tcp.overall.value == pytest.approx(2, rel=0.05)
    assert {at.word for at in tcp.sizes} == {Word.UNDECIDED} == {tcp.word}
    assert "no intervals" in nothing_seen([tcp])


def test_one_curve_each_is_compared_whatever_its_name_is() -> None:
    ours, theirs = made({"mpi@mpich": same}, 1), made({"osu_latency": same}, 2)
    (one,) = Reading(merged([ours, theirs])).between
    assert (one.against.partition(" ")[0], one.label.partition(" ")[0]) == ("mpi@mpich", "osu_latency")
    assert not Reading(merged([made({"tcp": same, "shm": same}, 1), theirs])).between


def test_what_else_differs_is_said_and_what_always_differs_is_not() -> None:
    def run(kernel: str, congestion: str, port: int, bounce: float) -> Run:
        made_up = examples.run(examples.point("tcp", 8, 100.0), variants=("tcp",))
        facts = {"kernel": {"release": kernel}, "load": {"average_1": port}, "memory": {"free_bytes": port}}
        made_up.environments = [Environment(host="node17", facts=facts)]
        settings = {"congestion": congestion, "local": f"127.0.0.1 port {port}"}
        made_up.variants = [
            Variant(variant="tcp", module="tcp", version="Linux", ranks=[Rank(rank=0, settings=settings)])
        ]
        # The processor's own speed is measured more closely than what several share.
        multiply = 0.90 if bounce == 50 else 0.92
        made_up.yardsticks = [Yardstick(bounce_ns=bounce, copy_bytes_per_s=1e10, multiply_ns=multiply)]
        return made_up

    before, after = run("6.1", "bbr", 1, 50.0), run("6.18", "cubic", 2, 100.0)
    found = differences(before, after)
    assert {(one.of, one.name, one.before, one.after) for one in found} == {
        ("host", "kernel.release", "6.1", "6.18"),
        ("tcp", "congestion", "bbr", "cubic"),
    }
    assert [(pace.name, pace.differs) for pace in paces(before, after)] == [
        ("cache-line bounce", True),
        ("memory copy", False),
        ("multiplication", True),
    ]
    assert not differences(before, run("6.1", "bbr", 3, 50.0))


@pytest.mark.parametrize(
    ("times", "result"),
    [
        (Estimate(1.10, 1.06, 1.14), Outcome.FAILED),
        (Estimate(1.10, 0.99, 1.21), Outcome.UNDECIDED),  # may be nothing, may be much
        (Estimate(1.03, 1.02, 1.04), Outcome.PASSED),  # surely slower, and by less than the limit
        (Estimate(1.03, 0.99, 1.07), Outcome.UNDECIDED),
        (Estimate(1.00, 0.97, 1.03), Outcome.PASSED),
        (Estimate(0.80, 0.75, 0.85), Outcome.BETTER),
        (Estimate(0.98, 0.95, 1.01), Outcome.PASSED),
        (Estimate(0.90, 0.50, 1.60), Outcome.UNDECIDED),
        (unsure(2.0), Outcome.UNDECIDED),
    ],
)
def test_a_metric_fails_on_effect_size_and_significance(times: Estimate, result: Outcome) -> None:
    assert judged(times, 0.05, 0.1) is result
    assert judged(times, 0.05, None) is (Outcome.PASSED if result is Outcome.BETTER else result)


def test_each_metric_is_of_its_size() -> None:
    before = made({"tcp": same, "shm": same, "pipe": same}, 1)
    after = made({"tcp": lambda size: 1.5 if size == SIZES[-1] else 1.0, "shm": same, "pipe": same}, 2)
    found = gate(Reading(merged([before, after])).between, {"latency": 0.05, "throughput": 0.05, "any": 0.05})
    assert {(one.variant, one.metric) for one in found if one.result is Outcome.FAILED} == {
        ("tcp", "throughput"),
        ("tcp", "any"),
    }
    latency = [one for one in found if one.metric == "latency"]
    assert {one.size_bytes for one in latency} == {1}  # there is no 8


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return written(made({"tcp": same, "shm": same, "pipe": same}, 1), tmp_path / "before.jsonl")


@pytest.fixture
def after(tmp_path: Path) -> Path:
    slow = {"tcp": lambda size: 1.5 if size > 4096 else 1.0, "shm": same, "pipe": same}
    return written(made(slow, 2), tmp_path / "after.jsonl", started="2026-11-02T10:00:00Z")


def test_compare_names_what_is_slower_and_where(before: Path, after: Path) -> None:
    done = call("compare", before, after)
    assert done.exception is None, done.exception
    assert "tcp, after against before: slower over all sizes" in " ".join(done.stdout.split())
    assert "slower from 16 KiB on, most at" in " ".join(done.stdout.split())
    sizes = call("compare", before, after, "--sizes", "--variant", "tcp").stdout
    assert sizes.count("slower") == sum(size > 4096 for size in SIZES)
    assert "shm" not in sizes
    answer = json.loads(call("compare", before, after, "--json").stdout)
    assert {curve["variant"] for curve in answer["curves"]} == {"tcp", "shm", "pipe"}
    assert answer["against"] == "before"


def test_limits_that_say_nothing_do_not_push_the_names_off_the_screen() -> None:
    """Three very noisy launches: an interval of a factor of 10^16, seen on a busy machine."""
    assert ratio_text(Estimate(1.03, 1.01, 1.05)) == "1.03 [1.01 1.05]"
    assert ratio_text(Estimate(1.0, 2.4e-16, 4.15e15)) == "~1.00"


def test_check_is_a_gate(before: Path, after: Path) -> None:
    failed = call("check", after, "--baseline", before)
    assert failed.return_value == 1
    assert "throughput at 1 MiB: 1.5" in " ".join(failed.stdout.split())
    assert call("check", after, "--baseline", before, "--slower", "latency=50%").return_value == 0
    assert call("check", before, "--baseline", before).return_value == 0
    assert call("check", before, "--baseline", after, "--faster", "10%").return_value == 1
    answer: dict[str, Any] = json.loads(call("check", after, "--baseline", before, "--json").stdout)
    assert answer["exit"] == 1


def test_a_curve_that_is_gone_fails_the_check(before: Path, tmp_path: Path) -> None:
    fewer = written(made({"tcp": same, "shm": same}, 3), tmp_path / "fewer.jsonl")
    done = call("check", fewer, "--baseline", before, "--slower", "all=50%")
    assert done.return_value == 1
    assert "pipe pingpong is in the baseline, and the run has none of its sizes" in done.stdout
    assert (
        call("check", fewer, "--baseline", before, "--slower", "all=50%", "--variant", "tcp").return_value
        == 0
    )


def only(run: Run, kept: Callable[[Point], bool], path: Path) -> Path:
    run.points[:] = filter(kept, run.points)
    return written(run, path)


def test_the_same_variant_at_other_sizes_is_not_compared(tmp_path: Path) -> None:
    small = only(made({"tcp": same}, 1), lambda point: point.size_bytes < 1000, tmp_path / "small.jsonl")
    large = only(made({"tcp": same}, 2), lambda point: point.size_bytes > 1000, tmp_path / "large.jsonl")
    for words in (("compare", small, large), ("check", large, "--baseline", small)):
        done = call(*words)
        assert isinstance(done.exception, Failure)
        assert done.exception.exit_code == 2
        assert "the runs have no size of one variant and pattern in common" in done.exception.sentence


def test_a_curve_that_is_there_at_other_sizes_alone_fails_the_check(before: Path, tmp_path: Path) -> None:
    apart = made({"tcp": same, "shm": same, "pipe": same}, 3)
    for point in apart.points:
        point.size_bytes += point.variant == "shm"
    done = call(
        "check", written(apart, tmp_path / "apart.jsonl"), "--baseline", before, "--slower", "all=50%"
    )
    assert done.return_value == 1
    assert "shm pingpong is in the baseline, and the run has none of its sizes" in done.stdout


def test_the_page_says_how_much_wider_the_intervals_between_runs_are() -> None:
    found = wider(Estimate(1.0, 0.9, 1.1))
    said = f"from 0.90 to 1.10 around 1 becomes one from {found.low:.2f} to {found.high:.2f}"
    page = Path(__file__).resolve().parents[2] / "docs/how-to/compare-runs.md"
    assert RUNS_APART == 2
    assert "twice as wide" in page.read_text()
    assert said in " ".join(page.read_text().split())


def test_what_cannot_be_told_is_said_and_is_an_error_only_if_asked_for(tmp_path: Path) -> None:
    noisy = [
        written(made({"tcp": same}, seed, launch_noise=0.2), tmp_path / f"{seed}.jsonl") for seed in (1, 2)
    ]
    done = call("check", noisy[1], "--baseline", noisy[0], "--slower", "all=1%")
    assert done.return_value == 0
    assert "1 metric of 1 cannot be told" in done.stdout
    said = " ".join(done.stdout.split())
    assert said.endswith(
        "nothing was checked: the only metric cannot be told; with --strict that is exit code 5"
    )
    assert "passed" not in said
    assert "✓" not in said
    assert call("check", noisy[1], "--baseline", noisy[0], "--slower", "all=1%", "--strict").return_value == 5


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("compare", "before"), "name a second run"),
        (("compare", "before", "other"), "no size of one variant and pattern in common"),
        (("compare", "before", "after", "--variant", "udp"), "no points of variant 'udp'"),
        (
            ("check", "after", "--baseline", "before", "--slower", "latncy=5%"),
            "there is no metric 'latncy'; there are latency",
        ),
        (("check", "after", "--baseline", "before", "--slower", "all=-5%"), "not a percentage of 0 or more"),
        (("check", "after", "--baseline", "before", "--slower", "all=5%,all=6%"), "all is there twice"),
        (("check", "after", "--baseline", "before", "--slower", "all"), "write 5% or latency=5%"),
        (("check", "after", "--baseline", "before", "--slower", "all,any=5%"), "'all' is not METRIC=PERCENT"),
        (("check", "after", "--baseline", "before", "--faster", "alle=5%"), "there is no metric 'alle'"),
        (("check", "after", "--baseline", "before", "--faster", "much"), "not a percentage of 0 or more"),
        (("check", "after", "--baseline", "last"), "there is no history"),
    ],
)
def test_wrong_words_get_a_sentence(
    before: Path,
    after: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.setenv("NETPIPE_HISTORY", str(tmp_path / "none"))
    other = written(made({"udp": same, "sctp": same}, 3), tmp_path / "other.jsonl")
    files = {"before": before, "after": after, "other": other}
    after_baseline = [n for n, word in enumerate(words) if word == "--baseline"]
    said = [
        files.get(word, word) if n == 0 or word in files or n - 1 in after_baseline else word
        for n, word in enumerate(words)
    ]
    done = call(*said)
    assert isinstance(done.exception, Failure)
    assert done.exception.exit_code == 2
    assert sentence in done.exception.sentence


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_comparison_fits_the_terminal_and_cuts_nothing(tmp_path: Path, columns: int) -> None:
    from netpipe.command.comparing import compared_runs
    from netpipe.render.terminal.compare import print_comparison, print_differences
    from netpipe.render.terminal.gate import print_gate

    name = "mpi@openmpi:transport=tcp"
    slow = {name: lambda size: 0.5 if size < 64 else 1.5, "tcp": same}
    before = written(made({name: same, "tcp": same}, 1), tmp_path / "before.jsonl")
    after = written(made(slow, 2), tmp_path / "after.jsonl", started="2026-11-02T10:00:00Z")
    found = compared_runs([Run.read(one, samples=False) for one in (before, after)], (), ())
    text = io.StringIO()
    out = Console(file=text, width=columns)
    for _, different, pace in found.others:
        print_differences(out, different, pace)
    print_comparison(out, found.between, every_size=False)
    limits = {"latency": 0.05, "throughput": 0.05, "all": 0.05, "any": 0.1}
    print_gate(out, gate(found.between, limits), (), (), found)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in text.getvalue()
    assert sum(line.startswith(name) for line in lines) >= 2, "in both tables"
    assert re.search(r"\bslower at 8 sizes, faster at 3$", text.getvalue(), re.MULTILINE)
    assert len(re.findall(r"  failed$", text.getvalue(), re.MULTILINE)) == 1
    for size in ("latency", "throughput", "all", "any", "all sizes"):
        assert size in text.getvalue()


# ------------------------------------------------------------------------------------------ the figure


def compared_views(runs: list[Run], **chosen: tuple[str, ...]) -> list[Picture]:
    (panel,) = figures.get("comparison").panels(Scope(tuple(map(Reading, runs)), **chosen))
    return [view for view in panel.views if isinstance(view, Picture)]


def test_the_figure_colours_what_is_told_apart_and_nothing_else() -> None:
    before = made({"tcp": same, "shm": same, "pipe": same}, 1, path="before.jsonl")
    after = made(
        {"tcp": lambda size: 1.5 if size >= 1 << 16 else 0.7, "shm": same, "pipe": same},
        2,
        path="after.jsonl",
    )
    views = {view.label: view for view in compared_views([before, after])}
    assert list(views) == ["tcp", "shm", "pipe"]
    lines = {line.label: line for line in views["tcp"].lines if line.label}
    assert list(lines) == [OPEN, "faster", "slower"]
    assert lines["slower"].size_bytes == tuple(size for size in SIZES if size >= 1 << 16)
    assert lines["faster"].size_bytes == tuple(size for size in SIZES if size < 1 << 16)
    assert lines[OPEN].color is None
    assert [line.label for line in views["shm"].lines if line.label] == [OPEN]
    assert len({(view.x, view.y) for view in views.values()}) == 1
    assert all(
        low <= y <= high
        for line in lines.values()
        for low, y, high in zip(line.low, line.y, line.high, strict=True)
    )


def test_thirteen_curves_of_three_runs_fit_on_a_page() -> None:
    names = [f"layer{number}" for number in range(13)]
    runs = [made(dict.fromkeys(names, same), seed, launches=2, path=f"run{seed}.jsonl") for seed in range(3)]
    scope = Scope(tuple(map(Reading, runs)))
    drawn_panels = figures.get("comparison").panels(scope)
    assert [view.label for view in drawn_panels[0].views[:2]] == ["layer0, run1", "layer0, run2"]
    assert len(drawn(drawn_panels, scope.subtitle).axes) == 26


def test_the_variants_of_one_run_are_drawn_against_the_first() -> None:
    run = made({"tcp": same, "tcp:wait=poll": lambda _: 0.5}, 1)
    (view,) = compared_views([run])
    assert [line.label for line in view.lines if line.label] == [OPEN, "faster"]
    with pytest.raises(NothingToDraw, match="measured by turns"):
        compared_views([run], variants=("tcp",))


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=9))
def test_the_axis_of_ratios_has_a_few_ticks_and_holds_them_all(ratios: list[float]) -> None:
    axis = ratio_axis([SizeVerdict(8, unsure(value), Word.UNDECIDED) for value in ratios])
    assert all(map(axis.holds, [1.0, *ratios]))
    assert 1 <= len(axis.at) <= MOST_TICKS + 1
    assert len(axis.at) >= 3 or axis.high < 1000 * axis.low
    assert any(tick == pytest.approx(1) for tick in axis.at)
    assert all(map(axis.holds, axis.at))


def test_compare_draws_what_it_says(tmp_path: Path) -> None:
    before = written(made({"tcp": same, "shm": same}, 1), tmp_path / "before.jsonl")
    after = written(made({"tcp": lambda _: 1.2, "shm": same}, 2), tmp_path / "after.jsonl")
    result = call("compare", before, after, "--figure", tmp_path / "x.svg", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["against"] == "before"
    texts = (tmp_path / "x.svg").read_text()
    assert "<!-- Time: after over before -->" in texts
    assert "<!-- slower -->" in texts
    wrong = call("compare", before, after, "--figure", tmp_path / "x.gif")
    assert isinstance(wrong.exception, Failure)
    assert "is not .svg, .png or .pdf" in str(wrong.exception)
    assert not (tmp_path / "x.gif").exists()
