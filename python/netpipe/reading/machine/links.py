# SPDX-License-Identifier: Apache-2.0
"""The link that a variant's messages cross, where the record says how fast it is: no message crosses it faster.

A rank says through which interface it talks, and its host how fast that is: the speed of an adapter, or what a token
bucket lets through (as on the links of `netpipe lab`), whichever is less. What a virtual interface reports as its speed
(10 Gbps of a veth) means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.records import Run


@dataclass(frozen=True, slots=True)
class Link:
    interface: str
    bytes_per_s: float  # in one direction


def links(run: Run) -> dict[str, Link]:
    """By variant: the slowest of the interfaces of its ranks. A variant of which one is not known is absent."""
    rates = {
        (host.host, name): rate
        for host in run.environments
        for name, rate in _rates(host.facts.get("network")).items()
    }
    found: dict[str, Link] = {}
    for variant in run.variants:
        names = [(rank.host, str(rank.settings.get("interface", ""))) for rank in variant.ranks]
        if names and all(name in rates for name in names):
            slowest = min(names, key=rates.__getitem__)
            found.setdefault(variant.variant, Link(slowest[1], rates[slowest]))
    return found


def _rates(network: object) -> dict[str, float]:
    """By interface, in bytes/s."""
    there = network.get("interfaces") if isinstance(network, Mapping) else None
    found = {}
    for interface in there if isinstance(there, list) else ():
        if not isinstance(interface, Mapping) or not isinstance(interface.get("name"), str):
            continue
        qdisc = interface.get("qdisc")
        bits = [
            _positive(interface.get("bits_per_s")) if interface.get("physical") is True else None,
            _positive(qdisc.get("bits_per_s")) if isinstance(qdisc, Mapping) else None,
        ]
        known = [one for one in bits if one is not None]
        if known:
            found[interface["name"]] = min(known) / 8
    return found


def _positive(value: Any) -> float | None:
    return value if isinstance(value, int | float) and value > 0 else None
