# SPDX-License-Identifier: Apache-2.0
"""The rate of the link that a variant's messages cross, and the bound that it is in figures."""

from __future__ import annotations

from typing import Any

import pytest

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.machine.links import Link, links
from netpipe.records import Environment, Rank, Run, Variant
from netpipe.render import figures
from netpipe.render.drawing.picture import Picture
from netpipe.render.drawing.scope import Scope


def interface(
    name: str, physical: bool = True, bits: int | None = None, bucket: int | None = None
) -> dict[str, Any]:
    qdisc = {"kind": "tbf", "bits_per_s": bucket} if bucket else {"kind": "mq", "bits_per_s": None}
    return {"name": name, "physical": physical, "bits_per_s": bits, "qdisc": qdisc}


def made(
    *of_hosts: dict[str, Any], through: tuple[str, str] = ("eth0", "eth0"), pattern: str = "pingpong"
) -> Run:
    hosts = [
        Environment(host=f"node{place}", facts={"network": {"interfaces": [one]}})
        for place, one in enumerate(of_hosts)
    ]
    ranks = [
        Rank(rank=place, host=f"node{place}", settings={"interface": name})
        for place, name in enumerate(through)
    ]
    ways = 2 if pattern == "bidirectional" else 1
    points = [
        examples.point(
            "tcp", size, 1000.0 + size, pattern=pattern, bytes_per_s=ways * size / (1000 + size) * 1e9
        )
        for size in (8, 65536, 1 << 20)
    ]
    return examples.run(*hosts, Variant(variant="tcp", module="tcp", ranks=ranks), *points)


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ((interface("eth0", bits=10**10), interface("eth0", bits=10**9)), 1.25e8),
        ((interface("eth0", bits=10**10), interface("eth0", bits=10**10)), 1.25e9),
        ((interface("eth0", False, 10**10, 10**8), interface("eth0", False, 10**10, 10**9)), 1.25e7),
        ((interface("eth0", bits=10**10, bucket=10**9), interface("eth0", bits=10**10)), 1.25e8),
        ((interface("eth0", False, 10**10), interface("eth0", bits=10**9)), None),
        ((interface("eth0", bits=10**9), interface("eth1", bits=10**9)), None),
        ((interface("eth0", bits=10**9),), None),
    ],
    ids=[
        "slower side",
        "equal",
        "a lab's",
        "adapter with a bucket",
        "veth",
        "other interface",
        "one host unknown",
    ],
)
def test_a_link_is_as_fast_as_its_slower_side(hosts: tuple[dict[str, Any], ...], found: float | None) -> None:
    assert links(made(*hosts)) == ({"tcp": Link("eth0", found)} if found else {})


@pytest.mark.parametrize(
    "facts", [{}, {"network": None}, {"network": {"interfaces": [3, {"name": 7}, {"qdisc": 1}]}}]
)
def test_facts_of_another_shape_say_nothing(facts: dict[str, Any]) -> None:
    run = made(interface("eth0", bits=10**9))
    run.environments[:] = [Environment(host=name, facts=facts) for name in ("node0", "node1")]
    assert links(run) == {}


def bounds(run: Run) -> list[str]:
    (panel,) = figures.get("throughput").panels(Scope((Reading(run),)))
    (drawn,) = panel.views
    assert isinstance(drawn, Picture)
    return [bound.label for bound in drawn.bounds] + list(drawn.beyond)


def test_the_rate_of_the_link_is_a_bound_of_messages_in_one_direction() -> None:
    both = interface("eth0", bits=10**10), interface("eth0", bits=10**10)
    assert "link eth0 10.0 Gbps" in bounds(made(*both))
    assert not any(label.startswith("link") for label in bounds(made(*both, pattern="bidirectional")))
