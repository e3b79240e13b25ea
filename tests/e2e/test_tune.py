# SPDX-License-Identifier: Apache-2.0
"""netpipe tune, over real layers: what it finds, proves, writes, and survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mpi import Mpis

from netpipe.records import Run

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BEYOND_S = 10.0  # of --time: to start, to ask the modules, and to end what was begun


@dataclass(frozen=True)
class Tuned:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def outcome(self) -> dict[str, Any]:
        (only,) = json.loads(self.out)["outcomes"]
        found: dict[str, Any] = only
        return found

    def candidates(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (self.folder / "search.jsonl").read_text().splitlines()]
        return [line for line in lines if line["type"] == "candidate"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "netpipe", "tune", *arguments]


def tune(folder: Path, *arguments: str, limit_s: float = 150.0) -> Tuned:
    done = subprocess.run(
        command(*arguments, "-o", str(folder), "--json"),
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return Tuned(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The layer of tunable.c."""
    made = tmp_path_factory.mktemp("tunable") / "tunable.so"
    words = ["cc", "-std=gnu17", "-O1", "-shared", "-fPIC", "-I", str(ROOT / "include"), "-o", str(made)]
    subprocess.run([*words, str(HERE / "tunable.c")], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def tuned(layer: Path, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    folder = tmp_path_factory.mktemp("tune") / "out"
    words = ("tunable:mode=fast", "--only", "buffer,useless", "--module", str(layer), "--goal", "latency")
    return tune(folder, *words, "--time", "20")


def test_the_best_setting_is_found_and_proven_and_one_that_does_nothing_is_no_part_of_it(
    tuned: Tuned,
) -> None:
    assert tuned.code == 0, tuned.err
    outcome = tuned.outcome
    assert outcome["gains"], outcome
    assert set(outcome["settings"]) == {"buffer"}
    assert outcome["settings"]["buffer"] in ("64k", "128k", "256k", "512k")
    assert outcome["times_as_fast"]["low"] > 1.1


def test_candidates_that_hang_crash_or_are_refused_are_survived_and_recorded(
    layer: Path, tmp_path: Path
) -> None:
    words = ("tunable", "--only", "mode", "--module", str(layer), "--goal", "latency", "--timeout", "1")
    done = tune(tmp_path / "out", *words, "--time", "7")
    assert done.code in (0, 4), done.err  # 4: nothing of them was compared in time
    failed = {one["settings"]["mode"]: one["failed"]["kind"] for one in done.candidates() if one["failed"]}
    assert failed == {"hang": "failed", "dies": "failed", "refused": "refused"}
    known = json.loads((done.folder / "failures.json").read_text())["tunable"]
    assert set(known) == {"mode=hang", "mode=dies"}


def test_the_confirmation_is_a_run_of_what_counts_with_the_start_beside_itself(tuned: Tuned) -> None:
    run = Run.read(tuned.folder / "confirm.jsonl", samples=False)
    names = [one.variant for one in run.plans[0].variants]
    assert names[:2] == ["tunable:mode=fast", "tunable:mode=fast#2"]
    assert tuned.outcome["tuned"] in names
    assert len({point.launch for point in run.points}) >= 3
    assert {point.size_bytes for point in run.points} <= {1, 2, 4, 8, 16, 32, 64}


def test_the_curves_before_and_after_are_a_run_of_all_sizes(tuned: Tuned) -> None:
    run = Run.read(tuned.folder / "curves.jsonl", samples=False)
    assert [one.variant for one in run.plans[0].variants] == ["tunable:mode=fast", tuned.outcome["tuned"]]
    assert max(point.size_bytes for point in run.points) > 64


def test_what_was_set_is_read_back(tuned: Tuned) -> None:
    (effect,) = tuned.outcome["effects"]
    assert (effect["name"], effect["word"]) == ("buffer", "read back")
    assert effect["said"].startswith("buffer_bytes=")


def test_the_configuration_it_writes_is_one_that_run_takes(tuned: Tuned, tmp_path: Path) -> None:
    """It names the file of the module, too."""
    words = ["--config", str(tuned.folder / "tuned.toml"), "--dry-run", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", "run", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    planned = [one["variant"] for one in json.loads(done.stdout)["variants"]]
    assert planned == ["tunable:mode=fast", tuned.outcome["tuned"]]


def test_an_interrupt_prints_what_is_known(layer: Path, tmp_path: Path) -> None:
    """With a search that would take minutes."""
    folder = tmp_path / "out"
    words = (
        "tunable",
        "--module",
        str(layer),
        "--goal",
        "latency",
        "--time",
        "100",
        "--only",
        "buffer,useless",
    )
    process = subprocess.Popen(
        command(*words, "-o", str(folder)),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert "trying 5 settings" in process.stderr.readline()
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted before anything was confirmed" in " ".join(out.split())


@pytest.mark.deep
def test_what_failed_is_avoided_by_the_next_search_and_older_results_are_kept(
    layer: Path, tmp_path: Path
) -> None:
    words = ("tunable", "--only", "mode", "--module", str(layer), "--goal", "latency", "--timeout", "1")
    for _ in range(2):
        done = tune(tmp_path / "out", *words, "--time", "7")
    assert {one["settings"]["mode"] for one in done.candidates()} == {"fast", "refused"}
    assert "is avoided, because it failed before" in done.err
    assert (tmp_path / "out.1" / "search.jsonl").is_file()


@pytest.mark.deep
def test_a_setting_that_another_one_holds_back_is_proven_on_top_of_it(layer: Path, tmp_path: Path) -> None:
    words = (
        "tunable:mode=fast,buffer=64k",
        "--only",
        "gate,lane,useless",
        "--goal",
        "latency",
        "--time",
        "40",
    )
    done = tune(tmp_path / "out", *words, "--module", str(layer))
    assert done.code == 0, done.err
    assert done.outcome["settings"] == {"gate": "open", "lane": "wide"}
    assert done.outcome["times_as_fast"]["low"] > 1.5
    run = Run.read(done.folder / "climb-1.jsonl", samples=False)
    proven = "tunable:mode=fast,buffer=64k,gate=open"
    assert [one.variant for one in run.plans[0].variants] == [proven, f"{proven}#2", f"{proven},lane=wide"]
    assert len({point.launch for point in run.points}) >= 3


@pytest.mark.deep
def test_a_layer_that_is_tuned_has_nothing_to_gain(layer: Path, tmp_path: Path) -> None:
    words = ("tunable:mode=fast,buffer=256k", "--only", "buffer,useless", "--goal", "latency", "--time", "15")
    done = tune(tmp_path / "out", *words, "--module", str(layer))
    assert done.code == 0
    assert not done.outcome["gains"]
    assert done.outcome["least_gain_seen"] > 1


@pytest.mark.deep
@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        pytest.param(("tunable", "--only", "buffer,useless", "--goal", "latency"), 10, id="a gain is found"),
        pytest.param(("tunable:mode=fast,buffer=256k", "--goal", "curve"), 10, id="candidates hang and die"),
        pytest.param(("tcp:sndbuf=8k,rcvbuf=8k", "--goal", "throughput"), 15, id="the start is slow"),
        pytest.param(("shm", "--only", "placement", "--pin", "0,0"), 10, id="placements take turns"),
    ],
)
def test_a_search_ends_within_its_time(
    layer: Path, tmp_path: Path, words: tuple[str, ...], seconds: int
) -> None:
    """Or as much later as docs/how-to/tune.md says: what was begun is ended as Ctrl-C ends it, and a rank that hangs
    has as long as --timeout says.
    """
    timeout_s = 2
    began_s = time.monotonic()
    done = tune(
        tmp_path / "out",
        *words,
        "--module",
        str(layer),
        "--timeout",
        str(timeout_s),
        "--time",
        str(seconds),
    )
    took_s = time.monotonic() - began_s
    assert done.code in (0, 4), done.err  # 4: nothing was compared in time
    assert took_s <= seconds + timeout_s + BEYOND_S, done.err


@pytest.mark.deep
def test_small_socket_buffers_are_found(tmp_path: Path) -> None:
    """The papers' factor of five, and here much more."""
    done = tune(tmp_path / "out", "tcp:sndbuf=8k", "--only", "sndbuf", "--goal", "throughput", "--time", "30")
    assert done.code == 0, done.err
    assert done.outcome["gains"], done.outcome
    assert done.outcome["times_as_fast"]["low"] > 2


@pytest.mark.deep
def test_the_route_through_the_daemon_of_pvm_is_left(tmp_path: Path) -> None:
    if not Path("/usr/lib/pvm3").exists():
        pytest.skip("PVM is not installed: apt install pvm pvm-dev")
    done = tune(tmp_path / "out", "pvm", "--goal", "latency", "--time", "60")
    assert done.code == 0, done.err
    assert done.outcome["settings"].get("route") == "direct", done.outcome


@pytest.mark.deep
def test_the_wrong_transport_of_a_library_is_left(with_mpis: Mpis, tmp_path: Path) -> None:
    with_mpis.need("openmpi")
    words = ("mpi@openmpi:transport=tcp", "--only", "transport", "--goal", "latency", "--time", "30")
    done = tune(tmp_path / "out", *words)
    assert done.code == 0, done.err
    assert done.outcome["gains"], done.outcome
    text = (done.folder / "openmpi-mca-params.conf").read_text()
    assert "pml = " in text


@pytest.mark.deep
@pytest.mark.parametrize(
    ("start", "option", "shows"),
    [("ucx:tls=tcp", "tls", "transports="), ("libfabric:provider=tcp;ofi_rxm", "provider", "provider=")],
    ids=["ucx", "libfabric"],
)
def test_a_slow_transport_is_left_for_one_that_the_library_has(
    tmp_path: Path, start: str, option: str, shows: str
) -> None:
    from netpipe import native

    module = start.partition(":")[0]
    if not any(one["name"] == module and one["available"] for one in native.list_()["modules"]):
        pytest.skip(f"{module} is not available here")
    done = tune(tmp_path / "out", start, "--only", option, "--goal", "latency", "--time", "30")
    assert done.code == 0, done.err
    assert done.outcome["gains"], done.outcome
    (effect,) = done.outcome["effects"]
    assert (effect["name"], effect["word"]) == (option, "read back")
    assert effect["said"].startswith(shows)
    assert "tcp" not in effect["value"], "between two processes of one host"


@pytest.mark.deep
def test_a_parameter_that_a_library_is_given_is_read_back_from_it(with_mpis: Mpis, tmp_path: Path) -> None:
    """A library ignores what it does not know; Open MPI and MPICH are asked by MPI_T."""
    from netpipe import native
    from netpipe.tuning.library import library

    for added in with_mpis.need("openmpi", "mpich"):
        module = next(one for one in native.list_()["modules"] if one["name"] == added.name)
        asked = library(module)
        variable = asked.tunables.parameters[0].variable
        value = str(asked.tunables.parameters[0].most)
        wrong = f"{asked.tunables.prefix}no_such_parameter"
        found = asked.read_back({variable: value, wrong: "1"})
        assert found[variable][1] == value != found[variable][0]
        assert found[wrong] == ("unknown to the library",) * 2


@pytest.mark.deep
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "one of several"])
@pytest.mark.parametrize(
    ("library", "other", "of_bcast"),
    [
        ("openmpi", ("5", "segmented_ring"), ("1", "basic_linear")),
        ("mpich", ("recursive_doubling",) * 2, ("binomial",) * 2),
    ],
)
def test_rules_that_are_written_for_a_library_are_in_force(
    with_mpis: Mpis,
    tmp_path: Path,
    library: str,
    other: tuple[str, str],
    of_bcast: tuple[str, str],
    alone: bool,
) -> None:
    """Files choose an algorithm for the sizes that they say, also beside other operations and numbers of ranks. Which
    one is faster differs by machine; Open MPI's is made slow on all by segments of 64 bytes.
    """
    from netpipe import native
    from netpipe.libraries.tunables import Chosen
    from netpipe.session import Request, Session
    from netpipe.tuning.library import library as asked

    (added,) = with_mpis.need(library)
    libs = asked(next(one for one in native.list_()["modules"] if one["name"] == added.name))
    by_size = {1 << 16: "", 1 << 20: other[0]}
    some = [Chosen("allreduce", 2, by_size, dict([other]), libs.version, libs.file)]
    if not alone:
        some.append(Chosen("bcast", 2, {8: of_bcast[0]}, dict([of_bcast]), libs.version, libs.file))
        some.append(Chosen("allreduce", 4, {8: other[0]}, dict([other]), libs.version, libs.file))
    made = libs.tunables.rules(some, tmp_path)  # type: ignore[misc]
    assert made is not None
    for name, text in made.files.items():
        slow = text.replace(f" {other[0]} 0 0", f" {other[0]} 0 64")
        assert (slow != text) == (library == "openmpi")
        (tmp_path / name).write_text(slow)
    variables = ";".join(f"{name}={value}" for name, value in made.variables.items())
    names = [added.name, f"{added.name}:env={variables}"]
    settings = {"sizes": "64k,1M", "budget": "2"}
    result = Session(Request(names, ["collective:what=allreduce"], settings)).measure()
    times = {(p.variant, p.size_bytes): p.median_ns for p in result.run.points}
    ratio = times[names[1], 1 << 20] / times[names[0], 1 << 20]
    assert max(ratio, 1 / ratio) > 1.1


