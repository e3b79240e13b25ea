# SPDX-License-Identifier: Apache-2.0
"""What a lab is to be: its name, its hosts and its network, as the user wrote it and as numbers."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from netpipe.failure import USAGE, Failure

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,18}[a-z])?")  # a host name with a number behind it
FEWEST_HOSTS, MOST_HOSTS = 2, 64
SMALLEST_MTU, LARGEST_MTU = 576, 65521  # RFC 791 asks for 576; a TAP device takes no more than 65521
SMALLEST_RATE, LARGEST_RATE = 64_000, 400_000_000_000
LONGEST_DELAY_NS = 10_000_000_000
LARGEST_SEED = (1 << 63) - 1

DIGITS = r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*"
RATE = re.compile(DIGITS + r"([kmgt]?)(?:bit|bps|bit/s)?\s*", re.IGNORECASE)
RATE_STEPS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
DELAY = re.compile(DIGITS + r"(ns|us|µs|ms|s)\s*", re.IGNORECASE)
DELAY_STEPS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
SHARE = re.compile(DIGITS + r"(%?)\s*")


@dataclass(frozen=True, slots=True)
class Network:
    """What is between the hosts. Every host has a link of its own to one switch."""

    bits_per_s: float | None = None  # of each link, in each direction; None: as fast as this machine is
    delay_ns: int = 0  # that every packet takes longer, one way
    loss: float = 0.0  # the share of packets that get lost, by lot
    seed: int = 1  # of the losses
    mtu_bytes: int = 1500
    offloads: bool | None = None  # None: what the device has by itself

    @property
    def relayed(self) -> bool:
        """Whether a program carries the packets: the kernel has no delay and no loss everywhere."""
        return self.delay_ns > 0 or self.loss > 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def name(text: str) -> str:
    """Raises Failure (2)."""
    if not NAME.fullmatch(text):
        raise Failure(
            USAGE,
            f"--name: '{text}' is not a name for a lab; write 1 to 20 lower-case letters, digits and '-', "
            "beginning and ending with a letter",
        )
    return text


def rate(text: str) -> float:
    """ "1g", "100m", "2.5 Gbit": bits per second. Raises Failure (2)."""
    found = RATE.fullmatch(text)
    value = float(found[1]) * RATE_STEPS[found[2].lower()] if found else 0.0
    if not SMALLEST_RATE <= value <= LARGEST_RATE:
        raise Failure(
            USAGE, f"--rate: '{text}' is not a rate from 64k to 400g; write 100m or 1g (bits per second)"
        )
    return value


def delay(text: str) -> int:
    """ "50us", "1.5ms", "0": nanoseconds. Raises Failure (2)."""
    found = DELAY.fullmatch(text)
    value = (
        round(float(found[1]) * DELAY_STEPS[found[2].lower()]) if found else 0 if text.strip() == "0" else -1
    )
    if not 0 <= value <= LONGEST_DELAY_NS:
        raise Failure(USAGE, f"--delay: '{text}' is not a delay of at most 10 s; write 50us or 1ms")
    return value


def loss(text: str) -> float:
    """ "0.1%" or "0.001". Raises Failure (2)."""
    found = SHARE.fullmatch(text)
    value = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 <= value < 1:
        raise Failure(USAGE, f"--loss: '{text}' is not a share of packets below 1; write 0.1% or 0.001")
    return value


def check(network: Network) -> None:
    """Raises Failure (2) for what cannot go together."""
    if network.relayed and network.offloads:
        raise Failure(
            USAGE,
            "--offloads on does not go with --delay or --loss: netpipe-relay carries each packet by itself; "
            "leave --offloads out",
        )
