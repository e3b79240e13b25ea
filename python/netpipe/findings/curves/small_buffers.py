# SPDX-License-Identifier: Apache-2.0
"""Fixed socket buffers that hold less than a message: the sender waits for the window, which autotuning would widen.

The main finding of Turner et al. 2002: a factor of up to five between the default buffers and tuned ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import Opened, beside, opened, without_settings
from netpipe.findings.library import left_out
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.reading.losses import Loss
from netpipe.records import Rank, Run
from netpipe.units import digits, percent_text, rate_text, size_text

NAMES = ("sndbuf", "rcvbuf")
LEAST = 0.8  # of the rate without such a buffer: a curve that keeps more of it is not limited by its buffers
BEND = 0.8  # of what smaller messages keep of the layer below: the loss begins at the buffer


@rule("small-buffers", "Small socket buffers", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a socket buffer was set, so that autotuning is off, messages are larger than what the kernel gave,
    and these are slower than those of the same layer without the setting. Where the run has no such curve: they keep
    less of the layer below, and less of it than messages that fit into the buffer.
    """
    kept = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    known = [one for one in opened(reading) if any(f"{name}_kernel_bytes" in one.settings for name in NAMES)]
    if not known:
        raise CannotJudge("no layer recorded its socket buffers")
    unknown = 0
    for one in known:
        fixed = _fixed(one)
        last = one.curve.points[-1] if len(one.curve.points) else None
        if not fixed or last is None or last.rate_bytes_per_s is None:
            continue
        name = min(fixed, key=lambda which: fixed[which])
        if last.size_bytes <= fixed[name]:
            continue
        variant, pattern = one.curve.variant, one.curve.pattern
        plain = without_settings(variant, *NAMES)
        measured = beside(reading, Confirm(variant, plain, pattern, [last.size_bytes]), fixed[name])
        unknown += measured is None and (variant, pattern) not in kept
        if measured is not None:
            found = _against_plain(plain, *measured)
        else:
            found = _against_below(kept.get((variant, pattern)), fixed[name])
        if found is None:
            continue
        size, said, evidence, times = found
        at = next(point for point in one.curve.points if point.size_bytes == size)
        if at.rate_bytes_per_s is None:
            continue
        yield Finding(
            severity=WARNING,
            variant=variant,
            pattern=pattern,
            size_bytes=size,
            what=f"{variant} reaches {rate_text(at.rate_bytes_per_s.value)} at {size_text(size)} with a "
            f"fixed {name} of {size_text(fixed[name])}: {said}.",
            evidence={
                "rate": quantity(at.rate_bytes_per_s, "bytes/s"),
                "buffer": Quantity(fixed[name], "bytes"),
                **evidence,
            },
            certainty="The buffer is certain; that it is the cause is shown by the experiment.",
            cause="A buffer that was set switches the kernel's autotuning off, and what is in flight can never be more "
            "than it holds.",
            remedy=f"leave the buffers to the kernel{left_out(reading, variant, NAMES)}, or set them above rate x "
            "round-trip time (net.core.wmem_max and rmem_max bound them)",
            gain=quantity(times, "1"),
            confirm=Confirm(variant, plain, pattern, [size]),
        )
    if unknown == len(known):
        raise CannotJudge("no layer with fixed buffers was measured without them, or with a layer below")


def _fixed(one: Opened) -> dict[str, int]:
    """The buffers that were set, and what the kernel gave: its bookkeeping included, about twice the bytes."""
    found = {}
    for name in NAMES:
        given = one.settings.get(f"{name}_kernel_bytes", "")
        tuned = one.settings.get(f"{name}_autotuned")
        was_set = tuned == "no" if tuned is not None else one.options.get(name, "0") not in ("", "0")
        if was_set and given.isdigit():
            found[name] = int(given)
    return found


# The size, in words, the evidence, how many times as long it takes.
Found = tuple[int, str, Mapping[str, Quantity], Estimate]


def _against_plain(plain: str, size: int, times: Estimate) -> Found | None:
    if times.low <= 1 / LEAST:
        return None
    said = f"{plain} is {digits(times.value)} times as fast"
    return size, said, {"times": quantity(times, "1")}, times


def _against_below(loss: Loss | None, buffer: int) -> Found | None:
    large = loss.large if loss is not None else None
    if loss is None or large is None or not large.seen or large.size_bytes <= buffer:
        return None
    fitting = [at.kept for at in loss.sizes if at.size_bytes <= buffer]
    most = max((kept.value for kept in fitting), default=1.0)
    if large.kept.value >= LEAST or large.kept.high >= BEND * most:
        return None
    said = f"{percent_text(large.kept.value)} of {loss.below}, and of messages that fit {percent_text(most)}"
    return large.size_bytes, said, {"kept": quantity(large.kept, "1")}, large.times


def _run(bytes_: int) -> Run:
    variants = ("unix", "tcp:sndbuf=8k")
    points = [
        examples.point(name, size, 2e3 + size / 5 * (factor if size > bytes_ else 1))
        for name, factor in zip(variants, (1, 3), strict=True)
        for size in (8, 8192, 65536, 1 << 20)
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
