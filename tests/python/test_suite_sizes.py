# SPDX-License-Identifier: Apache-2.0
"""Suites of several sizes and kinds of runs, published values, and going on: over the worker that measures nothing."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import test_comparing

from netpipe.cli.suite import files, published, results
from netpipe.cli.suite.parts import Value
from netpipe.cli.suite.runs.base import Done, Planned
from netpipe.failure import USAGE, Failure
from netpipe.reading import Reading
from netpipe.records import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Netpipe, Said

GOOD = """summary = "Two sizes"
source = "this test"

[quick.run]
sizes = "8"
budget = 1
[default.run]
sizes = "8,64k"
budget = 2

[[stands_for]]
paper = "a card"
here = "loopback"
why = "the card is gone"

[[not_measured]]
title = "Figure 9"
why = "it is a drawing"

[[run]]
name = "one"
variants = ["tcp", "shm"]

[[run]]
name = "two"
variants = "tcp"
quick = { launches = 2 }

[[figure]]
title = "Figure 1: all"
run = "one"
figure = "throughput"

[[table]]
title = "Table 1: in numbers"
run = "one"
shows = "summary"
[table.published]
"tcp Card A" = [900, 24]
"pipe Card B" = ["", 10]

[[published]]
what = "Card A: latency"
value = 12
unit = "us"
where = "section 3"
run = "one"
variant = "tcp"
of = "latency"

