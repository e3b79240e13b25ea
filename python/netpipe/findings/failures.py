# SPDX-License-Identifier: Apache-2.0
"""Something failed during the measurement."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from netpipe.findings import AS_RECORDED, SEVERE, Finding, again, examples, rule
from netpipe.findings.curves import with_setting
from netpipe.findings.curves.extra_copy import LEAST_BYTES, LEAST_SCOPE, elsewhere
from netpipe.findings.experiments import words
from netpipe.findings.library import setting
from netpipe.findings.machine import Facts
from netpipe.findings.machine.limits import attach_refused
from netpipe.libraries.settings import TWO_COPIES
from netpipe.reading import Reading
from netpipe.records import Error, Run
from netpipe.units import capital, sentence, size_text


@rule("measurement-failed", "Measurement failed")
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each error; several ranks that report the same error are one."""
    same = {(error.variant, error.size_bytes, error.message): error for error in reversed(reading.run.errors)}
    for error in reversed(same.values()):
        size = f" at {size_text(error.size_bytes)}" if error.size_bytes is not None else ""
        found = Finding(
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
        refused = _copy_refused(reading, error)
        yield found if refused is None else _of_refusal(reading, found, *refused)


def _copy_refused(reading: Reading, error: Error) -> tuple[str, str] | None:
    """Why the system refuses process_vm_readv and what allows it, where that may be what stopped a variant: at a large
    message through shared memory, of a library that may copy it once. Some libraries do not notice the refusal.
    """
    name, none = TWO_COPIES
    options = next(
        (one.options for plan in reading.run.plans for one in plan.variants if one.variant == error.variant),
        {},
    )
    ranks = [rank for one in reading.run.variants if one.variant == error.variant for rank in one.ranks]
    if options.get(name, none) == none or (error.size_bytes or 0) < LEAST_BYTES:
        return None
    if not ranks or any(elsewhere(rank.settings) for rank in ranks):
        return None
    hosts = {rank.host for rank in ranks}
    facts = [Facts(one.facts) for one in reading.run.environments if one.host in hosts]
    return next(filter(None, (attach_refused(one, LEAST_SCOPE) for one in facts)), None)


def _of_refusal(reading: Reading, found: Finding, why: str, remedy: str) -> Finding:
    """The finding, with this likely cause and what to try."""
    variant, size = found.variant or "", found.size_bytes or 0
    argv = reading.run.header.argv if reading.run.header else []
    without = with_setting(variant, *TWO_COPIES)
    return msgspec.structs.replace(
        found,
        certainty="The failure and the refusal are in the record. Whether the refusal is the cause, the experiment "
        "shows: if so, it does not fail.",
        cause=f"{capital(why)}. A library that copies large messages once, by process_vm_readv, may wait for ever.",
        remedy=f"{setting(reading, variant, *TWO_COPIES)}, which copies them twice; or {remedy}",
        experiment=words.alone(without, found.pattern or "pingpong", size, argv),
    )


def fires() -> Run:
    error = Error(variant="tcp", size_bytes=4096, rank=1, code=4, message="rank 1: the connection was reset")
    return examples.run(examples.point("tcp", 8, 1000.0), error)


def silent() -> Run:
    return examples.run(examples.point("tcp", 8, 1000.0))
