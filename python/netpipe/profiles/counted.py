# SPDX-License-Identifier: Apache-2.0
"""The entries of all ranks as columns, and which of their calls the tables count. docs/reference/profile.md says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from netpipe.profiles.lines import NONE, Profile

Array = np.ndarray[Any, Any]


def share_of(part: float, whole: float) -> float | None:
    """None: there is nothing that it could be a part of."""
    return part / whole if whole > 0 else None


@dataclass(frozen=True, slots=True)
class Counted:
    """The entries of all ranks, a row for each kind of call."""

    names: list[str]  # of the calls
    words: list[frozenset[str]]  # what each does
    columns: dict[str, Array]

    @classmethod
    def of(cls, profile: Profile, ranks_per_host: int | None) -> Counted:
        entries = list(profile.entries.values())
        # Whole numbers up to 2^53 are exact as floats, and what is beyond does not overflow.
        kinds: dict[str, type] = {"call": int, "peer": int, "communicator": int, "phase": int}
        for name in ("bytes", "coarse", "calls", "time_ns", "most_ns", "waited", "found_done"):
            kinds[name] = float
        columns = {
            name: np.concatenate(
                [np.array(getattr(one, name), kind) for one in entries] or [np.empty(0, kind)]
            )
            for name, kind in kinds.items()
        }
        columns["rank"] = np.repeat(
            np.array([one.rank for one in entries], int), np.array([len(one.call) for one in entries], int)
        )
        calls = profile.header.calls
        # one that the profile does not name is the last
        columns["call"] = np.minimum(columns["call"], len(calls))
        here, there = (_host(profile, columns[name], ranks_per_host) for name in ("rank", "peer"))
        columns["same_host"] = (here == there) & (here >= 0) & (columns["rank"] != columns["peer"])
        names = [*(one.name for one in calls), "unknown"]
        return cls(names, [*(frozenset(one.does) for one in calls), frozenset()], columns)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def where(self, mask: Array) -> Counted:
        return Counted(self.names, self.words, {name: column[mask] for name, column in self.columns.items()})

    def does(self, *what: str) -> Array:
        """Rows of calls that do one of these things."""
        return self._calls(not words.isdisjoint(what) for words in self.words)

    def _calls(self, which: Iterable[bool]) -> Array:
        """Rows of these calls."""
        return np.take(np.fromiter(which, bool), self["call"])

    @property
    def messages(self) -> Array:
        """Sends and receives. Those to and from MPI_PROC_NULL move nothing."""
        moves: Array = self.does("sends", "receives") & (self["peer"] != NONE)
        return moves

    @property
    def collectives(self) -> Array:
        """Without those that make communicators, which the paper does not count."""
        return self.does("collective") & ~self.does("sets_up")

    @property
    def counted(self) -> Array:
        """What tables 5 and 6 take for all calls."""
        return self.messages | self.collectives | self._calls(name == "Waitall" for name in self.names)

    def calls(self, mask: Array) -> int:
        return int(self["calls"][mask].sum())

    def volume(self, mask: Array) -> int:
        return int((self["calls"] * self["bytes"])[mask].sum())


def _host(profile: Profile, ranks: Array, ranks_per_host: int | None) -> Array:
    """A number for the host of each; less than 0 where it is not known."""
    if ranks_per_host is not None:
        return np.where(ranks >= 0, ranks // ranks_per_host, -1)
    numbers: dict[str, int] = {}
    hosts = {rank: numbers.setdefault(host, len(numbers)) for rank, host in profile.hosts.items() if host}
    found, where = np.unique(ranks, return_inverse=True)
    return np.take(np.array([hosts.get(rank, -1) for rank in found.tolist()], int), where)