[[published]]
what = "Card C: most"
value = 8
unit = "Gbps"
where = "section 4"
why = "there is no card C"
"""


def written(text: str = GOOD, path: str = "mine.toml") -> Path:
    Path(path).write_text(text)
    return Path(path)


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


# ------------------------------------------------------------------------------------------------------------- sizes


def test_a_size_changes_what_the_file_says_about_it(fake: Path) -> None:
    suite = files.load(written())
    assert suite.sizes == ("quick", "default")
    assert [run.given["sizes"] for run in suite.runs] == ["8,64k", "8,64k"]
    quick = files.load(Path("mine.toml"), "quick")
    assert [(run.given["sizes"], run.given["budget"], run.given["launches"]) for run in quick.runs] == [
        ("8", "1", None),
        ("8", "1", 2),
    ]


FAR = "127.0.0.1,127.0.0.2"
BETWEEN = GOOD.replace(
    'name = "one"\nvariants = ["tcp", "shm"]\n',
    'name = "one"\nvariants = ["tcp", "shm"]\nranks = "2"\nquick = { launches = 2 }\n'
    'between_hosts = { variants = ["tcp", "tcp:wait=poll"], ranks = "", launches = 3 }\n',
)


@pytest.mark.parametrize("size", ["quick", "default"])
def test_a_run_may_be_another_between_hosts_at_every_size(netpipe: Netpipe, size: str) -> None:
    from netpipe.cli.suite.planning import planned
    from netpipe.cli.suite.runs.base import Site

    assert BETWEEN != GOOD
    suite = files.load(written(BETWEEN), size)
    here, one, far = (planned(suite, Site(hosts=hosts)) for hosts in (None, "127.0.0.1", FAR))
    for found in (here["one"], one["one"]):
        assert (found.run.given["variants"], found.run.given["ranks"]) == (("tcp", "shm"), "2")
    given = far["one"].run.given
    assert (given["variants"], given["ranks"], given["launches"]) == (("tcp", "tcp:wait=poll"), None, 3)
    assert [name for name, _ in far["one"].pairs] == ["tcp", "tcp:wait=poll"]
    assert far["one"].left_out == {}
    assert far["two"].run.given == here["two"].run.given


@pytest.mark.parametrize("name", files.names())
def test_no_suite_that_is_shipped_leaves_a_run_with_shared_memory_alone_between_hosts(
    fake: Path, name: str
) -> None:
    """But the run within a host, and profiles, which are recorded on one."""
    sizes = files.load(files.find(name)).sizes
    for run in (run for size in sizes for run in files.load(files.find(name), size).runs):
        given = run.far or run.given
        asked = given.get("on") or given.get("variants") or ()
        near = [one for one in asked if "transport=shm" in one]
        assert not near or len(near) < len(asked) or run.name == "within" or run.does == "profile", run.name


def test_what_fails_of_an_optional_run_is_said_and_fails_nothing(netpipe: Netpipe) -> None:
    one = changed('name = "one"\n', 'name = "one"\noptional = true\n')
    for text, code in (
        (GOOD, 4),
        (one, 4),
        (one.replace('name = "two"\n', 'name = "two"\noptional = true\n'), 0),
    ):
        written(text)
        said = netpipe("suite", "run", "mine.toml", fake="blame=tcp")
        assert said.code == code
        assert "! run one: tcp: " in said.out
    lost = netpipe("suite", "run", "mine.toml", fake="unopened=tcp")
    assert "! run two: not measured: tcp: it cannot be opened" in " ".join(lost.out.split())


def test_acceptance_measures_every_pair_by_what_its_hosts_may_lack_in_runs_that_are_optional(
    fake: Path,
) -> None:
    for size, most in (("quick", 63), ("default", 63), ("full", None)):
        runs = {run.name: run for run in files.load(files.find("acceptance"), size).runs}
        pairs = {name: run for name, run in runs.items() if run.does == "pairs"}
        optional = {run.given["variants"] for run in pairs.values() if run.optional}
        assert optional == {("ucx",), ("mpi:transport=auto",)}
        assert [run.name for run in pairs.values() if not run.optional] == ["pairs"]
        assert {run.rounds for run in pairs.values()} == {most}


def test_a_size_that_the_file_lacks_is_refused(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml", "--size", "full")
    assert (said.code, said.err) == (
        USAGE,
        "netpipe: the suite mine.toml has no size 'full'; it has quick, default\n",
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[quick.run]", "[quick.runs]", "[quick] has an unknown key 'runs'; did you mean 'run'?"),
        ("quick = { launches = 2 }", "quick = { lunches = 2 }", "[[run]] 'two' has an unknown key 'lunches'; "),
        ("quick = { launches = 2 }", "quick = 3", "[[run]] 'two' quick must be a table"),
        ("quick = { launches = 2 }", 'optional = "yes"', "[[run]] 'two' optional must be true or false"),
        ("quick = { launches = 2 }", "rounds = 9", "[[run]] 'two' has an unknown key 'rounds'; "),
        ("quick = { launches = 2 }", 'kind = "pairs"\nrounds = 2', "'two' rounds must be a whole number of 3 or more"),
        ("quick = { launches = 2 }", "between_hosts = 3", "[[run]] 'two' between_hosts must be a table"),
        ('variants = "tcp"', 'variants = "tcp"\nkind = "ran"', "[[run]] 'two' kind: there is no 'ran'; did you mean"),
        ('shows = "summary"', 'shows = "sumary"', "[[table]] 'Table 1: in numbers' shows: there is no 'sumary' of a"),
        ("= [900, 24]", "= [900]", "published 'tcp Card A' has no list of 2 numbers, one for each of peak, latency"),
        ('unit = "us"', 'unit = "jiffies"', "[[published]] 1 'Card A: latency' unit: there is no 'jiffies'; "),
        ('why = "there is no card C"', "", "[[published]] 2 'Card C: most' why is missing"),
        ('of = "latency"', 'of = "time"', "'Card A: latency' size is missing: at which the time is"),
        ('here = "loopback"', 'hare = "loopback"', "[[stands_for]] 1 has an unknown key 'hare'; did you mean 'here'?"),
        ('why = "it is a drawing"', "", "[[not_measured]] 1 why is missing"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(netpipe: Netpipe, old: str, new: str, sentence: str) -> None:
    written(changed(old, new))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == USAGE
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not Path("mine").exists()


# --------------------------------------------------------------------------------------------------- published values


def rows_of(path: str) -> dict[str, dict[str, str]]:
    return {row["what"]: row for row in csv.DictReader(Path(path).read_text().splitlines())}


def test_published_values_stand_beside_what_was_measured(netpipe: Netpipe) -> None:
    written()
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 0
    found = rows_of("mine/published.csv")
    latency = found["Card A: latency"]
    reading = Run.read("mine/one.jsonl")
    tcp = [point.median_ns for point in reading.points if point.variant == "tcp" and point.size_bytes == 8]
    assert float(latency["here"]) == pytest.approx(tcp[0] / 1e3, rel=1e-3)
    assert float(latency["ratio"]) == pytest.approx(tcp[0] / 12e3, rel=2e-3)
    assert float(latency["low"]) < float(latency["here"]) < float(latency["high"])
    assert (latency["paper"], latency["unit"], latency["of"]) == ("12.0", "us", "tcp")
    assert (found["Card C: most"]["here"], found["Card C: most"]["why"]) == ("", "there is no card C")
    assert float(found["Card A, peak"]["ratio"]) > 0
    assert found["Card B, latency"]["why"] == "pipe was not measured here"
    assert "Card B, peak" not in found
    page = Path("mine/report.html").read_text()
    assert "Card A: latency" in page
    assert "there is no card C" in page
    assert "the card is gone" in page
    assert "Figure 9: it is a drawing" in page
    assert "data:image/svg+xml;base64," in page
    assert "Card A: latency" in said.out


def test_of_several_variants_the_best_one_is_held_against_the_paper(netpipe: Netpipe) -> None:
    written(changed('variant = "tcp"\nof = "latency"', 'variant = "tcp"\nof = "rate"\nsize = "64k"').replace(
        'variants = ["tcp", "shm"]', 'variants = ["tcp:wait=block|poll", "shm"]').replace(
        'unit = "us"', 'unit = "Mbps"'))  # fmt: skip
    assert netpipe("suite", "run", "mine.toml", "-q").code == 0
    points = [one for one in Run.read("mine/one.jsonl").points if one.size_bytes == 65536]
    best = max((one.bytes_per_s or 0.0, one.variant) for one in points if one.variant.startswith("tcp"))
    found = rows_of("mine/published.csv")["Card A: latency"]
    assert (float(found["here"]), found["of"]) == (pytest.approx(best[0] * 8 / 1e6, rel=1e-3), best[1])


def test_a_value_of_a_run_that_failed_says_so(fake: Path) -> None:
    value = Value("what", "where", 1.0, "us", "one", "latency", "tcp")
    (found,) = published.beside([value], {}, {"one": Done(4, "it broke")})
    assert (found.here, found.why, found.ratio) == (None, "it broke", None)


# ---------------------------------------------------------------------------------------------------------- going on


def test_going_on_keeps_what_is_complete(netpipe: Netpipe) -> None:
    written()
    assert netpipe("suite", "run", "mine.toml", "-q").code == 0
    before = {path.name: path.read_bytes() for path in Path("mine").glob("*.jsonl")}
    lines = Path("mine/two.jsonl").read_text().splitlines(keepends=True)
    Path("mine/two.jsonl").write_text("".join(lines[:-1]))  # as if it had been killed
    said = netpipe("suite", "run", "mine.toml", "--continue")
    assert said.code == 0
    assert "netpipe: run one is complete in mine\n" in said.err
    assert "netpipe: run two, 2 of 2\n" in said.err
    assert Path("mine/one.jsonl").read_bytes() == before["one.jsonl"]
    assert Path("mine/two.jsonl").read_bytes() != before["two.jsonl"]
    assert len(list(Path("mine").glob("two*.jsonl"))) == 2  # nothing that was measured is lost
    assert "2 of 2 figures and tables made" in said.out


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("file", "the suite file (SHA-256) was "),
        ("size", "--size was default, and is now quick; measure anew, with another --output"),
        ("host", "the host was elsewhere, and is now "),
        ("netpipe", "netpipe was 0.0, and is now "),
        ("gone", "mine has no suite.json, so there is nothing to continue; leave --continue out"),
        ("damaged", "mine/suite.json cannot be read: "),
        (
            "hosts",
            "--hosts, --launcher, --remote-shell and --set was not given, and is now hosts=127.0.0.1,127.0.0.2",
        ),
    ],
)
def test_going_on_elsewhere_is_refused_with_the_difference(
    netpipe: Netpipe, change: str, sentence: str
) -> None:
    written()
    assert netpipe("suite", "run", "mine.toml", "-q").code == 0
    state = Path("mine/suite.json")
    said: dict[str, Any] = json.loads(state.read_text())
    more = []
    if change == "file":
        written(GOOD + "\n")
    elif change == "size":
        more = ["--size", "quick"]
    elif change == "hosts":
        more = ["--hosts", "127.0.0.1,127.0.0.2"]
    elif change == "gone":
        state.unlink()
    elif change == "damaged":
        state.write_text("{")
    else:
        state.write_text(json.dumps({**said, change: {"host": "elsewhere", "netpipe": "0.0"}[change]}))
    outcome = netpipe("suite", "run", "mine.toml", "--continue", *more)
    assert outcome.code == USAGE
    assert sentence in outcome.err
    assert outcome.err.count("\n") == 1


# ------------------------------------------------------------------------------------------------------- what is shown


def test_show_says_what_is_in_a_suite_and_what_of_it_is_here(netpipe: Netpipe) -> None:
    written(changed('variants = "tcp"', 'variants = "mpi@lam"') + '[[table]]\ntitle = "Lost"\nrun = "two"\n')
    said = netpipe("suite", "show", "mine.toml")
    words = " ".join(said.out.split())
    assert said.code == 0
    assert "sizes: quick, default; this is default" in words
    assert "✓ Figure 1: all: figure throughput of the run one" in words
    assert "✗ Lost: table csv of the run two; not here: mpi@lam was not added" in words
    assert "a card: loopback; the card is gone" in words
    assert "Figure 9: not part of the suite: it is a drawing" in words
    assert "5 published values will stand beside those measured here." in words
    assert [path.name for path in Path().iterdir()] == ["mine.toml"]


def test_list_says_how_long_each_takes_here(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written(path=str(tmp_path / "mine.toml"))
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    said = netpipe("suite", "list", "--times")
    assert said.code == 0
    assert "≤ " in said.out
    assert "Two sizes" in said.out


# -------------------------------------------------------------------------------------------------------------- checks

CHECKED = """summary = "A gate"
source = "this test"

