# SPDX-License-Identifier: Apache-2.0
"""A library that copies large messages twice through shared memory, because it may not or shall not copy them once."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import Opened, beside, opened, variant_with
from netpipe.reading import Reading
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, percent_text, size_text

LEAST_BYTES = 1 << 16
KEPT = 0.65  # of the layer below, that copies once
SLOWER = 1.15  # than the same layer with one copy
# Option -> the values that mean two copies, and the one that means one.
OPTIONS = {"single_copy": (("none",), "cma"), "copy": (("pipeline",), "auto")}


@rule("extra-copy", "A copy too many", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a layer copies through shared memory by its own setting, and large messages are slower than those of
    the same layer with one copy. Where the run has no such curve: they keep less than 65 % of the layer below.
    """
    kept = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    judged = False
    for one in opened(reading):
        name = _twice(one)
        if name is None:
            judged = judged or any(option in one.options for option in OPTIONS)
            continue
        variant, pattern = one.curve.variant, one.curve.pattern
        sizes = [at.size_bytes for at in one.curve.points if at.size_bytes >= LEAST_BYTES]
        if not sizes:
            continue
        confirm = Confirm(variant, variant_with(reading, one, name, OPTIONS[name][1]), pattern, [sizes[-1]])
        measured = beside(reading, confirm, LEAST_BYTES)
        loss = kept.get((variant, pattern))
        judged = judged or measured is not None or loss is not None
        if measured is not None:
            size, times = measured
            if times.low <= SLOWER:
                continue
            said, evidence = (
                f"{confirm.remedied} is {digits(times.value)} times as fast",
                quantity(times, "1"),
            )
        else:
            worst = _worst(loss)
            if loss is None or worst is None:
                continue
            size, times = worst.size_bytes, worst.times
            said = f"it keeps {percent_text(worst.kept.value)} of {loss.below}"
            evidence = quantity(worst.kept, "1")
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=size,
            what=f"{variant} copies large messages twice through shared memory: at {size_text(size)} {said}.",
            evidence={"times" if measured else "kept": evidence},
            certainty="The setting is certain; that it is the cause is shown by the experiment.",
            cause="Copying once takes access to the other process's memory (process_vm_readv, or mapped pages), which "
            "is switched off by the setting, or not allowed: ptrace_scope, or a container without CAP_SYS_PTRACE.",
            remedy=f"{name}={OPTIONS[name][1]}; in a container --cap-add=SYS_PTRACE",
            gain=quantity(times, "1"),
            confirm=confirm,
        )
    if not judged:
        raise CannotJudge("no layer was set to copy twice and measured together with one that does not")


def _twice(one: Opened) -> str | None:
    """The name of the setting that makes a layer copy twice."""
    found = one.settings.get("transport_found")
    if found is not None and "shared memory" not in found.lower():
        return None
    return next((name for name, (twice, _) in OPTIONS.items() if one.options.get(name) in twice), None)


def _worst(loss: Loss | None) -> SizeLoss | None:
    """Where a layer keeps least of the one below, certainly less than KEPT."""
    if loss is None:
        return None
    large = [
        at for at in loss.sizes if at.size_bytes >= LEAST_BYTES and at.times.known and at.kept.high < KEPT
    ]
    return min(large, key=lambda at: at.kept.high, default=None)


def _run(copy: str) -> Run:
    variants = ("memcpy", f"shm:copy={copy}")
    points = [
        examples.point(name, size, (100 + size / 10) * factor)
        for name, factor in zip(variants, (1, 2), strict=True)
        for size in (8, 1 << 20)
    ]
    made = examples.run(*points, variants=variants, stack={"shm": "memcpy"})
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(
                variant=name, module=name.partition(":")[0], options={"copy": copy} if ":" in name else {}
            )
            for name in variants
        ]
    for variant in made.variants:
        variant.ranks[:] = [Rank(rank=0, settings={})]
    return made


def fires() -> Run:
    return _run("pipeline")


def silent() -> Run:
    return _run("auto")
