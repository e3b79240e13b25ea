# SPDX-License-Identifier: Apache-2.0

"""A machine that does not exist: the MPI module under SimGrid's SMPI. Its time is simulated, so here, and only here,
values of it are asserted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Netpipe
from mpi import Mpis

from netpipe import native
from netpipe.launch.variants import refusal
from netpipe.libraries.adding.add import Request, add
from netpipe.libraries.smpi import PLATFORM
from netpipe.libraries.starting.processes import all_with

HERE = Path(__file__).parent
SMPICC = shutil.which("smpicc")
SMPIRUN = shutil.which("smpirun")
NAME = "mpi@simgrid"

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(
        not (SMPICC and SMPIRUN), reason="needs smpicc and smpirun (apt install libsimgrid-dev)"
    ),
]


@pytest.fixture(scope="session")
def simgrid(tmp_path_factory: pytest.TempPathFactory) -> Mpis:
    assert SMPICC is not None
    folder = tmp_path_factory.mktemp("simgrid")
    return Mpis(folder, {"simgrid": add(Request(Path(SMPICC), "simgrid", folder=folder, replace=True))})


@pytest.fixture
def with_mpis(simgrid: Mpis, monkeypatch: pytest.MonkeyPatch) -> Mpis:
    """In the place of the six libraries of the other tests."""
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(simgrid.folder))
    return simgrid


@pytest.fixture(scope="session")
def bounce(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], float]:
    """bounce(8): half a round trip of the hand-written ping-pong on the same platform, in nanoseconds."""
    folder = tmp_path_factory.mktemp("bounce")
    program, platform, hosts = folder / "bounce", folder / "platform.xml", folder / "hosts"
    platform.write_text(PLATFORM.format(last=1))
    hosts.write_text("node-0\nnode-1\n")

    def run(*command: str | Path) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert SMPICC is not None
    assert SMPIRUN is not None
    run(SMPICC, "-O1", "-o", program, HERE / "bounce.c")

    def half_trip(size_bytes: int) -> float:
        assert SMPIRUN is not None
        where = ("-platform", platform, "-hostfile", hosts, "--cfg=smpi/simulate-computation:no")
        return float(run(SMPIRUN, "-np", "2", *where, "--log=root.thresh:error", program, str(size_bytes)))

    return half_trip


def median_ns(points: list[dict[str, Any]]) -> dict[int, float]:
    return {point["size_bytes"]: point["median_ns"] for point in points}


def test_the_description_says_what_it_is_and_what_starts_it(with_mpis: Mpis) -> None:
    (added,) = with_mpis.need("simgrid")
    assert added.version.startswith("SimGrid 3.")
    assert added.facts["library"] == added.version
    assert added.launcher == ("smpi", Path(str(SMPIRUN)))
    (module,) = [one for one in native.list_()["modules"] if one["name"] == NAME]
    (sync,) = [option for option in module["options"] if option["name"] == "sync"]
    assert sync["choices"] == ["fence", "pscw"]


def test_it_measures_what_the_platform_says_and_the_same_again(
    netpipe: Netpipe, bounce: Callable[[int], float]
) -> None:
    sizes = (8, 1024, 100_000)
    first, second = (netpipe(NAME, "--sizes", ",".join(map(str, sizes)), "--budget", "0.5") for _ in range(2))
    for done in (first, second):
        assert done.code == 0, done.said
    one, other = median_ns(first.of("point")), median_ns(second.of("point"))
    assert one == pytest.approx({size: bounce(size) for size in sizes}, rel=0.01)
    assert one == pytest.approx(other, rel=1e-3)  # the clock has whole nanoseconds
    (opened,) = first.of("variant")
    assert [rank["host"] for rank in opened["ranks"]] == ["node-0", "node-1"]
    assert opened["ranks"][0]["settings"]["transport_found"] == "a simulated network"
    assert opened["below"] is None


@pytest.mark.parametrize("level", ["funneled", "serialized", "multiple"])
@pytest.mark.usefixtures("netpipe")
def test_a_thread_level_that_it_does_not_have_is_refused_before_it_starts(level: str) -> None:
    assert f"cannot take thread={level}: it simulates one thread of each rank" in refusal(
        f"{NAME}:thread={level}"
    )
    assert refusal(f"{NAME}:thread=single") == ""


@pytest.mark.usefixtures("netpipe")
def test_memory_of_a_device_is_refused_before_it_starts() -> None:
    assert "cannot take memory=cuda: the simulated machine has no CUDA device" in refusal(
        f"{NAME}:memory=cuda"
    )


def test_another_machine_is_a_file(netpipe: Netpipe, tmp_path: Path) -> None:
    (tmp_path / "far.xml").write_text(PLATFORM.format(last=1).replace('lat="1us"', 'lat="100us"'))
    near = netpipe(NAME, "--sizes", "8", "--budget", "0.2")
    far = netpipe(NAME, "--sizes", "8", "--budget", "0.2", "--launcher-args", "-platform far.xml")
    assert far.code == 0, far.said
    ratio = median_ns(far.of("point"))[8] / median_ns(near.of("point"))[8]
    assert ratio == pytest.approx(100, rel=0.02)


def test_pairs_that_share_no_link_are_as_fast_together_as_one_alone(netpipe: Netpipe) -> None:
    """Every node has a link of its own here, so the rate of all pairs is exactly that of one times their number. And
    ranks that wait for a moment let the simulated clock go on."""
    modes = ("pairs", "pairs:pairing=all", "pairs:pairing=all,together=no", "collective:what=barrier")
    asked = [word for mode in ("pingpong", *modes) for word in ("--pattern", mode)]
    names = (NAME, f"{NAME}:ranks=6")
    done = netpipe(*names, *asked, "--sizes", "1024", "--budget", "0.3")
    assert done.code == 0, done.said
    alone, points = ({point["pattern"]: point for point in done.of("point", variant=name)} for name in names)
    alone = alone["pingpong"]
    for mode in modes[:3]:
        assert points[mode]["median_ns"] == pytest.approx(alone["median_ns"], rel=0.01), mode
        pairs = 1 if "together=no" in mode else 3
        assert points[mode]["bytes_per_s"] == pytest.approx(pairs * alone["bytes_per_s"], rel=0.01), mode
        for cell in points[mode]["cells"]:
            assert cell["median_ns"] == pytest.approx(alone["median_ns"], rel=0.01), mode
    assert points["collective:what=barrier"]["median_ns"] > alone["median_ns"]


SETTINGS = (
    *("op=send", "op=isend", "op=persistent", "op=persistent,reuse=no", "op=ssend", "op=bsend", "op=rsend"),
    *("op=put", "op=get", "op=accumulate", "op=put,sync=pscw", "op=get,sync=pscw", "op=accumulate,sync=pscw"),
    *("op=put,window=create", "op=put,window=dynamic"),
    *("any_source=yes", "type=vector", "type=contiguous", "type=indexed"),
)


def test_every_byte_arrives_with_every_setting(netpipe: Netpipe) -> None:
    variants = [f"{NAME}:{setting}" for setting in SETTINGS]
    patterns = ("--pattern", "pingpong", "--pattern", "stream")
    done = netpipe(*variants, *patterns, "--sizes", "1,9,4097,300001", "--verify", "--budget", "0.1")
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == 2 * 4 * len(variants)
    assert all(point["verified_bytes"] > 0 for point in points)


def test_every_byte_arrives_with_every_pattern(netpipe: Netpipe) -> None:
    names = [pattern["name"] for pattern in native.list_()["patterns"]]
    words = [word for name in names for word in ("--pattern", name)]
    done = netpipe(NAME, *words, "--ranks", "4", "--sizes", "8,1k", "--verify", "--budget", "0.2")
    assert done.code == 0, done.said
    points = done.of("point")
    computing = ("collective_overlap", "loaded", "overlap")
    for name in computing:
        (skipped,) = done.of("skipped", pattern=name)
        assert skipped["reason"].endswith("computation takes no time on a simulated machine")
    lacking = ("cast", "partitioned", "signal", "threads")
    for name in lacking:
        assert done.of("skipped", pattern=name), f"{name}: the module has no such thing"
    # A word of eight bytes is all that `atomic` works on.
    measured = {(name, size) for name in names if name not in (*computing, *lacking) for size in (8, 1024)}
    assert {(point["pattern"], point["size_bytes"]) for point in points} == measured - {("atomic", 1024)}
    assert all(point["verified_bytes"] > 0 for point in points)


def test_a_sum_brings_back_what_was_there(netpipe: Netpipe) -> None:
    patterns = ["accumulate:fetch=yes", "accumulate:in_flight=3,fetch=yes", "accumulate:sync=fence,fetch=yes"]
    variants = [f"{NAME}:window={window}" for window in ("create", "allocate", "dynamic")]
    words = [word for pattern in patterns for word in ("--pattern", pattern)]
    done = netpipe(*variants, *words, "--sizes", "8,4096", "--verify", "--budget", "0.1")
    assert done.code == 0, done.said
    points = done.of("point")
    assert len(points) == len(variants) * len(patterns) * 2
    assert all(point["verified_bytes"] > 0 for point in points)


def test_it_stands_in_one_run_with_what_is_real(netpipe: Netpipe) -> None:
    done = netpipe("memcpy", "tcp", NAME, "--sizes", "8,1k", "--budget", "0.3")
    assert done.code == 0, done.said
    assert {point["variant"] for point in done.of("point")} == {"memcpy", "tcp", NAME}


def test_a_thousand_ranks_and_the_memory_of_each(netpipe: Netpipe, bounce: Callable[[int], float]) -> None:
    done = netpipe(NAME, "--ranks", "1024", "--sizes", "8,1k", "--timeout", "60")
    assert done.code == 0, done.said
    # Every pair has links of its own, so none sees the others.
    assert median_ns(done.of("point")) == pytest.approx({size: bounce(size) for size in (8, 1024)}, rel=0.01)
    (opened,) = done.of("variant")
    assert [rank["host"] for rank in opened["ranks"]] == [f"node-{rank}" for rank in range(1024)]
    (launch,) = done.of("launch")
    assert 0 < launch["buffer_bytes"] < launch["rss_bytes"] < launch["buffer_bytes"] + (8 << 20)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--launcher-args", "--cfg=smpi/bogus:1"), "Bad config key: smpi/bogus"),
        (("--launcher-args", "-platform nowhere.xml"), "nowhere.xml' does not exist"),
        (("--hosts", "localhost:2"), "runs on the hosts of its platform file"),
    ],
)
def test_what_the_simulator_does_not_take_is_a_sentence(
    netpipe: Netpipe, arguments: tuple[str, str], says: str
) -> None:
    done = netpipe(NAME, "--sizes", "8", *arguments)
    assert done.code == 4, done.said
    (error,) = done.of("error")
    assert says in error["message"]
    assert "\n" not in error["message"]


def test_a_rank_that_aborts_is_told_and_nothing_stays(with_mpis: Mpis, tmp_path: Path) -> None:
    assert with_mpis.there
    record = tmp_path / "run.jsonl"
    mark = secrets.token_hex(16)  # all of this run have it in their environment
    command = [
        sys.executable,
        "-m",
        "netpipe",
        "run",
        "--launches",
        "1",
        NAME,
        "--ranks",
        "256",
        "--sizes",
        "8,1k,64k,256k",
    ]
    process = subprocess.Popen(
        [*command, "--budget", "5", "-o", str(record)],
        env={**os.environ, "NETPIPE_TEST_MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (record.exists() and '"sample"' in record.read_text()):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (simulator,) = [pid for pid in all_with(mark) if program(pid) == "smpimain"]
        os.kill(simulator, signal.SIGABRT)
        _, said = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 4, said
    assert f"smpirun of {NAME} ended with exit code 134" in said
    assert not [pid for pid in all_with(mark) if program(pid).startswith("smpi")]


def program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def test_what_a_rank_costs_is_not_known_where_all_are_one_process(netpipe: Netpipe) -> None:
    done = netpipe(NAME, "--pattern", "none", "--ranks", "5")
    assert done.code == 0, done.said
    (variant,) = done.of("variant")
    assert len(variant["ranks"]) == 5
    assert variant["launch_s"] > 0
    for rank in variant["ranks"]:
        assert {
            rank[name]
            for name in (
                "barrier_resident_bytes",
                "resident_bytes",
                "private_bytes",
                "pinned_bytes",
                "open_s",
            )
        } == {None}
    assert "ranks of a simulated machine are one process" in " ".join(done.said.split())
