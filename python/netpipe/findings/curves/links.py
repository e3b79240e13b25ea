# SPDX-License-Identifier: Apache-2.0
"""What hosts recorded of the network interfaces that a curve uses, how long its path is, and made-up runs between two
hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from netpipe.findings import examples
from netpipe.findings.curves import Opened
from netpipe.findings.machine import Facts
from netpipe.reading import Reading
from netpipe.records import Environment, PlannedVariant, Rank, Run


def interfaces(reading: Reading, one: Opened) -> Iterator[tuple[str, Facts]]:
    """The network interfaces that a curve's ranks use, with what their hosts recorded of them, each host once."""
    if not one.settings.get(
        "interface"
    ):  # of rank 0; without it no rank has one, in a run of a thousand variants too
        return
    names = {
        rank.host: rank.settings["interface"]
        for opened_ in reading.run.variants
        if opened_.variant == one.curve.variant
        for rank in opened_.ranks
        if rank.settings.get("interface")
    }
    said: set[str | None] = set()
    for environment in reading.run.environments:
        name = names.get(environment.host)
        if name is None or environment.host in said:
            continue
        for there in Facts(environment.facts).value("network.interfaces") or []:
            if isinstance(there, Mapping) and there.get("name") == name:
                said.add(environment.host)
                yield name, Facts(there)


def shortest_round_trip_us(one: Opened) -> int | None:
    """The shortest round trip that TCP saw in a curve, acknowledgements included; None if its layer counts none."""
    return min(
        (
            point.counters["min_rtt_us"]
            for at in one.curve.points
            for point in at.by_launch
            if point.counters.get("min_rtt_us")
        ),
        default=None,
    )


def between_hosts(interface: dict[str, Any], counters: dict[str, int], points: dict[int, float]) -> Run:
    """A run of tcp between two hosts over eth0, of which these facts are known: points are size -> ns."""
    made = examples.run(
        Environment(host="node17", facts={"network": {"interfaces": [{"name": "eth0", **interface}]}}),
        *(examples.point("tcp", size, ns, counters=counters) for size, ns in points.items()),
    )
    planned = PlannedVariant(variant="tcp", module="tcp", options={})
    made.plans[:] = [msgspec.structs.replace(plan, variants=[planned]) for plan in made.plans]
    for variant in made.variants:
        hosts = ("node17", "node18")
        variant.ranks[:] = [
            Rank(rank=n, host=host, settings={"interface": "eth0"}) for n, host in enumerate(hosts)
        ]
    return made
