# SPDX-License-Identifier: Apache-2.0
"""A shaper limits the interface below what its link can do (tc: tbf, htb and others)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netpipe.findings import CURVES, WARNING, CannotJudge, Finding, Quantity, quantity, rule
from netpipe.findings.curves import Opened, opened
from netpipe.findings.curves.links import between_hosts, interfaces
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.units import percent_text, rate_text, size_text

# Queue disciplines that may limit a rate, and what tc shows it of: those with classes have a rate in each. The worker
# records the rate of tbf alone.
SHAPERS = {"tbf": "qdisc", "htb": "class", "hfsc": "class", "cake": "qdisc", "netem": "qdisc"}
NOT_RECORDED = "no host recorded the queue discipline of a network interface that was used"
AMONG_MANY = "among more than two hosts a rate is that of several interfaces together"
USED = 0.6  # of the shaper's rate: from here on it is what limits the curve


@rule("rate-limit", "A shaper limits the rate", about=CURVES, needs=("environment",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the interface of a curve has a queue discipline with a rate, and the curve comes near it."""
    judged, lacks = False, NOT_RECORDED
    for one in opened(reading):
        used = [
            (name, kind, facts.number("qdisc.bits_per_s") or 0)
            for name, facts in interfaces(reading, one)
            if (kind := facts.text("qdisc.kind"))
        ]
        limits = {
            bits_per_s / 8: (name, kind) for name, kind, bits_per_s in used if kind in SHAPERS and bits_per_s
        }
        unread = [(name, kind) for name, kind, bits_per_s in used if kind in SHAPERS and not bits_per_s]
        if (limits or unread) and len(one.hosts) > 2:
            lacks = AMONG_MANY
            continue
        found = _near(one, limits)
        if found is not None:
            yield found
        elif unread:  # it may be the lower one
            name, kind = unread[0]
            lacks = f"{kind} may limit the rate of {name}, and a run does not record which rate that is: tc "
            lacks += f"{SHAPERS[kind]} show dev {name} shows it"
            continue
        judged = judged or bool(used)
    if not judged:
        raise CannotJudge(lacks)


def _near(one: Opened, limits: Mapping[float, tuple[str, str]]) -> Finding | None:
    """Of a curve that comes near the lowest of these limits, which are in bytes a second, with interface and kind."""
    if not limits or not len(one.curve.points):
        return None
    limit = min(limits)
    name, kind = limits[limit]
    # Of small messages a shaper lets a burst through, so what counts is the largest size.
    at = one.curve.points[-1]
    if at.rate_bytes_per_s is None or at.rate_bytes_per_s.value < USED * limit:
        return None
    share = at.rate_bytes_per_s.value / limit
    return Finding(
        severity=WARNING,
        variant=one.curve.variant,
        pattern=one.curve.pattern,
        size_bytes=at.size_bytes,
        what=f"{one.curve.variant} reaches {rate_text(at.rate_bytes_per_s.value)} at {size_text(at.size_bytes)}, "
        f"{percent_text(share)} of the {rate_text(limit)} that {kind} lets through {name}.",
        evidence={"rate": quantity(at.rate_bytes_per_s, "bytes/s"), "limit": Quantity(limit, "bytes/s")},
        certainty="The limit is in the host's settings, and the curve comes near it.",
        cause="A queue discipline (traffic control) limits the interface below what the link can do.",
        remedy=f"tc qdisc show dev {name}; without the limit: tc qdisc del dev {name} root",
    )


def _run(bits_per_s: float) -> Run:
    """954 Mbps at 1 MiB."""
    qdisc = {"kind": "tbf", "bits_per_s": bits_per_s}
    return between_hosts({"qdisc": qdisc}, {}, {8: 3e4, 1 << 20: 8.8e6})


def fires() -> Run:
    return _run(1e9)


def silent() -> Run:
    return _run(1e10)
