# SPDX-License-Identifier: Apache-2.0
"""netpipe doctor: from what the worker says to advice, and to an exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe import native
from netpipe.cli.doctor import COPIERS, described
from netpipe.findings import SEVERITIES
from netpipe.findings.doctor import diagnose

ROOT = Path(__file__).resolve().parents[2]


class Said(Protocol):
    code: int
    out: str
    err: str


class Netpipe(Protocol):
    def __call__(self, *arguments: str, fake: str = "") -> Said: ...


def module(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": name,
        "summary": f"made-up {name}",
        "version": "none",
        "path": f"{name}.so",
        "available": True,
        "reason": None,
        "below": None,
        "adds": None,
        "idle": False,
        "min_ranks": 2,
        "max_ranks": 2,
        "crosses_hosts": False,
        "operations": ["send", "recv"],
        "options": [],
        "patterns": ["pingpong"],
        **fields,
    }


def listing(*modules: dict[str, Any], refused: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return {"netpipe": "0", "abi": 1, "modules": list(modules), "patterns": [], "refused": refused or []}


def spoiler(severity: str, what: str = "Something") -> dict[str, str]:
    return {"what": what, "why": "It disturbs.", "fix": "stop it", "severity": severity}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the worker will say: `host["listing"]` and `host["environment"]`."""
    said: dict[str, Any] = {"listing": listing(module("tcp")), "environment": {"spoilers": []}}
    monkeypatch.setattr(native, "list_", lambda files=(): said["listing"])
    monkeypatch.setattr(native, "environment", lambda: said["environment"])
    return said


# ------------------------------------------------------------------------------------------------ the diagnosis


def test_a_module_that_is_not_here_keeps_its_reason() -> None:
    found = diagnose(
        listing(module("tcp"), module("verbs", available=False, reason="there is no RDMA device")), {}
    )
    assert [layer.name for layer in found.layers] == ["tcp"]
    assert [(one.what, one.why) for one in found.missing] == [("verbs", "there is no RDMA device.")]
    assert found.possible


def test_a_refused_file_is_missing_with_its_reason() -> None:
    found = diagnose(
        listing(module("tcp"), refused=[{"path": "odd.so", "reason": "it was built for ABI 9"}]), {}
    )
    assert [(one.what, one.why) for one in found.missing] == [("odd.so", "it was built for ABI 9.")]


def test_a_loss_without_the_layer_below_is_missing() -> None:
    both = diagnose(listing(module("unix"), module("tcp", below="unix")), {})
    assert both.missing == ()
    alone = diagnose(listing(module("unix", available=False, reason="no"), module("tcp", below="unix")), {})
    assert [one.what for one in alone.missing] == ["unix", "the loss of tcp"]


@pytest.mark.parametrize(
    "modules",
    [
        [],
        [module("nothing", idle=True)],
        [module("tcp", available=False, reason="no network")],
        [module("odd", patterns=[])],
    ],
)
def test_nothing_to_measure(modules: list[dict[str, Any]]) -> None:
    assert not diagnose(listing(*modules), {}).possible


@given(st.lists(st.tuples(st.text(min_size=1), st.sampled_from([*SEVERITIES, "odd", "", None])), unique=True))
def test_the_worst_stands_first_and_none_is_lost(found: list[tuple[str, str | None]]) -> None:
    spoilers = [{"what": f"old {what}!", "why": what, "severity": severity} for what, severity in found]
    findings = list(diagnose(listing(), {"spoilers": spoilers}).findings)
    ranks = [SEVERITIES.index(one.severity) for one in findings]
    assert ranks == sorted(ranks)
    distinct = list(dict.fromkeys(what for what, _ in found))
    first = {what: next(severity for name, severity in found if name == what) for what in distinct}
    assert len(findings) == len(distinct)
    for severity in ("severe", "note"):
        mine = [one.title for one in findings if one.severity == severity]
        assert mine == [f"Old {what}!" for what in distinct if first[what] == severity]


def test_the_facts_of_the_host_are_judged() -> None:
    diagnosis = diagnose(listing(), {"cpu": {"frequency": {"governor": "powersave", "driver": "x"}}})
    (found,) = diagnosis.findings
    assert (found.rule, found.title, found.severity) == (
        "frequency-governor",
        "Frequency governor",
        "warning",
    )
    assert "powersave" in found.what
    assert "performance" in found.remedy
    assert not diagnosis.severe
    assert diagnosis.counts == {"warning": 1}


# --------------------------------------------------------------------------------------------------- the command


def test_a_host_that_can_measure(netpipe: Netpipe) -> None:
    said = netpipe("doctor")
    assert said.code == 0, said.err
    for word in (
        "null",
        "shm",
        "tcp",
        "yardsticks",
        "Nothing is known to disturb measurements",
        "netpipe run",
    ):
        assert word in said.out
    assert said.err == ""


def test_json_is_one_object_with_everything(netpipe: Netpipe) -> None:
    said = netpipe("doctor", "--json")
    answer = json.loads(said.out)
    assert said.code == answer["exit"] == 0
    assert answer["possible"] is True
    assert {layer["name"] for layer in answer["layers"]} >= {"null", "memcpy", "shm", "tcp"}
    assert answer["findings"] == []
    assert answer["facts"]["cpu"]["model"] == "made up"
    assert answer["yardstick"]["bounce_ns"] > 0
    assert answer["yardstick_problem"] is None


def test_without_yardstick_nothing_is_measured(netpipe: Netpipe) -> None:
    said = netpipe("doctor", "--json", "--no-yardstick", fake="silent")
    assert said.code == 0
    assert json.loads(said.out)["yardstick"] is None


