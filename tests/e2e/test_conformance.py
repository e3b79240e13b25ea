# SPDX-License-Identifier: Apache-2.0
"""Every module against every pattern, with real bytes that are checked. The list comes from `netpipe-worker list`, so
that a new module or pattern is tested by being there. Each cell of module and pattern that does not run is recorded
with its reason (tests/cells.py); layers whose ranks a library's launcher starts run in their own tests
(every_pattern.py).
"""

from __future__ import annotations

import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT_S, ROOT, WORKER, Runner
from guests import IN_GUEST

from cells import Cells
from netpipe.libraries.adding import layers
from sizes import AROUND, LARGE, Run, named
from thresholds import around, thresholds

SIZES = "0,1,2,3,7,8,9,63,64,65,255,4095,4096,4097,65535,65536,65537,300001,1048576,1048579"


def listing() -> dict[str, Any]:
    if not WORKER.is_file():
        return {"modules": [], "patterns": []}
    answer: dict[str, Any] = json.loads(
        subprocess.run([WORKER, "list"], capture_output=True, check=True, timeout=60).stdout
    )
    return answer


LISTING = listing()
# A device or a protocol of the kernel may be missing: test_in_guest.py runs verbs and sctp in a guest that has them,
# tests of this file among theirs.
# test_cuda.py and test_nccl.py have stand-ins where there is no GPU.
ELSEWHERE = (
    "there is no RDMA device",
    "this kernel has no SCTP",
    "there is no CUDA device",
    "libnccl.so.2 cannot",
    "its header nccl.h was not found",
)
ALL_MODULES = LISTING["modules"]


def by_launcher(layer: str) -> str:
    """Why this file does not run a layer that is built once per library."""
    return f"a launcher of its library starts its ranks: test_{layer}.py runs every pattern"


def elsewhere(module: dict[str, Any]) -> str | None:
    """Why this file does not run a module; None: it does."""
    if module["launched"]:
        return by_launcher(module["name"].partition("@")[0])
    reason = module.get("reason") or ""
    return reason if any(lacks in reason for lacks in ELSEWHERE) else None


LISTING["modules"] = [module for module in ALL_MODULES if elsewhere(module) is None]
MODULES = [module["name"] for module in LISTING["modules"]]


def left_out(option: str, value: str) -> str | None:
    """Why no pattern is run with this value of an option; None: it is."""
    if option in {"work", "side"}:
        return "what is computed beside the messages, and by whom, changes none of them"
    if (option, value) == ("places", "one"):
        return "messages that land on each other cannot be verified (test_buffers.py)"
    return None


# Each pattern with each value of each of its choices, and why some are left out.
ALL_PATTERNS = {
    mode: reason
    for pattern in LISTING["patterns"]
    for mode, reason in (
        (pattern["name"], None),
        *(
            (f"{pattern['name']}:{option['name']}={value}", left_out(option["name"], value))
            for option in pattern["options"]
            for value in option["choices"]
            if value != option["default"]
        ),
    )
}
PATTERNS = [mode for mode, reason in ALL_PATTERNS.items() if reason is None]


# Patterns of more ranks than two, and on how many they run: a grid of three dimensions has two in each.
LEAST = {pattern["name"]: pattern["min_ranks"] for pattern in LISTING["patterns"]}
MANY = {
    pattern: 8 if "dims=3" in pattern else LEAST[pattern.partition(":")[0]]
    for pattern in PATTERNS
    if LEAST[pattern.partition(":")[0]] > 2
}
MANY_SIZES = "0,9,65537"

# Each way to move a message, with all sizes and all settings of a module; patterns made of these with its defaults.
WAYS = ["pingpong", "stream", "bidirectional", "burst", "window", "put", "get"]
OTHERS = [pattern for pattern in PATTERNS if pattern not in WAYS and pattern not in MANY]


def choices() -> list[str]:
    """Each module with each value of each of its choices and switches, one at a time."""
    variants = []
    for module in LISTING["modules"]:
        variants.append(module["name"])
        for option in module["options"]:
            values = {"choice": option["choices"], "bool": ["yes", "no"]}.get(option["type"], [])
            variants += [
                f"{module['name']}:{option['name']}={value}" for value in values if value != option["default"]
            ]
    return variants


