# SPDX-License-Identifier: Apache-2.0
"""A library that copies large messages twice through shared memory, because it may not or shall not copy them once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from netpipe.findings import (
    CURVES,
    WARNING,
    CannotJudge,
    Confirm,
    Finding,
    Quantity,
    again,
    examples,
    quantity,
    rule,
)
from netpipe.findings.curves import Opened, beside, opened, variant_with
from netpipe.findings.library import setting
from netpipe.findings.machine import Facts
from netpipe.findings.machine.limits import ALLOWED, attach_refused
from netpipe.reading import Reading
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.records import PlannedVariant, Rank, Run
from netpipe.units import digits, percent_text, size_text

LEAST_BYTES = 1 << 16
KEPT = 0.65  # of the layer below, that copies once
SLOWER = 1.15  # than the same layer with one copy
# Option -> the values that mean two copies, and the one that means one.
COPY = "copy"  # the option of shm; that of libraries is the other
OPTIONS = {"single_copy": (("none",), "cma"), COPY: (("pipeline",), "auto")}
AUTOMATIC = "auto"  # of both: one copy where the system allows it
# What shm records: whether it may copy once, and how often it did not.
ANSWER, COUNTER = "cma", "messages_through_ring"
LEAST_SCOPE = 2  # of ptrace: under 1 a process may let others in, as shm and most libraries do
CAUSE = "Copying once takes access to the other process's memory (process_vm_readv, or mapped pages)"


@rule("extra-copy", "A copy too many", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a layer copies through shared memory by its own setting, and large messages are slower than those of
    the same layer with one copy. Where the run has no such curve: they keep less than 65 % of the layer below. Fires
    as well where the choice is the layer's, and the system allows no copy between processes: where shm counted large
    messages that it copied twice, and where those of a library keep less than 65 % of the layer below.
    """
    kept = {(loss.variant, loss.pattern): loss for loss in reading.losses}
    judged = False
    for one in opened(reading):
        if not any(at.size_bytes >= LEAST_BYTES for at in one.curve.points) or elsewhere(one.settings):
            continue
        loss = kept.get((one.curve.variant, one.curve.pattern))
        name = next((name for name, (twice, _) in OPTIONS.items() if one.options.get(name) in twice), None)
        if name is not None:
            confirm = _confirm(reading, one, name)
            judged = judged or beside(reading, confirm, LEAST_BYTES) is not None or loss is not None
            yield from _by_setting(reading, one, name, confirm, loss)
        elif any(option in one.options for option in OPTIONS):
            judged = True
            yield from _by_refusal(reading, one, loss)
    if not judged:
        raise CannotJudge(
            "no layer with a setting for it sent 64 KiB or more through shared memory, or one that was set to copy "
            "twice was measured without another to compare it with"
        )


def elsewhere(settings: Mapping[str, str]) -> bool:
    """Do the messages of a rank that recorded these go another way than through shared memory?"""
    found = settings.get("transport_found")
    return found is not None and "shared memory" not in found.lower()


def _confirm(reading: Reading, one: Opened, name: str) -> Confirm:
    largest = one.curve.points[-1].size_bytes
    remedied = variant_with(reading, one, name, OPTIONS[name][1])
    return Confirm(one.curve.variant, remedied, one.curve.pattern, [largest])


def _by_setting(
    reading: Reading, one: Opened, name: str, confirm: Confirm, loss: Loss | None
) -> Iterator[Finding]:
    """The layer was told to copy twice."""
    variant = one.curve.variant
    measured = beside(reading, confirm, LEAST_BYTES)
    if measured is not None:
        size, times = measured
        if times.low <= SLOWER:
            return
        said, evidence = f"{confirm.remedied} is {digits(times.value)} times as fast", quantity(times, "1")
    else:
        worst = _worst(loss)
        if loss is None or worst is None:
            return
        size, times = worst.size_bytes, worst.times
        said, evidence = _keeps(loss, worst), quantity(worst.kept, "1")
    yield Finding(
        severity=WARNING,
        variant=variant,
        pattern=one.curve.pattern,
        size_bytes=size,
        what=f"{variant} copies large messages twice through shared memory: at {size_text(size)} {said}.",
        evidence={"times" if measured else "kept": evidence},
        certainty="The setting is certain; that it is the cause is shown by the experiment.",
        cause=f"{CAUSE}, which is switched off by the setting.",
        remedy=f"{setting(reading, variant, name, OPTIONS[name][1])}; in a container --cap-add=SYS_PTRACE",
        gain=quantity(times, "1"),
        confirm=confirm,
    )


