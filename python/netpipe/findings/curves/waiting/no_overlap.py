# SPDX-License-Identifier: Apache-2.0
"""A library that moves large messages only while it is called: no computation is hidden behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from netpipe.findings import CURVES, WARNING, CannotJudge, Confirm, Finding, examples, quantity, rule
from netpipe.findings.curves import ENV, Opened, opened, with_variables
from netpipe.findings.experiments import HIGHER, Judged
from netpipe.findings.library import assignments, own_remedy, variables
from netpipe.findings.machine import Facts
from netpipe.libraries.settings import PROGRESSES
from netpipe.reading import Reading
from netpipe.records import Run
from netpipe.units import percent_text, size_text

PATTERN, MEASURE = "overlap", "fraction"
JUDGED = Judged(MEASURE, "fraction of overlap", HIGHER, 1.0)
LEAST_BYTES = 65536  # below, a message is out of the program's hands when it has been copied
HIDDEN = 0.1  # of the exchange
# Then it takes what it gains from the program, and an experiment would show nothing about the cause.
NO_PROCESSOR = (
    " No experiment can show more here: a progress thread wants a processor of its own, and none is known to be "
    "free."
)
ALLOWED = "limits.allowed_cpu_count"


@rule("no-overlap", "No overlap", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where the interval of the hidden share of a large exchange lies below a tenth."""
    judged = False
    curves = {(one.curve.variant, one.curve.pattern): one for one in opened(reading)}
    for measured in reading.measures:
        if measured.pattern.partition(":")[0] != PATTERN or measured.name != MEASURE:
            continue
        large = {size: value for size, value in measured.values.items() if size >= LEAST_BYTES and value}
        judged = judged or bool(large)
        none = {size: value for size, value in large.items() if value.known and value.high < HIDDEN}
        if not none or len(none) < len(large):
            continue
        size = max(none)
        one = curves.get((measured.variant, measured.pattern))
        thread = _thread(reading, one)
        confirm = None
        if one is not None and thread and _have_processors(reading, measured.variant):
            remedied = with_variables(one, thread)
            confirm = Confirm(measured.variant, remedied, measured.pattern, [size], judged=JUDGED)
        yield Finding(
            severity=WARNING,
            variant=measured.variant,
            pattern=measured.pattern,
            size_bytes=size,
            what=f"{measured.variant} hides no computation behind large messages: at {size_text(size)} "
            f"{percent_text(none[size].value)} of the exchange, at most {percent_text(none[size].high)}.",
            evidence={"fraction": quantity(none[size], "1")},
            certainty="The intervals of all sizes from 64 KiB on lie below a tenth."
            + (NO_PROCESSOR if thread and confirm is None else ""),
            cause="The library moves the message only while one of its functions runs, and nothing calls it while the "
            "program computes.",
            remedy=f"{own_remedy(reading, measured.variant, 'no-overlap') or 'a progress thread of the library'}; or "
            "a call of MPI_Test now and then while computing",
            confirm=confirm,
        )
    if not judged:
        raise CannotJudge("no layer was measured with the pattern overlap from 64 KiB on")


def _thread(reading: Reading, one: Opened | None) -> Mapping[str, str]:
    """The variables by which the library of a curve has a progress thread. Empty: it has none, cannot be told so here,
    or was told so already.
    """
    if one is None or ENV not in one.has:
        return {}
    _, own = variables(reading, one.curve.variant, *PROGRESSES)
    told = set(one.options[ENV].split(";"))
    return {} if set(assignments(own).split()) <= told else own


def _have_processors(reading: Reading, variant: str) -> bool:
    """Has each host two processors for each rank of the variant? One that did not say how many it allows has not."""
    first = next((one for one in reading.run.variants if one.variant == variant), None)
    ranks = Counter(rank.host for rank in first.ranks) if first is not None else {}
    allowed = {one.host: Facts(one.facts).number(ALLOWED) or 0 for one in reading.run.environments}
    return bool(ranks) and all(allowed.get(host, 0) >= 2 * count for host, count in ranks.items())


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
