# SPDX-License-Identifier: Apache-2.0
"""Sweeps of so many variants, or settings of a pattern, that none is said to be faster than another: hundreds of
sentences would hide the rest, and intervals that hold together for all of them would tell little.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec

from netpipe.findings import AS_RECORDED, NOTE, CannotJudge, Finding, Quantity, examples, rule
from netpipe.reading import Reading
from netpipe.reading.across.merge import name_of
from netpipe.reading.blocks.verdicts import MOST_VARIANTS, TooMany, too_many
from netpipe.records import PlannedMode, Run


@rule("too-many-to-compare", "Too many to compare", needs=("points",))
def judge(reading: Reading) -> Iterator[Finding]:
    """One finding for each kind of variant under a pattern, and for each pattern under a variant."""
    if all(point.visits is None for point in reading.run.points):
        raise CannotJudge("the run did not record its visits, by which variants are compared")
    for one in too_many(reading.run, reading.by_name):
        variant, pattern = one.against
        kind = "settings" if one.settings else "variants"
        of, under = (pattern, variant) if one.settings else (variant, pattern)
        yield Finding(
            severity=NOTE,
            variant=variant,
            pattern=pattern,
            what=f"None of the {len(one.curves)} {kind} of {name_of(of).partition(':')[0]} ({under}) is said to be "
            f"faster than another, because there are more than {MOST_VARIANTS}: {_command(reading, one)}.",
            evidence={kind: Quantity(len(one.curves), kind), "most": Quantity(MOST_VARIANTS, kind)},
            certainty=AS_RECORDED,
        )


def _command(reading: Reading, of: TooMany) -> str:
    path, (variant, pattern) = str(reading.run.path or "RUN"), of.against
    chosen = ["--variant", name_of(variant)]
    if of.settings:
        words = [
            "netpipe",
            "plot",
            path,
            "--figure",
            "sweep",
            *chosen,
            "--pattern",
            pattern.partition(":")[0],
        ]
        return f"{shlex.join(words)} draws all of them"
    other = next(name for name, _ in reversed(of.curves) if name != variant)
    words = ["netpipe", "compare", path, *chosen, "--variant", name_of(other), "--pattern", pattern]
    return f"{shlex.join(words)} compares two of them"


def _sweep(values: int) -> Run:
    patterns = [f"window:in_flight={number}" for number in range(1, values + 1)]
    made = examples.run(
        *(
            msgspec.structs.replace(examples.visited("tcp", 8, 1000.0, launch), pattern=pattern)
            for launch in range(3)
            for pattern in patterns
        )
    )
    modes = [
        PlannedMode(
            pattern=one, name="window", options={"in_flight": one.partition("=")[2]}, tunable=["in_flight"]
        )
        for one in patterns
    ]
    made.plans[:] = [msgspec.structs.replace(plan, patterns=patterns, modes=modes) for plan in made.plans]
    return made


def fires() -> Run:
    return _sweep(MOST_VARIANTS + 1)


def silent() -> Run:
    return _sweep(4)
