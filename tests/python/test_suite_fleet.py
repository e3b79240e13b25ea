# SPDX-License-Identifier: Apache-2.0
"""Fleets: rounds of pairs, who is slow in made-up fleets whose truth is known, and what is said about it."""

from __future__ import annotations

import csv
import itertools
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pytest
import synthetic
import test_comparing

from netpipe.cli.suite.parts import Part
from netpipe.cli.suite.runs import fleet as fleet_module
from netpipe.cli.suite.runs.base import Done, Planned, Site
from netpipe.cli.suite.runs.fleet import OfHosts, words_of
from netpipe.cli.suite.runs.judged import Fleet
from netpipe.cli.suite.runs.rounds import rounds
from netpipe.cli.suite.tables import made as made_table
from netpipe.reading.across.odd import Odd, odd_facts
from netpipe.reading.across.outliers import FALSE_ALARMS, critical, polished, slow, slow_ends_and_pairs
from netpipe.records import Environment, Run
from netpipe.render.drawing.fleet import pairs as map_of
from netpipe.render.drawing.picture import Map, NothingToDraw

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Netpipe


# ------------------------------------------------------------------------------------------------------------ rounds


@pytest.mark.parametrize("members", range(2, 18))
def test_every_pair_meets_once_and_nobody_is_twice_in_a_round(members: int) -> None:
    found = rounds(range(members))
    assert len(found) == (members - 1 if members % 2 == 0 else members)
    every = [pair for some in found for pair in some]
    assert sorted(every) == list(itertools.combinations(range(members), 2))
    for some in found:
        busy = [one for pair in some for one in pair]
        assert len(busy) == len(set(busy))


def test_one_member_has_no_rounds() -> None:
    assert rounds(["alone"]) == []


@pytest.mark.parametrize("members", [5, 16, 65, 100, 1000])
def test_some_rounds_give_everybody_as_many_others_near_and_far(members: int) -> None:
    most = 3 if members < 10 else 15
    found = rounds(range(members), most)
    assert len(found) == most
    pairs = [pair for some in found for pair in some]
    assert len(pairs) == len(set(pairs)) <= most * members // 2
    others: dict[int, set[int]] = {one: set() for one in range(members)}
    for one, other in pairs:
        others[one].add(other)
        others[other].add(one)
    assert {len(some) for some in others.values()} <= {most, most - members % 2}
    reached, left = {0}, [0]
    while left:
        new = others[left.pop()] - reached
        reached |= new
        left += new
    assert len(reached) == members  # so that all ends are compared with each other
    far = sum(other - one > members / 4 for one, other in pairs) / len(pairs)
    assert 0.3 < far < 0.8  # of all pairs 56 %


def test_as_many_rounds_as_there_are_is_all_of_them() -> None:
    for members in range(2, 18):
        assert rounds(range(members), members) == rounds(range(members))


def test_the_time_of_a_large_fleet_grows_with_its_hosts_and_not_with_their_pairs() -> None:
    turns = {members: len(of_hosts(members, 63).turns) for members in (64, 640, 1920)}
    assert turns == {64: 63, 640: 63 * 10, 1920: 63 * 30}
    assert len(of_hosts(640, None).turns) == 639 * 10
    assert of_hosts(64, 63).notes == ()
    assert of_hosts(640, 63).notes == (
        "20160 of 204480 pairs are measured, each host with at most 63 others (rounds = 63)",
    )


def of_hosts(members: int, most: int | None) -> OfHosts:
    one = Planned(Part("run", "pairs", "", {}, "pairs", minutes=0.0, rounds=most))
    return OfHosts(one.run, Site(), [f"node{number}" for number in range(members)], one)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------------- outliers


def fleet(random: np.random.Generator, members: int, spread: float) -> dict[int, float]:
    return dict(enumerate(np.exp(spread * random.standard_normal(members)).tolist()))


def pairs_of(
    random: np.random.Generator,
    members: int,
    spread: float,
    slow_end: int | None = None,
    slow_pair: tuple[int, int] | None = None,
    times: float = 1.5,
) -> dict[tuple[int, int], float]:
    found = {}
    for pair in itertools.combinations(range(members), 2):
        factor = (times if slow_end in pair else 1.0) * (times if pair == slow_pair else 1.0)
        found[pair] = float(np.exp(spread * random.standard_normal())) * factor
    return found


