# SPDX-License-Identifier: Apache-2.0
"""Replays the calls with many costs at once. A time is a row here, with a column for each of the costs.

Each column has the numbers of a replay of its own. The order in which ranks go on depends on no time, so it is the same
in all columns. Two things do depend on times:

* Messages that one call completes are copied in the order in which they arrived. Each column sorts its own.
* A message does not move in a call that only starts a transfer, if the other side comes later. So it moves in some
  columns, and in the others with a later call of the same rank: in all of them before another rank goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from netpipe.prediction.costs import Costs, Sized
from netpipe.prediction.replay import NEVER, Replay, Replayed, replay
from netpipe.profiles.trace.calls import Calls

MOST = 256  # columns: of more the rows take too much memory, some 12 bytes of each for every event

Key = TypeVar("Key")


def replay_all(calls: Calls, several: Sequence[Costs]) -> list[Replayed]:
    """As `replay` with each of these costs. Raises Stuck."""
    sizes = {one.bytes for one in calls.messages} | {one.bytes for one in calls.groups}
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for place, one in enumerate(several):
        alike[_course(one, sizes)].append(place)
    found: dict[int, Replayed] = {}
    for places in alike.values():
        for first in range(0, len(places), MOST):
            some = places[first : first + MOST]
            costs = [several[place] for place in some]
            made = _Together(calls, costs).each() if len(some) > 1 else [replay(calls, *costs)]
            found.update(zip(some, made, strict=True))
    return [found[place] for place in range(len(several))]


def _course(costs: Costs, sizes: Collection[int]) -> Hashable:
    """What has to be the same in all columns: which messages are sent at once, and which curves there are."""
    curves = (costs.within, costs.gap, costs.gap_both)
    return (
        frozenset(filter(costs.eager, sizes)),
        frozenset(costs.collectives),
        tuple(curve is None for curve in curves),
        None if costs.far is None else _course(costs.far, sizes),
    )


class _Rows(Sized):
    """The times of several, by size."""

    def __init__(self, several: Sequence[Sized]) -> None:
        super().__init__({})
        self.several = several

    def _at(self, size: int) -> Any:
        return np.array([one(size) for one in self.several])


def _rows(several: Sequence[Costs]) -> Costs:
    first: Any = np.array([one.first for one in several])
    between = [one.far for one in several if one.far is not None]  # all have them, or none
    return replace(
        several[0],
        latency=_Rows([one.latency for one in several]),
        exchange=_Rows([one.exchange for one in several]),
        send=_Rows([one.send for one in several]),
        recv=_Rows([one.recv for one in several]),
        blocking=_Rows([one.send if one.blocking is None else one.blocking for one in several]),
        first=first,
        gap=_rows_of([one.gap for one in several]),
        gap_both=_rows_of([one.gap_both for one in several]),
        within=_rows_of([one.within for one in several]),
        collectives={key: _Rows([one.collectives[key] for one in several]) for key in several[0].collectives},
        far=_rows(between) if between else None,
    )


def _rows_of(several: Sequence[Sized | None]) -> _Rows | None:
    """None where they have no such curve: all have it, or none."""
    there = [one for one in several if one is not None]
    return _Rows(there) if there else None


class _Together(Replay):
    def __init__(self, calls: Calls, several: Sequence[Costs]) -> None:
        super().__init__(calls, _rows(several))
        self.columns = len(several)
        begin: Any = np.zeros(self.columns)
        self.clock = dict.fromkeys(calls.ranks, begin)
        self.partly: dict[int, Any] = {}  # message -> when it is done; NaN where it has not moved yet

    def each(self) -> list[Replayed]:
        """Raises Stuck."""
        found = self.run()
        walls = np.broadcast_to(found.wall, self.columns).tolist()
        columns = (self._columns(times) for times in (found.by_rank, found.waiting, found.by_call))
        return [
            Replayed(by_rank, waiting, by_call, wall, dict(found.without_curve))
            for by_rank, waiting, by_call, wall in zip(*columns, walls, strict=True)
        ]

    def _columns(self, times: Mapping[Key, float]) -> list[dict[Key, float]]:
        rows = {key: np.broadcast_to(row, self.columns).tolist() for key, row in times.items()}
        return [{key: row[place] for key, row in rows.items()} for place in range(self.columns)]

    @staticmethod
    def latest(*times: float) -> Any:
        return reduce(np.maximum, times)

    @staticmethod
    def earliest(*times: float) -> Any:
        return reduce(np.minimum, times)

    def _move(self, number: int, both_in: float) -> bool:
        """Whether it now has moved in all columns."""
        message = self.calls.messages[number]
        stays: Any = self._leaves_before(message.source, both_in) | self._leaves_before(
            message.target, both_in
        )
        before = self.partly.pop(number, np.nan)
        stays |= ~np.isnan(before)
        busy: Any = self.busy[message.target].get(message.source, NEVER)
        moved: Any = self._done(number, both_in)
        done: Any = np.where(stays, before, moved)
        later: Any = np.where(stays, busy, moved)
        self.busy[message.target][message.source] = later
        if np.isnan(done).any():
            self.partly[number] = done
            return False
        self.moving[number].done = done
        return True

    def _in_order(self, there: list[tuple[float, float]]) -> Iterable[tuple[Any, Any]]:
        if len(there) < 2:
            return there
        arrive, copies = (
            np.array([np.broadcast_to(one, self.columns) for one in some])
            for some in zip(*there, strict=True)
        )
        order = arrive.argsort(axis=0, kind="stable")
        return zip(np.take_along_axis(arrive, order, 0), np.take_along_axis(copies, order, 0), strict=True)
