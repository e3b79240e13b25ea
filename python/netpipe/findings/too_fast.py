# SPDX-License-Identifier: Apache-2.0
"""A layer is faster than its bytes can be moved. reading/plausible.py has the limits, and why no real layer exceeds
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import SEVERE, Finding, Quantity, again, examples, quantity, rule
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.units import rate_text, size_text, time_text

LIMITS = {
    "copy": "far more than all its processes can copy, going by memcpy at the same size",
    "yardstick": "far more than all its processes can copy, going by the copy of the yardstick",
    "memory": "more than any memory can take",
}


@rule("too-fast", "Too fast to be true", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each curve. Its losses are not shown."""
    for one in reading.too_fast:
        yield Finding(
            severity=SEVERE,
            variant=one.variant,
            pattern=one.pattern,
            size_bytes=one.size_bytes,
            what=(
                f"{one.variant} ({one.pattern}): at {size_text(one.size_bytes)} a message takes "
                f"{time_text(one.time_ns.value)}. That is {rate_text(one.rate_bytes_per_s.value)}, "
                f"{LIMITS[one.source]}."
            ),
            evidence={
                "rate": quantity(one.rate_bytes_per_s, "bytes/s"),
                "limit": Quantity(one.most_bytes_per_s, "bytes/s"),
                "sizes": Quantity(one.sizes, "sizes"),
            },
            certainty="The whole 95 % interval of the rate, where it is known, is above the limit.",
            cause="The layer does not move all bytes, or says that they have arrived before they have.",
            remedy="measure it with --verify; a module that moves nothing has to say so (np_limits.idle)",
            experiment=again(reading, "--verify"),
        )


def _of_8_mib(median_ns: float) -> Run:
    return examples.run(
        examples.yardstick(0),
        examples.point("memcpy", 8 << 20, 7e5),
        examples.point("mine", 8 << 20, median_ns),
        variants=["memcpy", "mine"],
        stack={"mine": "memcpy"},
    )


def fires() -> Run:
    return _of_8_mib(20.0)


def silent() -> Run:
    return _of_8_mib(3e5)
