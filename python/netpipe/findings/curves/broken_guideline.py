# SPDX-License-Identifier: Apache-2.0
"""A collective that is slower than the others that do the same together: a broken performance guideline (J. L. Traeff,
W. Gropp, R. Thakur, "Self-consistent MPI performance guidelines", IEEE TPDS 21 (2010) 698-709).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from netpipe.findings import CURVES, WARNING, CannotJudge, Finding, examples, quantity, rule
from netpipe.findings.curves import without_settings
from netpipe.findings.experiments import words
from netpipe.findings.library import library_of
from netpipe.reading import Reading
from netpipe.reading.estimate import Estimate
from netpipe.records import Run
from netpipe.units import counted, digits, size_text

# An operation, and others that have the same effect one after the other.
GUIDELINES = {
    "allreduce": ("reduce", "bcast"),
    "allgather": ("gather", "bcast"),
    "reduce_scatter_block": ("reduce", "scatter"),
    "bcast": ("scatter", "allgather"),
    "reduce": ("allreduce",),
    "gather": ("allgather",),
    "scatter": ("bcast",),
}
LIBRARY = "@"  # in the name of a library's module
# Options that `netpipe tune` has in common with `netpipe run`.
TUNE = words.KEPT_VALUES - {"config", "preset", "launches", "send-offset", "recv-offset"}


@rule("broken-guideline", "A collective could be replaced", about=CURVES, needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires at sizes where the interval of an operation lies above the sum of the others' upper limits. Sizes are those
    of one rank for one other, so only operations over the same buffer are compared.
    """
    times: dict[str, dict[str, dict[int, Estimate]]] = {}
    named: dict[tuple[str, str], str] = {}
    for curve in reading.curves:
        operation = reading.operations.get(curve.pattern)
        if operation:
            of = times.setdefault(curve.variant, {}).setdefault(operation, {})
            of |= {at.size_bytes: at.time_ns for at in curve.points}
            named[curve.variant, operation] = curve.pattern
    judged = False
    for variant, by_operation in times.items():
        for operation, others in GUIDELINES.items():
            if operation not in by_operation or any(one not in by_operation for one in others):
                continue
            if not same_size(operation, others):
                continue
            judged = True
            remedy = _remedy(reading, variant, operation)
            for found in _broken(variant, operation, others, by_operation, named[variant, operation], remedy):
                yield msgspec.structs.replace(found, experiment=_tune(reading, variant, operation))
    if not judged:
        raise CannotJudge(
            "no variant was measured with a collective operation and with others that do the same"
        )


def _tune(reading: Reading, variant: str, operation: str) -> str | None:
    """The command that tries the library's other algorithms, and proves the fastest. Which it has, only the library
    knows, so there is no experiment with one of them. It begins without the variables of the variant, which may choose
    an algorithm already. None for layers that are no library's.
    """
    if LIBRARY not in variant.partition(":")[0] or variant in reading.copies or reading.run.header is None:
        return None
    options = words.in_common(reading.run.header.argv, TUNE)
    return shlex.join(
        ["netpipe", "tune", without_settings(variant, "env"), "--goal", f"collective={operation}", *options]
    )


def same_size(operation: str, others: tuple[str, ...]) -> bool:
    """Do all of them move the same buffer at the same size of the pattern? Those that gather or scatter count what one
    rank has for one other, so the whole is as many times larger as there are ranks.
    """
    whole = {"allreduce", "reduce", "bcast"}
    return {operation, *others} <= whole or not ({operation, *others} & whole)


def _remedy(reading: Reading, variant: str, operation: str) -> str:
    """The variables by which this library takes the choice, and the command that finds it."""
    library = library_of(reading, variant)
    of = library.tunables if library else None
    chosen = of.algorithm(operation) if of else ""
    if library is None or of is None or not chosen:
        return f"choose another algorithm for {operation} at these sizes (the library's tuned settings)"
    besides = [f"{name}={value}" for name, value in of.with_algorithm(operation, ()).items()]
    needs = f" (with {' '.join(besides)})" if besides else ""
    return f"choose another algorithm for {operation} at these sizes: {chosen}{needs}"


def _broken(
    variant: str,
    operation: str,
    others: tuple[str, ...],
    times: dict[str, dict[int, Estimate]],
    pattern: str,
    remedy: str,
) -> Iterator[Finding]:
    worst: tuple[int, Estimate, Estimate] | None = None
    broken = 0
    for size, ours in times[operation].items():
        parts = [times[one].get(size) for one in others]
        if not ours.known or any(part is None or not part.known for part in parts):
            continue
        low, value, high = (sum(getattr(part, of) for part in parts) for of in ("low", "value", "high"))
        if ours.low > high:
            broken += 1
            slower = Estimate(ours.value / value, ours.low / high, ours.high / low)
            if worst is None or slower.value > worst[1].value:
                worst = (size, slower, ours)
    if worst is None:
        return
    size, slower, ours = worst
    instead = " and ".join(others)
    yield Finding(
        severity=WARNING,
        variant=variant,
        pattern=pattern,
        size_bytes=size,
        what=f"{variant}: {operation} is slower than {instead} at {counted(broken, 'size')}, most at "
        f"{size_text(size)}: {digits(slower.value)} times as long.",
        evidence={"times": quantity(slower, "1"), "time": quantity(ours, "ns")},
        certainty="The intervals do not meet at these sizes.",
        cause="The library chose an algorithm that is wrong for this number of ranks, size or network.",
        remedy=remedy,
        gain=quantity(slower, "1"),
    )


def _run(allreduce_ns: float) -> Run:
    from netpipe.records import PlannedMode

    operations = {"allreduce": allreduce_ns, "reduce": 1e3, "bcast": 1e3}
    points = [
        examples.point("mpi@x", 1024, time, pattern=f"collective:what={name}")
        for name, time in operations.items()
    ]
    made = examples.run(*points, variants=("mpi@x",))
    for plan in made.plans:
        plan.modes[:] = [
            PlannedMode(pattern=f"collective:what={name}", name="collective", options={"what": name})
            for name in operations
        ]
    return made


def fires() -> Run:
    return _run(5e3)


def silent() -> Run:
    return _run(1.5e3)
