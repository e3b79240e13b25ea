# SPDX-License-Identifier: Apache-2.0
"""A congestion control that estimates the path's rate, on a path without delay: BBR over loopback."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import WARNING, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import command, opened, with_setting
from netpipe.reading import Reading
from netpipe.records import Rank, Run
from netpipe.units import percent_text, size_text

PACING = ("bbr",)  # they pace by an estimate of rate and delay
LEAST_BYTES = 1 << 19
KEPT = 0.75  # of the layer below


@rule("unfit-congestion-control", "Unfit congestion control", needs=("losses",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a pacing congestion control runs over loopback, and large messages keep less than three quarters of
    the layer below.
    """
    kept = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    for one in opened(reading):
        loss = kept.get((one.curve.variant, one.curve.pattern))
        control = one.settings.get("congestion", "")
        if (
            control not in PACING
            or one.settings.get("interface") != "lo"
            or loss is None
            or loss.large is None
        ):
            continue
        large = loss.large
        if large.size_bytes < LEAST_BYTES or not large.seen or large.kept.value >= KEPT:
            continue
        variant = one.curve.variant
        confirm = Confirm(
            variant, with_setting(variant, "congestion", "cubic"), one.curve.pattern, [large.size_bytes]
        )
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=large.size_bytes,
            what=f"{variant} keeps {percent_text(large.kept.value)} of the throughput of {loss.below} at "
            f"{size_text(large.size_bytes)}, under {control} over loopback.",
            evidence={"kept": quantity(large.kept, "1")},
            certainty="The congestion control is certain; that it is the cause is shown by the experiment.",
            cause=f"{control} paces by an estimate of the path's rate and delay, which is bad for a link without "
            "delay.",
            remedy="measure with congestion=cubic, and compare hosts under the same congestion control",
            experiment=command(confirm),
            confirm=confirm,
        )


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
