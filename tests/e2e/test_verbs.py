# SPDX-License-Identifier: Apache-2.0
"""verbs: its queue pairs, ways to carry a message, waits, refusals and faults. These tests need an RDMA device. Where
there is none, test_in_guest.py boots a guest with soft-RoCE and runs this file there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import WORKER, Outcome, Runner, Starter, parse, wait_for_samples
from guests import IN_GUEST
from test_libfabric import ranks_of

pytestmark = pytest.mark.module("verbs")

# An emulated processor may take seconds for a window.
QUICK = ("schedule list", "verify yes", "budget 0.3" if IN_GUEST else "budget 0.05", "timeout 20")


def module() -> dict[str, Any]:
    if not WORKER.is_file():
        return {}
    listed = subprocess.run([WORKER, "list"], capture_output=True, check=True, timeout=60)
    modules: list[dict[str, Any]] = json.loads(listed.stdout)["modules"]
    return next((one for one in modules if one["name"] == "verbs"), {})


MODULE = module()
BUILT = bool(MODULE.get("options"))
REASON = MODULE.get("reason") or "verbs is not built: apt install libibverbs-dev"
needs_device = pytest.mark.skipif(not MODULE.get("available", False), reason=REASON)
# Whose devices are known.
needs_guest = pytest.mark.skipif(not IN_GUEST, reason="it needs the devices of tests/guest")


def facts(done: Outcome, rank: int = 0) -> dict[str, Any]:
    (variant,) = done.of("variant")
    settings: dict[str, Any] = variant["ranks"][rank]["settings"]
    return settings


def assert_verified(done: Outcome, points: int) -> None:
    assert done.code == 0, done.said
    assert len(done.of("point")) == points
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"] > 0)


def counters_of(point: dict[str, Any]) -> list[dict[str, Any]]:
    found = point.get("counters") or []
    return found if isinstance(found, list) else [found]


def total(points: list[dict[str, Any]], counter: str) -> int:
    return sum(int(rank.get(counter, 0)) for point in points for rank in counters_of(point))


def messages_lost(done: Outcome) -> int:
    return total(done.of("point"), "messages_lost")


# ------------------------------------------------------------------------------- without a device


@pytest.mark.skipif(not BUILT or MODULE.get("available", False), reason="there is a device, or no module")
def test_without_a_device_it_is_listed_with_the_reason_and_refused(measure: Runner) -> None:
    assert MODULE["reason"].startswith("there is no RDMA device")
    assert "rdma link add" in MODULE["reason"]
    done = measure("variant verbs", "sizes 8", *QUICK)
    assert done.code == 3
    assert "there is no RDMA device" in done.said
    assert not done.of("sample")


def test_its_options_are_listed_all_the_same() -> None:
    if not BUILT:
        pytest.skip(REASON)
    named = {option["name"]: option for option in MODULE["options"]}
    assert named["qp"]["choices"] == ["rc", "uc", "ud"]
    assert named["op"]["choices"] == ["send", "write", "write_imm"]
    assert {"device", "port", "gid", "mtu", "inline", "qps", "register", "wait", "spin_us"} <= set(named)


# ------------------------------------------------------------------------------- how bytes move


@needs_device
@pytest.mark.parametrize("op", ["send", "write", "write_imm"])
def test_each_operation_moves_every_byte(measure: Runner, op: str) -> None:
    """Around eager (1024) and the largest inline message (220), and with more messages than a queue holds."""
    done = measure(
        f"variant verbs:op={op}",
        "pattern pingpong",
        "pattern window:in_flight=80",
        "sizes 0,1,212,213,220,221,1024,1025,16385",
        *QUICK,
    )
    assert_verified(done, 18)
    for rank in (0, 1):
        said = facts(done, rank)
        assert (said["qp"], said["op"], said["wait"]) == ("rc", op, "poll")


@needs_device
def test_more_messages_in_flight_than_a_queue_holds(measure: Runner) -> None:
    done = measure("variant verbs", "pattern window:in_flight=1100,directions=both", "sizes 8,300", *QUICK)
    assert_verified(done, 2)
    assert int(facts(done)["receive_queue"]) < 1100


@needs_device
@pytest.mark.parametrize("settings", ["uc", "uc,op=write", "uc,op=write_imm", "ud"])
def test_queue_pairs_that_may_lose_messages_say_so(measure: Runner, settings: str) -> None:
    qp = settings.partition(",")[0]
    done = measure(
        f"variant verbs:qp={settings}",
        *("pattern pingpong", "pattern stream", "pattern window", "pattern put"),
        "sizes 0,1,1000,4097",
        *QUICK,
    )
    assert done.code == 0, done.said
    assert facts(done)["qp"] == qp
    (opened,) = done.of("variant")
    promises = opened["promises"]
    assert (promises["lossy"], promises["unordered"]) == (True, qp == "ud")
    most = int(facts(done)["mtu"]) if qp == "ud" else 1 << 20
    fit = [size for size in (0, 1, 1000, 4097) if size <= most]
    assert {p["size_bytes"] for p in done.of("point", pattern="pingpong")} == set(fit)
    assert all(p["verified_bytes"] > 0 for p in done.of("point") if p["size_bytes"] > 0)
    reason = done.of("skipped", pattern="put")[0]["reason"]
    assert re.search("may be lost|pattern put does not obey op=", reason), reason
    windows = [*done.of("point", pattern="window"), *done.of("skipped", pattern="window")]
    assert {one["size_bytes"] for one in windows} >= set(fit)
    assert all(
        "lost in every sample" in s["reason"] for s in windows if s.get("size_bytes") in fit and "reason" in s
    )
    if qp == "ud":
        assert done.of("skipped", pattern="pingpong")[0]["reason"].endswith(f"is {most} bytes")


@needs_device
@pytest.mark.parametrize("op", ["write", "write_imm"])
@pytest.mark.parametrize(
    "more", ["", "inline=0", "inline=0,signal=100", "signal=100", "mtu=256", "register=each"]
)
def test_writes_of_an_unreliable_connection_move_every_byte(measure: Runner, op: str, more: str) -> None:
    """More messages than a receiver has cells, which lie around the largest inline message and the ends of packets."""
    settings = f"qp=uc,op={op},patience_us=2000000" + (f",{more}" if more else "")
    sizes = (0, 1, 7, 8, 204, 213, 1020, 4097, 100001)
    done = measure(
        f"variant verbs:{settings}",
        *("pattern pingpong", "pattern stream", f"sizes {','.join(map(str, sizes))}"),
        *QUICK,
    )
    assert_verified(done, 2 * len(sizes))
    assert messages_lost(done) == 0
    said = facts(done)
    assert (said["qp"], said["op"]) == ("uc", op)
    assert 2 <= int(said["cells"]) <= (64 if op == "write" else int(said["receive_queue"]))
    assert "eager" not in said


@needs_device
@pytest.mark.parametrize("wait", ["block", "hybrid"])
def test_who_waits_for_a_free_cell_may_sleep(measure: Runner, wait: str) -> None:
    settings = f"qp=uc,op=write_imm,patience_us=2000000,wait={wait}"
    done = measure(f"variant verbs:{settings}", "pattern pingpong", "pattern stream", "sizes 8,4097", *QUICK)
    assert_verified(done, 4)
    assert messages_lost(done) == 0
    assert facts(done)["wait"] == wait


@needs_device
@pytest.mark.parametrize("settings", ["", ":qp=ud", ":qp=uc", ":qp=uc,op=write", ":qp=uc,op=write_imm"])
def test_four_ranks(measure: Runner, settings: str) -> None:
    done = measure(f"variant verbs{settings}", "ranks 4", "pattern pingpong", "sizes 1,1000", *QUICK)
    assert_verified(done, 2)


def rnr_refusals(device: str) -> int:
    """How many messages found no receive since the device is there."""
    return int(Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters/rcvd_rnr_err").read_text())


@needs_device
@pytest.mark.parametrize("op", ["send", "write", "write_imm"])
def test_pairs_of_four_ranks_move_every_byte(measure: Runner, op: str) -> None:
    """Around eager and the largest inline message, between visits of a pattern in which ranks have several peers."""
    pairs = ("pingpong", "stream", "window:directions=both")
    done = measure(
        f"variant verbs:op={op}",
        "ranks 4",
        *(f"pattern {one}" for one in (*pairs, "ring")),
        "sizes 0,213,1025,16385",
        *("schedule list", "verify yes", "budget 1", "timeout 60"),
        limit_s=300.0,
    )
    if op == "send":
        assert_verified(done, 4 * (len(pairs) + 1))
        return
    assert_verified(done, 4 * len(pairs))
    reasons = {one["reason"] for one in done.of("skipped", pattern="ring")}
    assert reasons
    assert all(f"op={op} writes messages to places" in one for one in reasons), reasons
    assert all(one.endswith("choose op=send") for one in reasons), reasons


@needs_device
@needs_guest
def test_receives_are_posted_ahead_among_four_ranks(measure: Runner) -> None:
    """So that of the messages of a stream few have to be sent again."""
    refused = {}
    for ahead in ("64", "0"):
        before = rnr_refusals("rxe0")
        done = measure(
            f"variant verbs:device=rxe0,ahead={ahead}", "ranks 4", "pattern stream", "sizes 1000", *QUICK
        )
        assert_verified(done, 1)
        assert facts(done)["ahead"] == ahead
        messages = sum(sample["ops"] * len(sample["ns"]) for sample in done.of("sample"))
        refused[ahead] = (rnr_refusals("rxe0") - before) / messages
    assert refused["64"] < refused["0"] / 4, refused
    done = measure("variant verbs:ahead=32", "ranks 4", "pattern ring", "pattern pingpong", "sizes 8", *QUICK)
    assert [point["pattern"] for point in done.of("point")] == ["pingpong"]
    (skipped,) = done.of("skipped")
    assert "ahead=32 posts receives for the messages of one other rank" in skipped["reason"]


@needs_device
def test_every_rank_with_every_other(measure: Runner) -> None:
    done = measure("variant verbs", "ranks 3", "pattern ring", "pattern random", "sizes 1,4097", *QUICK)
    assert done.code == 0, done.said
    assert len(done.of("point", pattern="ring")) == 2


@needs_device
@pytest.mark.parametrize(
    "settings", ["", "qps=3,signal=7", "inline=0", "register=each", "wait=block", "ranks=4"]
)
def test_a_rank_sends_to_itself(measure: Runner, settings: str) -> None:
    """Between visits of another pattern, which leave receives behind."""
    patterns = ("pattern pingpong", "pattern itself")
    variant = f"verbs:{settings}" if settings else "verbs"
    done = measure(f"variant {variant}", *patterns, "sizes 0,1,221,16385", *QUICK)
    assert_verified(done, 8)


@needs_device
@pytest.mark.parametrize("op", ["write", "write_imm"])
def test_nothing_is_written_to_itself(measure: Runner, op: str) -> None:
    done = measure(f"variant verbs:op={op}", "pattern pingpong", "pattern itself", "sizes 8", *QUICK)
    assert_verified(done, 1)
    (skipped,) = done.of("skipped")
    assert skipped["pattern"] == "itself"
    assert "with qp=rc and op=send" in skipped["reason"]


@needs_device
@pytest.mark.parametrize("settings", ["", ":qps=3", ":qps=3,signal=7,list=5", ":inline=0", ":wait=block"])
def test_puts_and_gets_arrive(measure: Runner, settings: str) -> None:
    patterns = ("put", "get", "put:in_flight=33", "get:in_flight=33", "put:sync=fence", "signal")
    patterns += tuple(f"{way}:sync=wait{more}" for way in ("put", "get") for more in ("", ",in_flight=33"))
    lines = [f"pattern {pattern}" for pattern in patterns]
    done = measure(f"variant verbs{settings}", *lines, "sizes 1,300,65537", *QUICK)
    assert_verified(done, 30)


@needs_device
def test_atomics_that_a_device_has(measure: Runner) -> None:
    operations = ("fetch_add", "compare_swap", "add", "fetch")
    lines = [f"pattern atomic:op={one}" for one in (*operations, "swap")]
    done = measure("variant verbs:signal=3", *lines, "pattern atomic:op=add,in_flight=50", "sizes 8", *QUICK)
    assert done.code == 0, done.said
    if facts(done)["atomics"] == "no":
        assert not done.of("point")
        return
    assert len(done.of("point")) == len(operations) + 1
    (left_out,) = done.of("skipped")
    assert "has no atomic swap" in left_out["reason"]


# ------------------------------------------------------------------------------- settings


@needs_device
@pytest.mark.parametrize(
    ("settings", "fact", "value"),
    [
        ("qps=2", "qps", "2"),
        ("mtu=256", "mtu", "256"),
        ("mtu=1024", "mtu", "1024"),
        ("inline=0", "inline_bytes", "0"),
        ("inline=64", "inline_bytes", "64"),
        ("signal=16", "signal", "16"),
        ("list=1", "list", "1"),
        ("op=write,list=7", "list", "7"),
        ("ahead=0", "ahead", "0"),
        ("port=1", "port", "1"),
        ("gid=0", "gid", "0"),
        ("wait=hybrid", "wait", "hybrid"),
        ("wait=block", "wait", "block"),
        ("op=write_imm,wait=block", "wait", "block"),
        ("op=write,eager=0", "eager", "0"),
    ],
)
def test_a_setting_is_in_force_and_recorded(measure: Runner, settings: str, fact: str, value: str) -> None:
    done = measure(f"variant verbs:{settings}", "pattern pingpong", "pattern window", "sizes 8,4097", *QUICK)
    assert_verified(done, 4)
    assert facts(done)[fact] == value
    (opened,) = done.of("variant")
    beside = 8 if settings.startswith("op=write,") else 0  # the word that tells of a message
    assert opened["promises"]["max_inline_bytes"] == max(int(facts(done)["inline_bytes"]) - beside, 0)
    if value == "block":
        assert all(int(p["counters"]["empty_polls"]) == 0 for p in done.of("point") if p.get("counters"))


@needs_device
def test_ranks_that_share_a_processor_yield(measure: Runner) -> None:
    done = measure("variant verbs:op=write", "pin 0,0", "pattern pingpong", "sizes 8,4097", *QUICK)
    assert_verified(done, 2)
    assert facts(done)["wait"] == "yield"


def registrations(done: Outcome, size: int) -> int:
    return total(done.of("point", size_bytes=size), "registrations")


@needs_device
@pytest.mark.parametrize(
    "settings",
    ["register=each", "register=each,ahead=0", "register=each,qp=ud", "register=each,qp=uc,op=write"],
)
def test_memory_is_registered_once_or_for_each_message(measure: Runner, settings: str) -> None:
    """Messages that are inlined need none, those that are received do."""
    lines = ("pattern pingpong", "sizes 8,1000", *QUICK)
    once, each = measure("variant verbs", *lines), measure(f"variant verbs:{settings}", *lines)
    assert_verified(once, 2)
    assert_verified(each, 2)
    few = registrations(once, 1000)
    assert few <= 8
    if "qp=" in settings:  # they land in memory of the module
        assert registrations(each, 8) <= 8
    assert registrations(each, 1000) > few + 8


@needs_device
def test_memory_that_is_new_to_the_layer_is_registered_for_each_message(measure: Runner) -> None:
    lines = ("buffers fresh", "pattern pingpong", "sizes 1000", *QUICK)
    refused = measure("variant verbs", *lines)
    assert any("register=each registers each message" in one["reason"] for one in refused.of("skipped"))
    assert_verified(measure("variant verbs:register=each", *lines), 1)


@needs_device
def test_messages_above_what_the_device_carries_are_left_out(measure: Runner) -> None:
    probe = measure("variant verbs", "pattern pingpong", "sizes 8", *QUICK)
    most = int(facts(probe)["max_message"])
    if most > 64 << 20:
        pytest.skip(f"the device carries {most} bytes: too many to try here")
    done = measure("variant verbs", "pattern pingpong", f"sizes {most},{most + 1}", *QUICK)
    assert_verified(done, 1)
    assert done.of("skipped")[0]["reason"] == f"the largest message of this variant is {most} bytes"


# ------------------------------------------------------------------------------- refusals


@needs_device
@pytest.mark.parametrize(
    ("variant", "code", "sentence"),
    [
        ("device=no_such", 3, r"device=no_such is not here; there are: \w+"),
        ("port=200", 3, r"port=200: device \w+ has \d+ port"),
        ("gid=200", 3, r"gid=200: port \d+ of device \w+ has "),
        ("inline=4096", 2, r"inline=4096: device \w+ inlines at most \d+ bytes"),
        ("op=write,wait=block", 2, r"only wait=poll sees a word change in memory"),
        ("op=write,qps=2", 2, r"qps=2 with op=write: its messages arrive in order"),
        ("op=write_imm,register=each", 2, r"the sender must know the place beforehand"),
        ("qp=ud,op=write", 2, r"datagrams are carried by send and receive"),
        ("qp=uc,op=write,wait=block", 2, r"only wait=poll sees a word change in memory"),
        ("qp=uc,op=write,eager=64", 2, r"each of its messages travels together with that word"),
        ("qp=uc,op=write_imm,eager=64", 2, r"only op=write has a word|travels together with that word"),
        ("qp=uc,op=write_imm,qps=2", 2, r"qps=2 with op=write_imm: its messages arrive in order"),
        ("qp=uc,op=write_imm,ahead=3", 2, r"only op=send posts receives for messages"),
        ("qp=ud,qps=2", 2, r"one queue pair reaches all peers"),
        ("patience_us=500", 2, r"only messages of qp=uc\|ud may be lost"),
        ("eager=64", 2, r"only op=write has a word"),
        ("spin_us=5", 2, r"only wait=hybrid polls for a time"),
        ("op=write,ahead=3", 2, r"only op=send posts receives for messages"),
        ("qp=ud,ahead=3", 2, r"these post as many receives as they have memory for"),
        ("qp=uc,list=3", 2, r"their patterns start one message at a time"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_is_measured(
    measure: Runner, variant: str, code: int, sentence: str
) -> None:
    done = measure(f"variant verbs:{variant}", "sizes 8", *QUICK)
    if variant.startswith("inline") and done.code == 0:
        pytest.skip("this device inlines that much")
    assert done.code == code, done.said
    assert re.search(sentence, done.said), done.said
    assert not done.of("sample")


@needs_device
@needs_guest
def test_a_port_without_link_is_refused(measure: Runner) -> None:
    done = measure("variant verbs:device=rxe1", "sizes 8", *QUICK)
    assert done.code == 3
    assert "port 1 of device rxe1 has no link (it is down)" in done.said


@needs_device
@needs_guest
def test_an_mtu_above_that_of_the_port_is_refused(measure: Runner) -> None:
    done = measure("variant verbs:device=rxe2,mtu=2048", "sizes 8", *QUICK)
    assert done.code == 2
    assert "mtu=2048: port 1 of device rxe2 carries 1024 bytes in a packet" in done.said


@needs_device
@needs_guest
@pytest.mark.parametrize(("limit_kib", "code"), [("64", 4), ("unlimited", 0)])
def test_a_limit_of_locked_memory_that_is_too_low_is_named(limit_kib: str, code: int) -> None:
    """root may lock as much as it likes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        lines = [
            "netpipe-plan 1",
            f"record {folder}/run.jsonl",
            "variant verbs",
            "sizes 300000",
            *QUICK,
            "end",
            "",
        ]
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        done = subprocess.run(
            ["sh", "-c", f'ulimit -l {limit_kib}; exec "$@"', "sh", *user, WORKER, "run"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert done.returncode == code, done.stderr
    if code != 0:
        assert re.search(r"the limit of locked memory \(ulimit -l\) is 64 KiB: raise it", done.stderr), (
            done.stderr
        )


# ------------------------------------------------------------------------------- faults


@needs_device
@pytest.mark.parametrize("settings", ["", ":op=write", ":qp=ud", ":wait=block", ":qp=uc,op=write"])
def test_a_rank_that_is_killed_ends_the_run_in_a_sentence(started: Starter, settings: str) -> None:
    process, path = started(
        f"variant verbs{settings}", "pattern pingpong", "budget 30", "timeout 30", "schedule list", "sizes 8"
    )
    wait_for_samples(path)
    os.kill(ranks_of(process.pid)[-1], signal.SIGKILL)
    assert process.wait(40) == 4
    errors = [r["message"] for r in parse(path.read_text()) if r["type"] == "error"]
    assert any("rank 1" in message for message in errors), errors


@needs_device
@pytest.mark.parametrize("qp", ["ud", "uc"])
@pytest.mark.parametrize("pattern", ["pingpong", "stream"])
def test_a_rank_that_was_stopped_loses_what_found_no_receive_and_goes_on(
    started: Starter, qp: str, pattern: str
) -> None:
    """Hundreds of messages at the end of a visit, that nothing comes behind, are lost at once."""
    process, path = started(
        f"variant verbs:qp={qp}", f"pattern {pattern}", "schedule list", "sizes 8", "budget 6", "timeout 8"
    )
    wait_for_samples(path)
    rank = ranks_of(process.pid)[-1]
    for _ in range(4):
        os.kill(rank, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(rank, signal.SIGCONT)
        time.sleep(0.2)
    assert process.wait(60) == 0, path.read_text()[-2000:]
    assert [r for r in parse(path.read_text()) if r["type"] == "point"]


@needs_device
@pytest.mark.parametrize("op", ["write", "write_imm"])
@pytest.mark.parametrize("pattern", ["pingpong", "stream"])
def test_nothing_is_written_over_a_message_that_a_stopped_rank_has_not_read(
    started: Starter, op: str, pattern: str
) -> None:
    """Its sender waits until a cell is free, so nothing is lost."""
    process, path = started(
        f"variant verbs:qp=uc,op={op},patience_us=2000000",
        f"pattern {pattern}",
        *("schedule list", "sizes 8", "verify yes", "budget 10", "timeout 20"),
    )
    wait_for_samples(path)
    rank = ranks_of(process.pid)[-1]
    for _ in range(8):  # some of them between two visits, where nothing is on its way
        os.kill(rank, signal.SIGSTOP)
        time.sleep(0.8)
        os.kill(rank, signal.SIGCONT)
        time.sleep(0.2)
    assert process.wait(60) == 0, path.read_text()[-2000:]
    (point,) = [r for r in parse(path.read_text()) if r["type"] == "point"]
    assert point["verified_bytes"] > 0
    assert total([point], "messages_lost") == 0
    assert pattern == "pingpong" or total([point], "held_back") > 0


@pytest.fixture(scope="module")
def lossy_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the network of a rank lose some of its RDMA writes over unreliable connections."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    made = tmp_path_factory.mktemp("lossy") / "lossy_verbs.so"
    source = Path(__file__).with_name("lossy_verbs.c")
    # Before it, the module alone has loaded libibverbs, and what is preloaded finds no function there.
    libraries = ["-Wl,--no-as-needed", "-libverbs"]
    subprocess.run([compiler, "-shared", "-fPIC", "-o", made, source, *libraries], check=True, timeout=120)
    return made


@needs_device
@needs_guest
@pytest.mark.parametrize("op", ["write", "write_imm"])
def test_writes_that_the_network_loses_are_counted_and_spoil_no_byte(
    lossy_network: Path, measure: Runner, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """1 in 89 does not come at all, of 1 in 97 the message comes and not what tells of it."""
    monkeypatch.setenv("LD_PRELOAD", str(lossy_network))
    lines = ("pattern stream", "pattern pingpong", "sizes 8,4097", "schedule list", "verify yes")
    done = measure(f"variant verbs:qp=uc,op={op},patience_us=20000", *lines, "budget 3", "timeout 20")
    assert_verified(done, 4)
    for point in done.of("point", pattern="stream"):
        (loss,) = (float(one["median"]) for one in point["measures"] if one["name"] == "loss")
        assert loss == pytest.approx(1 / 89 + 1 / 97, rel=0.5), point
        assert total([point], "messages_lost") > 0
    assert total(done.of("point"), "late_datagrams") == 0


@needs_device
@pytest.mark.parametrize("settings", ["", ":op=write", ":wait=block", ":qp=uc,op=write"])
def test_an_interrupt_ends_it(started: Starter, settings: str) -> None:
    process, path = started(f"variant verbs{settings}", "pattern pingpong", "budget 30", "timeout 30")
    wait_for_samples(path)
    process.send_signal(signal.SIGINT)
    assert process.wait(40) == 130
