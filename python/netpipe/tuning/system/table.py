# SPDX-License-Identifier: Apache-2.0
"""Which settings of the kernel matter to layers over IP, and the values worth trying.

Source: Documentation/networking/ip-sysctl.rst and Documentation/admin-guide/sysctl/net.rst of Linux.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netpipe.tuning.system import nic

ROOT = Path("/proc/sys")
OF_TCP = "net.ipv4.tcp_"
LARGER = 4  # times the present limit
MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Candidate:
    key: str  # net.core.wmem_max, or nic.eth0.mtu
    now: str
    value: str  # to try
    meaning: str


def _larger(now: str, _root: Path) -> list[str]:
    return [str(int(now) * LARGER)] if now.isdigit() and int(now) * LARGER <= MOST_BYTES else []


def _larger_last(now: str, _root: Path) -> list[str]:
    """Of three numbers, least, first and most, the last."""
    numbers = now.split()
    if len(numbers) != 3 or int(numbers[2]) * LARGER > MOST_BYTES:
        return []
    return [" ".join([*numbers[:2], str(int(numbers[2]) * LARGER)])]


def _other_congestion(now: str, root: Path) -> list[str]:
    there = read("net.ipv4.tcp_available_congestion_control", root) or ""
    return [one for one in there.split() if one != now]


def _switch(now: str, _root: Path) -> list[str]:
    return ["0" if now == "1" else "1"] if now in ("0", "1") else []


def _busy(now: str, _root: Path) -> list[str]:
    return ["50"] if now == "0" else []


Values = Callable[[str, Path], list[str]]
TABLE: Sequence[tuple[str, str, Values]] = (
    ("net.core.wmem_max", "the largest send buffer that a program may ask for, in bytes", _larger),
    ("net.core.rmem_max", "the largest receive buffer that a program may ask for, in bytes", _larger),
    (
        "net.ipv4.tcp_wmem",
        "send buffer of TCP: least, first, and how far the kernel may widen it",
        _larger_last,
    ),
    (
        "net.ipv4.tcp_rmem",
        "receive buffer of TCP: least, first, and how far the kernel may widen it",
        _larger_last,
    ),
    ("net.ipv4.tcp_congestion_control", "how TCP decides how much may be under way", _other_congestion),
    ("net.ipv4.tcp_slow_start_after_idle", "begin slowly again after a pause", _switch),
    ("net.ipv4.tcp_autocorking", "hold small segments back while others are on their way", _switch),
    ("net.core.busy_read", "microseconds that a read asks the device itself before it sleeps", _busy),
)


def path_of(key: str, root: Path = ROOT) -> Path:
    return root / key.replace(".", "/")


def read(key: str, root: Path = ROOT) -> str | None:
    """None: this kernel, or this network namespace, does not have it."""
    try:
        return " ".join(path_of(key, root).read_text(encoding="ascii").split())
    except OSError:
        return None


def _writable(key: str, root: Path) -> bool:
    """In a network namespace some are shown and cannot be changed; what root may do elsewhere does not matter here."""
    return bool(path_of(key, root).stat().st_mode & 0o200)


def candidates(root: Path = ROOT, devices: Sequence[str] = (), tcp: bool = True) -> list[Candidate]:
    """What can be tried on this machine, and of these network interfaces. `tcp`: the layer stands on TCP, and not on
    UDP or SCTP, which obey none of its settings.
    """
    found: list[Candidate] = []
    for key, meaning, values in TABLE:
        now = read(key, root) if tcp or not key.startswith(OF_TCP) else None
        if now is not None and _writable(key, root):
            found += [Candidate(key, now, value, meaning) for value in values(now, root)]
    for device in devices:
        for name in nic.NAMES:
            with suppress(OSError):  # its driver does not have it (nic.refusals)
                now, others, meaning = nic.values(device, name)
                found += [Candidate(nic.key_of(device, name), now, value, meaning) for value in others]
    return found
