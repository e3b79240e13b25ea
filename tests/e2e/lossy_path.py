# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces whose only link is this process: it forwards IP packets between two TUN devices, and does to
UDP what a test wants. Everything else passes, so that the ranks always find each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import secrets
import selectors
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path as File

import pytest

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
UDP = 17

# What is forwarded in the place of one UDP packet.
Treat = Callable[[bytes], list[bytes]]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


def has_ipv6() -> bool:
    return File("/proc/net/if_inet6").exists()


def is_udp(packet: bytes) -> bool:
    return (packet[6] if packet[0] >> 4 == 6 else packet[9]) == UDP


def goes_to_a_group(packet: bytes) -> bool:
    """By the destination in an IPv4 or IPv6 header: 224.0.0.0/4, ff00::/8."""
    return packet[24] == 0xFF if packet[0] >> 4 == 6 else packet[16] >> 4 == 14


def untouched(packet: bytes) -> list[bytes]:
    return [packet]


def losing(share: float, seed: int = 1) -> Treat:
    """Drops so many of all packets, by lot."""
    lot = random.Random(seed)
    return lambda packet: [] if lot.random() < share else [packet]


def doubling(packet: bytes) -> list[bytes]:
    return [packet, packet]


def holding(seconds: float, every: int) -> Treat:
    """Stops the whole path for so long before each message of module udp whose number `every` divides. What comes
    behind waits too, so nothing is overtaken. The header of udp is in src/modules/udp/udp_datagram.h.
    """

    def treat(packet: bytes) -> list[bytes]:
        payload = packet[48:] if packet[0] >> 4 == 6 else packet[28:]
        if len(payload) >= 24:
            message, index = struct.unpack_from("<II", payload, 8)
            if index == 0 and message % every == 0:
                time.sleep(seconds)
        return [packet]

    return treat


@dataclass
class Swapping:
    """Each second packet overtakes the one before it, as far as another one comes at all: one that is alone for a while
    goes on alone (see Path.idle).
    """

    kept: list[bytes] = field(default_factory=list)

    def __call__(self, packet: bytes) -> list[bytes]:
        if self.kept:
            return [packet, self.kept.pop()]
        self.kept.append(packet)
        return []


@dataclass
class Path:
    near: str  # the names of the namespaces
    far: str
    treat: Treat = untouched
    packets: int = 0

    def inside(self, name: str) -> tuple[str, ...]:
        return ("ip", "netns", "exec", name)


FAR_ADDRESS = "10.81.0.2"
NEAR_ADDRESS = "10.81.0.1"
FAR_ADDRESS_6 = "fd81::2"  # where the kernel has IPv6; either end also has an address of the link
NEAR_ADDRESS_6 = "fd81::1"


def device(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def forward(path: Path, fds: tuple[int, int], stop: int) -> None:
    with selectors.DefaultSelector() as ready:
        for fd in (*fds, stop):
            ready.register(fd, selectors.EVENT_READ)
        kept: dict[int, Swapping] = {}
        while True:
            events = ready.select(0.005)
            if not events:
                for fd, one in kept.items():
                    while one.kept:
                        put(fd, one.kept.pop())
                kept.clear()
            for key, _ in events:
                if key.fd == stop:
                    return
                to = fds[0] if key.fd == fds[1] else fds[1]
                treat = path.treat
                if isinstance(treat, Swapping):  # one for each direction
                    treat = kept.setdefault(to, Swapping())
                for packet in packets(key.fd):
                    path.packets += is_udp(packet)
                    for one_packet in treat(packet) if is_udp(packet) else [packet]:
                        put(to, one_packet)


def packets(fd: int) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        for _ in range(64):
            yield os.read(fd, 65536)


def put(fd: int, packet: bytes) -> None:
    with contextlib.suppress(OSError):  # no room, or not up yet: lost too
        os.write(fd, packet)


@contextlib.contextmanager
def lossy_path(mtu: int = 1500) -> Iterator[Path]:
    """For the time of a with: the two ends, each with its loopback and a link of this MTU."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make network namespaces")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/net/tun")
    name = f"np{secrets.token_hex(3)}"
    path = Path(f"{name}a", f"{name}b")
    with contextlib.ExitStack() as stack:
        fds = []
        ends = ((path.near, NEAR_ADDRESS, NEAR_ADDRESS_6), (path.far, FAR_ADDRESS, FAR_ADDRESS_6))
        for end, address, address_6 in ends:
            ip("netns", "add", end)
            stack.callback(
                subprocess.run, ["ip", "netns", "del", end], capture_output=True, timeout=20, check=False
            )
            fds.append(device(end))
            stack.callback(os.close, fds[-1])
            ip("link", "set", end, "netns", end)
            ip("-n", end, "link", "set", "lo", "up")
            ip("-n", end, "addr", "add", f"{address}/24", "dev", end)
            if has_ipv6():
                ip("-n", end, "addr", "add", f"{address_6}/64", "dev", end, "nodad")
            ip("-n", end, "link", "set", end, "mtu", str(mtu), "up")
        stop, stopper = os.pipe()
        thread = threading.Thread(target=forward, args=(path, (fds[0], fds[1]), stop), daemon=True)
        thread.start()

        def end_thread() -> None:
            os.write(stopper, b"x")
            thread.join(10)
            os.close(stop)
            os.close(stopper)

        stack.callback(end_thread)
        yield path