def most(count: int, chance: float) -> float:
    """What a share of so many draws may be with this chance: four standard deviations above."""
    return chance + 4 * (chance * (1 - chance) / count) ** 0.5


@pytest.mark.parametrize("members", [4, 5, 8, 16, 64])
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.2])
def test_false_alarms_are_as_rare_as_stated(members: int, spread: float) -> None:
    random = np.random.default_rng(members)
    count = 1500
    alarms = sum(bool(slow(fleet(random, members, spread))) for _ in range(count))
    assert alarms / count <= most(count, FALSE_ALARMS)


@pytest.mark.parametrize("members", [4, 6, 10])
def test_false_alarms_of_pairs_are_as_rare_as_stated(members: int) -> None:
    random = np.random.default_rng(members)
    count = 400
    alarms = sum(any(slow_ends_and_pairs(pairs_of(random, members, 0.05))) for _ in range(count))
    assert alarms / count <= most(count, FALSE_ALARMS)


def some_pairs(
    random: np.random.Generator, members: int, most: int, slow_end: int | None = None
) -> dict[tuple[int, int], float]:
    pairs = [pair for some in rounds(range(members), most) for pair in some]
    return {
        pair: float(np.exp(0.05 * random.standard_normal())) * (1.5 if slow_end in pair else 1)
        for pair in pairs
    }


def test_of_some_rounds_alarms_are_as_rare_and_a_slow_host_is_found() -> None:
    random = np.random.default_rng(7)
    alarms = sum(any(slow_ends_and_pairs(some_pairs(random, 40, 15))) for _ in range(200))
    assert alarms / 200 <= most(200, FALSE_ALARMS)
    for _ in range(20):
        ends, links = slow_ends_and_pairs(some_pairs(random, 40, 15, slow_end=17))
        assert ([one.who for one in ends], links) == ([17], [])


def test_with_unlike_noise_alarms_stay_few() -> None:
    """Two kinds of alike machines, a fifth apart, are no fault of any of them."""
    random = np.random.default_rng(3)
    alarms = 0
    for _ in range(500):
        two = {who: time * (1.2 if who % 2 else 1.0) for who, time in fleet(random, 16, 0.02).items()}
        alarms += bool(slow(two))
    assert alarms / 500 <= most(500, FALSE_ALARMS)


def test_a_slow_member_is_found() -> None:
    random = np.random.default_rng(1)
    found = [slow({**fleet(random, 16, 0.03), 5: 1.5}) for _ in range(200)]
    assert sum([one.who for one in some] == [5] for some in found) >= 198
    assert 1.4 < found[0][0].times < 1.6
    assert found[0][0].score > found[0][0].limit == critical(16, FALSE_ALARMS)


def test_a_slow_host_is_not_many_slow_links_and_a_slow_link_is_no_slow_host() -> None:
    random = np.random.default_rng(2)
    for _ in range(20):
        ends, links = slow_ends_and_pairs(pairs_of(random, 12, 0.02, slow_end=4))
        assert ([one.who for one in ends], links) == ([4], [])
        ends, links = slow_ends_and_pairs(pairs_of(random, 12, 0.02, slow_pair=(1, 7)))
        assert (ends, [one.who for one in links]) == ([], [(1, 7)])


def test_what_does_not_matter_and_what_is_not_sure_is_no_alarm() -> None:
    alike = {who: 100.0 + 0.01 * who for who in range(8)}
    assert slow({**alike, 8: 108.0}) == []  # far from the others, but less than a tenth
    assert [one.who for one in slow({**alike, 8: 130.0})] == [8]
    lows = {**alike, 8: 101.0}  # its interval reaches down to the others
    assert slow({**alike, 8: 130.0}, lows=lows) == []
    assert slow({0: 1.0, 1: 1.0, 2: 9.0}) == []  # of three nobody knows which one is right


