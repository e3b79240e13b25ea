# SPDX-License-Identifier: Apache-2.0
"""netpipe predict --json: a prediction as JSON (docs/how-to/profile-a-program.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from netpipe.render.terminal.sensitivity import part_json

if TYPE_CHECKING:
    from netpipe.prediction import Factors, Held
    from netpipe.prediction.predict import Predicted


def as_json(
    found: Predicted, factors: Factors, before: Predicted | None, measured: Sequence[Held]
) -> dict[str, Any]:
    """Seconds and bytes. `before`: with no factors."""
    was = {one.variant: one.seconds for one in before.variants} if before else {}
    return {
        "what": asdict(factors),
        "measured_s": found.measured,
        "launches": found.launches,
        "part": part_json(found.part),
        "variants": [
            {
                "variant": one.variant,
                "seconds": one.seconds,
                "before_s": was.get(one.variant),
                "low": one.low,
                "high": one.high,
                "waiting": one.waiting,
                "wall": one.wall,
                "by_call": [
                    {"call": name, "bytes": size, "seconds": time}
                    for (name, size), time in sorted(one.by_call.items(), key=lambda item: -item[1])
                ],
                "guessed": one.guessed,
                "missing": [
                    {"call": name, "ranks": ranks, "calls": count}
                    for (name, ranks), count in one.missing.items()
                ],
                "beyond": one.beyond,
                "beyond_between_hosts": one.beyond_far,
            }
            for one in found.variants
        ],
        "fastest": found.fastest.variant if found.fastest else None,
        "tiers": found.tiers,
        "pairs": [
            {
                "faster": one.faster,
                "slower": one.slower,
                "times": one.times.value,
                "low": one.times.low,
                "high": one.times.high,
                "decided": one.decided,
            }
            for one in found.pairs
        ],
        "unknown": found.unknown or None,
        "measured": [
            {
                "variant": one.prediction.variant,
                "seconds": one.measured,
                "launches": one.launches,
                "holds": one.holds,
                "by_call": [
                    {"call": name, "bytes": size, "measured": there, "predicted": predicted}
                    for name, size, there, predicted in one.by_call
                ],
            }
            for one in measured
        ],
        "own": asdict(found.residual) if found.residual else None,
        "notes": found.notes,
        "wanted": {name: sorted(sizes) for name, sizes in found.wanted.items()},
    }
