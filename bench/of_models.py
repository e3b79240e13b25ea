# SPDX-License-Identifier: Apache-2.0
"""Patterns over a layer that does what its options say."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from measured import NATIVE, MissingError, Result, points, shown, worker

from netpipe.prediction import costs
from netpipe.reading import Reading
from netpipe.records import Run, decode

# ns; the defaults of tests/modules/synthetic.c, written out
SYNTHETIC = {
    "latency": 20_000,
    "send_overhead": 2_000,
    "recv_overhead": 3_000,
    "overhead_per_kib": 400,
    "gap": 5_000,
    "gap_per_kib": 1_000,
}


def known(name: str, per_kib: str, size: int) -> float:
    return SYNTHETIC[name] + size * SYNTHETIC[per_kib] / 1024


def over_synthetic(
    patterns: str, sizes: list[int], overlap: int = 100, helper: int = 0
) -> list[dict[str, Any]]:
    """The records of a pattern, or of several with blanks between them, over the layer that behaves as a model says.
    helper: ns, 0: none.
    """
    module = NATIVE / "test-modules" / "synthetic.so"
    if not module.is_file():
        raise MissingError(f"{module.relative_to(NATIVE)} is not built: cmake -B build -DNETPIPE_TESTS=ON")
    options = ",".join(f"{name}={value}" for name, value in SYNTHETIC.items())
    return worker(
        f"module-file {module}",
        f"variant synthetic:{options},overlap={overlap},helper={helper}",
        *(f"pattern {one}" for one in patterns.split()),
        "schedule list",
        "sizes " + ",".join(map(str, sizes)),
        "budget 3",
        "target 0.002",
    )


def measures(records: Iterable[dict[str, Any]], name: str) -> dict[int, float]:
    """By size; of sizes without a single sample nothing."""
    return {
        r["size_bytes"]: m["median"]
        for r in records
        if r["type"] == "point"
        for m in r["measures"]
        if m["name"] == name
    }


def against_known(
    name: str, what: str, found: list[dict[int, float]], truth: Callable[[int], float]
) -> Result:
    """Of several rounds the median at each size; the size that is farthest from the truth is the figure."""
    ratios = {size: [one[size] / truth(size) for one in found if size in one] for size in sorted(found[0])}
    worst = max(ratios, key=lambda size: abs(statistics.median(ratios[size]) - 1))
    return Result(
        name,
        f"{what}, {len(ratios)} sizes, {min(ratios)} B to {max(ratios) >> 10} KiB",
        shown([one[worst] for one in found if worst in one], 0, " ns"),
        f"{truth(worst):.0f} ns",
        f"{shown(ratios[worst])} at {worst} B, the farthest",
        "within 5 % at every size",
        all(abs(statistics.median(values) - 1) <= 0.05 for values in ratios.values()),
    )


SYNTHETIC_SIZES = [1, 64, 1024, 8192, 65536, 262144]


def overlap(rounds: int) -> list[Result]:
    """What pattern overlap finds of a layer whose overlap is known."""
    results = []
    for share in (100, 60, 20):
        for computes in ("both", "one"):
            found = [
                measures(over_synthetic(f"overlap:computes={computes}", SYNTHETIC_SIZES, share), "overlap")
                for _ in range(rounds)
            ]

            def truth(size: int, share: int = share, computes: str = computes) -> float:
                transfer = known("latency", "gap_per_kib", size)
                calls = known("send_overhead", "overhead_per_kib", size)
                calls += known("recv_overhead", "overhead_per_kib", size)
                # The way there and the other rank's calls are hidden as well.
                return transfer * share / 100 + (transfer + calls if computes == "one" else 0)

            what = (
                f"overlap of {share} % of each transfer, {computes} of the ranks with work: measured / known"
            )
            results.append(against_known("overlap", what, found, truth))
    return results + by_search(rounds)


# A helper that carries on after LATE_NS hides all of a transfer behind the long computation of the model, and no more
# than the layer does by itself behind a shorter one.
SEARCH_SIZES = [1, 1024, 4096]
LATE_NS = 24_000
SEARCH_SHARE = 60


def by_search(rounds: int) -> list[Result]:
    """What a search finds, and the model beside it, without and with a helper that steps in late."""
    results = []
    for helper in (0, LATE_NS):
        records = [
            over_synthetic("overlap:by=search", SEARCH_SIZES, SEARCH_SHARE, helper) for _ in range(rounds)
        ]
        ours = [
            {size: found[size] - tolerance[size] for size in found}
            for found, tolerance in (
                (measures(one, "overlap"), measures(one, "tolerance")) for one in records
            )
        ]
        modelled = [measures(one, "modelled") for one in records]

        def transfer(size: int) -> float:
            return known("latency", "gap_per_kib", size)

        def hidden(size: int) -> float:
            return transfer(size) * SEARCH_SHARE / 100

        layer = f"overlap of {SEARCH_SHARE} % of each transfer" + (
            f", the rest after {helper / 1000:g} us" if helper else ""
        )
        results += [
            against_known(
                "overlap", f"{layer}, by search less its tolerance: measured / known", ours, hidden
            ),
            against_known(
                "overlap",
                f"{layer}, by the model: measured / known",
                modelled,
                transfer if helper else hidden,
            ),
        ]
    return results


def overhead(rounds: int) -> list[Result]:
    """What pattern overhead finds of a layer whose calls take a known time."""
    results = []
    for side in ("send", "recv", "both"):
        for call in ("request", "blocking"):
            found = []
            for _ in range(rounds):
                records = over_synthetic(f"overhead:side={side},call={call}", SYNTHETIC_SIZES)
                found.append({size: p["median_ns"] for size, p in points(records).items()})
            results.append(
                against_known(
                    "overhead",
                    f"overhead of {side}, {call}: measured / known",
                    found,
                    lambda size, side=side: sum(  # type: ignore[misc]
                        known(f"{one}_overhead", "overhead_per_kib", size)
                        for one in (("send", "recv") if side == "both" else (side,))
                    ),
                )
            )
    return results


def reading_of(records: Iterable[dict[str, Any]]) -> Reading:
    decoded = [decode(json.dumps(record).encode()) for record in records]
    return Reading(Run(record for record in decoded if record is not None))


def gap(rounds: int) -> list[Result]:
    """What the replay of an application takes for the gap of messages that follow each other."""
    found = []
    for _ in range(rounds):
        (one,) = costs(reading_of(over_synthetic("pingpong window", SYNTHETIC_SIZES))).values()
        assert one.gap is not None
        found.append({size: one.gap(size) for size in SYNTHETIC_SIZES})
    what = "gap of a prediction, from pingpong and window: measured / known"
    return [against_known("gap", what, found, lambda size: known("gap", "gap_per_kib", size))]


def loggp(rounds: int) -> list[Result]:
    """Each size by itself, and what is fitted over all of them."""
    runs = [over_synthetic("loggp", SYNTHETIC_SIZES) for _ in range(rounds)]
    results = []
    for name, fixed, per_kib in (
        ("o_s", "send_overhead", "overhead_per_kib"),
        ("o_r", "recv_overhead", "overhead_per_kib"),
        ("gap", "gap", "gap_per_kib"),
        ("transfer", "latency", "gap_per_kib"),
    ):

        def truth(size: int, fixed: str = fixed, per_kib: str = per_kib) -> float:
            return known(fixed, per_kib, size)

        what = f"LogGP, {name}: measured / known"
        results.append(against_known("loggp", what, [measures(records, name) for records in runs], truth))
    fitted: dict[str, list[float]] = {}
    ranges = []
    for records in runs:
        (found,) = reading_of(records).loggp
        ranges.append(len(found.ranges))
        one = found.ranges[0]
        for name, value, actual in (
            ("L", one.transfer.fixed_ns, SYNTHETIC["latency"]),
            ("o_s", one.o_s.fixed_ns, SYNTHETIC["send_overhead"]),
            ("o_r", one.o_r.fixed_ns, SYNTHETIC["recv_overhead"]),
            ("g", one.gap.fixed_ns, SYNTHETIC["gap"]),
            ("G", one.gap.per_byte_ns, SYNTHETIC["gap_per_kib"] / 1024),
        ):
            fitted.setdefault(name, []).append(value.value / actual)
    results.extend(
        Result(
            "loggp",
            f"LogGP, {name} fitted over all sizes: measured / known",
            f"{statistics.median(ranges):.0f} range of sizes found",
            "1 range",
            shown(values),
            "within 5 %",
            abs(statistics.median(values) - 1) <= 0.05,
        )
        for name, values in fitted.items()
    )
    return results


COMPARISONS = {"overlap": overlap, "overhead": overhead, "loggp": loggp, "gap": gap}
