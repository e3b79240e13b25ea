# SPDX-License-Identifier: Apache-2.0
"""Congestion control between hosts: judged by a variant under another one, else by what TCP counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from netpipe.findings import Finding, examples, judge
from netpipe.findings.curves.sockets.loss_limit import window
from netpipe.reading import Reading
from netpipe.records import Environment, PlannedVariant, Rank, Run, Variant

RULE = "unfit-congestion-control"
LARGE = 1 << 20
ALONE_NS = 318e6  # of 1 MiB: 3.3 MB/s
KEPT = Path(__file__).resolve().parents[1] / "kept" / "link-lossy.jsonl"
# Of each of four launches: 1 % is lost on a way of 4 ms, and a connection that has something to send sends 3.3 MB/s. A
# window of 12.2 segments, which such losses leave, would be 4.4 MB/s.
LOSSY = {
    "retransmits": 20,
    "bytes_retransmitted": 28_960,
    "bytes_sent": 2_896_000,
    "busy_us": 870_000,
    "min_rtt_us": 4000,
    "rtt_us": 5000,
}
SETTINGS = {"interface": "eth0", "snd_mss_bytes": "1448", "streams": "1"}
CONTROLS = ("reno", "cubic", "bbr")


def found(made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == RULE]


def why(made: Run) -> str:
    return next((one.reason for one in judge(Reading(made)).skipped if one.rule == RULE), "")


def between(
    times_ns: Mapping[str, float],
    controls: Mapping[str, str],
    counters: Mapping[str, int] | None = None,
    *,
    size: int = LARGE,
    offered: tuple[tuple[str, ...], ...] = (CONTROLS, CONTROLS),
    bits_per_s: float = 1e9,
    settings: Mapping[str, str] | None = None,
) -> Run:
    """Variants between two hosts: how long a message takes, and the congestion control in force. Those of a library
    (mpi@...) have no option for it, and count nothing. `offered`: what each host's kernel has.
    """
    points = [
        msgspec.structs.replace(
            examples.visited(name, size, ns, launch), counters={} if "@" in name else dict(counters or {})
        )
        for launch in range(4)
        for name, ns in times_ns.items()
    ]
    link = {"name": "eth0", "bits_per_s": bits_per_s}
    hosts = [
        Environment(
            host=f"node{n}",
            facts={"network": {"interfaces": [link], "tcp": {"congestion_controls": list(has)}}},
        )
        for n, has in enumerate(offered)
    ]
    made = examples.run(*hosts, *points, variants=tuple(times_ns))
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=name, module=name.partition(":")[0], options=options_of(name))
            for name in times_ns
        ]
    for variant in made.variants:
        own = {**SETTINGS, "congestion": controls[variant.variant], **(settings or {})}
        variant.ranks[:] = [Rank(rank=n, host=f"node{n}", settings=own) for n in range(2)]
    return made


def options_of(variant: str) -> dict[str, str]:
    """Of tcp with its defaults; a library has another one."""
    module, _, text = variant.partition(":")
    given = dict(one.split("=") for one in text.split(",") if one)
    return {"env": ""} if "@" in module else {"congestion": "", "nodelay": "yes", "streams": "1", **given}


def alone(
    counters: Mapping[str, int] | None = None, control: str = "cubic", ns: float = ALONE_NS, **other: object
) -> Run:
    """tcp under this congestion control, without another variant."""
    counted = {**LOSSY, **(counters or {})}
    return between({"tcp": ns}, {"tcp": control}, counted, **other)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------- what TCP counted


def test_a_curve_at_the_rate_that_losses_leave_to_cubic_is_told_to_try_bbr() -> None:
    (one,) = found(alone())
    assert (one.severity, one.variant, one.size_bytes) == ("warning", "tcp", LARGE)
    assert one.what == (
        "tcp runs under cubic between hosts: at 1 MiB TCP sends 26.4 Mbps while it has something to send, and 1.0 % of "
        "its bytes again; with a round trip of 4.00 ms such losses leave about 35.5 Mbps to cubic."
    )
    assert "likely" in one.certainty
    assert one.gain is None
    assert one.confirm is not None
    assert (one.confirm.remedied, one.confirm.sizes) == ("tcp:congestion=bbr", [LARGE])
    assert one.remedy.startswith(
        "congestion=bbr; for all programs of a host sysctl net.ipv4.tcp_congestion_control=bbr"
    )


def test_reno_is_judged_like_cubic_and_other_controls_are_not() -> None:
    assert len(found(alone(control="reno"))) == 1
    for control in ("bbr", "vegas"):
        assert not found(alone(control=control))
        assert why(alone(control=control)).startswith(f"{control} between hosts was not measured beside")


CLEAN: dict[str, Callable[[], Run]] = {
    "nothing is lost": lambda: alone({"retransmits": 0, "bytes_retransmitted": 0}),
    "too few are lost to know the share": lambda: alone({"retransmits": 2}),
    "the receiver's window holds it back": lambda: alone({"rwnd_limited_us": 300_000}),
    "its send buffer holds it back": lambda: alone({"sndbuf_limited_us": 300_000}),
    "a queue stands before the link": lambda: alone({"rtt_us": 9000}),
    "it is far below what losses leave": lambda: alone({"busy_us": 2_600_000}),
    "it is above what losses leave": lambda: alone({"busy_us": 300_000}),
    "it fills the link": lambda: alone(bits_per_s=40e6),
    "its messages are small": lambda: alone(size=4096, ns=1e6),
    "it has several connections": lambda: alone(settings={"streams": "4"}),
}


@pytest.mark.parametrize("case", CLEAN)
def test_another_cause_is_no_unfit_congestion_control(case: str) -> None:
    made = CLEAN[case]()
    assert not found(made)
    assert not why(made), "it was judged"


def test_a_congestion_control_that_is_not_loaded_is_no_experiment() -> None:
    for offered in ((CONTROLS, ("reno", "cubic")), (("reno", "cubic"),) * 2):
        (one,) = found(alone(offered=offered))
        assert one.confirm is None
        assert one.remedy.startswith(
            "modprobe tcp_bbr (the kernels offer cubic and reno alone), then congestion=bbr"
        )
    (one,) = found(alone(offered=((), ())))  # an older file does not say
    assert one.confirm is not None


def test_a_layer_that_does_not_count_what_it_sends_again_cannot_be_judged() -> None:
    made = between({"tcp": ALONE_NS}, {"tcp": "cubic"}, {"min_rtt_us": 4000})
    assert not found(made)
    assert why(made) == (
        "cubic between hosts was not measured beside bbr or bbr2 or bbr3, and its layer does not count what it sends "
        "again"
    )


def test_more_connections_that_are_faster_explain_it_as_well() -> None:
    times = {"tcp": ALONE_NS, "tcp:streams=4": ALONE_NS / 4}
    made = between(times, dict.fromkeys(times, "cubic"), LOSSY)
    assert not [one for one in found(made) if one.variant == "tcp"]
    slower = between({"tcp": ALONE_NS, "tcp:streams=4": ALONE_NS}, dict.fromkeys(times, "cubic"), LOSSY)
    assert [one.variant for one in found(slower) if one.variant == "tcp"]


def test_a_real_link_that_loses_packets_is_found_where_nothing_else_was_measured() -> None:
    """The labelled run has four connections as well, which explain it; without them it is this."""
    assert not found(Run.read(KEPT))
    made = Run.read(KEPT)
    one = "tcp:congestion=cubic"
    made.points[:] = [point for point in made.points if point.variant == one]
    made.variants[:] = [variant for variant in made.variants if variant.variant == one]
    for plan in made.plans:
        plan.variants[:] = [variant for variant in plan.variants if variant.variant == one]
    (said,) = found(made)
    assert (said.variant, said.pattern, said.size_bytes) == (one, "stream", 1 << 18)
    assert said.evidence["sent again"].value == pytest.approx(0.01, abs=0.003)
    assert said.evidence["round trip"].value == pytest.approx(4.05e6, rel=0.02)


def test_the_window_that_losses_leave_is_that_of_the_literature() -> None:
    assert window("reno", 0.01, 0.004) == pytest.approx(12.25, abs=0.01)  # sqrt(3/2) / sqrt(p)
    assert window("cubic", 0.01, 0.004) == window("reno", 0.01, 0.004), "short ways: as Reno"
    assert window("cubic", 1e-6, 0.1) == pytest.approx(5926, rel=0.001)  # RFC 9438, C = 0.4
    assert window("reno", 1e-6, 0.1) == pytest.approx(1225, rel=0.001)


# --------------------------------------------------------------------------------------------- beside another control

BBR, CUBIC = "tcp:congestion=bbr", "tcp:congestion=cubic"
NAMED = {"tcp": "cubic", CUBIC: "cubic", BBR: "bbr"}


def test_the_same_variant_under_another_control_decides() -> None:
    (one,) = found(between({CUBIC: 3e8, BBR: 1e8}, NAMED))
    assert one.variant == CUBIC
    assert one.what == (
        "tcp:congestion=cubic runs under cubic between hosts: at 1 MiB tcp:congestion=bbr is 3.00 times as fast."
    )
    assert one.gain is not None
    assert one.gain.low is not None
    assert one.gain.low > 2.5
    assert one.confirm is not None
    assert (one.confirm.remedied, one.confirm.sizes) == (BBR, [LARGE])


def test_losses_that_another_control_does_not_get_back_are_no_finding() -> None:
    assert not found(between({CUBIC: ALONE_NS, BBR: ALONE_NS}, NAMED, LOSSY))


def test_bbr_on_a_way_on_which_cubic_is_faster_is_found_the_other_way_round() -> None:
    (one,) = found(between({CUBIC: 1e6, BBR: 2e6}, NAMED))
    assert one.variant == BBR
    assert one.remedy.startswith("congestion=cubic; ")
    assert "too slow here" in one.cause


def test_the_control_in_force_counts_and_not_the_name_of_the_variant() -> None:
    """The system's own is what plain tcp is under."""
    (one,) = found(between({"tcp": 2e6, CUBIC: 1e6}, {"tcp": "bbr", CUBIC: "cubic"}))
    assert (one.variant, one.confirm.remedied if one.confirm else "") == ("tcp", CUBIC)
    assert not found(between({"tcp": 2e6, CUBIC: 1e6}, NAMED)), "both are under cubic"