def test_a_pair_is_what_its_ends_are_and_a_rest() -> None:
    ends = [1.0, 1.2, 0.9, 1.0, 1.1]
    times = {pair: 50.0 * ends[pair[0]] * ends[pair[1]] for pair in itertools.combinations(range(5), 2)}
    found = polished(times)
    assert max(abs(rest) for rest in found.rests.values()) < 0.02
    assert found.ends[1] > found.ends[4] > found.ends[2]


# ------------------------------------------------------------------------------------------------------------- fleet


def a_fleet(slow_host: str = "") -> Fleet:
    names = tuple(f"node{number}" for number in range(8))
    found = Fleet(names, True)
    for number, pair in enumerate(itertools.combinations(names, 2)):
        time = 20_000.0 * (1 + 0.01 * (number % 3)) * (1.8 if slow_host in pair else 1.0)
        found.times.setdefault(("tcp", "pingpong", 8), {})[pair] = (time, 0.98 * time)
    found.judge()
    return found


def test_a_slow_host_is_named_with_how_slow_it_is() -> None:
    found = a_fleet("node3")
    (text,) = found.slow_texts()
    assert text.startswith("node3 is slow with nearly all others: tcp at 8 B takes 1.")
    assert text.endswith("times the median of the fleet")
    assert found.texts()[0] == "28 pairs of 8 members measured"
    assert {row[2] for row in found.rows() if row[6] == "slow"} >= {"node3"}
    assert a_fleet().texts() == ["28 pairs of 8 members measured; none is slow"]


def test_a_host_that_nobody_reached_is_named_once() -> None:
    found = a_fleet()
    for other in found.members[1:]:
        found.failed["node0", other] = "ssh: connect to host node0: No route to host"
    found.failed["node4", "node5"] = "it did not end within 2 min"
    assert found.failed_texts() == [
        "no pair with node0 could be measured: ssh: connect to host node0: No route to host",
        "node4 and node5 could not be measured: it did not end within 2 min",
    ]


def test_a_reason_that_many_pairs_have_is_said_once() -> None:
    found = a_fleet()
    pairs = list(itertools.combinations(found.members, 2))
    found.failed = dict.fromkeys(pairs[:6], "mpi@lam: there is no lamboot")
    assert found.failed_texts() == [
        "node0 and node1, node0 and node2 and 4 more could not be measured: mpi@lam: there is no lamboot"
    ]
    found.others = 7
    assert found.texts()[0].startswith("28 pairs of 8 members measured, each with at most 7 others")


def test_what_an_optional_layer_lacks_takes_nothing_from_the_others(hosts: Callable[..., Hosts]) -> None:
    stage = hosts(4)
    stage.run.run = replace(stage.run.run, optional=True)
    for who in (pair for some in stage.run.turns for pair in some):
        (stage.folder / "pairs").mkdir(exist_ok=True)
        whole_run(stage.run.file(stage.folder, who))
    done = stage.run._done(stage.folder, {("node0", "node1"): "mpi@lam: there is no lamboot"})
    assert done.fleet is not None
    assert len(next(iter(done.fleet.times.values()))) == 6
    assert done.errors == ("node0 and node1 could not be measured in full: mpi@lam: there is no lamboot",)


def whole_run(path: Path) -> None:
    test_comparing.written(test_comparing.made({"tcp": test_comparing.same}, 1), path)


@dataclass
class Hosts:
    """A fleet whose runs are this test's: dies[HOST] is the round from which the host does not answer."""

    run: OfHosts
    folder: Path
    dies: dict[str, int]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def start(self, folder: Path, who: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        now = next(number for number, some in enumerate(self.run.turns, start=1) if who in some)
        dead = any(self.dies.get(one, 99) <= now for one in who)
        self.asked.append(who)
        if not dead:
            whole_run(self.run.file(folder, who))
        said = tempfile.TemporaryFile()  # noqa: SIM115  (the round closes it)
        words = "echo 'ssh: connect to host: No route to host' >&2; exit 255" if dead else "exit 0"
        return subprocess.Popen(["sh", "-c", words], stderr=said, start_new_session=True), said

    def with_(self, name: str) -> list[tuple[str, ...]]:
        return [who for who in self.asked if name in who]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hosts]:
    monkeypatch.setattr(fleet_module, "LOOK_S", 0.001)

    def made(members: int = 8, **dies: int) -> Hosts:
        names = [f"node{number}" for number in range(members)]
        one = Planned(Part("run", "pairs", "", {}, "pairs", minutes=0.0))
        run = OfHosts(one.run, Site(), names, one)  # type: ignore[arg-type]  # only its time is asked for
        stage = Hosts(run, tmp_path, dies)
        monkeypatch.setattr(run, "_start", stage.start)
        return stage

    return made


