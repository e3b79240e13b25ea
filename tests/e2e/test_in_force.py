# SPDX-License-Identifier: Apache-2.0
"""What is labelled was in force, or was refused with a sentence: every pattern with values of every option over a layer
that has it, every pattern beside every setting of every module, and every pattern under the options of a run. The lists
come from the worker itself. Where a layer counts what an option changes, its counters have to show it.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
from conftest import WORKER, Netpipe, Outcome, Runner
from mpi import EVERYDAY, Mpis
from test_conformance import LISTING, MODULES, own
from test_faults import module

# With `collective`, which no module of ours has: a test module.
LAYER = {
    "collective": ("lagging", module),
    "congestion": ("shm:ranks=4", None),
    "halo": ("shm:ranks=4", None),
    "cast": ("udp", None),
    "strided": ("cma" if "cma" in MODULES else "shm", None),
}
SIZES = (8, 4096)
# Messages that are counted in the time of one operation, where a setting changes it; with two ranks.
BOTH_WAYS = {"window:directions=both", "pairs:traffic=both", "bidirectional", "overlap"}
NO_RATE = ("overhead", "offered", "atomic")
# Of all ranks together, by pattern or by a label of it.
OF_ALL = {"ring": 2, "exchange": 4, "halo": 16, "random:traffic=both": 2}
# Messages that land on each other: a plan that verifies them is refused.
UNVERIFIED = ("window", "places", "one")


def values(option: dict[str, Any]) -> list[str]:
    """Every choice; of a number the default and one that is small."""
    if option["type"] == "choice":
        return list(option["choices"])
    if option["type"] == "bool":
        return ["yes", "no"]
    if option["type"] in ("int", "size"):
        small = 5000 if option["unit"] == "1/s" else max(option["min"], min(3, option["max"]))
        in_k = option["type"] == "size" and small > 0 and small % 1024 == 0  # as the worker writes it
        return [option["default"], f"{small // 1024}k" if in_k else str(small)]
    return [option["default"]]


def settings_of(pattern: dict[str, Any]) -> list[tuple[str, str]]:
    # Cold memory is gigabytes on some machines, and is walked in test_conformance.py.
    common = [one for one in LISTING.get("pattern_options", []) if one["name"] not in ("buffers", "reuse")]
    return [(one["name"], value) for one in (*pattern["options"], *common) for value in values(one)]


@pytest.mark.parametrize(
    "pattern",
    [
        # Companions that start and stop take seconds.
        pytest.param(
            one, marks=pytest.mark.deep if one["name"] in ("loaded", "congestion") else (), id=one["name"]
        )
        for one in LISTING["patterns"]
        # No layer of ours, nor of the tests, has what they need: test_mpi_threads.py, test_mpi.py.
        if one["name"] not in ("threads", "partitioned", "collective_overlap", "itself")
    ],
)
def test_every_choice_of_every_option_of_a_pattern_was_in_force_or_refused(
    measure: Runner, pattern: dict[str, Any]
) -> None:
    name = pattern["name"]
    variant, of_tests = LAYER.get(name, ("shm", None))
    every = settings_of(pattern)
    for verified in (True, False):
        wanted = [one for one in every if ((name, *one) != UNVERIFIED) == verified]
        lines = [f"pattern {name}:{option}={value}" for option, value in wanted]
        if not lines:
            continue
        done = measure(
            *([of_tests(variant)] if of_tests else []), f"variant {variant}", *dict.fromkeys(lines),
            "schedule list", f"sizes {','.join(map(str, SIZES))}", f"verify {'yes' if verified else 'no'}",
            "budget 0.05", "timeout 30",
        )  # fmt: skip
        assert done.code == 0, done.said
        check(done, pattern, wanted, verified)


def check(done: Outcome, pattern: dict[str, Any], wanted: list[tuple[str, str]], verified: bool) -> None:
    name = pattern["name"]
    (plan,) = done.of("plan")
    defaults = {one["name"]: one["default"] for one in pattern["options"]}
    for option, value in wanted:
        found = [
            mode
            for mode in plan["modes"]
            if mode["options"][option] == value
            and all(
                mode["options"][other] == default for other, default in defaults.items() if other != option
            )
        ]
        assert found, f"{name}:{option}={value} is in no mode"
        label = found[0]["pattern"]
        skipped = done.of("skipped", pattern=label)
        points = done.of("point", pattern=label)
        assert points or skipped, label
        for one in skipped:
            assert len(one["reason"]) > 20, one
        for point in points:
            assert (point["verified_bytes"] > 0) == verified or "barrier" in label, label
            if name in ("collective", "congestion", "incast", "outcast", "loggp", "loaded"):
                continue
            messages = 0 if name in NO_RATE else 2 if label in BOTH_WAYS or name == "bidirectional" else 1
            if name == "overlap":
                messages = 2
            messages = OF_ALL.get(label.partition(",")[0], OF_ALL.get(name, messages))
            rate = messages * point["size_bytes"] * 1e9 / point["median_ns"] if messages else None
            assert point["bytes_per_s"] == (pytest.approx(rate) if rate else None), label


def planned(variant: str, patterns: list[str], *lines: str) -> tuple[dict[str, Any] | None, str]:
    """The plan as the worker understands it, or the sentence with which it refuses it."""
    text = "\n".join(
        ["netpipe-plan 1", *lines, f"variant {variant}", *(f"pattern {one}" for one in patterns), "end", ""]
    )
    done = subprocess.run(
        [WORKER, "plan"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    return (json.loads(done.stdout), "") if done.returncode == 0 else (None, done.stdout + done.stderr)


def walk(module_: dict[str, Any]) -> None:
    """Every setting of a module beside every pattern."""
    patterns = [one["name"] for one in LISTING["patterns"]]
    for option in module_["options"]:
        for value in values(option):
            variant = f"{module_['name']}:{option['name']}={value}"
            plan, sentence = planned(variant, patterns)
            if plan is None:
                assert option["name"] in sentence, f"{variant} is refused for another reason: {sentence}"
                assert len(sentence) > 30, sentence
                continue
            assert plan["variants"][0]["options"][option["name"]] == value, variant
            assert [curve["pattern"] for curve in plan["curves"]] == patterns
            for curve in plan["curves"]:
                assert curve["reason"] is None or len(curve["reason"]) > 20, curve


@pytest.mark.parametrize(
    "module_",
    [pytest.param(one, marks=own(one["name"]), id=str(one["name"])) for one in LISTING["modules"]],
)
def test_every_setting_of_a_module_is_in_the_plan_or_refused(module_: dict[str, Any]) -> None:
    walk(module_)


@pytest.mark.parametrize(
    "variant",
    [
        "tcp:spin_us=10",
        "shm:wait=block,spin_us=10",
        "tcp:stripe=4k",
        "unix:packet=1000",
        "shm:copy=pipeline,cma_min=1k",
    ],
)
def test_a_setting_that_does_nothing_beside_another_is_refused(variant: str) -> None:
    plan, sentence = planned(variant, ["pingpong"])
    assert plan is None, f"{variant} would be a label for nothing"
    assert " with " in sentence, sentence


@pytest.mark.parametrize("library", EVERYDAY)
def test_every_setting_of_an_mpi_is_in_the_plan_or_refused(with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    name = f"mpi@{library}"
    listing = json.loads(subprocess.run([WORKER, "list"], capture_output=True, check=True, timeout=60).stdout)
    (module_,) = [one for one in listing["modules"] if one["name"] == name]
    walk(module_)
    # Datatypes are those of messages: a collective operation has its own.
    for setting in ("type=vector", "type=indexed,block=8", "any_source=yes"):
        plan, sentence = planned(f"{name}:{setting}", ["collective", "pingpong"])
        assert plan is not None, sentence
        reasons = {curve["pattern"]: curve["reason"] for curve in plan["curves"]}
        assert f"does not obey {setting.partition(',')[0]}" in reasons["collective"]
        assert reasons["pingpong"] is None
    # A ping-pong sends and receives without requests.
    plan, sentence = planned(f"{name}:waitall=yes", ["pingpong", "window"])
    assert plan is not None, sentence
    reasons = {curve["pattern"]: curve["reason"] for curve in plan["curves"]}
    assert "does not obey waitall=yes" in reasons["pingpong"]
    assert reasons["window"] is None
    for setting in ("block=8", "stride=512", "partitions=8", "reuse=no", "sync=pscw"):
        plan, sentence = planned(f"{name}:{setting}", ["pingpong"])
        assert plan is None, f"{setting} would be a label for nothing"


# ----------------------------------------------------------------------------------- options of a run, and of buffers

ALL = [one["name"] for one in LISTING["patterns"]]
BUFFERS = next((one["choices"] for one in LISTING.get("pattern_options", []) if one["name"] == "buffers"), [])
ONCE = ("cold", "fresh")  # in which no message uses a buffer of another
FEW = ("schedule list", "sizes 8,4096")
OWN = "pingpong:buffers=apart,send_offset=8,recv_offset=16"  # which chooses its own


OF_A_RUN = [
    *(("buffers", kind) for kind in BUFFERS),
    ("send_offset", "64"),
    ("recv_offset", "64"),
]


@pytest.mark.parametrize(("option", "value"), OF_A_RUN)
def test_an_option_of_a_run_is_that_of_every_pattern_without_its_own(option: str, value: str) -> None:
    check_option_of_a_run("shm", option, value)


@pytest.mark.parametrize("library", EVERYDAY)
def test_an_option_of_a_run_is_that_of_every_pattern_over_an_mpi(with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    for option, value in OF_A_RUN:
        check_option_of_a_run(f"mpi@{library}", option, value)


def check_option_of_a_run(variant: str, option: str, value: str) -> None:
    line = f"{option.replace('_', '-')} {value}"
    plan, sentence = planned(variant, [*ALL, OWN], *FEW, line)
    if plan is None:  # cold memory is gigabytes on some machines
        assert " of buffers on " in sentence
        return
    modes = {mode["pattern"]: mode["options"] for mode in plan["modes"]}
    assert len(modes) == len(ALL) + 1
    own = dict(one.split("=") for one in OWN.partition(":")[2].split(","))
    for pattern, options in modes.items():
        chosen = own[option] if pattern.startswith("pingpong:") else value
        assert options[option] == chosen, pattern
    field = "policy" if option == "buffers" else f"{option}_bytes"
    assert str(plan["buffers"][field]) == value
    if option == "buffers":
        usual, _ = planned(variant, [*ALL, OWN], *FEW)
        assert usual is not None
        more = {
            name: plan["buffers"][name] / max(1, usual["buffers"][name])
            for name in ("pool_bytes", "fresh_bytes")
        }
        # Cold memory is more than twice the cache, which is 8 MiB on some machines.
        assert (more["pool_bytes"] > 2) == (value == "cold")
        assert (more["fresh_bytes"] > 2) == (value == "fresh")
    assert all(curve["reason"] is None or len(curve["reason"]) > 20 for curve in plan["curves"])


@pytest.mark.parametrize("kind", BUFFERS)
def test_buffers_and_how_often_they_are_used_again_are_in_the_plan_or_refused(kind: str) -> None:
    for reuse in ("0", "50", "100"):
        patterns = [f"{name}:buffers={kind},reuse={reuse}" for name in ALL]
        plan, sentence = planned("shm", patterns, *FEW)
        if kind in ONCE and reuse != "100":
            assert plan is None
            assert f"{kind} buffers are never reused" in sentence
        elif plan is None:
            assert " of buffers on " in sentence
        else:
            said = [(mode["options"]["buffers"], mode["options"]["reuse"]) for mode in plan["modes"]]
            assert said == [(kind, reuse)] * len(ALL)


# Above shm's cma_min: the peer reads a message in memory that it has mapped, which netpipe's buffers are, and any other
# by system calls or through the ring. So the counters say how many messages were in buffers that the layer knew.
LARGE = 65536
KNOWN, UNKNOWN = "messages_mapped", ("messages_cma", "messages_through_ring")


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param(["pingpong", "window"], marks=pytest.mark.gate, id="some"),
        # Companions take seconds.
        pytest.param([name for name in ALL if name not in ("loaded", "congestion")], id="all"),
    ],
)
def test_the_layer_sees_as_many_known_buffers_as_the_label_says(measure: Runner, patterns: list[str]) -> None:
    settings = {"": 1.0, "buffers=apart": 1.0, "buffers=fresh": 0.0, "reuse=0": 0.0, "reuse=50": 0.5}
    done = measure(
        "variant shm",
        *(f"pattern {name}{':' if setting else ''}{setting}" for name in patterns for setting in settings),
        "schedule list", f"sizes {LARGE}", "budget 0.02", "timeout 30",
    )  # fmt: skip
    assert done.code == 0, done.said
    seen = set()
    for name in patterns:
        for setting, share in settings.items():
            label = f"{name}:{setting}" if setting else name
            (one,) = [*done.of("point", pattern=label), *done.of("skipped", pattern=label)]
            if one["type"] == "skipped":
                assert len(one["reason"]) > 20, one
                continue
            known = one["counters"].get(KNOWN, 0)
            unknown = sum(one["counters"].get(counter, 0) for counter in UNKNOWN)
            if known + unknown == 0:
                assert name not in ("pingpong", "window", "stream", "bidirectional"), label
                continue  # it sends no message of this size
            seen.add(name)
            assert known / (known + unknown) == pytest.approx(share, abs=0.2 if 0 < share < 1 else 0), label
    assert {"pingpong", "window"} <= seen


def test_options_of_a_run_are_recorded_and_in_force(measure: Runner) -> None:
    first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    done = measure(
        "variant shm", "pattern pingpong", "pattern pairs", f"pin {last},{first}",
        "buffers fresh", "send-offset 64", "recv-offset 128", "seed 5", "timeout 20", "target 3%", "budget 0.06",
        "launches 2", "verify yes", "schedule list", f"sizes {LARGE}",
    )  # fmt: skip
    assert done.code == 0, done.said
    (plan,) = done.of("plan")
    wanted = {"seed": 5, "timeout_s": 20, "target": 0.03, "budget_s": 0.06, "launches": 2, "verify": True}
    assert {name: plan[name] for name in wanted} == wanted
    assert plan["pin"] == [last, first]
    (opened,) = done.of("variant")
    assert [rank["cpu"] for rank in opened["ranks"]] == [last, first]
    for pattern in ("pingpong", "pairs"):
        (point,) = done.of("point", pattern=pattern)
        assert point["verified_bytes"] > 0
        assert point["counters"].get(KNOWN, 0) == 0, "fresh buffers are known to nobody"
    more = measure("variant shm", "pattern none", "ranks 4", "pin none")
    assert more.code == 0, more.said
    (opened,) = more.of("variant")
    assert [rank["rank"] for rank in opened["ranks"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("library", EVERYDAY)
def test_an_mpi_is_given_as_many_known_buffers_as_the_label_says(
    netpipe: Netpipe, with_mpis: Mpis, library: str
) -> None:
    """A persistent request belongs to its buffer: the module makes one for each buffer that it has not seen."""
    with_mpis.need(library)
    settings = ("buffers=warm", "buffers=apart", "buffers=fresh", "reuse=0", "reuse=50")
    patterns = [f"{name}:{setting}" for name in ("pingpong", "window") for setting in settings]
    words = [word for pattern in patterns for word in ("--pattern", pattern)]
    variant = f"mpi@{library}:op=persistent,transport=shm"
    done = netpipe(variant, *words, "--sizes", f"{LARGE}", "--budget", "0.05")
    assert done.code == 0, done.said
    for name in ("pingpong", "window"):
        again = {}
        for setting in settings:
            label = name if setting == "buffers=warm" else f"{name}:{setting}"
            (point,) = done.of("point", pattern=label)
            made, reused = (point["counters"][f"send_requests_{what}"] for what in ("made", "reused"))
            again[setting] = reused / (made + reused)
        assert min(again["buffers=warm"], again["buffers=apart"]) > again["reuse=50"]
        assert again["reuse=50"] > max(again["buffers=fresh"], again["reuse=0"])
