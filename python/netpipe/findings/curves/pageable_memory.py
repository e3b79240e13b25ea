# SPDX-License-Identifier: Apache-2.0
"""Copies between a GPU and memory of the host that its driver has not pinned."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import beside, opened, variant_with
from netpipe.reading import Reading
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, size_text

OPTION, PAGEABLE, PINNED = "host", "pageable", "pinned"
SLOWER = 1.05  # that pageable memory must certainly be, where the run has both


@rule("pageable-memory", "Memory that is not pinned", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires for host=pageable where the run has host=pinned beside it and that is certainly 5 % faster at some size;
    without that in the run: always.
    """
    having = [one for one in opened(reading) if OPTION in one.settings and len(one.curve.points)]
    if not having:
        raise CannotJudge("no copies between a GPU and memory of the host were measured")
    for one in having:
        if one.settings[OPTION] != PAGEABLE:
            continue
        variant, pattern = one.curve.variant, one.curve.pattern
        pinned = variant_with(reading, one, OPTION, PINNED)
        size = one.curve.points[-1].size_bytes
        measured = beside(reading, Confirm(variant, pinned, pattern, [size]))
        said, gain = "", None
        if measured is not None:
            size, times = measured
            if times.low <= SLOWER:
                continue
            said = f"; {pinned} is {digits(times.value)} times as fast at {size_text(size)}"
            gain = quantity(times, "1")
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=size,
            what=f"{variant} copies through memory of the host that is not pinned{said}.",
            evidence={"times": gain} if gain is not None else {},
            certainty="That the memory is not pinned is certain; what it costs is shown by the experiment.",
            cause="The device reads and writes pinned pages alone, so the driver copies through a small pinned buffer "
            "of its own, piece by piece.",
            remedy=f"{OPTION}={PINNED}; in a program: cuMemHostAlloc (cudaMallocHost, pin_memory of PyTorch), or "
            "cuMemHostRegister for memory that is there already",
            gain=gain,
            confirm=Confirm(variant, pinned, pattern, [size]),
        )


def _run(pinned_ns: float) -> Run:
    times = {"cuda:host=pageable": 6.7e5, "cuda": pinned_ns}
    points = [
        examples.visited(name, 8 << 20, ns, launch) for launch in range(4) for name, ns in times.items()
    ]
    made = examples.run(*points, variants=tuple(times))
    memory = {name: PAGEABLE if ":" in name else PINNED for name in times}
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=name, module="cuda", options={OPTION: memory[name]}) for name in times
        ]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={OPTION: memory[variant.variant]})]
    return made


def fires() -> Run:
    return _run(1.6e5)


def silent() -> Run:
    return _run(6.6e5)