def test_variants_that_differ_in_more_than_their_control_are_not_compared() -> None:
    other = f"{BBR},nodelay=no"
    assert not found(between({CUBIC: 3e8, other: 1e8}, NAMED | {other: "bbr"}))


# ------------------------------------------------------------------------------------------------------- libraries

LIBRARY = "mpi@openmpi"


def with_library(ns: float, control: str = "cubic", host: str = "node1") -> Run:
    made = between({"tcp": ALONE_NS, LIBRARY: ns}, {"tcp": "cubic", LIBRARY: control}, LOSSY)
    for variant in made.variants:
        if variant.variant == LIBRARY:
            set_host(variant, host)
    return made


def set_host(variant: Variant, host: str) -> None:
    variant.ranks[1] = msgspec.structs.replace(variant.ranks[1], host=host)


def test_a_library_on_the_same_way_is_told_the_setting_of_the_system() -> None:
    own, one = sorted(found(with_library(1.1 * ALONE_NS)), key=lambda said: said.variant != "tcp")
    assert (own.variant, one.variant) == ("tcp", LIBRARY)
    assert one.what == (
        "mpi@openmpi runs under cubic between hosts: at 1 MiB it is no faster than tcp, which cubic holds back."
    )
    assert one.remedy == "sysctl net.ipv4.tcp_congestion_control=bbr on each host, and measure again"
    assert one.confirm is None
    assert one.evidence["times"].value == pytest.approx(1.1, rel=0.01)


@pytest.mark.parametrize(
    "made",
    [with_library(ALONE_NS / 3), with_library(ALONE_NS, control="bbr"), with_library(ALONE_NS, host="node2")],
)
def test_a_library_on_another_way_or_under_another_control_is_left_alone(made: Run) -> None:
    assert [one.variant for one in found(made)] == ["tcp"]
