# SPDX-License-Identifier: Apache-2.0
"""A socket buffer that is smaller than what was asked for: the kernel cuts it without an error.

Linux doubles what a program asks for, for its own bookkeeping, and takes at most net.core.wmem_max or rmem_max
(socket(7)). A buffer that was set is not autotuned any more, so a larger setting may make it slower.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    as_measured,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import Opened, beside, opened, without_settings
from netpipe.findings.experiments import words
from netpipe.reading import Reading
from netpipe.records import Rank, Run
from netpipe.units import bytes_of, digits, size_text

LIMITS = {"sndbuf": "net.core.wmem_max", "rcvbuf": "net.core.rmem_max"}


@rule("clamped-buffer", "Socket buffer cut", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires once for each variant whose socket has less than half of twice the bytes that it asked for. The socket said
    so: an experiment can show what it costs, and cannot withdraw it.
    """
    of = {one.curve.variant: one for one in opened(reading) if len(one.curve.points)}
    if not any(f"{name}_kernel_bytes" in one.settings for one in of.values() for name in LIMITS):
        raise CannotJudge("no layer recorded the buffers that its sockets have")
    for variant, one in of.items():
        for name, (asked, given) in _cut(one).items():
            largest = one.curve.points[-1].size_bytes
            confirm = Confirm(variant, without_settings(variant, name), one.curve.pattern, [largest])
            found = beside(reading, confirm, given)
            times = quantity(found[1], "1") if found and found[1].low > 1 else None
            said = f"; {confirm.remedied} is {digits(times.value)} times as fast" if times else ""
            yield Finding(
                severity=WARNING,
                variant=variant,
                what=f"{variant} asked for a {name} of {size_text(asked)} and got {size_text(given)}{said}.",
                evidence={
                    "asked": Quantity(asked, "bytes"),
                    "given": Quantity(given, "bytes"),
                    **({"times": times} if times else {}),
                },
                certainty="The socket said how large its buffer is. The experiment shows whether that costs time.",
                cause=f"The kernel gives at most {LIMITS[name]} and reports no error. A buffer that was set is not "
                "autotuned, so it can be smaller than without the setting.",
                remedy=f"sysctl -w {LIMITS[name]}={asked}, or leave {name} out",
                gain=times,
                experiment=words.command(as_measured(reading, confirm)),
            )


def _cut(one: Opened) -> dict[str, tuple[int, int]]:
    """The buffers that are too small: the bytes asked for, and those that messages have of what was given."""
    found = {}
    for name in LIMITS:
        asked = bytes_of(one.options.get(name, ""))
        given = one.settings.get(f"{name}_kernel_bytes", "")
        if asked and given.isdigit() and int(given) // 2 < asked:
            found[name] = asked, int(given) // 2
    return found


def _run(kernel_bytes: int) -> Run:
    variant = "tcp:sndbuf=4M"
    made = examples.run(examples.point(variant, 1 << 20, 2e5), variants=(variant,))
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options={"sndbuf": "4M"}) for one in plan.variants]
    for opened_ in made.variants:
        opened_.ranks[:] = [Rank(rank=0, settings={"sndbuf_kernel_bytes": str(kernel_bytes)})]
    return made


def fires() -> Run:
    return _run(425984)  # twice 208 KiB, as net.core.wmem_max usually is


def silent() -> Run:
    return _run(8 << 20)