def module_of(variant: str) -> dict[str, Any]:
    """What the worker lists of it."""
    (module,) = [one for one in LISTING["modules"] if one["name"] == variant.partition(":")[0]]
    return dict(module)


def by_wait(module: dict[str, Any]) -> list[str]:
    """A module, which waits as it does by default, and with each other value of its option `wait`."""
    waits = [option for option in module["options"] if option["name"] == "wait"]
    others = [value for option in waits for value in option["choices"] if value != option["default"]]
    return [module["name"], *(f"{module['name']}:wait={value}" for value in others)]


WAITS = [variant for module in LISTING["modules"] for variant in by_wait(module)[1:]]


def resting(name: str) -> str:
    """The variant of a module in which ranks that share a processor leave it to each other: where a wait can sleep, it
    does, and other layers yield by themselves.
    """
    sleeps = f"{name}:wait=block"
    return sleeps if sleeps in WAITS else name


RESTING = "more than two ranks share processors, and are run with wait=block alone"


def walked() -> Run:
    """Each variant with each pattern that a test below runs over it, and the sizes that it is run with."""
    run = Run()
    run.add(product(choices(), WAYS), named(SIZES))
    run.add(product(MODULES, OTHERS), named(ROW))
    run.add(product(MODULES, PLAIN), named(str(MIB)))
    run.add(product(WAITS, OTHERS), named(OF_WAITS))
    run.add(((resting(name), pattern) for name in MODULES for pattern in MANY), named(MANY_SIZES))
    run.add(product(MODULES, LARGE_WAYS), {LARGE})
    run.add(product(WITH_THRESHOLDS, LARGE_WAYS), {AROUND})
    return run


def why_not_every_size(variant: str, pattern: str) -> str:
    """A module may refuse such a cell: what is counted is what no test asks for."""
    if pattern in MANY:
        return "more than two ranks share processors, and are run with few sizes"
    if pattern in WAYS:
        return "the largest size and those around thresholds are run with four ways and a module's defaults"
    if ":" in variant:
        return (
            "patterns other than the ways are run with two sizes where ranks wait otherwise than by default"
        )
    return "the larger sizes are run with the ways, and 1 MiB with the defaults of a pattern"


def test_there_are_the_modules_and_patterns_that_the_documentation_promises() -> None:
    assert {"null", "memcpy", "shm", "pipe", "unix", "tcp"} <= set(MODULES)
    assert set(WAYS) <= set(PATTERNS)
    assert {"congestion", "halo"} <= set(MANY)
    assert LISTING["refused"] == []


@pytest.mark.gate
def test_what_is_not_run_here_at_all_has_a_reason(request: pytest.FixtureRequest) -> None:
    """Also the layers of which no library was added, which the worker does not list."""
    whole = {module["name"]: elsewhere(module) for module in ALL_MODULES}
    whole |= {one.name: by_launcher(one.name) for one in layers.without_library({"modules": ALL_MODULES})}
    cells = Cells()
    for name, why_not in whole.items():
        for pattern, reason in ALL_PATTERNS.items():
            why = why_not or reason
            if why is not None:
                cells.leave_out(f"{name}, {pattern}", why)
    cells.record(request.node)
    several = sum(len(some) for some in cells.left_out.values())
    assert several == len(whole) * len(ALL_PATTERNS) - len(MODULES) * len(PATTERNS)
    assert all(len(reason) > 20 for reason in cells.left_out)
    folders = {path.parent.name for path in (ROOT / "src" / "modules").glob("*/module.toml")}
    assert folders <= {name.partition("@")[0] for name in whole}


@pytest.mark.gate
def test_what_is_not_run_with_every_wait_has_a_reason(request: pytest.FixtureRequest) -> None:
    """Nor with every size, with any setting. The test above has counted each module that is not run here at all, with
    the wait that is its default.
    """
    cells, run = Cells(), walked()
    for cell in run.sizes:
        run.leave_out(cells, cell, why_not_every_size(*cell))
    for module in ALL_MODULES:
        why_not = elsewhere(module)
        for variant, pattern in product(by_wait(module)[1 if why_not else 0 :], PATTERNS):
            if (variant, pattern) not in run.sizes:
                why = why_not or (RESTING if pattern in MANY else "")
                assert why, f"{variant} is run under {pattern} by no test, and nothing says why"
                cells.leave_out(f"{variant}, {pattern}", why)
    cells.record(request.node)
    assert len(cells.left_out[RESTING]) == len(WAITS) * len(MANY)


