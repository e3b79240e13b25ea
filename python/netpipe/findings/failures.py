# SPDX-License-Identifier: Apache-2.0
"""Something failed during the measurement."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import AS_RECORDED, SEVERE, Finding, again, examples, rule
from netpipe.reading import Reading
from netpipe.records import Error, Run
from netpipe.units import sentence, size_text


@rule("measurement-failed", "Measurement failed")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each error; several ranks that report the same error are one."""
    same = {(error.variant, error.size_bytes, error.message): error for error in reversed(reading.run.errors)}
    for error in reversed(same.values()):
        size = f" at {size_text(error.size_bytes)}" if error.size_bytes is not None else ""
        yield Finding(
            severity=SEVERE,
            variant=error.variant,
            pattern=error.pattern,
            size_bytes=error.size_bytes,
            host=error.host,
            what=sentence(f"{error.variant or 'The run'}{size} failed: {error.message}"),
            certainty=AS_RECORDED,
            remedy="mend what the message names, and measure again",
            experiment=again(reading),
        )


def fires() -> Run:
    error = Error(variant="tcp", size_bytes=4096, rank=1, code=4, message="rank 1: the connection was reset")
    return examples.run(examples.point("tcp", 8, 1000.0), error)


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
