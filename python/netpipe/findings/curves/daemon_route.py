# SPDX-License-Identifier: Apache-2.0
"""Messages go through the daemons of a library (PVM's pvmd, LAM's lamd): one more process and two more sockets.

Turner and Chen 2002 measured 90 Mbps through PVM's daemons and 330 Mbps without them, over the same Gigabit Ethernet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import Opened, beside, opened, variant_with
from netpipe.findings.library import own_remedy, routes
from netpipe.libraries import Route
from netpipe.reading import Reading
from netpipe.reading.summary import latency_place
from netpipe.records import Rank, Run
from netpipe.units import digits, size_text, time_text

# PVM is a layer of netpipe and no family of libraries.
PVM = Route("route", ("daemon",), "pvmd", "direct")
REMEDY_OF_PVM = "route=direct (pvm_setopt(PvmRoute, PvmRouteDirect) in a program)"


@rule("daemon-route", "Messages through a daemon", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the route that was in force goes through daemons. That they cost something is certain; how much, the
    run says where it has the direct route too.
    """
    known = [PVM, *routes()]
    able = [one for one in opened(reading) if any(route.option in _said(one) for route in known)]
    if not able:
        raise CannotJudge("no library that has daemons was measured (PVM, LAM/MPI)")
    for one in able:
        route = _daemons(one, known)
        place = latency_place(one.curve.points)
        if route is None or not len(one.curve.points):
            continue
        at = one.curve.points[place or 0]
        variant, pattern = one.curve.variant, one.curve.pattern
        confirm = Confirm(
            variant, variant_with(reading, one, route.option, route.direct), pattern, [at.size_bytes]
        )
        measured = beside(reading, confirm)
        said, gain = "", None
        evidence = {"time": quantity(at.time_ns, "ns")}
        if measured is not None and measured[1].low > 1:
            size, times = measured
            said = f"; {confirm.remedied} is {digits(times.value)} times as fast at {size_text(size)}"
            gain = evidence["times"] = quantity(times, "1")
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=at.size_bytes,
            what=f"{variant} sends every message through {route.daemon}: {time_text(at.time_ns.value)} for "
            f"{size_text(at.size_bytes)}{said}.",
            evidence=evidence,
            certainty="The route is certain; what it costs is shown by the experiment.",
            cause="The daemon has to be woken for each message, and copies it from one socket into another.",
            remedy=own_remedy(reading, variant, "daemon-route")
            or (REMEDY_OF_PVM if route is PVM else f"{route.option}={route.direct}"),
            gain=gain,
            confirm=confirm,
        )


def _daemons(one: Opened, known: Sequence[Route]) -> Route | None:
    said = _said(one)
    return next((route for route in known if said.get(route.option) in route.daemons), None)


def _said(one: Opened) -> Mapping[str, str]:
    return {**one.options, **one.settings}


def _run(route: str) -> Run:
    made = examples.run(examples.point("pvm", 8, 4e4), variants=("pvm",))
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={"route": route}) for one in plan.variants]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={"route": route})]
    return made


def fires() -> Run:
    return _run("daemon")


def silent() -> Run:
    return _run("direct")