@pytest.mark.parametrize("layer", list(layers.all_()))
def test_a_layer_that_a_launcher_starts_runs_every_pattern_elsewhere(layer: str) -> None:
    tests = Path(__file__).with_name(f"test_{layer}.py").read_text()
    assert "check_every_pattern(" in tests
    assert "@pytest.mark.row" in tests or "marks=pytest.mark.row" in tests, "for `make test M=NAME`"
    assert "@pytest.mark.check\n" in tests, "for `make check`"


# Layers that stand on the kernel alone. Of all others the gate has the default settings, and their own tests.
OWN = ("null", "memcpy", "shm", "pipe", "unix", "tcp")


def own(variant: str) -> Any:
    return () if variant.partition(":")[0] in OWN else pytest.mark.deep


ROUNDED = 1e-6  # samples are recorded as floats, the median is not
FEW = "0,1,8,9,4097,65537"
ROW = f"{FEW},4096"  # 1 MiB with every choice would take as long again
OF_WAITS = "9,65537"
MIB = 1 << 20
PLAIN = [pattern for pattern in OTHERS if ":" not in pattern]
LARGE_WAYS = ["pingpong", "stream", "put", "get"]


@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        *(
            pytest.param(
                variant, SIZES, marks=pytest.mark.deep if ":" in variant else pytest.mark.gate, id=variant
            )
            for variant in choices()
        ),
        *(
            pytest.param(variant, FEW, marks=pytest.mark.few, id=f"{variant}-few")
            for variant in choices()
            if ":" in variant and (variant.partition(":")[0] in OWN or IN_GUEST)
        ),
    ],
)
def test_every_byte_arrives_or_the_reason_why_not_is_named(
    measure: Runner, request: pytest.FixtureRequest, variant: str, sizes: str
) -> None:
    check_every_byte(measure, request, variant, WAYS, sizes)


@pytest.mark.row
@pytest.mark.parametrize(
    "module",
    [
        pytest.param(name, marks=pytest.mark.deep if name in ("unix", "pipe") else own(name))
        for name in MODULES
    ],
)
def test_every_byte_arrives_under_every_pattern(
    measure: Runner, request: pytest.FixtureRequest, module: str
) -> None:
    # One of the ways with them: a module that stays in one process has no other pattern.
    check_every_byte(measure, request, module, ["pingpong", *OTHERS], ROW)


@pytest.mark.deep
@pytest.mark.parametrize("variant", WAITS)
def test_every_byte_arrives_however_ranks_wait(
    measure: Runner, request: pytest.FixtureRequest, variant: str
) -> None:
    """Under patterns other than the ways, which have all sizes with every setting. Where both ranks poll, threads of
    zmq and nng get a processor when the scheduler takes it from them, and overlap:by=search has a thousand exchanges.
    """
    patterns = ["pingpong", *OTHERS]
    check_every_byte(measure, request, variant, patterns, OF_WAITS, budget_s=0.01, slow=True)


@pytest.mark.deep
@pytest.mark.parametrize("module", MODULES)
def test_a_mebibyte_arrives_under_patterns_with_their_defaults(
    measure: Runner, request: pytest.FixtureRequest, module: str
) -> None:
    check_every_byte(measure, request, module, ["pingpong", *PLAIN], str(MIB), budget_s=0.01, slow=True)


@pytest.mark.deep
@pytest.mark.row
@pytest.mark.parametrize("ranks", sorted(set(MANY.values())))
@pytest.mark.parametrize("module", MODULES)
def test_every_byte_arrives_under_patterns_of_many_ranks(
    measure: Runner, request: pytest.FixtureRequest, module: str, ranks: int
) -> None:
    patterns = [pattern for pattern, least in MANY.items() if least == ranks]
    (most,) = [one["max_ranks"] for one in LISTING["modules"] if one["name"] == module]
    if 1 < most < ranks:  # a plan with more is refused as a whole
        cells = Cells()
        cells.leave_all_out(module, patterns, f"the module has {most} ranks at most")
        cells.record(request.node)
        return
    check_every_byte(measure, request, resting(module), ["pingpong", *patterns], MANY_SIZES, ranks)


