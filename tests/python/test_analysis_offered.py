# SPDX-License-Identifier: Apache-2.0
"""Rates that were offered and could not be held."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from synthetic import point

from netpipe.findings import WARNING, Finding, judge
from netpipe.reading import Reading
from netpipe.records import Measure, Plan, PlannedVariant, Point, Run
from netpipe.render.page.page import page


def offered(
    variant: str,
    size_bytes: int,
    rate: float,
    reached: float | None,
    launch: int = 0,
    pattern: str = "offered",
) -> Point:
    measures = [
        Measure(name="offered", unit="1/s", median=rate, low=rate, high=rate),
        Measure(name="reached", unit="1/s", median=reached),
    ]
    return point(
        variant, size_bytes, 5_000, pattern=pattern, launch=launch, measures=measures, bytes_per_s=None
    )


def run(points: Sequence[Point]) -> Run:
    names = dict.fromkeys(one.variant for one in points)
    plan = Plan(variants=[PlannedVariant(variant=name, module=name) for name in names], patterns=["offered"])
    return Run([plan, *points])


def shortfalls(made: Run) -> list[Finding]:
    return [finding for finding in judge(Reading(made)).findings if finding.rule == "rate-not-held"]


def test_a_rate_that_is_held_at_every_size_is_not_worth_a_word() -> None:
    assert shortfalls(run([offered("tcp", 8, 1e6, 1e6), offered("tcp", 64, 1e6, 0.96e6)])) == []


def test_patterns_that_offer_no_rate_have_none() -> None:
    assert shortfalls(run([point("tcp", 8, 5_000), offered("tcp", 64, 1e6, None)])) == []


def test_the_size_that_falls_behind_most_is_named() -> None:
    (short,) = shortfalls(
        run([offered("tcp", 8, 1e6, 1e6), offered("tcp", 1024, 1e6, 9e5), offered("tcp", 65536, 1e6, 3.12e5)])
    )
    assert (short.variant, short.size_bytes) == ("tcp", 65536)
    evidence = {name: quantity.value for name, quantity in short.evidence.items()}
    assert evidence == {"offered": 1e6, "reached": 3.12e5, "sizes_behind": 2, "sizes": 3}


def test_curves_are_judged_apart_and_launches_together() -> None:
    found = shortfalls(
        run(
            [
                *(offered("tcp", 8, 1e6, reached, launch) for launch, reached in enumerate((1e6, 4e5, 5e5))),
                *(offered("shm", 8, 1e6, reached, launch) for launch, reached in enumerate((1e6, 1e6, 5e5))),
                offered("shm", 8, 1e7, 4e6, pattern="offered:rate=10000000"),
            ]
        )
    )
    assert [(one.variant, one.pattern, one.evidence["reached"].value) for one in found] == [
        ("tcp", "offered", 5e5),
        ("shm", "offered:rate=10000000", 4e6),
    ]


@pytest.mark.parametrize(
    ("rate", "reached", "said"),
    [
        (1e6, 312_456.7, "Offered 1\u202f000\u202f000 /s, tcp held 312\u202f000 /s at 64 KiB"),
        (1000, 12.34, "Offered 1\u202f000 /s, tcp held 12.3 /s at 64 KiB"),
        (1e8, 99.96, "Offered 100\u202f000\u202f000 /s, tcp held 100 /s at 64 KiB"),
    ],
)
def test_the_terminal_and_the_report_say_what_was_reached(rate: float, reached: float, said: str) -> None:
    made = run([offered("tcp", 65536, rate, reached)])
    (found,) = shortfalls(made)
    assert found.severity == WARNING
    assert found.what.startswith(f"{said}: ")
    assert said in page(Reading(made))


def test_of_several_sizes_it_says_how_many_fell_behind() -> None:
    made = run([offered("tcp", 8, 1e6, 1e6), offered("tcp", 65536, 1e6, 5e5)])
    (found,) = shortfalls(made)
    assert "500\u202f000 /s at 64 KiB (1 of 2 sizes fell behind, this one most): " in found.what