def test_a_host_that_dies_in_the_second_round_is_tried_twice_and_given_up(
    hosts: Callable[..., Hosts], capsys: pytest.CaptureFixture[str]
) -> None:
    stage = hosts(node3=2)
    done = stage.run.measure(stage.folder, False)
    assert len(stage.with_("node3")) == 3  # the first round, and two that failed
    assert len(stage.asked) == 7 * 8 // 2 - 4
    assert done.code == 4
    assert done.errors == (
        "6 of 7 pairs with node3 could not be measured: ssh: connect to host: No route to host",
    )
    assert "netpipe: run pairs: node3 failed with two others: not tried again\n" in capsys.readouterr().err
    assert done.fleet is not None
    assert len(next(iter(done.fleet.times.values()))) == 7 * 6 // 2 + 1  # all others, and its one
    stage.dies.clear()
    stage.asked.clear()
    stage.run.goes_on = True
    again = stage.run.measure(stage.folder, True)  # --continue, when it is back
    assert again.code == 0
    assert len(stage.asked) == len(stage.with_("node3")) == 6


def test_who_met_two_dead_hosts_is_not_given_up(hosts: Callable[..., Hosts]) -> None:
    stage = hosts(4, node0=1, node3=1)
    done = stage.run.measure(stage.folder, True)
    assert len(done.errors) == 2
    assert ("node1", "node2") in stage.asked
    assert stage.run.file(stage.folder, ("node1", "node2")).exists()
    stage = hosts(16, node0=1, node3=3)
    stage.run.measure(stage.folder, True)
    assert len([who for who in stage.asked if not {"node0", "node3"} & {*who}]) == 14 * 13 // 2
    assert len(stage.with_("node0")) + len(stage.with_("node3")) < 10


def test_where_no_pair_can_be_measured_nobody_is_given_up(hosts: Callable[..., Hosts]) -> None:
    stage = hosts(4, node0=1, node1=1, node2=1, node3=1)
    done = stage.run.measure(stage.folder, True)
    assert (done.code, len(stage.asked), done.fleet) == (4, 6, None)


def test_too_few_members_are_not_judged_and_it_says_so() -> None:
    found = Fleet(("a", "b", "c"), True)
    found.times["tcp", "pingpong", 8] = {
        ("a", "b"): (1.0, 0.9),
        ("a", "c"): (9.0, 8.9),
        ("b", "c"): (9.0, 8.0),
    }
    found.judge()
    assert found.slow == []
    assert found.notes == ["3 members are too few to say which of them is slow; it takes 4"]


def test_times_without_an_interval_are_not_judged_and_it_says_so() -> None:
    found = a_fleet()
    of = found.times["tcp", "pingpong", 8]
    of["node0", "node1"] = (90_000.0, 0.0)
    found.judge()
    assert found.slow == []
    assert {row[2:4] for row in found.rows() if row[6] == "not judged"} == {("node0", "node1")}
    assert found.texts()[0] == "28 pairs of 8 members measured"
    assert found.notes == [
        "1 of 28 times have no interval, so they were not judged; it takes three launches or more"
    ]


def test_the_map_has_both_halves() -> None:
    found = a_fleet("node3")
    (panel,) = map_of("Pairs", found.members, found.pair_times())
    (view,) = panel.views
    assert isinstance(view, Map)
    values = np.array(view.values, dtype=float)
    assert np.array_equal(values, values.T, equal_nan=True)
    assert np.isnan(np.diag(values)).all()
    assert values[3, 0] > 1.5 > values[1, 0]
    with pytest.raises(NothingToDraw):
        map_of("Pairs", found.members, {})