def may_lose(done: Any) -> bool:
    """Whether the messages of the only variant may be lost, as its layer promised when it was opened."""
    return any(one["promises"]["lossy"] for one in done.of("variant"))


def assert_true_reason(reason: str, module: dict[str, Any], ranks: int, lossy: bool) -> None:
    """A pattern is left out for what the module's table says that it has not, for what its layer does not promise, or
    because its options do not fit each other, and for nothing else.
    """
    if reason.startswith("rank "):
        pass  # the layer's own words: it refused the first two sizes
    elif "has no collective operations, which pattern" in reason:
        assert "prepare_collective" not in module["operations"], reason
    elif "has no calls by several threads at once, which pattern threads needs" in reason:
        assert module["max_threads"] == 1, reason
    elif "has no messages of a rank to itself, which pattern itself needs" in reason:
        assert not module["to_itself"], reason
    elif "has no wait for what was started, which pattern" in reason:
        assert "wait" not in module["operations"], reason
    elif lacks := re.search(r"has no (\w+)(?: and (\w+))?, which pattern", reason):
        assert not {word for word in lacks.groups() if word} & set(module["operations"]), reason
    elif "messages of this variant may be lost, and pattern" in reason:
        assert lossy, reason
    elif reason.startswith("pattern collective") and not re.search(r"needs \d+ ranks", reason):
        assert "prepare_collective" in module["operations"], reason
    elif set_otherwise := re.search(r"does not obey (\w+)=\S+ of module", reason):
        assert set_otherwise[1] in {option["name"] for option in module["options"]}, reason
    elif lacks := re.search(r"needs (\w+)(?: and (\w+))?, which module \S+ lacks", reason):
        assert not {word for word in lacks.groups() if word} & set(module["operations"]), reason
    else:
        wanted = re.search(r"needs (\d+) ranks, (module \S+ has|there are) (\d+)", reason)
        assert wanted, reason
        assert int(wanted[3]) == min(ranks, module["max_ranks"]) < int(wanted[1]), reason
        assert wanted[2] == "there are" or module["max_ranks"] < int(wanted[1]), reason


def check_every_byte(
    measure: Runner,
    request: pytest.FixtureRequest,
    variant: str,
    patterns: list[str],
    sizes: str,
    ranks: int = 2,
    budget_s: float = 0.05,
    slow: bool = False,
) -> Cells:
    """slow: one operation may take milliseconds, because more threads wait than there are processors."""
    cells = Cells()
    try:
        check_cells(measure, cells, variant, patterns, sizes, ranks, budget_s, slow or ranks > 2)
    finally:
        cells.record(request.node)
    return cells


