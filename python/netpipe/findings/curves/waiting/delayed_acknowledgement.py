# SPDX-License-Identifier: Apache-2.0
"""Nagle's algorithm waits for an acknowledgement that the receiver delays: a flat 40 ms (RFC 896, RFC 1122 4.2.3.2).

A message that is one write is not held back, so a plain ping-pong does not show it. Several small messages in a row do,
and so do large ones whose last segment is not full: some of them, or all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from netpipe.findings import CURVES, SEVERE, CannotJudge, Confirm, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import ENV, Opened, opened, variant_with, with_variables
from netpipe.findings.library import assignments, variables
from netpipe.reading import Reading
from netpipe.reading.curves import CurvePoint
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import size_text, time_text

# Linux delays by 40 ms, and by more when the processors are busy. A message of two writes waits half of it in a
# ping-pong.
LEAST_NS, MOST_NS = 15e6, 70e6
AT_ONCE = "in_flight"  # the option of patterns that time several messages together


@dataclass(frozen=True, slots=True)
class Late:
    """A size at which messages wait for an acknowledgement."""

    at: CurvePoint
    wait_ns: float  # of the messages that are timed together
    all: bool  # of them, or one in ten


@rule("delayed-acknowledgement", "Delayed acknowledgement", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where TCP_NODELAY is off and a message, or one in ten, takes the time of a delayed acknowledgement, which
    the path itself does not take. Of messages that are timed together, such as those of a window, all together.
    """
    together = _together(reading)
    known = [one for one in opened(reading) if "nodelay" in one.settings]
    if not known:
        raise CannotJudge("no layer recorded whether TCP_NODELAY is on")
    for one in known:
        if one.settings["nodelay"] != "no":
            continue
        found = [late for at in one.curve.points if (late := _late(at, together.get(one.curve.pattern, 1)))]
        if not found:
            continue
        worst = max(found, key=lambda late: (late.all, late.wait_ns))
        variant, size = one.curve.variant, worst.at.size_bytes
        remedied, remedy = _remedy(reading, one)
        of = "" if worst.all else "one message in ten of "
        yield Finding(
            severity=SEVERE,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=size,
            what=f"{variant} {one.curve.pattern}: {of}{size_text(size)} waits {time_text(worst.wait_ns)}: the time of "
            "a delayed acknowledgement, not of the network.",
            evidence={"time": quantity(worst.at.time_ns, "ns"), "wait": Quantity(worst.wait_ns, "ns")},
            certainty="The setting is certain; that it is the cause is shown by the experiment.",
            cause="TCP_NODELAY is off, so the kernel holds a small segment back until the one before is acknowledged, "
            "and the receiver delays that acknowledgement by up to 40 ms.",
            remedy=f"switch Nagle's algorithm off: {remedy}",
            confirm=Confirm(variant, remedied, one.curve.pattern, [size]) if remedied else None,
        )


def _remedy(reading: Reading, one: Opened) -> tuple[str | None, str]:
    """The variant without Nagle's algorithm, and how a program gets that."""
    if "nodelay" in one.has:
        return variant_with(reading, one, "nodelay", "yes"), "nodelay=yes, TCP_NODELAY in a program"
    title, found = variables(reading, one.curve.variant, "nodelay", "yes")
    if found and ENV in one.has:
        remedied = with_variables(one, found)
        return remedied, f"{title}: {assignments(found)} (here env={assignments(found)})"
    return None, "TCP_NODELAY, or the library's own setting"


def _together(reading: Reading) -> Mapping[str, int]:
    """Pattern -> messages that are timed together."""
    found = {}
    for plan in reading.run.plans:
        for mode in plan.modes:
            text = mode.options.get(AT_ONCE, "1")
            found[mode.pattern] = int(text) if text.isdigit() else 1
    return found


def _late(at: CurvePoint, together: int) -> Late | None:
    trips = [point.counters["min_rtt_us"] * 1e3 for point in at.by_launch if point.counters.get("min_rtt_us")]
    if trips and min(trips) > LEAST_NS / 2:
        return None  # the path is that long
    slowest = [point.p90_ns for point in at.by_launch if point.p90_ns is not None]
    for time_ns, whole in ((at.time_ns.value, True), (max(slowest, default=0.0), False)):
        if LEAST_NS <= time_ns * together <= MOST_NS:
            return Late(at, time_ns * together, whole)
    return None


def _run(nodelay: str) -> Run:
    made = examples.run(examples.point("tcp", 8, 2e4), examples.point("tcp", 4096, 2.04e7))
    planned = PlannedVariant(variant="tcp", module="tcp", options={"nodelay": nodelay})
    made.plans[:] = [msgspec.structs.replace(plan, variants=[planned]) for plan in made.plans]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"nodelay": nodelay})]
    return made


def fires() -> Run:
    return _run("no")


def silent() -> Run:
    return _run("yes")
