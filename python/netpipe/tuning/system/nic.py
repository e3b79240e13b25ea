# SPDX-License-Identifier: Apache-2.0
"""Settings of network interfaces, by the ioctls with which netpipe reads them as facts (src/machine/network.cpp): MTU,
offloads, interrupt coalescing and ring sizes. They belong to the network namespace of this process.

A key is nic.DEVICE.NAME, as in nic.eth0.mtu. Sources: linux/ethtool.h, netdevice(7).
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import re
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from netpipe.failure import FAILED, UNAVAILABLE, Failure

PREFIX = "nic."
SIOCGIFADDR, SIOCGIFMTU, SIOCSIFMTU, SIOCETHTOOL = 0x8915, 0x8921, 0x8922, 0x8946
NAME_BYTES = 16
LARGE_MTU = 9000
NO_WAITING_US, SOME_WAITING_US = 0, 50
ON, OFF = "on", "off"


@dataclass(frozen=True)
class Switch:
    """An offload: struct ethtool_value."""

    get: int
    set: int
    meaning: str


@dataclass(frozen=True)
class Number:
    """A field of a structure of 32-bit numbers, the first of which is the command."""

    get: int
    set: int
    numbers: int  # in the structure,
    place: int  # of the field
    most: int  # place of its limit; 0: none
    word: bool  # on or off, and no number
    meaning: str
    command: str  # of ethtool: the option and the name


def _coalescing(place: int, word: bool, meaning: str, name: str) -> Number:
    return Number(0x0E, 0x0F, 23, place, 0, word, meaning, f"-C {name}")


def _ring(place: int, most: int, meaning: str, name: str) -> Number:
    return Number(0x10, 0x11, 9, place, most, False, meaning, f"-G {name}")


MTU = "mtu"
MTU_MEANING = "bytes of a packet; the other host and all switches between need as many"
SWITCHES = {
    "tso": Switch(0x1E, 0x1F, "the interface cuts long TCP sends into packets"),
    "gso": Switch(0x23, 0x24, "the kernel cuts long sends into packets as late as it can"),
    "gro": Switch(0x2B, 0x2C, "the kernel joins packets that arrive before TCP sees them"),
}
NUMBERS = {
    "adaptive_rx": _coalescing(
        10, True, "the driver chooses how long an interrupt waits for more packets", "adaptive-rx"
    ),
    "rx_usecs": _coalescing(
        1, False, "microseconds that an interrupt waits for more packets to arrive", "rx-usecs"
    ),
    "tx_usecs": _coalescing(
        5, False, "microseconds that an interrupt waits for more packets to be sent", "tx-usecs"
    ),
    "rx_ring": _ring(5, 1, "packets that the interface holds until the kernel takes them", "rx"),
    "tx_ring": _ring(8, 4, "packets that the kernel may queue at the interface", "tx"),
}
NAMES = (MTU, *SWITCHES, *NUMBERS)
GROUPS = {
    "interrupt coalescing": ("adaptive_rx", "rx_usecs", "tx_usecs"),
    "ring sizes": ("rx_ring", "tx_ring"),
}


def is_nic(key: str) -> bool:
    return key.startswith(PREFIX)


def parts(key: str) -> tuple[str, str]:
    """The device, whose name may have dots, and the setting."""
    device, _, name = key.removeprefix(PREFIX).rpartition(".")
    return device, name


def key_of(device: str, name: str) -> str:
    return f"{PREFIX}{device}.{name}"


def public(key: str) -> str:
    """For files that are shown to others: systemd names some devices after their hardware address."""
    return re.sub(r"\b(en|wl)x[0-9a-f]{12}\b", r"\1x*", key)


def _ioctl(request: int, device: str, rest: bytes) -> bytes:
    """Of the interface: struct ifreq. Raises OSError."""
    if len(device.encode()) >= NAME_BYTES:
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as carrier:
        whole = struct.pack(f"{NAME_BYTES}s24s", device.encode(), rest)
        return fcntl.ioctl(carrier, request, whole)[NAME_BYTES:]


def _ethtool(device: str, numbers: Sequence[int]) -> list[int]:
    """Asks the driver: the structure as it answers it. Raises OSError."""
    held = array.array("I", numbers)
    address, _ = held.buffer_info()
    _ioctl(SIOCETHTOOL, device, struct.pack("P", address))
    return held.tolist()


def read(key: str) -> str | None:
    """None: no such interface, or its driver does not have it."""
    device, name = parts(key)
    try:
        return _read(device, name)
    except OSError:
        return None


def _read(device: str, name: str) -> str | None:
    if name == MTU:
        return str(struct.unpack_from("i", _ioctl(SIOCGIFMTU, device, b""))[0])
    if name in SWITCHES:
        return ON if _ethtool(device, [SWITCHES[name].get, 0])[1] else OFF
    if name in NUMBERS:
        of = NUMBERS[name]
        value = _ethtool(device, [of.get, *[0] * (of.numbers - 1)])[of.place]
        return (ON if value else OFF) if of.word else str(value)
    return None


def write(key: str, value: str) -> None:
    """Raises Failure: 3 where the driver does not let it be changed, or without the right to; 4 for a value that it
    does not take.
    """
    device, name = parts(key)
    try:
        _write(device, name, value)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
            why = "its driver cannot change that" if error.errno == errno.EOPNOTSUPP else "it does not exist"
            raise Failure(UNAVAILABLE, f"{device}: {name} stays as it is, {why}") from None
        if error.errno in (errno.EPERM, errno.EACCES):
            raise Failure(
                UNAVAILABLE, f"{key} cannot be changed without privileges; run as root, or leave --apply out"
            ) from None
        raise Failure(FAILED, f"{key} = {value}: {error.strerror}") from None


def _write(device: str, name: str, value: str) -> None:
    if name == MTU:
        _ioctl(SIOCSIFMTU, device, struct.pack("i", int(value)))
    elif name in SWITCHES:
        _ethtool(device, [SWITCHES[name].set, int(value == ON)])
    else:
        of = NUMBERS[name]
        now = _ethtool(device, [of.get, *[0] * (of.numbers - 1)])
        now[0], now[of.place] = of.set, int(value == ON) if of.word else int(value)
        _ethtool(device, now)


def values(device: str, name: str) -> tuple[str, list[str], str]:
    """The present value, those worth trying, and what it means. Raises OSError where there is none."""
    now = _read(device, name) or ""
    if name == MTU:
        return now, [str(LARGE_MTU)] if int(now) < LARGE_MTU else [], MTU_MEANING
    if name in SWITCHES:
        return now, [OFF if now == ON else ON], SWITCHES[name].meaning
    of = NUMBERS[name]
    if of.word:
        return now, [OFF if now == ON else ON], of.meaning
    if of.most:
        most = _ethtool(device, [of.get, *[0] * (of.numbers - 1)])[of.most]
        return now, [str(most)] if int(now) < most else [], of.meaning
    return now, [str(SOME_WAITING_US if int(now) == NO_WAITING_US else NO_WAITING_US)], of.meaning


def refusals(device: str) -> list[str]:
    """What its driver does not have, in sentences."""
    missing = [
        group for group, names in GROUPS.items() if all(read(key_of(device, name)) is None for name in names)
    ]
    return [f"{device}: its driver has no {' and no '.join(missing)} to set"] if missing else []


def devices_to(hosts: Sequence[str]) -> list[str]:
    """The interfaces over which packets to these hosts leave this one. A host that cannot be found has none."""
    found: list[str] = []
    for host in hosts:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, 9))  # sends nothing
                ours = socket.inet_aton(probe.getsockname()[0])
        except OSError:
            continue
        for _, device in socket.if_nameindex():
            if _address(device) == ours and device not in found and not ours.startswith(b"\x7f"):
                found.append(device)
    return found


def _address(device: str) -> bytes:
    try:
        return _ioctl(SIOCGIFADDR, device, b"")[4:8]  # struct sockaddr_in
    except OSError:
        return b""


def command(key: str, value: str) -> str:
    """What sets it, for a shell."""
    device, name = parts(key)
    if name == MTU:
        return f"ip link set dev {device} mtu {value}"
    if name in SWITCHES:
        return f"ethtool -K {device} {name} {value}"
    option, _, word = NUMBERS[name].command.partition(" ")
    return f"ethtool {option} {device} {word} {value}"
