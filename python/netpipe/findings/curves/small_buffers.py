# SPDX-License-Identifier: Apache-2.0
"""Fixed socket buffers that hold less than a message: the sender waits for the window, which autotuning would widen.

The main finding of Turner et al. 2002: a factor of up to five between the default buffers and tuned ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import WARNING, Confirm, Finding, Quantity, examples, quantity, rule
from netpipe.findings.curves import command, opened, without_settings
from netpipe.reading import Reading
from netpipe.records import Rank, Run
from netpipe.units import percent_text, rate_text, size_text

LEAST = 0.8  # of its own best rate: a curve that keeps more of it at the end is not limited by its buffers


@rule("small-buffers", "Small socket buffers", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a socket buffer was set, so that autotuning is off, the largest message is more than what the kernel
    gave, and from there on the rate does not reach that of the layer below.
    """
    kept = {(loss.variant, loss.pattern): loss.large for loss in reading.losses}
    for one in opened(reading):
        fixed = {
            name: int(one.settings[f"{name}_kernel_bytes"])
            for name in ("sndbuf", "rcvbuf")
            if one.settings.get(f"{name}_autotuned") == "no"
            and one.settings.get(f"{name}_kernel_bytes", "").isdigit()
        }
        last = one.curve.points[-1] if len(one.curve.points) else None
        large = kept.get((one.curve.variant, one.curve.pattern))
        if (
            not fixed
            or last is None
            or last.rate_bytes_per_s is None
            or last.size_bytes <= min(fixed.values())
        ):
            continue
        if large is None or not large.seen or large.kept.value >= LEAST:
            continue
        name = min(fixed, key=lambda which: fixed[which])
        variant = one.curve.variant
        confirm = Confirm(
            variant, without_settings(variant, "sndbuf", "rcvbuf"), one.curve.pattern, [last.size_bytes]
        )
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=one.curve.pattern,
            size_bytes=last.size_bytes,
            what=f"{variant} reaches {rate_text(last.rate_bytes_per_s.value)} at {size_text(last.size_bytes)}, "
            f"{percent_text(large.kept.value)} of the layer below, with a fixed {name} of {size_text(fixed[name])}.",
            evidence={
                "rate": quantity(last.rate_bytes_per_s, "bytes/s"),
                "buffer": Quantity(fixed[name], "bytes"),
                "kept": quantity(large.kept, "1"),
            },
            certainty="The buffer is certain; that it is the cause is shown by the experiment.",
            cause="A buffer that was set switches the kernel's autotuning off, and what is in flight can never be more "
            "than it holds.",
            remedy="leave the buffers to the kernel, or set them above rate x round-trip time (net.core.wmem_max and "
            "rmem_max bound them)",
            experiment=command(confirm),
            confirm=confirm,
        )


def _run(bytes_: int) -> Run:
    variants = ("unix", "tcp:sndbuf=8k")
    points = [
        examples.point(name, size, (2e3 + size / 5) * factor)
        for name, factor in zip(variants, (1, 3), strict=True)
        for size in (8, 65536, 1 << 20)
    ]
    made = examples.run(*points, variants=variants, stack={"tcp": "unix"})
    for variant in made.variants:
        settings = {"sndbuf_kernel_bytes": str(bytes_), "sndbuf_autotuned": "no"}
        variant.ranks[:] = [Rank(rank=0, settings=settings if variant.module == "tcp" else {})]
    return made


def fires() -> Run:
    return _run(16384)


def silent() -> Run:
    return _run(4 << 20)
