# SPDX-License-Identifier: Apache-2.0
"""The gate measures every pattern, with the defaults of its options and bytes that are checked: over shared memory, or
over the first other layer that carries it. All patterns of one layer are one run. test_conformance.py has every layer
under every pattern with every choice, most of it for `make test-deep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from mpi import Mpis
from over_libraries import Layered, Measured
from test_conformance import LEAST, resting

SIZES = (8, 4097)  # of a pattern that needs whole numbers or equal parts, the first alone
# The first has most patterns. Those that it lacks are tried over all others together.
FIRST = "shm"
OTHERS = ("cma", "udp")
LIBRARY = "mpich"  # it starts ten times as fast as the other one
OF_LIBRARY = ("", ":thread=multiple", ":op=partitioned,thread=multiple")


@dataclass(frozen=True)
class Gate:
    """What was measured for the patterns that pytest was asked for."""

    runs: Sequence[Measured]
    missing: str = ""  # why a layer is not there, if one is not

    def of(self, kind: str, pattern: str) -> list[dict[str, Any]]:
        return [record for run in self.runs for record in run.of(kind, pattern=pattern)]

    def check(self, pattern: str) -> None:
        points, skipped = self.of("point", pattern), self.of("skipped", pattern)
        if not points and self.missing:
            pytest.skip(self.missing)
        reasons = {one["variant"]: one["reason"] for one in skipped}
        assert points, (
            f"no layer of the gate carries pattern {pattern}, so the gate does not test it: add one that does to this "
            f"file ({reasons})"
        )
        assert any(point["size_bytes"] == SIZES[0] for point in points)
        assert all(point["verified_bytes"] > 0 for point in points), (
            "a size was measured without a byte being checked"
        )
        measured = {point["variant"] for point in points}
        left_out = [one for one in skipped if one["variant"] in measured]
        assert all(one["size_bytes"] is not None and len(one["reason"]) > 20 for one in left_out), left_out
        said = {one["size_bytes"] for one in (*points, *left_out)}
        assert said == set(SIZES) or pattern == "atomic" or LEAST[pattern] > 2, "atomic has one size"


@pytest.fixture(scope="module")
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Gate:
    asked = {item.callspec.params["pattern"] for item in request.session.items if is_of_a_pattern(item)}
    folder = tmp_path_factory.mktemp("patterns")

    def run(variants: Sequence[str], patterns: Sequence[str], ranks: int, modules: Layered) -> Measured:
        # pingpong is carried by all of them: a run in which nothing is measured has failed.
        words = [
            word for pattern in dict.fromkeys(("pingpong", *patterns)) for word in ("--pattern", pattern)
        ]
        # Four ranks on two processors take their turns, which costs seconds at each size.
        sizes = ",".join(map(str, SIZES[:1] if ranks > 2 else SIZES))
        done = modules.run(
            folder / "run.jsonl",
            *(*variants, *words, "--ranks", str(ranks), "--sizes", sizes, "--verify"),
            *("--budget", "0.02", "--timeout", "60"),
        )
        assert done.code == 0, done.said
        return done

    runs = []
    for many in (False, True):
        patterns = [pattern for pattern, least in LEAST.items() if pattern in asked and (least > 2) == many]
        if patterns:
            ranks = max(2, *(LEAST[pattern] for pattern in patterns))
            runs.append(run([resting(FIRST)], patterns, ranks, Layered(folder)))
    done = Gate(runs)
    left = [pattern for pattern in LEAST if pattern in asked and not done.of("point", pattern)]
    if not left:
        return done
    mpis: Mpis = request.getfixturevalue("mpis")
    assert LIBRARY not in mpis.refused, mpis.refused
    of_library = [f"mpi@{LIBRARY}{settings}" for settings in OF_LIBRARY] if LIBRARY in mpis.there else []
    ranks = max(2, *(LEAST[pattern] for pattern in left))
    runs.append(run([*OTHERS, *of_library], left, ranks, Layered(mpis.folder)))
    missing = mpis.missing.get(LIBRARY)
    return Gate(runs, f"mpi@{LIBRARY}: {missing}" if missing else "")


def is_of_a_pattern(item: pytest.Item) -> bool:
    return getattr(item, "function", None) is test_every_pattern_is_measured_and_verified


@pytest.mark.gate
@pytest.mark.parametrize("pattern", LEAST)
def test_every_pattern_is_measured_and_verified(gate: Gate, pattern: str) -> None:
    gate.check(pattern)


def test_a_pattern_that_no_layer_carries_is_a_failure() -> None:
    skipped = {
        "type": "skipped",
        "pattern": "newcomer",
        "variant": FIRST,
        "size_bytes": None,
        "reason": "it lacks it",
    }
    gate = Gate([Measured(0, "", [skipped])])
    with pytest.raises(AssertionError, match=r"no layer of the gate carries pattern newcomer, .*it lacks it"):
        gate.check("newcomer")
