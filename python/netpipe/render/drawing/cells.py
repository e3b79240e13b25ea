# SPDX-License-Identifier: Apache-2.0
"""Ranks and pairs of ranks as maps: each one's time over the median of all at its size, 1 being like the others. A
single pair has no others, so it has no map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from netpipe.reading.cells import points_with_cells
from netpipe.records import Cell, Point
from netpipe.render.drawing.picture import Map, Panel
from netpipe.render.drawing.scope import MOST_VIEWS, Group, Scope
from netpipe.units import percent_text, size_text, time_text, times_text

MOST_CELLS = 20_000  # of all maps together; beyond it only a few sizes are shown


def map_panels(scope: Scope, title: str, pairs: bool) -> list[Panel]:
    """A panel for each pattern that has pairs, or ranks, with times of their own."""
    panels = []
    number = sum(len(point.cells) for member in scope.members for point in points_with_cells(member.curve))
    for group in scope.groups:
        views = _views(scope, group, pairs, few=bool(scope.sizes) or number > MOST_CELLS)
        if views:
            panels.append(Panel(title, tuple(views[:MOST_VIEWS]), group.name))
    return panels


def _views(scope: Scope, group: Group, pairs: bool, few: bool) -> list[Map]:
    views = []
    for member in group.members:
        points = points_with_cells(member.curve, fewest=2)
        if not points or pairs != any(cell.peer is not None for point in points for cell in point.cells):
            continue
        sizes = scope.few_sizes(point.size_bytes for point in points)
        chosen = [point for point in points if point.size_bytes in sizes]
        setting = group.setting(member.pattern)
        name = scope.variant_label(
            member.reading, f"{member.variant}, {setting}" if setting else member.variant
        )
        if pairs:
            views += [_pairs(f"{name}, {size_text(point.size_bytes)}", point) for point in chosen]
        elif chosen:
            views.append(_ranks(name, chosen if few else points))
    return views


def _relative(cells: Sequence[Cell]) -> list[float | None]:
    known = [cell.median_ns for cell in cells if cell.median_ns is not None]
    middle = median(known) if known else 0.0
    return [cell.median_ns / middle if cell.median_ns is not None and middle > 0 else None for cell in cells]


def _text(cell: Cell, relative: float | None, samples: int) -> str:
    who = f"rank {cell.rank}" if cell.peer is None else f"ranks {cell.rank} and {cell.peer}"
    share = f", the slowest in {percent_text((cell.slowest or 0) / samples)}" if samples else ""
    return f"{who}: {time_text(cell.median_ns)}, {times_text(relative)} the median{share}"


Place = Callable[[int, Cell], list[tuple[int, int]]]


def _filled(
    rows: int, columns: int, points: Sequence[Point], place: Place, texts: Callable[[Point, str], str]
) -> tuple[tuple[tuple[float | None, ...], ...], tuple[tuple[str, ...], ...]]:
    z: list[list[float | None]] = [[None] * columns for _ in range(rows)]
    said = [[""] * columns for _ in range(rows)]
    for number, point in enumerate(points):
        samples = sum(cell.slowest or 0 for cell in point.cells)
        for cell, relative in zip(point.cells, _relative(point.cells), strict=True):
            for row, column in place(number, cell):
                z[row][column] = relative
                said[row][column] = texts(point, _text(cell, relative, samples))
    return tuple(map(tuple, z)), tuple(map(tuple, said))


def _pairs(label: str, point: Point) -> Map:
    ranks = sorted({rank for cell in point.cells for rank in (cell.rank, cell.peer) if rank is not None})
    at = {rank: place for place, rank in enumerate(ranks)}
    both = {(cell.rank, cell.peer) for cell in point.cells}

    def place(_: int, cell: Cell) -> list[tuple[int, int]]:
        if cell.peer is None:
            return []
        here = (at[cell.rank], at[cell.peer])
        # A pair that was measured as one makes the matrix symmetric.
        return [here] if (cell.peer, cell.rank) in both else [here, here[::-1]]

    values, texts = _filled(len(ranks), len(ranks), [point], place, lambda _, text: text)
    names = tuple(map(str, ranks))
    return Map(label, "rank", "rank", names, names, values, texts)


def _ranks(label: str, points: Sequence[Point]) -> Map:
    ranks = sorted({cell.rank for point in points for cell in point.cells})
    at = {rank: place for place, rank in enumerate(ranks)}
    values, texts = _filled(
        len(ranks),
        len(points),
        points,
        lambda number, cell: [(at[cell.rank], number)],
        lambda point, text: f"{size_text(point.size_bytes)}, {text}",
    )
    sizes = tuple(size_text(point.size_bytes) for point in points)
    return Map(label, "message size", "rank", sizes, tuple(map(str, ranks)), values, texts)