def check_cells(
    measure: Runner,
    cells: Cells,
    variant: str,
    patterns: list[str],
    sizes: str,
    ranks: int,
    budget_s: float,
    slow: bool,
) -> None:
    done = measure(
        f"variant {variant}",
        f"ranks {ranks}",
        *(f"pattern {pattern}" for pattern in patterns),
        "schedule list",
        f"sizes {sizes}",
        "verify yes",
        f"budget {budget_s}",
        # tests/guest: an emulated processor. Of many ranks each waits for its turn, which a busy neighbour makes late.
        f"timeout {60 if slow else 20 if IN_GUEST else 5}",
        limit_s=300.0 if slow else LIMIT_S,
    )
    setting = variant.partition(":")[2]
    if (
        setting and f" cannot take {setting} with " in done.said
    ):  # its table says so: another option has to change too
        assert (done.code, done.records) == (2, [])
        cells.leave_all_out(variant, patterns, done.said.partition(" cannot take ")[2].strip())
        return
    unverified = [one for one in done.of("error") if one["message"].startswith("not verified: ")]
    if unverified:
        assert done.code == 3
        assert variant == "memcpy:op=fill", "all else delivers what it is given"
    elif done.code in (2, 3):
        # Not on this machine: an instruction set, an address family.
        (error,) = done.of("error", code=done.code)
        assert error["variant"] == variant
        assert len(error["message"]) > 40, error["message"]
        assert not done.of("sample")
        may_lack = (
            "memcpy:routine",
            "tcp:ip",
            "tcp:path",
            "tcp:protocol",
            "tcp:tls",
            "udp:ip",
            "grpc:security",
            "ucx:memory=cuda",
        )
        assert done.code == 3
        assert variant.startswith(may_lack), f"{variant} is refused: {error['message']}"
        cells.leave_all_out(variant, patterns, error["message"])
        return
    assert unverified or done.code == 0, done.said
    for pattern in patterns:
        skipped = done.of("skipped", pattern=pattern)
        points = done.of("point", pattern=pattern)
        if points:
            cells.ran(f"{variant}, {pattern}")
        for one in skipped:
            size = "" if one["size_bytes"] is None else f", {one['size_bytes']} B"
            cells.leave_out(f"{variant}, {pattern}{size}", one["reason"])
        # Its setting, in its own words: where a request waits for its reply, no second one is under way.
        if setting and not points and any(f"with {setting} " in one["reason"] for one in skipped):
            continue
        whole = [s for s in skipped if s["size_bytes"] is None and "nothing to verify" not in s["reason"]]
        if whole:
            assert not points
            assert_true_reason(whole[0]["reason"], module_of(variant), ranks, may_lose(done))
            continue
        said = {p["size_bytes"] for p in points} | {s["size_bytes"] for s in skipped}
        wanted = {int(size) for size in sizes.split(",")}
        of_one_size = pattern.partition(":")[0] == "atomic"
        assert said >= ({min(wanted - {0})} if of_one_size else wanted), pattern
        if not unverified and not any("nothing to verify" in s["reason"] for s in skipped):
            assert all(p["verified_bytes"] > 0 for p in points if p["size_bytes"] > 0), (
                f"{pattern}: a size was measured without a byte being checked"
            )
        for p in points:
            assert p["half_width"] is None or p["low_ns"] <= p["median_ns"] <= p["high_ns"]
            assert p["min_ns"] * (1 - ROUNDED) <= p["median_ns"] <= p["max_ns"] * (1 + ROUNDED)


# What must be among the thresholds of a variant, or nothing would be tested there. Of ucx UCX says what they are.
RECORDED: dict[str, set[str]] = {
    "shm": {"eager", "cma_min", "chunk"},
    "pipe": {"capacity_kernel_bytes"},
    "pipe:send=vmsplice": {"vmsplice_min_bytes"},
    "unix:type=seqpacket": {"packet_bytes"},
    "tcp": {"snd_mss_bytes"},
    "udp": {"message_bytes_per_datagram"},
    "sctp": {"message", "fragmentation_bytes"},
    "libfabric": {"inject_bytes"},
    "libfabric:ep=msg": {"inject_bytes"},
    "pvm": {"fragment_bytes"},
    "zmq": {"large messages"},
    "grpc": {"HTTP/2 frame"},
    "verbs": {"inline_bytes", "eager"},
    "ucx": set(),
    "ucx:tls=tcp": set(),
}
WITH_THRESHOLDS = [*MODULES, *(one for one in RECORDED if ":" in one and one.partition(":")[0] in MODULES)]


@pytest.mark.deep
@pytest.mark.parametrize("variant", WITH_THRESHOLDS)
def test_every_byte_arrives_around_the_thresholds_of_a_layer(
    measure: Runner, request: pytest.FixtureRequest, variant: str
) -> None:
    """They are those of this machine: what the variant records when it is opened, and nothing is measured."""
    opened = measure(f"variant {variant}", "pattern none", "schedule list", f"sizes 8,{MIB}")
    assert opened.code == 0, opened.said
    found = thresholds(module_of(variant), opened.records)
    assert RECORDED.get(variant, set()) <= set(found)
    if sizes := around(found, MIB):
        check_every_byte(measure, request, variant, LARGE_WAYS, ",".join(map(str, sizes)), budget_s=0.02)
        return
    assert variant not in RECORDED
    cells = Cells()
    cells.leave_all_out(
        f"{variant}, thresholds",
        LARGE_WAYS,
        "it records no size at which it changes how it moves bytes",
    )
    cells.record(request.node)


