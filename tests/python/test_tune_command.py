# SPDX-License-Identifier: Apache-2.0
"""netpipe tune: what it refuses and with which sentence, and what it says when there is nothing to find."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netpipe.cli.tune import with_goals_joined
from netpipe.contents import toml
from netpipe.records import Rank, Run, Variant
from netpipe.session import Request
from netpipe.tuning import stops
from netpipe.tuning.formats import files
from netpipe.tuning.job import Job, described
from netpipe.tuning.library import NO_LIBRARY
from netpipe.tuning.measuring.bench import Bench, layers
from netpipe.tuning.search.goals import goal
from netpipe.tuning.search.space import Space
from netpipe.tuning.search.variants import Changes, Start
from netpipe.tuning.system import applied, table
from netpipe.tuning.tune import Outcome

if TYPE_CHECKING:
    from conftest import Netpipe


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "name the VARIANT to tune, such as tcp"),
        (("tcp", "--goal", "speed"), "there is no goal 'speed'; choose one of latency"),
        (("tcp", "--goal", "profile=nothing.jsonl"), "--goal profile=nothing.jsonl: No such file"),
        (("tcp", "--goal", "profile", "nothing.jsonl"), "--goal profile=nothing.jsonl: No such file"),
        (("--goal=profile", "nothing.jsonl", "tcp"), "--goal profile=nothing.jsonl: No such file"),
        (("tcp", "--goal", "profile"), "--goal profile needs a name; write profile=FILE"),
        (("tcp", "--goal", "collective", "-q"), "--goal collective needs a name; write collective=NAME"),
        (("tcp", "--only", "sndbuff"), "has no such setting to tune; did you mean 'sndbuf'?"),
        (("tcp", "--time", "2"), "--time 2 is too short for 1 variant; give 5 s or more"),
        (("tcp", "unix", "--time", "8"), "--time 8 is too short for 2 variants; give 10 s or more"),
        (("tcp", "--time", "0"), "0.0 is not in the range x>0"),
        (("tcp", "tcp"), "tcp#2 is a copy; name each variant once"),
        (("tcp", "--ranks", "2,4"), "tune for one number of ranks at a time"),
        (("tcp", "--keep"), "--keep is for --apply"),
        (("tcp:sndbug=1",), "no option 'sndbug'"),
        (("nothing",), "no module 'nothing'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(
    netpipe: Netpipe, words: tuple[str, ...], sentence: str
) -> None:
    said = netpipe("tune", *words)
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not Path("tune").exists()


def test_collectives_of_what_is_no_library_are_not_available(netpipe: Netpipe) -> None:
    said = netpipe("tune", "tcp", "--goal", "collective=bcast")
    assert said.code in (2, 3)
    assert said.err.startswith("netpipe: ")
    assert not Path("tune").exists()


def test_a_goal_with_its_name_is_one_word_or_two() -> None:
    for kind, name in (("profile", "calls.jsonl"), ("collective", "bcast")):
        joined = [f"--goal={kind}={name}", "tcp"]
        for words in (["--goal", kind, name], [f"--goal={kind}", name], ["--goal", f"{kind}={name}"]):
            assert with_goals_joined([*words, "tcp"]) == joined
    plain = ["tcp", "--goal=latency", "--time", "5", "--", "--goal", "profile"]
    assert with_goals_joined(["tcp", "--goal", "latency", "--time", "5", "--", "--goal", "profile"]) == plain


def test_that_other_processors_are_not_tried_unasked_is_said(netpipe: Netpipe) -> None:
    words = ("tcp", "--goal", "latency", "--time", "30")
    said = " ".join(netpipe("tune", *words).out.split())
    assert "Not searched unless --only names it: placement (which processors the ranks run on" in said
    assert "placement (" not in " ".join(netpipe("tune", *words, "--only", "sndbuf").out.split())


def test_a_folder_with_other_files_is_not_touched(netpipe: Netpipe) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("kept")
    said = netpipe("tune", "tcp", "-o", "mine")
    assert said.code == 2
    assert "mine has files that netpipe tune did not write" in said.err
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_without_intervals_nothing_is_called_a_gain(netpipe: Netpipe) -> None:
    """The fake worker records no visits, so there is nothing that a comparison could stand on."""
    said = netpipe("tune", "tcp", "--only", "sndbuf", "--goal", "latency", "--time", "60", "--json")
    assert said.code == 4
    assert "tcp: of 4 candidates 4 began and none was measured to its end" in said.err
    (outcome,) = json.loads(said.out)["outcomes"]
    assert outcome["gains"] is False
    assert outcome["files"] == []
    assert Path("tune/search.jsonl").is_file()


def test_launches_of_a_later_look_are_added_to_the_run_of_the_first(netpipe: Netpipe) -> None:
    bench = Bench(Start.of("tcp"), goal("latency"), Request(["tcp"]), False)
    path = Path("confirm.jsonl")
    bench.session(["tcp", "unix"], bench.goal.probes, 0.2, 30.0, launches=2, output=path)
    measured = bench.session(["tcp", "unix"], bench.goal.probes, 0.1, 30.0, output=path, onto=True)
    for run in (measured.run, Run.read(path, samples=False)):
        assert {point.launch for point in run.points} == {0, 1, 2}
    assert bench.measurements == 2 * len(bench.goal.probes) * 3


def test_a_start_that_cannot_be_measured_is_the_answer(netpipe: Netpipe) -> None:
    said = netpipe("tune", "tcp", "--goal", "latency", "--time", "5", fake="blame=tcp")
    assert said.code == 4
    assert "tcp itself cannot be measured at 1 bytes" in said.err


def test_a_layer_without_settings_is_not_available_to_it(netpipe: Netpipe) -> None:
    said = netpipe("tune", "pipe", "--goal", "latency", "--time", "5")
    assert said.code == 3
    assert "pipe: there is nothing to try (goal latency)" in said.out
    for silent in ("-q", "--json"):
        said = netpipe("tune", "pipe", "--goal", "latency", "--time", "5", silent)
        assert said.code == 3
        assert said.err.endswith(
            "netpipe: pipe: there is nothing to try (goal latency): no setting that is searched has another value "
            "here\n"
        )


@pytest.mark.parametrize(
    ("codes", "worst"), [((0, 0), 0), ((0, 3), 3), ((3, 4), 4), ((4, 130), 130), ((0, 130), 130)]
)
def test_of_several_variants_the_most_serious_counts(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int], worst: int
) -> None:
    def run(self: Job) -> None:
        self.outcomes += [
            Outcome(f"tcp:sndbuf={place}k", "latency", space=Space(())) for place, _ in enumerate(codes, 1)
        ]

    monkeypatch.setattr(Job, "run", run)
    monkeypatch.setattr(
        stops, "exit_code", lambda outcome: codes[int(outcome.variant.partition("=")[2][:-1]) - 1]
    )
    said = netpipe("tune", "tcp:sndbuf=1k", "tcp:sndbuf=2k", "-q")
    assert said.code == worst
    assert said.out == ""
    assert said.err.count("\n") == sum(code in (3, 4) for code in codes)


@pytest.mark.parametrize(
    ("module", "below", "keys"),
    [
        ("pvm", "tcp", {"net.core.wmem_max", "net.ipv4.tcp_autocorking"}),
        ("libfabric", "tcp", {"net.core.wmem_max", "net.ipv4.tcp_autocorking"}),
        ("libfabric", "udp", {"net.core.wmem_max"}),
        ("udp", "unix", {"net.core.wmem_max"}),
        ("mpi@openmpi", "ucx", {"net.core.wmem_max", "net.ipv4.tcp_autocorking"}),
        ("pvm", "unix", set()),
        ("unix", "pipe", set()),
    ],
)
def test_settings_of_the_kernel_are_named_for_every_layer_over_ip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, below: str, keys: set[str]
) -> None:
    """By what the layer says it stands on: libfabric with the provider tcp, and an MPI whose UCX uses TCP, do."""
    for key, value in {"net.core.wmem_max": "212992", "net.ipv4.tcp_autocorking": "1"}.items():
        path = table.path_of(key, tmp_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    monkeypatch.setattr(table.candidates, "__defaults__", (tmp_path, (), True))
    rank = Rank(rank=0, settings={"below_stands_on": "tcp"} if below == "ucx" else {})
    run = Run([Variant(variant="the start", module=module, below=below, ranks=[rank])])
    outcome = Outcome("the start", "latency", tuned="the start", layers=layers(run))
    Job(Request(), goal("latency"), 5.0, tmp_path)._system(outcome, tmp_path, 0.0)
    assert {one.key for one in outcome.system} == keys


def test_what_was_tuned_between_hosts_is_measured_between_them(netpipe: Netpipe, tmp_path: Path) -> None:
    """By tuned.toml, with every option of the tuner that says where and how."""
    base = Request(
        ["tcp"],
        settings={"bind": "10.0.0.1", "buffers": "cold", "timeout": "5", "pin": "0,1"},
        hosts="A,B",
        launcher="ssh",
        remote_shell="ssh -p 2222",
    )
    outcome = Outcome("tcp", "latency", Changes.of({"sndbuf": "64k"}), tuned="tcp:sndbuf=64k")
    (tmp_path / "tuned.toml").write_text(
        files(described(outcome, NO_LIBRARY, goal("latency"), base))["tuned.toml"]
    )
    said = netpipe("run", "--config", str(tmp_path / "tuned.toml"), "--dry-run", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["hosts"] == ["A", "B"]
    options = toml(tmp_path / "tuned.toml", "configuration")["run"]
    assert options == {
        "variants": ["tcp", "tcp:sndbuf=64k"],
        "hosts": "A,B",
        "launcher": "ssh",
        "remote-shell": "ssh -p 2222",
        "buffers": "cold",
        "pin": "0,1",
        "bind": "10.0.0.1",
    }


def test_files_are_named_so_that_the_run_finds_them_from_elsewhere(netpipe: Netpipe) -> None:
    base = Request(["tcp"], settings={"host": "B", "token-file": "mine"}, modules=["own.so"])
    outcome = Outcome("tcp", "curve", Changes.of({"sndbuf": "64k"}), tuned="tcp:sndbuf=64k")
    options = described(outcome, NO_LIBRARY, goal("curve"), base).options
    here = Path.cwd()
    assert options == {
        "host": ("B",),
        "token-file": (str(here / "mine"),),
        "module": (str(here / "own.so"),),
    }


def test_an_interrupted_change_of_system_settings_is_undone_first(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state file of a process that is not there any more, about a setting that this kernel does not have."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    state = applied.state_file()
    state.parent.mkdir(parents=True)
    state.write_text("{")
    said = netpipe("tune", "tcp")
    assert said.code == 2
    assert said.err.count(".json says which system settings") == 1


def test_settings_of_the_kernel_are_left_to_root(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    said = netpipe("tune", "tcp", "--apply")
    assert (said.code, said.out) == (3, "")
    assert said.err == "netpipe: --apply changes settings of the kernel, which only root can; leave it out\n"


def test_a_second_tuner_that_applies_waits_for_the_first(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with applied.alone():
        said = netpipe("tune", "tcp", "--apply", "--time", "5")
    assert said.code == 2
    assert "another netpipe tune --apply changes system settings" in said.err


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A setting of this machine that an interrupted tuner has left changed, in a file in place of /proc/sys."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    state = applied.state_file()
    state.parent.mkdir(parents=True)
    ended = subprocess.Popen(["true"])
    ended.wait(10)
    before = {"net.core.wmem_max": "1000"}
    state.write_text(json.dumps({"pid": ended.pid, "started": "1", "before": before}))
    setting = table.path_of("net.core.wmem_max", tmp_path / "sys")
    setting.parent.mkdir(parents=True)
    setting.write_text("2000\n")
    monkeypatch.setattr(applied.restore_left, "__defaults__", (tmp_path / "sys", None))
    return setting


@pytest.mark.parametrize("words", [("run", "tcp", "-q"), ("doctor", "--no-yardstick"), ("list",)])
def test_any_command_puts_back_what_an_interrupted_tuner_has_left(
    netpipe: Netpipe, left: Path, words: tuple[str, ...]
) -> None:
    said = netpipe(*words)
    assert "put back what an interrupted netpipe tune had left changed: net.core.wmem_max = 1000" in said.err
    assert left.read_text() == "1000\n"
    assert "put back" not in netpipe(*words).err


def test_what_cannot_be_put_back_is_said_and_the_run_goes_on(netpipe: Netpipe, left: Path) -> None:
    applied.state_file().write_text("{")
    said = netpipe("run", "tcp", "-q")
    assert said.code == 0
    assert said.err.count(".json says which system settings") == 1
    assert left.read_text() == "2000\n"
