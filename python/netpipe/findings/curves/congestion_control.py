# SPDX-License-Identifier: Apache-2.0
"""A congestion control that estimates the path's rate, on a path without delay: BBR over loopback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import beside, opened, variant_with
from netpipe.reading import Reading
from netpipe.records import Rank, Run
from netpipe.units import digits, percent_text, size_text

PACING = ("bbr", "bbr2", "bbr3")  # they pace by an estimate of rate and delay
INSTEAD = "cubic"  # that every kernel has
LEAST_BYTES = 1 << 16
KEPT = 0.75  # of the layer below
SLOWER = 1.05  # than the same with the other control


@rule("unfit-congestion-control", "Unfit congestion control", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a pacing congestion control runs over loopback, and large messages are slower than under another
    one. Where the run has no such curve: they keep less than three quarters of the layer below.
    """
    kept = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    known = [
        one
        for one in opened(reading)
        if one.settings.get("congestion") and _over_loopback(one.settings, one.hosts)
    ]
    if not known:
        raise CannotJudge("no layer over loopback recorded its congestion control")
    judged = False
    for one in known:
        control = one.settings["congestion"]
        if control not in PACING:
            judged = True
            continue
        variant, pattern = one.curve.variant, one.curve.pattern
        other = variant_with(reading, one, "congestion", INSTEAD)
        last = max((at.size_bytes for at in one.curve.points), default=0)
        confirm = Confirm(variant, other, pattern, [last]) if "congestion" in one.has else None
        measured = beside(reading, confirm, LEAST_BYTES) if confirm else None
        loss = kept.get((variant, pattern))
        judged = judged or measured is not None or loss is not None
        if measured is not None:
            size, times = measured
            if times.low <= SLOWER:
                continue
            said, evidence = f"{other} is {digits(times.value)} times as fast", quantity(times, "1")
        elif loss is not None and loss.large is not None and loss.large.seen:
            size, share, times = loss.large.size_bytes, loss.large.kept, loss.large.times
            if size < LEAST_BYTES or share.high >= KEPT:
                continue
            said, evidence = f"it keeps {percent_text(share.value)} of {loss.below}", quantity(share, "1")
        else:
            continue
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=size,
            what=f"{variant} runs under {control} over loopback: at {size_text(size)} {said}.",
            evidence={"times" if measured else "kept": evidence},
            certainty="The congestion control is certain; that it is the cause is shown by the experiment.",
            cause=f"{control} paces by an estimate of the path's rate and delay, which is bad for a link without "
            "delay.",
            remedy=f"measure with congestion={INSTEAD}, and compare hosts under the same congestion control"
            if confirm
            else f"sysctl net.ipv4.tcp_congestion_control={INSTEAD}, and measure again",
            gain=quantity(times, "1"),
            confirm=confirm,
        )
    if not judged:
        raise CannotJudge(f"{control} was measured neither beside {INSTEAD} nor beside a layer below")


def _over_loopback(settings: Mapping[str, str], hosts: frozenset[str | None]) -> bool:
    """A library does not say which interface its connections take; between ranks of one host it is loopback."""
    interface = settings.get("interface")
    return interface == "lo" if interface is not None else len(hosts) == 1


def _run(control: str) -> Run:
    variants = ("unix", "tcp")
    points = [
        examples.point(name, size, (2e3 + size / 5) * factor)
        for name, factor in zip(variants, (1, 2), strict=True)
        for size in (8, 1 << 20)
    ]
    made = examples.run(*points, variants=variants, stack={"tcp": "unix"})
    for variant in made.variants:
        settings = {"congestion": control, "interface": "lo"}
        variant.ranks[:] = [Rank(rank=0, settings=settings if variant.module == "tcp" else {})]
    return made


def fires() -> Run:
    return _run("bbr")


def silent() -> Run:
    return _run("cubic")
