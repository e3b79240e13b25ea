# SPDX-License-Identifier: Apache-2.0
"""Values of options that a layer cannot have together are refused when they are planned, so by a dry run too."""

from __future__ import annotations

from typing import Any

import pytest

from netpipe import native
from netpipe.failure import USAGE, Failure

# Variants, and the ranks, that were once refused by `open` alone.
REFUSED = [
    ("memcpy:op=read", 2, "op=read with routine=glibc: nothing of that kind only reads memory"),
    ("memcpy:op=read,routine=movsb", 2, "op=read with routine=movsb"),
    ("memcpy:op=read,routine=nontemporal", 2, "op=read with routine=nontemporal"),
    ("libfabric:ep=dgram,api=tagged", 2, "datagrams have no tags"),
    ("libfabric:ep=dgram,completion=counter", 2, "does not say which datagram arrived"),
    ("libfabric:completion=counter", 4, "cannot tell from whom a message came"),
    ("libfabric:inject=8,complete=delivery", 2, "inject=8 with complete=delivery"),
    ("libfabric:inject=8,completion=counter", 2, "inject=8 with completion=counter"),
    ("verbs:op=write,qps=2", 2, "qps=2 with op=write"),
    ("verbs:qp=ud,qps=2", 2, "qps=2 with qp=ud"),
    ("verbs:op=write,register=each", 2, "register=each with op=write and qp=rc"),
    ("grpc:frame=32k", 2, "frame=32k with window=0"),
    ("grpc:frame=1,window=64k", 2, "frame=1: HTTP/2 asks for 16384 bytes at least"),
    ("udp:multicast=239.1.2.3", 2, "multicast=239.1.2.3 with connected=yes"),
    ("udp:payload=31", 2, "no room behind netpipe's header"),
    ("udp:gso=yes,batch=1", 2, "gso=yes with batch=1"),
    ("udp:gso=yes,payload=32754", 2, "gso=yes with payload=32754"),
    ("pvm:fragment=1", 2, "fragment=1: with very small fragments libpvm hangs"),
]
# Close to them, and planned.
TAKEN = [
    ("memcpy:op=read,routine=byte", 2),
    ("libfabric:completion=counter", 2),
    ("libfabric:inject=0,complete=delivery", 2),
    ("verbs:qp=uc,op=write_imm", 4),
    ("verbs:qp=uc,op=write_imm,register=each", 2),
    ("verbs:ahead=3", 4),
    ("verbs:op=write", 4),
    ("grpc:frame=16k,window=64k", 2),
    ("udp:multicast=239.1.2.3,connected=no", 2),
    ("udp:gso=yes,payload=32753", 2),
    ("udp:payload=32", 2),
    ("pvm:fragment=1k", 2),
]


@pytest.fixture(scope="module")
def built(listing: dict[str, Any]) -> set[str]:
    """Modules whose option tables are known here; of one that was not built nothing is planned."""
    return {one["name"] for one in listing["modules"] if one["options"]}


def planned(variant: str, ranks: int, built: set[str]) -> dict[str, Any]:
    if variant.partition(":")[0] not in built:
        pytest.skip(f"{variant}: its library is not installed")
    lines = ["netpipe-plan 1", f"variant {variant}", f"ranks {ranks}", "sizes 8", "end", ""]
    return native.plan("\n".join(lines))


@pytest.mark.parametrize(("variant", "ranks", "says"), REFUSED)
def test_what_a_layer_cannot_have_together_is_refused_by_the_plan(
    built: set[str], variant: str, ranks: int, says: str
) -> None:
    with pytest.raises(Failure) as refused:
        planned(variant, ranks, built)
    assert refused.value.exit_code == USAGE
    assert says in refused.value.sentence


@pytest.mark.parametrize(("variant", "ranks"), TAKEN)
def test_what_it_can_have_is_planned(built: set[str], variant: str, ranks: int) -> None:
    (chosen,) = planned(variant, ranks, built)["variants"]
    assert chosen["variant"].startswith(variant.partition(":")[0])