PAIRS_TABLE = """[[table]]
title = "Pairs"
run = "pairs"
shows = "members"

"""
RANKS = f"""summary = "Pairs of ranks"
source = "this test"

[[run]]
name = "pairs"
kind = "pairs"
variants = ["tcp"]
sizes = "8"

[[run]]
name = "hosts"
kind = "nodes"
variants = ["memcpy"]
sizes = "8"

{PAIRS_TABLE}[[table]]
title = "Hosts"
run = "hosts"
shows = "members"
"""


def test_hosts_need_others_and_it_says_so(netpipe: Netpipe) -> None:
    head, _, rest = RANKS.partition("[[run]]")
    nodes = rest[rest.index("[[run]]") :].replace(PAIRS_TABLE, "")
    Path("mine.toml").write_text(head + nodes)
    said = netpipe("suite", "show", "mine.toml")
    words = " ".join(said.out.split())
    assert (
        "✗ Hosts: table members of the run hosts; not here: one host has no others to be held against"
        in words
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('variants = ["tcp"]\n', "", "[[run]] 'pairs': variants is missing: which layers are measured between"),
        ('variants = ["tcp"]', 'variants = ["tcp"]\nhosts = "a,b"', "[[run]] 'pairs' has an unknown key 'hosts'"),
        ('shows = "members"\n\n', "\n", "[[table]] 'Pairs' shows is missing: which table of 'pairs'; there"),
    ],
)  # fmt: skip
def test_what_is_wrong_about_a_fleet_is_said(netpipe: Netpipe, old: str, new: str, sentence: str) -> None:
    assert RANKS.count(old) == 1
    Path("mine.toml").write_text(RANKS.replace(old, new))
    said = netpipe("suite", "run", "mine.toml")
    assert said.code == 2
    assert sentence in said.err


def test_one_host_is_no_fleet(netpipe: Netpipe) -> None:
    Path("mine.toml").write_text(RANKS)
    said = netpipe("suite", "run", "mine.toml", "--hosts", "127.0.0.1")
    assert (said.code, said.err) == (2, "netpipe: --hosts 127.0.0.1: a fleet has two hosts or more\n")


def test_a_run_of_the_file_is_the_same_command_line(fake: Path) -> None:
    from netpipe.cli.suite import files

    text = RANKS.replace('sizes = "8"\n\n[[run]]', 'sizes = "8,1k"\nverify = true\nlaunches = 3\n\n[[run]]')
    Path("mine.toml").write_text(text)
    part = files.load(Path("mine.toml")).runs[0]
    words = words_of(part.given)
    assert words[0] == "tcp"
    assert {("--sizes", "8,1k"), ("--launches", "3")} <= set(itertools.pairwise(words))
    assert "--verify" in words
    assert "--hosts" not in words


def test_what_is_not_here_is_not_asked_of_the_pairs(fake: Path) -> None:
    from netpipe.cli.suite import files
    from netpipe.cli.suite.planning import planned

    Path("mine.toml").write_text(RANKS.replace('variants = ["tcp"]', 'variants = ["tcp", "mpi@lam"]'))
    run = planned(files.load(Path("mine.toml")), Site(hosts="127.0.0.1,127.0.0.2"))["pairs"]
    assert list(run.left_out) == ["mpi@lam"]
    assert words_of(run.run.given)[0] == "tcp"
    assert "mpi@lam" not in words_of(run.run.given)


