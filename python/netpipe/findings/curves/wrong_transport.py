# SPDX-License-Identifier: Apache-2.0
"""A library that was left to choose moves messages between processes of one host through the network."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import beside, opened, variant_with
from netpipe.findings.library import routes, setting, variables
from netpipe.reading import Reading
from netpipe.reading.summary import summarise
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, size_text, time_text

TRANSPORT = "transport"
SHARED = (TRANSPORT, "shm")
OPEN = (None, "", "auto")  # the library chooses
NETWORK = "TCP"  # as the module found it among the sockets of the process
CARRIERS = {"ucx": "UCX over ", "libfabric": "libfabric over "}  # by the layer below that the module found


@rule("wrong-transport", "Network within a host", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where no transport was asked for, all ranks are on one host, and their messages went through TCP."""
    hosts = {one.variant: {rank.host for rank in one.ranks} for one in reading.run.variants}
    below = {one.variant: one.below or "" for one in reading.run.variants}
    ways = (TRANSPORT, *(route.option for route in routes()))  # settings that say how messages go
    judged = False
    for one in opened(reading):
        variant = one.curve.variant
        asked = any(one.options.get(name) not in OPEN for name in ways)
        if asked or TRANSPORT not in one.options or len(hosts[variant]) != 1:
            continue
        judged = judged or "transport_found" in one.settings
        if one.settings.get("transport_found") != NETWORK:
            continue
        latency = summarise(one.curve).latency_ns
        size = summarise(one.curve).latency_size_bytes
        if latency is None or size is None:
            continue
        confirm = Confirm(variant, variant_with(reading, one, *SHARED), one.curve.pattern, [size])
        measured = beside(reading, confirm)
        said, gain = "", None
        evidence = {"time": quantity(latency, "ns")}
        if measured is not None and measured[1].low > 1:
            where, times = measured
            said = f"; {confirm.remedied} is {digits(times.value)} times as fast at {size_text(where)}"
            gain = evidence["times"] = quantity(times, "1")
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=size,
            what=f"{variant} sends through {CARRIERS.get(below[variant], '')}TCP although its ranks share a host: "
            f"{time_text(latency.value)} for {size_text(size)}{said}.",
            evidence=evidence,
            certainty="The connections of the processes are certain; what shared memory would gain is shown by the "
            "experiment.",
            cause="The library did not find, or was told not to use, its transport through shared memory.",
            remedy=setting(reading, variant, *SHARED)
            + ("" if variables(reading, variant, *SHARED)[1] else ", or the library's own setting"),
            gain=gain,
            confirm=confirm,
        )
    if not judged:
        raise CannotJudge("no library chose its transport within a host and said which")


def _run(found: str) -> Run:
    made = examples.run(examples.point("mpi@x", 8, 9e3), variants=("mpi@x",))
    for plan in made.plans:
        plan.variants[:] = [PlannedVariant(variant="mpi@x", module="mpi@x", options={"transport": "auto"})]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=n, host="node17", settings={"transport_found": found}) for n in (0, 1)]
    return made


def fires() -> Run:
    return _run("TCP")


def silent() -> Run:
    return _run("shared memory")