[[run]]
name = "layers"
variants = ["tcp", "shm"]
sizes = "8,64k"
launches = 3

[[check]]
title = "Against the last"
run = "layers"
slower = "all=5%"
"""


def test_a_check_holds_each_run_against_the_history(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NETPIPE_HISTORY", str(tmp_path / "history"))
    written(CHECKED)
    first = netpipe("suite", "run", "mine.toml", "-o", "first")
    assert first.code == 0
    assert "✓ Against the last: there is no earlier run to check against: " in " ".join(first.out.split())
    second = netpipe("suite", "run", "mine.toml", "-o", "second")
    assert second.code == 0
    assert "checked against the last run, of " in " ".join(second.out.split())


def check_of(tmp_path: Path, baseline: Path, run: Path) -> results.Made:
    """What a check of this run against that file says."""
    path = written(CHECKED.replace('slower = "all=5%"', f'slower = "all=5%"\nbaseline = "{baseline}"'))
    part = next(one for one in files.load(path).results if one.kind == "check")
    done = Done(files=(run.name,), reading=Reading(Run.read(run, samples=False)))
    return results.made(part, Planned(part), done, tmp_path)


def test_a_slower_run_fails_its_check(fake: Path, tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    test_comparing.written(test_comparing.made({"tcp": test_comparing.same}, 1), before)
    test_comparing.written(test_comparing.made({"tcp": lambda _: 1.3}, 2), after)
    failed = check_of(tmp_path, before, after)
    assert (failed.code, failed.why_not) == (1, "")
    assert failed.said.startswith("failed against ")
    assert "the time over all sizes: 1.3" in failed.said
    assert check_of(tmp_path, before, before).code == 0


@pytest.fixture
def health(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Said]:
    """health("slow=10"): the suite as it is shipped, with its history."""
    monkeypatch.setenv("NETPIPE_HISTORY", str(tmp_path / "history"))
    return lambda fake="": netpipe("suite", "run", "health", fake=fake)


def test_health_fails_where_the_host_is_far_slower_than_at_its_best(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETPIPE_HISTORY", str(tmp_path / "history"))
    suite = files.load(files.find("health"))
    part = next(one for one in suite.results if one.given.get("baseline") == "best")

    def after(times: float, day: int) -> results.Made:
        path = tmp_path / f"{day}.jsonl"
        run = test_comparing.made({"tcp": lambda _: times}, day)
        test_comparing.written(run, path, f"2026-11-{day:02}T10:00:00Z")
        done = Done(files=(path.name,), reading=Reading(Run.read(path, samples=False)))
        made = results.made(part, Planned(part), done, tmp_path)
        assert results.remember(path) == ""
        return made

    assert after(1.0, 1).said.startswith("there is no earlier run to check against")
    assert after(1.3, 2).code == 0  # not far enough
    for day in (3, 4):  # the best run stays the best
        slow = after(10.0, day)
        assert (slow.code, slow.why_not) == (1, "")
        assert slow.said.startswith("failed against the best run, of 2026-11-01")


def test_health_fails_where_the_machine_disturbs_measurements_severely(health: Callable[..., Said]) -> None:
    good = health()
    assert "checks it: nothing disturbs measurements here severely" in " ".join(good.out.split())
    bad = health("unoptimised")
    assert bad.code == 1
    assert "checks it: The worker was built without optimisation" in " ".join(bad.out.split())


def test_a_check_of_the_machine_takes_no_limits(netpipe: Netpipe) -> None:
    written(CHECKED + "doctor = true\n")
    assert (
        "[[check]] 'Against the last' has an unknown key 'slower'" in netpipe("suite", "run", "mine.toml").err
    )
    written(CHECKED.replace('slower = "all=5%"', "doctor = 1"))
    assert "'Against the last' doctor must be true" in netpipe("suite", "run", "mine.toml").err


def test_the_environment_of_a_test_is_its_own(fake: Path) -> None:
    assert os.environ["NETPIPE_NATIVE"] == str(fake.parents[1])
    with pytest.raises(Failure):
        files.find("none-of-this-name")


def test_a_check_that_cannot_be_made_is_no_pass(netpipe: Netpipe) -> None:
    written(CHECKED.replace('slower = "all=5%"', 'baseline = "gone.jsonl"'))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 4
    assert "✗ Against the last was not made: " in said.out
    assert "gone.jsonl" in said.out


def test_a_limit_that_is_none_is_refused_before_anything_is_measured(netpipe: Netpipe) -> None:
    written(CHECKED.replace("all=5%", "al=5%"))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == USAGE
    assert "[[check]] 'Against the last' slower al=5%: there is no metric 'al'" in said.err
    assert not Path("mine").exists()