def test_a_layer_that_this_machine_has_no_device_for_fails_no_pair(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from netpipe import native
    from netpipe.cli.suite import files
    from netpipe.cli.suite.planning import planned

    listing = native.list_()
    for module in listing["modules"]:
        if module["name"] == "pipe":
            module |= {"available": False, "reason": "there is no device"}
    monkeypatch.setattr("netpipe.native.list_", lambda *_: listing)
    Path("mine.toml").write_text(RANKS.replace('variants = ["tcp"]', 'variants = ["tcp", "pipe:x=y"]'))
    run = planned(files.load(Path("mine.toml")), Site(hosts="127.0.0.1,127.0.0.2"))["pairs"]
    assert run.available
    assert run.left_out == {"pipe:x=y": "there is no device"}
    Path("mine.toml").write_text(RANKS.replace('variants = ["tcp"]', 'variants = ["pipe"]'))
    run = planned(files.load(Path("mine.toml")), Site(hosts="127.0.0.1,127.0.0.2"))["pairs"]
    assert (run.available, run.reasons) == (False, "there is no device")


def test_pairs_of_ranks_are_judged_by_their_cells(fake: Path) -> None:
    """A made-up run with the cells of all pairs, the third of which is slow."""
    from netpipe.cli.suite.parts import Part
    from netpipe.cli.suite.runs.base import Done
    from netpipe.cli.suite.runs.fleet import OfRanks
    from netpipe.cli.suite.tables import made
    from netpipe.reading import Reading

    part = Part("run", "pairs", "", {}, "pairs")
    whole = synthetic.patterned()
    run = OfRanks.__new__(OfRanks)
    found = run._judged(Done(reading=Reading(whole)))
    assert found.fleet is not None
    of = found.fleet.times["shm", "pairs", 8]
    assert len(of) == 6
    assert max(of, key=lambda who: of[who][0]) == ("rank 0", "rank 3")
    table = Part("table", "Pairs", "", {}, "pairs", None, "pairs", "pairs.csv", (), (), "members")
    rows = list(csv.DictReader(made(table, found, (), ()).csv().decode().splitlines()))
    assert {row["judged"] for row in rows} <= {"slow", "as the others"}
    assert part.does == "pairs"


# -------------------------------------------------------------------------------------------------------- odd facts


def host_run(**facts: Any) -> Run:
    usual = {
        "kernel": {"release": "6.1"},
        "cpu": {"microcode": "0x1", "frequency": {"governor": "performance"}},
        "load": {"average_1": 0.1},
        "pinning": {"count": 2},
        "network": {"interfaces": [{"name": "eth0", "mtu_bytes": 9000}]},
    }
    return Run([Environment(host="any", facts=usual | facts)])


def test_the_host_that_differs_is_found_with_what_it_has() -> None:
    runs = {f"node{number}": host_run(memory={"total_bytes": 10**9 + number}) for number in range(5)}
    runs["node3"] = host_run(
        kernel={"release": "5.4"},
        load={"average_1": 3.0},
        pinning={"count": 4},
        network={"interfaces": [{"name": "eth0", "mtu_bytes": 1500}, {"name": "veth17", "mtu_bytes": 1500}]},
    )
    assert odd_facts(runs) == (
        Odd("kernel.release", "6.1", (("node3", "5.4"),)),
        Odd("network.eth0.mtu_bytes", "9000", (("node3", "1500"),)),
    )
    runs["node4"] = host_run(network={"interfaces": []})
    assert odd_facts(runs)[-1] == Odd("network.eth0.mtu_bytes", "9000", (("node3", "1500"),))
    assert Odd("network.eth0", "there", (("node4", "absent"),)) in odd_facts(runs)
    assert odd_facts({"a": host_run(), "b": host_run()}) == ()


def test_two_kinds_of_hosts_are_told_apart() -> None:
    runs = {f"node{number}": host_run(kernel={"release": f"6.{number % 2}"}) for number in range(4)}
    assert odd_facts(runs) == (Odd("kernel.release", "6.0", (("node1", "6.1"), ("node3", "6.1"))),)


def test_what_differs_is_told_and_in_the_table() -> None:
    found = Fleet(("node0", "node1"), False)
    part = Part("table", "Facts", "", {}, "nodes", None, "hosts", "facts.csv", (), (), "facts")
    assert made_table(part, Done(fleet=found), (), ()).rows == ()  # and no error
    found.odd = tuple(Odd(f"cpu.fact{number}", "a", (("node1", "b" * 50),)) for number in range(6))
    (text,) = found.odd_texts()
    assert text.startswith(f"node1 differs from most hosts: cpu.fact0 {'b' * 39}… (most: a), cpu.fact1 ")
    assert text.endswith(", and 2 more")
    assert text in found.texts()
    assert made_table(part, Done(fleet=found), (), ()).rows[5] == ("cpu.fact5", "a", "node1", "b" * 50)