def test_a_worker_that_cannot_measure_is_no_reason_to_fail(netpipe: Netpipe) -> None:
    said = netpipe("doctor", fake="garbage")
    assert said.code == 0
    assert "yardsticks" in said.out
    assert "none: " in said.out


def test_nothing_can_be_measured(netpipe: Netpipe, host: dict[str, Any]) -> None:
    host["listing"] = listing(module("tcp", available=False, reason="there is no network"))
    said = netpipe("doctor")
    assert said.code == 3
    assert "there is no network." in said.out
    assert netpipe("doctor", "--json").code == 3


def test_without_a_worker(netpipe: Netpipe, fake: Path) -> None:
    fake.unlink()
    said = netpipe("doctor")
    assert said.code == 3
    assert "netpipe-worker" in said.err


@pytest.mark.parametrize(("severity", "strict"), [("severe", 1), ("warning", 0), ("note", 0)])
def test_strict_fails_on_what_is_severe(
    netpipe: Netpipe, host: dict[str, Any], severity: str, strict: int
) -> None:
    host["environment"] = {"spoilers": [spoiler(severity)]}
    assert netpipe("doctor", "--no-yardstick").code == 0
    said = netpipe("doctor", "--no-yardstick", "--strict")
    assert said.code == strict
    assert "Something. It disturbs." in said.out
    assert "stop it" in said.out


def test_where_nothing_can_be_measured_strict_says_so_first(netpipe: Netpipe, host: dict[str, Any]) -> None:
    host["listing"] = listing()
    host["environment"] = {"spoilers": [spoiler("severe")]}
    assert netpipe("doctor", "--strict").code == 3


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(
    netpipe: Netpipe, host: dict[str, Any], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    words = "a sentence that is far too long for one line " * 6
    host["listing"] = listing(
        module("tcp", summary=words, below="unix"), module("verbs", available=False, reason=words)
    )
    host["environment"] = {
        "cpu": {"model": words},
        "spoilers": [{"what": "Load", "why": words, "fix": words, "severity": "severe"}],
    }
    said = netpipe("doctor", "--no-yardstick")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("✗ Load. A sentence") for line in lines)


def test_colours_only_where_they_are_wanted(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in netpipe("doctor", "--no-yardstick").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = netpipe("doctor", "--no-yardstick").out
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", netpipe("doctor", "--no-yardstick").out)


def test_what_the_host_says_is_never_markup(netpipe: Netpipe, host: dict[str, Any]) -> None:
    host["listing"] = listing(module("tcp", summary="[red]not red[/red]"))
    host["environment"] = {"cpu": {"model": "[bold]CPU[/]"}, "spoilers": [spoiler("note", "[blink]")]}
    said = netpipe("doctor", "--no-yardstick")
    for text in ("[red]not red[/red]", "[bold]CPU[/]", "[blink]"):
        assert text in said.out


def test_nothing_is_known_of_the_host() -> None:
    assert list(described({})) == []
    assert (
        list(described({"cpu": None, "memory": {"total_bytes": None}, "network": {"interfaces": None}})) == []
    )


def test_the_facts_in_words() -> None:
    words = dict(
        described(
            {
                "cpu": {
                    "model": "X",
                    "cores": 8,
                    "sockets": 2,
                    "logical": 16,
                    "cache": {"l1d_bytes": 1024, "l3_bytes": 1 << 25},
                    "frequency": {"min_hz": 8e8, "max_hz": 3.5e9, "governor": "powersave", "boost": True},
                },
                "memory": {"total_bytes": 1 << 34, "node_count": 2},
                "network": {
                    "interfaces": [
                        {"name": "lo", "state": "unknown", "mtu_bytes": 65536},
                        {
                            "name": "eth0",
                            "state": "up",
                            "driver": "ice",
                            "mtu_bytes": 9000,
                            "bits_per_s": 25_000_000_000,
                        },
                    ]
                },
                "limits": {
                    "cgroup": {"cpu_quota": 1.5},
                    "memlock_bytes": "unlimited",
                    "xpmem": True,
                    "knem": False,
                },
            }
        )
    )
    assert words == {
        "processor": "X, 8 cores in 2 sockets, 16 threads, L3 32 MiB",
        "clock speed": "0.8 to 3.5 GHz, governor powersave, turbo on",
        "memory": "16 GiB, 2 NUMA nodes",
        "network": "eth0 (ice 25.0 Gbps MTU 9000)",
        "limits": "quota of 1.5, lockable memory unlimited",
        "single copies": f"xpmem (measure it with ucx:tls=posix+xpmem), no knem ({COPIERS['knem']})",
    }


# ---------------------------------------------------------------------------------------------- the reference page


def documented() -> set[str]:
    text = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    rows = (line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    return {name for row in rows for name in re.findall(r"`([a-z0-9_.]+)`", row)}


def paths(facts: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, fact in facts.items():
        path = f"{prefix}{name}"
        found += [path, *(paths(fact, f"{path}.") if isinstance(fact, dict) else [])]
    return found


def test_every_fact_of_this_host_is_in_the_reference_and_no_other() -> None:
    worker = Path(os.environ.get("NETPIPE_NATIVE", ROOT / "build")) / "bin/netpipe-worker"
    if not worker.is_file():
        pytest.skip("the worker is not built")
    said = subprocess.run([worker, "environment"], capture_output=True, check=True, timeout=30)
    facts = json.loads(said.stdout)
    names, found = documented(), set(paths(facts))
    inside_documented = {path for path in found if any(path.startswith(f"{name}.") for name in names)}
    groups = {path for path in found if any(name.startswith(f"{path}.") for name in names)}
    assert found - names - inside_documented - groups == set()
    # How many levels of cache there are, the machine decides.
    assert {name for name in names - found if not name.startswith("cpu.cache.")} == set()