# tcp has a test of its own, below; null moves nothing.
LARGE_ELSEWHERE = ("tcp", "null")


@pytest.mark.deep
@pytest.mark.parametrize("module", [name for name in MODULES if name not in LARGE_ELSEWHERE])
def test_every_byte_of_8_mib_and_3_arrives(
    measure: Runner, request: pytest.FixtureRequest, module: str
) -> None:
    listed = module_of(module)
    ways = ["pingpong"] if listed["max_ranks"] == 1 else ["pingpong", "stream"]
    ways += [way for way in ("put", "get") if way in listed["operations"]]
    cells = check_every_byte(measure, request, module, ways, str((8 << 20) + 3), budget_s=0.5)
    # Of udp it is more than a receive buffer holds: where every message is lost, netpipe says so.
    assert module == "udp" or cells.run == [f"{module}, {way}" for way in ways], cells.left_out


@pytest.mark.parametrize(
    "variant", ["tcp:streams=2", "tcp:streams=7", "tcp:ip=6", "tcp:sndbuf=16k,rcvbuf=16k", "tcp:mss=1400"]
)
def test_tcp_with_its_other_settings(measure: Runner, variant: str) -> None:
    done = measure(
        f"variant {variant}",
        "pattern pingpong",
        "pattern stream",
        "schedule list",
        f"sizes {SIZES}",
        "verify yes",
        "budget 0.05",
    )
    assert done.code == 0, done.said
    # tcp has no empty messages
    assert {p["size_bytes"] for p in done.of("point", pattern="stream")} == {
        int(size) for size in SIZES.split(",") if size != "0"
    }
    assert all(p["verified_bytes"] for p in done.of("point"))


@pytest.mark.parametrize("module", [name for name in MODULES if name != "null"])
@pytest.mark.parametrize(
    "settings",
    [
        # The third has more in it.
        pytest.param(("buffers cold",), marks=pytest.mark.deep),
        pytest.param(("send-offset 1", "recv-offset 3"), marks=pytest.mark.deep),
        ("buffers cold", "send-offset 5", "recv-offset 2"),
        ("buffers apart", "recv-offset 1"),
    ],
)
def test_every_buffer_policy_delivers_every_byte(
    measure: Runner, module: str, settings: tuple[str, ...]
) -> None:
    done = measure(
        f"variant {module}", "schedule list", "sizes 1,8,4097,1048579", "verify yes", "budget 0.1", *settings
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 4
    assert all(p["verified_bytes"] > 0 for p in done.of("point"))


@pytest.mark.parametrize("pattern", ["pingpong", "stream"])
@pytest.mark.parametrize("buffers", ["warm", pytest.param("cold", marks=pytest.mark.deep)])
def test_large_messages_that_share_few_places_are_not_taken_for_wrong(
    measure: Runner, pattern: str, buffers: str
) -> None:
    sizes = [5_000_000, 8 << 20, (8 << 20) + 3, 17_000_000]
    done = measure(
        "variant shm",
        "variant tcp",
        f"pattern {pattern}",
        f"buffers {buffers}",
        "schedule list",
        "sizes " + ",".join(str(size) for size in sizes),
        "verify yes",
        "budget 0.3",
    )
    assert done.code == 0, done.said
    assert len(done.of("point")) == 2 * len(sizes)
    assert all(p["verified_bytes"] >= 2 * p["size_bytes"] for p in done.of("point"))


# That such a message arrives whole through each module is tested in tests/modules, with little memory; places for one
# that is verified would be 8 GiB.
@pytest.mark.deep
def test_a_message_of_more_than_2_gib_is_measured(measure: Runner) -> None:
    size = (1 << 31) + 4099
    done = measure(
        "variant memcpy",
        "schedule list",
        f"sizes {size}",
        "budget 0.1",
        "timeout 120",
        limit_s=300,
    )
    assert done.code == 0, done.said
    (point,) = done.of("point")
    assert point["size_bytes"] == size
    assert point["bytes_per_s"] == pytest.approx(size / point["median_ns"] * 1e9)
