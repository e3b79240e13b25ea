# SPDX-License-Identifier: Apache-2.0
"""The devices of a lab and their settings: made, set, and read back. What is not as it was asked for is refused.

Without delay and loss the switch is a bridge of the kernel in a namespace of its own, and each host has a veth to it.
With either, netpipe-relay is the switch, and each host has a TAP device. The rate is that of tbf at the host's end of
a link. At the other end tbf holds it where more than one host can send to this one; the relay always does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from netpipe.failure import FAILED, UNAVAILABLE, Failure
from netpipe.lab import tools
from netpipe.lab.state import Host
from netpipe.lab.wanted import Network
from netpipe.units import rate_text

DEVICE = "eth0"  # on each host
BRIDGE = "br0"
OFFLOADS = ("tso", "gso", "gro")
LONG_NAMES = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
}
QUEUE_MS = 20  # that packets may wait for the rate, as src/relay has it
HEADER = 14  # of Ethernet; tbf counts it
BURST_S, RELAYED_BURST_S = 0.125e-3, 1e-3  # of the rate
KIB = 1024
TAP_QUEUE = 4000  # packets that wait for the relay


def inside(pid: int) -> list[str]:
    """What comes before a command that is about the devices of this keeper. /sys is that of the host too."""
    return ["nsenter", "--target", str(pid), "--net", "--mount", "--"]


def batch(pid: int, lines: list[str]) -> None:
    """Commands of ip in one process."""
    tools.call([*inside(pid), "ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))


def make_switch(pid: int, network: Network) -> None:
    batch(
        pid,
        [
            f"link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set {BRIDGE} mtu {network.mtu_bytes} up",
        ],
    )


def make_cable(switch: int, port: str, host: Host, network: Network) -> None:
    """From a host to a port of the switch."""
    far_end = f"name {DEVICE} mtu {network.mtu_bytes} address {host.hardware} netns {host.pid}"
    batch(
        switch,
        [
            f"link add {port} mtu {network.mtu_bytes} type veth peer {far_end}",
            f"link set {port} master {BRIDGE} up",
        ],
    )


def set_up(host: Host, hosts: tuple[Host, ...], network: Network) -> None:
    """The card of a host. It knows all others from the start, so that no measurement waits for ARP."""
    lines = [
        f"link set {DEVICE} mtu {network.mtu_bytes}"
        + (f" txqueuelen {TAP_QUEUE}" if network.relayed else ""),
        f"link set {DEVICE} up",
        f"address add {host.address}/24 dev {DEVICE}",
    ]
    lines += [
        f"neigh replace {other.address} lladdr {other.hardware} dev {DEVICE} nud permanent"
        for other in hosts
        if other != host
    ]
    batch(host.pid, lines)


def set_offloads(pid: int, device: str, on: bool) -> None:
    words = [word for one in OFFLOADS for word in (one, "on" if on else "off")]
    tools.call([*inside(pid), "ethtool", "-K", device, *words])


def burst_bytes(network: Network) -> int:
    """What passes at once when the link was idle, in whole KiB. Shorter messages are faster than the rate. Less would
    cost rate: tbf waits for a timer when this is used up, and a timer of a busy or virtual machine is late. The relay
    holds every frame to the rate; there tbf only keeps the sender from filling it.
    """
    assert network.bits_per_s is not None
    worth_s = RELAYED_BURST_S if network.relayed else BURST_S
    least = max(2 * (network.mtu_bytes + HEADER), network.bits_per_s / 8 * worth_s)
    return math.ceil(least / KIB) * KIB


def set_rate(pid: int, device: str, network: Network) -> None:
    assert network.bits_per_s is not None
    limit = [
        "rate",
        f"{round(network.bits_per_s)}bit",
        "burst",
        str(burst_bytes(network)),
        "latency",
        f"{QUEUE_MS}ms",
    ]
    tools.call([*inside(pid), "tc", "qdisc", "replace", "dev", device, "root", "tbf", *limit])


# ------------------------------------------------------------------------------------------------------- read back


def check(pid: int, device: str, where: str, network: Network, limited: bool) -> dict[str, Any]:
    """What this device has. Raises Failure (3) where that is not what was asked for."""
    (link,) = tools.asked([*inside(pid), "ip", "-json", "link", "show", "dev", device])
    found: dict[str, Any] = {"mtu_bytes": link["mtu"], "offloads": dict(offloads(pid, device))}
    differs = []
    if link["mtu"] != network.mtu_bytes:
        differs.append(f"MTU {link['mtu']} in place of {network.mtu_bytes}")
    if network.offloads is not None:
        differs += [
            f"{name} is {'on' if on else 'off'}"
            for name, on in found["offloads"].items()
            if on != network.offloads
        ]
    if limited:
        assert network.bits_per_s is not None
        found["burst_bytes"] = burst_bytes(network)
        found["bits_per_s"] = rate_of(pid, device)
        if found["bits_per_s"] is None or abs(found["bits_per_s"] / network.bits_per_s - 1) > 1e-3:
            has = "no rate" if found["bits_per_s"] is None else rate_text(found["bits_per_s"] / 8)
            differs.append(f"{has} in place of {rate_text(network.bits_per_s / 8)}")
    if differs:
        raise Failure(
            UNAVAILABLE, f"device {device} of {where} is not as it was asked for: {', '.join(differs)}"
        )
    return found


def offloads(pid: int, device: str) -> Iterator[tuple[str, bool]]:
    said = tools.call([*inside(pid), "ethtool", "-k", device])
    lines = dict(line.strip().split(": ", 1) for line in said.splitlines() if ": " in line)
    for name in OFFLOADS:
        if LONG_NAMES[name] not in lines:
            raise Failure(FAILED, f"ethtool does not say whether {name} of {device} is on: {said[:200]!r}")
        yield name, lines[LONG_NAMES[name]].split()[0] == "on"


def rate_of(pid: int, device: str) -> float | None:
    """Bits per second."""
    for one in tools.asked([*inside(pid), "tc", "-json", "qdisc", "show", "dev", device]):
        if one.get("kind") == "tbf":
            return float(one["options"]["rate"]) * 8
    return None
