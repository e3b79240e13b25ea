# SPDX-License-Identifier: Apache-2.0
"""A library that moves large messages only while it is called: no computation is hidden behind them."""

from __future__ import annotations

from collections.abc import Iterator

from netpipe.findings import CURVES, WARNING, CannotJudge, Finding, examples, quantity, rule
from netpipe.findings.library import own_remedy
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.units import percent_text, size_text

PATTERN, MEASURE = "overlap", "fraction"
LEAST_BYTES = 65536  # below, a message is out of the program's hands when it has been copied
HIDDEN = 0.1  # of the exchange


@rule("no-overlap", "No overlap", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the interval of the hidden share of a large exchange lies below a tenth."""
    judged = False
    for measured in reading.measures:
        if measured.pattern.partition(":")[0] != PATTERN or measured.name != MEASURE:
            continue
        large = {size: value for size, value in measured.values.items() if size >= LEAST_BYTES and value}
        judged = judged or bool(large)
        none = {size: value for size, value in large.items() if value.known and value.high < HIDDEN}
        if not none or len(none) < len(large):
            continue
        size = max(none)
        yield Finding(
            severity=WARNING,
            variant=measured.variant,
            pattern=measured.pattern,
            size_bytes=size,
            what=f"{measured.variant} hides no computation behind large messages: at {size_text(size)} "
            f"{percent_text(none[size].value)} of the exchange, at most {percent_text(none[size].high)}.",
            evidence={"fraction": quantity(none[size], "1")},
            certainty="The intervals of all sizes from 64 KiB on lie below a tenth.",
            cause="The library moves the message only while one of its functions runs, and nothing calls it while the "
            "program computes.",
            remedy=f"{own_remedy(reading, measured.variant, 'no-overlap') or 'a progress thread of the library'}; or "
            "a call of MPI_Test now and then while computing",
        )
    if not judged:
        raise CannotJudge("no layer was measured with the pattern overlap from 64 KiB on")


def _run(fraction: float) -> Run:
    return examples.run(
        *(
            examples.point(
                "mpi@x", size, 1e5, pattern="overlap", measures=[examples.measure("fraction", "1", fraction)]
            )
            for size in (65536, 1 << 20)
        ),
        variants=("mpi@x",),
    )


def fires() -> Run:
    return _run(0.02)


def silent() -> Run:
    return _run(0.6)