@pytest.mark.deep
def test_a_file_of_rules_that_open_mpi_cannot_read_is_said(
    with_mpis: Mpis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MPI ignores it without a word. The start sends segments of 64 bytes, so that other algorithms gain."""
    from netpipe.libraries.openmpi import rules
    from netpipe.session import Request
    from netpipe.tuning.job import Job
    from netpipe.tuning.search.goals import goal

    (added,) = with_mpis.need("openmpi")
    monkeypatch.setattr(rules, "_classic", lambda *_: "no rules\n")
    slow = {"use_dynamic_rules": "1", "bcast_algorithm": "3", "bcast_algorithm_segmentsize": "64"}
    variables = ";".join(f"OMPI_MCA_coll_tuned_{name}={value}" for name, value in slow.items())
    base = Request([f"{added.name}:env={variables}"], settings={"timeout": "5"})
    job = Job(base, goal("collective=bcast"), 60.0, tmp_path / "out")
    job.run()
    (outcome,) = job.outcomes
    assert any(note.startswith("the rules had no effect") for note in outcome.notes), outcome.notes
    assert not (tmp_path / "out" / "bcast-rules.conf").exists()


@pytest.mark.deep
def test_settings_of_the_kernel_are_tried_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a network namespace of its own, whose settings are nobody else's."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a network namespace")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = [
        "tcp",
        "--only",
        "nodelay",
        "--goal",
        "latency",
        "--time",
        "25",
        "--apply",
        "-o",
        str(tmp_path / "out"),
    ]
    script = (
        'ip link set lo up; "$@" || exit; sysctl -n net.ipv4.tcp_autocorking net.ipv4.tcp_congestion_control'
    )
    before = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script, "sh", *command(*words)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *said, autocorking, congestion = done.stdout.splitlines()
    assert (autocorking, congestion) == ("1", before)
    assert any("net.ipv4.tcp_autocorking = 0 (now 1):" in line for line in said), done.stdout
    assert not list((tmp_path / "state" / "netpipe").glob("tune-system.*.json"))
    tried = [
        json.loads(line) for line in (tmp_path / "out" / "system" / "settings.jsonl").read_text().splitlines()
    ]
    assert {"net.ipv4.tcp_autocorking", "net.ipv4.tcp_wmem"} <= {one["key"] for one in tried}


@pytest.mark.deep
def test_both_ranks_on_one_processor_are_placed_apart(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    words = ("shm", "--pin", "0,0", "--only", "placement", "--goal", "latency", "--time", "15")
    done = tune(tmp_path / "out", *words)
    assert done.code == 0, done.err
    assert done.outcome["placements"]["auto"]["gains"], done.outcome
    assert 'pin = "' in (done.folder / "tuned.toml").read_text()


@pytest.mark.deep
def test_intel_mpi_says_which_rules_it_takes_and_they_reach_it(with_mpis: Mpis) -> None:
    from netpipe import native
    from netpipe.libraries.tunables import Chosen
    from netpipe.session import Request, Session
    from netpipe.tuning.library import library as asked
    from netpipe.tuning.search.variants import Changes, Start

    (added,) = with_mpis.need("impi")
    libs = asked(next(one for one in native.list_()["modules"] if one["name"] == added.name))
    variable = libs.tunables.algorithm("allreduce")
    presets = libs.ask([variable])[variable]["choices"]
    assert len(presets) > 8
    assert libs.read_back({variable: "2"})[variable] == ("not set", "2")
    assert libs.read_back({variable: str(len(presets) + 7)})[variable] == ("ignored by the library",) * 2
    cells = {one.variable: str(one.most) for one in libs.tunables.parameters}
    assert set(libs.ask(list(cells))) == set(cells)
    assert libs.read_back(cells) == {name: ("not set", value) for name, value in cells.items()}
    made = libs.tunables.rules(  # type: ignore[misc]
        [Chosen("allreduce", 2, {8: "1", 1024: "2"}, {}, libs.version)], Path("/none")
    )
    assert made is not None
    assert libs.read_back(made.variables)[variable] == ("not set", made.variables[variable])
    variant = Start.of(added.name).variant(Changes.of(made.variables))
    settings = {"sizes": "8", "budget": "0.1"}
    result = Session(Request([variant], ["collective:what=allreduce"], settings)).measure()
    assert result.run.points, result.run.errors
    (opened,) = result.run.variants
    assert f"{variable}={made.variables[variable]}" in opened.ranks[0].settings["environment"].split()


@pytest.mark.deep
def test_lam_ends_a_job_whose_collective_module_it_cannot_use(with_mpis: Mpis) -> None:
    from netpipe import native
    from netpipe.session import Request, Session
    from netpipe.tuning.library import library as asked

    (added,) = with_mpis.need("lam")
    libs = asked(next(one for one in native.list_()["modules"] if one["name"] == added.name))
    variable = libs.tunables.algorithm("bcast")
    assert "lam_basic" in libs.ask([variable])[variable]["choices"]
    variants = [f"{added.name}:env={variable}={module}" for module in ("lam_basic", "nosuch")]
    settings = {"sizes": "8", "budget": "0.1"}
    result = Session(Request(variants, ["collective:what=bcast"], settings)).measure()
    assert {one.variant for one in result.run.points} == {variants[0]}
