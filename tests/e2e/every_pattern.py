# SPDX-License-Identifier: Apache-2.0
"""Every pattern of the conformance suite over a layer whose ranks the launcher of its library starts. What netpipe
leaves out is recorded with its reason, as in test_conformance.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from conftest import LIMIT_S, WORKER, Outcome
from over_libraries import Measured
from test_conformance import LEAST, MANY, PATTERNS, assert_true_reason, may_lose

from cells import Cells
from sizes import Run, named

SIZES = "0,9,4096,65537"
MANY_SIZES = "9,4097"
MANY_RANKS = 8  # a grid of three dimensions has two in each
LARGE_SIZES = f"{1 << 20},{(8 << 20) + 3}"
LARGE_WAYS = ["pingpong", "stream", "put", "get"]

LONGEST_S = 300.0  # of one run, on a machine that does much else

# How a layer waits where it is no option `wait`. With other values its own tests run some patterns.
WAITING = {"mpi": ("waitall", "yield"), "shmem": ("await",), "tcgmsg": ("sync",)}

DEFAULTS = [pattern for pattern, least in LEAST.items() if least <= 2]

Done = Outcome | Measured


def listed(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """What the worker says of a module that was added."""
    done = subprocess.run([WORKER, "list"], env=environment, capture_output=True, check=True, timeout=LIMIT_S)
    (module,) = [one for one in json.loads(done.stdout)["modules"] if one["name"] == name]
    return dict(module)


def check_every_pattern(
    run: Callable[..., Done], request: pytest.FixtureRequest, module: dict[str, Any], lacks: set[str]
) -> set[str]:
    """Over a module through shared memory: `run` is `netpipe run` with more arguments, `lacks` are the patterns that
    are left out with the defaults of their options. Returns all that were measured, each with bytes that were checked.
    """
    cells = Cells()
    try:
        few = [pattern for pattern in PATTERNS if pattern not in MANY]
        ran = _check(run, cells, module, few, SIZES, 2)
        _check(run, cells, module, LARGE_WAYS, LARGE_SIZES, 2)
        # One of the others with them: of a layer that has none of them nothing could be measured.
        ran |= _check(run, cells, module, ["pingpong", *MANY], MANY_SIZES, MANY_RANKS)
        leave_out(cells, module)
    finally:
        cells.record(request.node)
    assert set(LEAST) - ran == lacks
    return ran


def leave_out(cells: Cells, module: dict[str, Any]) -> None:
    """What check_every_pattern does not ask for: other ways to wait, and sizes."""
    variant = f"{module['name']}:transport=shm"
    run = Run()
    run.add(((variant, pattern) for pattern in PATTERNS if pattern not in MANY), named(SIZES))
    run.add(((variant, pattern) for pattern in LARGE_WAYS), named(LARGE_SIZES))
    run.add(((variant, pattern) for pattern in MANY), named(MANY_SIZES))
    for cell in run.sizes:
        run.leave_out(
            cells, cell, "a layer that a launcher starts is run with few sizes, and four ways with large ones"
        )
    for option in module["options"]:
        if option["name"] in WAITING.get(module["name"].partition("@")[0], ()):
            for value in {"bool": ["yes", "no"]}.get(option["type"], option["choices"]):
                if value != option["default"]:
                    for pattern in PATTERNS:
                        cells.leave_out(
                            f"{variant},{option['name']}={value}, {pattern}",
                            "a layer that a launcher starts is run with its default wait under every pattern",
                        )


def check_defaults(
    run: Callable[..., Done], request: pytest.FixtureRequest, module: dict[str, Any]
) -> set[str]:
    """The same of the patterns of two ranks with the defaults of their options, at two sizes, within seconds."""
    cells = Cells()
    try:
        ran = _check(run, cells, module, DEFAULTS, "8,4097", 2)
    finally:
        cells.record(request.node)
    assert "pingpong" in ran
    return ran


def _check(
    run: Callable[..., Done],
    cells: Cells,
    module: dict[str, Any],
    patterns: list[str],
    sizes: str,
    ranks: int,
) -> set[str]:
    variant = f"{module['name']}:transport=shm"
    asked = [word for pattern in patterns for word in ("--pattern", pattern)]
    done = run(
        *(variant, *asked, "--ranks", str(ranks), "--sizes", sizes, "--verify"),
        *("--budget", "0.02", "--timeout", "60"),
        limit_s=LONGEST_S,
    )
    assert done.code == 0, done.said
    wanted = {int(size) for size in sizes.split(",")}
    return {one for one in patterns if _check_pattern(done, cells, module, one, wanted, ranks)}


def _check_pattern(
    done: Done, cells: Cells, module: dict[str, Any], pattern: str, wanted: set[int], ranks: int
) -> bool:
    """Whether it was measured."""
    points, skipped = done.of("point", pattern=pattern), done.of("skipped", pattern=pattern)
    assert points or skipped, f"{pattern} is neither measured nor left out"
    cell = f"{module['name']}, {pattern}"
    for one in skipped:
        assert len(one["reason"]) > 20, one
        cells.leave_out(
            cell if one["size_bytes"] is None else f"{cell}, {one['size_bytes']} B", one["reason"]
        )
        if one["size_bytes"] is None:
            assert not points
            assert_true_reason(one["reason"], module, ranks, may_lose(done))
    # A rank that cannot do what others can ends the whole curve.
    given_up = any(one["size_bytes"] is None or one["reason"].startswith("rank ") for one in skipped)
    said = {one["size_bytes"] for one in [*points, *skipped]}
    assert given_up or said == wanted or _has_one_size(pattern), (pattern, said)
    moves = "what=barrier" not in pattern
    assert all(one["verified_bytes"] > 0 for one in points if one["size_bytes"] > 0 and moves), pattern
    if points:
        cells.ran(cell)
    return bool(points)


def _has_one_size(pattern: str) -> bool:
    return pattern.partition(":")[0] == "atomic" or "what=barrier" in pattern