def _by_refusal(reading: Reading, one: Opened, loss: Loss | None) -> Iterator[Finding]:
    """The layer may choose, and the system does not let it copy once."""
    refused = _refused(reading, one)
    counted, worst = _counted(one), _worst(loss)
    if refused is None or (counted if COPY in one.options else worst) is None:
        return
    why, remedy = refused
    variant = one.curve.variant
    said: list[str] = []
    evidence: dict[str, Quantity] = {}
    sizes: list[int] = []
    if counted is not None:
        sizes.append(counted[0])
        said.append(f"{counted[1]} of them at {size_text(counted[0])}")
        evidence["messages"] = Quantity(counted[1], "messages")
    if loss is not None and worst is not None:
        sizes.append(worst.size_bytes)
        said.append(f"at {size_text(worst.size_bytes)} {_keeps(loss, worst)}")
        evidence["kept"] = quantity(worst.kept, "1")
    yield Finding(
        severity=WARNING,
        variant=variant,
        pattern=one.curve.pattern,
        size_bytes=sizes[-1],
        what=f"{variant} {'copies' if counted else 'has to copy'} large messages twice through shared memory, because "
        f"{why}: {', and '.join(said)}.",
        evidence=evidence,
        certainty="The refusal is certain; what one copy gets back is known when the run is measured again with it.",
        cause=f"{CAUSE}, which is not allowed here.",
        remedy=remedy,
        experiment=again(reading),
    )


def _keeps(loss: Loss, at: SizeLoss) -> str:
    return f"it keeps {percent_text(at.kept.value)} of {loss.below}"


def _refused(reading: Reading, one: Opened) -> tuple[str, str] | None:
    """Why a layer that may choose cannot copy once, and what allows it: by the facts of its host, or as shm found it
    between its ranks. None: it can, or nobody knows.
    """
    if not any(one.options.get(option) == AUTOMATIC for option in OPTIONS):
        return None
    hosts = (environment.facts for environment in reading.run.environments if environment.host in one.hosts)
    of_host = next(filter(None, (attach_refused(Facts(facts), LEAST_SCOPE) for facts in hosts)), None)
    answer = one.settings.get(ANSWER)
    if COPY not in one.options or of_host is not None:
        return of_host if answer != ALLOWED else None
    if answer in (None, ALLOWED):
        return None
    return f"process_vm_readv is refused between its ranks ({answer})", (
        "the same user for all ranks; sudo sysctl kernel.yama.ptrace_scope=0; in a container --cap-add=SYS_PTRACE"
    )


def _counted(one: Opened) -> tuple[int, int] | None:
    """The largest size of which shm counted messages that it copied twice, and how many."""
    found = (
        (at.size_bytes, sum(record.counters.get(COUNTER, 0) for record in at.by_launch))
        for at in one.curve.points
        if at.size_bytes >= LEAST_BYTES
    )
    return max(((size, messages) for size, messages in found if messages), default=None)


def _worst(loss: Loss | None) -> SizeLoss | None:
    """Where a layer keeps least of the one below, certainly less than KEPT."""
    if loss is None:
        return None
    large = [
        at for at in loss.sizes if at.size_bytes >= LEAST_BYTES and at.times.known and at.kept.high < KEPT
    ]
    return min(large, key=lambda at: at.kept.high, default=None)


def _run(copy: str) -> Run:
    options = {"copy": copy}
    return run_of(f"shm:copy={copy}", options, {}, below="memcpy")


def run_of(variant: str, options: dict[str, str], settings: dict[str, str], below: str) -> Run:
    """A run of one layer that takes twice as long as the layer below it, with these options and recorded settings."""
    module = variant.partition(":")[0]
    points = [
        examples.point(name, size, (100 + size / 10) * factor)
        for name, factor in ((below, 1), (variant, 2))
        for size in (8, 1 << 20)
    ]
    made = examples.run(*points, variants=(below, variant), stack={module: below})
    for plan in made.plans:
        plan.variants[:] = [
            PlannedVariant(variant=below, module=below, options={}),
            PlannedVariant(variant=variant, module=module, options=options),
        ]
    for opened_ in made.variants:
        own = settings if opened_.variant == variant else {}
        opened_.ranks[:] = [Rank(rank=rank, host="node17", settings=own) for rank in (0, 1)]
    return made


def fires() -> Run:
    return _run("pipeline")


def silent() -> Run:
    return _run("auto")
