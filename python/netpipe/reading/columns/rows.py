# SPDX-License-Identifier: Apache-2.0
"""Sizes of a curve or of a loss as rows that stand in columns. What asks for all of hundreds of thousands takes the
columns; a row is made when somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import chain
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from netpipe.reading.estimate import Estimates, Ints

Row = TypeVar("Row")
Own = TypeVar("Own", bound="Rows[Any]")


@dataclass(frozen=True, eq=False)
class Rows(Sequence[Row]):
    """By rising size, each size once. Every other field of a subclass is a column too: an array, `Estimates` or a list
    with an entry for each row.
    """

    size: Ints

    def made(self) -> Iterable[Row]:
        """All rows, made anew."""
        raise NotImplementedError

    @cached_property
    def _every(self) -> tuple[Row, ...]:
        return tuple(self.made())

    def __len__(self) -> int:
        return len(self.size)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._every)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice) or "_every" in self.__dict__:
            return self._every[place]
        (row,) = self.at(np.array([range(len(self))[place]])).made()
        return row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._every == other._every

    __hash__ = None  # type: ignore[assignment]

    def at(self: Own, places: NDArray[Any]) -> Own:
        """The rows at these places, or where this is true."""
        if places.dtype == np.bool_:
            places = np.flatnonzero(places)
        return type(self)(*(_at(getattr(self, name), places) for name in _names(type(self))))

    def of_sizes(self: Own, sizes: Collection[int]) -> Own:
        """The rows of these sizes, as far as there are any."""
        wanted = np.array(sorted(set(sizes)), np.int64)
        places = np.searchsorted(self.size, wanted)
        there = places < len(self.size)
        there[there] = self.size[places[there]] == wanted[there]
        return self.at(places[there])

    def of_size(self, size: int) -> Row | None:
        place = int(np.searchsorted(self.size, size))
        return self[place] if place < len(self.size) and self.size[place] == size else None


def together(parts: Sequence[Own]) -> Own:
    """The rows of all parts, which have no size in common."""
    if len(parts) == 1:
        return parts[0]
    kind = type(parts[0])
    whole = kind(*(_joined([getattr(part, name) for part in parts]) for name in _names(kind)))
    return whole.at(np.argsort(whole.size))


@cache
def _names(kind: type[Rows[Any]]) -> tuple[str, ...]:
    return tuple(column.name for column in fields(kind))


def _at(column: Any, places: Ints) -> Any:
    if isinstance(column, list):
        return [column[place] for place in places.tolist()]
    return column.at(places) if isinstance(column, Estimates) else column[places]


def _joined(columns: Sequence[Any]) -> Any:
    if isinstance(columns[0], list):
        return list(chain.from_iterable(columns))
    return Estimates.joined(columns) if isinstance(columns[0], Estimates) else np.concatenate(columns)
