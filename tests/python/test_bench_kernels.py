# SPDX-License-Identifier: Apache-2.0
"""The bench keeps the Mop/s of each kernel, so that --against can say which has become slower."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))

import of_apps
import of_kernels as bench

from netpipe.kernels import Cell, Result

Order = list[tuple[str, str, int]]


class Runner:
    """Whose kernels are as fast as their turn."""

    def __init__(self, order: Order, mops: bool) -> None:
        self.order = order
        self.mops = mops

    def __call__(self, _: float) -> Runner:
        return self

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, task: Any, launch: int) -> Result:
        self.order.append((task.cell.name, task.cell.problem, task.cell.ranks))
        turn = self.order.count(self.order[-1])
        mops = 100.0 * turn if self.mops else None
        return Result(name="", problem="", variant="", ranks=1, seconds=1.0, mops=mops, verified=True)


def measured(monkeypatch: pytest.MonkeyPatch, mops: bool = True) -> tuple[list[Any], Order]:
    def plan(request: Any) -> Any:
        tasks = [
            SimpleNamespace(
                cell=Cell(name, "", problem, variant, ranks), environment={}, oversubscribed=False
            )
            for name in request.kernels
            for problem in request.classes
            for variant in request.variants
            for ranks in request.ranks
        ]
        return SimpleNamespace(tasks=tasks, notes=["bt is left out"] if "bt" in request.kernels else [])

    order: Order = []
    runner = Runner(order, mops)
    monkeypatch.delenv("NETPIPE_BENCH_KERNELS", raising=False)
    monkeypatch.setattr(of_apps, "plan", plan)
    monkeypatch.setattr(of_apps, "replace", lambda task, **_: task)
    monkeypatch.setattr(bench, "Runner", runner)
    monkeypatch.setattr(bench, "libraries", lambda: ["mpi@o", "mpi@m"])
    return bench.kernels(1), order


def test_every_kernel_has_a_row_on_one_rank_and_on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, order = measured(monkeypatch)
    kernels = [row for row in rows if row.rate]
    assert [row.what for row in kernels if row.what.startswith(("cg", "lu", "sweep3d"))] == [
        "cg W, 1 rank over mpi@o:transport=shm: Mop/s",
        "cg W, 2 ranks over mpi@o:transport=shm: Mop/s",
        "lu S, 1 rank over mpi@o:transport=shm: Mop/s",
        "lu S, 2 ranks over mpi@o:transport=shm: Mop/s",
        "sweep3d 50, 1 rank over mpi@o:transport=shm: Mop/s",
        "sweep3d 50, 2 ranks over mpi@o:transport=shm: Mop/s",
    ]
    assert len(kernels) == 2 * 9
    assert {row.rate for row in kernels} == {(300.0, 100.0, 500.0)}
    assert {row.verdict for row in rows} == {""}
    assert kernels[0].figure == "-67% to +67%"
    assert [row.what for row in rows if not row.rate] == ["bt is left out"]
    rounds = [order[at : at + 18] for at in range(0, len(order), 18)]
    assert all(len(set(one)) == 18 for one in rounds), "all take turns"
    assert rounds[0] != rounds[1], "in an order by lot"


def test_a_class_that_was_asked_for_is_that_of_all_nas_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [bench.class_of(name) for name in ("cg", "lu", "sweep3d")] == ["W", "S", "50"]
    monkeypatch.setenv("NETPIPE_BENCH_CLASS", "W")
    assert [bench.class_of(name) for name in ("cg", "lu", "sweep3d")] == ["W", "W", "50"]


def test_a_kernel_that_does_not_say_its_rate_is_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="has not said its Mop/s"):
        measured(monkeypatch, mops=False)
