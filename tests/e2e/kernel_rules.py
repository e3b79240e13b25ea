# SPDX-License-Identifier: Apache-2.0
"""Which calls each kernel of src/apps makes on each rank: the rules of the specification as formulas, and what the
reference codes (NPB 3.4.1) were measured to call on rank 0. tests/e2e/test_kernel_rules.py holds one against the other,
tests/e2e/test_kernel_calls.py the kernels against the rules.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from math import isqrt

MESSAGES = ("Send", "Isend", "Recv", "Irecv")
WORD = 8  # bytes
Calls = dict[tuple[str, int], tuple[int, int]]  # by name and bytes: how often, and to or from how many ranks

# By kernel, class and ranks: "size B xtimes" is what one call sends, or the posted size of one receive, or of a
# collective what this rank gives. The measurement left out waits and what makes communicators, which the rules add.
MEASURED = {
    ("is", "S", 4): "Allreduce 2068 B x11; Alltoall 16 B x11; Alltoallv 65536 B x11; Bcast 4 B x1; Reduce 4 B x1; "
    "Reduce 8 B x1; Send 4 B x1",
    ("is", "B", 8): "Allreduce 4116 B x11; Alltoall 32 B x11; Alltoallv 16777216 B x11; Bcast 4 B x1; "
    "Reduce 4 B x1; Reduce 8 B x1; Send 4 B x1",
    ("cg", "S", 4): "Barrier 0 B x1; Bcast 4 B x1; Irecv 8 B x832; Irecv 16 B x16; Irecv 5600 B x832 (2 peers); "
    "Reduce 8 B x1; Send 8 B x832; Send 16 B x16; Send 5600 B x832 (2 peers)",
    ("cg", "B", 8): "Barrier 0 B x1; Bcast 4 B x1; Irecv 8 B x7904 (2 peers); Irecv 16 B x152 (2 peers); "
    "Irecv 150000 B x5928 (3 peers); Reduce 8 B x1; Send 8 B x7904 (2 peers); Send 16 B x152 (2 peers); "
    "Send 150000 B x5928 (3 peers)",
    ("cg", "B", 16): "Barrier 0 B x1; Bcast 4 B x1; Irecv 8 B x7904 (2 peers); Irecv 16 B x152 (2 peers); "
    "Irecv 150000 B x5928 (3 peers); Reduce 8 B x1; Send 8 B x7904 (2 peers); Send 16 B x152 (2 peers); "
    "Send 150000 B x5928 (3 peers)",
    ("mg", "S", 4): "Allreduce 8 B x48; Allreduce 16 B x40; Barrier 0 B x6; Bcast 4 B x6; Bcast 32 B x1; "
    "Irecv 18496 B x444 (3 peers); Reduce 8 B x1; Send 8 B x20; Send 32 B x50 (2 peers); Send 96 B x50 (2 peers); "
    "Send 128 B x30; Send 192 B x30; Send 320 B x30; Send 480 B x30; Send 512 B x30; Send 1152 B x30; "
    "Send 1440 B x30; Send 2048 B x38; Send 4352 B x38; Send 4896 B x38",
    ("mg", "B", 8): "Allreduce 8 B x48; Allreduce 16 B x40; Barrier 0 B x6; Bcast 4 B x6; Bcast 32 B x1; "
    "Irecv 270400 B x2922 (3 peers); Reduce 8 B x1; Send 8 B x84; Send 24 B x84; Send 32 B x126; Send 64 B x126; "
    "Send 72 B x84; Send 128 B x252 (2 peers); Send 192 B x126; Send 288 B x126; Send 512 B x126; Send 640 B x126; "
    "Send 800 B x126; Send 2048 B x126; Send 2304 B x126; Send 2592 B x126; Send 8192 B x126; Send 8704 B x126; "
    "Send 9248 B x126; Send 32768 B x126; Send 33792 B x126; Send 34848 B x126; Send 131072 B x134; "
    "Send 133120 B x134; Send 135200 B x134",
    ("mg", "B", 16): "Allreduce 8 B x48; Allreduce 16 B x40; Barrier 0 B x6; Bcast 4 B x6; Bcast 32 B x1; "
    "Irecv 270400 B x2712 (4 peers); Reduce 8 B x1; Send 16 B x126; Send 32 B x126; Send 64 B x126; Send 96 B x126; "
    "Send 128 B x126 (2 peers); Send 256 B x126; Send 288 B x126 (2 peers); Send 320 B x126; "
    "Send 800 B x126 (2 peers); Send 1024 B x126; Send 1152 B x126; Send 2592 B x126 (2 peers); Send 4096 B x126; "
    "Send 4352 B x126; Send 9248 B x126 (2 peers); Send 16384 B x126; Send 16896 B x126; "
    "Send 34848 B x126 (2 peers); Send 65536 B x134; Send 66560 B x134; Send 135200 B x134 (2 peers)",
    ("ft", "S", 4): "Alltoall 1048576 B x8; Barrier 0 B x1; Bcast 4 B x5; Reduce 16 B x6",
    ("ft", "B", 16): "Alltoall 33554432 B x22; Barrier 0 B x1; Bcast 4 B x5; Reduce 16 B x20",
    ("lu", "S", 4): "Allreduce 8 B x5; Allreduce 40 B x5; Barrier 0 B x2; Bcast 4 B x7; Bcast 8 B x2; Bcast 40 B x1; "
    "Irecv 96 B x3 (2 peers); Irecv 128 B x1; Irecv 5760 B x108 (2 peers); Recv 200 B x1020 (2 peers); "
    "Send 200 B x1020 (2 peers); Send 5760 B x108 (2 peers)",
    ("lu", "B", 8): "Allreduce 8 B x5; Allreduce 40 B x5; Barrier 0 B x2; Bcast 4 B x7; Bcast 8 B x2; Bcast 40 B x1; "
    "Irecv 416 B x1; Irecv 816 B x2 (2 peers); Irecv 848 B x1; Irecv 212160 B x254; Irecv 416160 B x254; "
    "Recv 1000 B x25100; Recv 2000 B x25100; Send 1000 B x25100; Send 2000 B x25100; Send 212160 B x254; "
    "Send 416160 B x254",
    ("sp", "S", 4): "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x2; Bcast 8 B x1; Bcast 12 B x1; "
    "Irecv 2000 B x303 (3 peers); Irecv 2880 B x612 (3 peers); Irecv 4400 B x303 (3 peers); "
    "Isend 2000 B x303 (3 peers); Isend 2880 B x612 (3 peers); Isend 4400 B x303 (3 peers); Reduce 8 B x1",
    ("sp", "B", 4): "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x2; Bcast 8 B x1; Bcast 12 B x1; "
    "Irecv 200000 B x1203 (3 peers); Irecv 208080 B x2412 (3 peers); Irecv 440000 B x1203 (3 peers); "
    "Isend 200000 B x1203 (3 peers); Isend 208080 B x2412 (3 peers); Isend 440000 B x1203 (3 peers); Reduce 8 B x1",
    ("bt", "S", 4): "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x4; Bcast 8 B x1; Bcast 12 B x1; "
    "Irecv 1960 B x183 (3 peers); Irecv 2880 B x372 (3 peers); Irecv 11760 B x183 (3 peers); "
    "Isend 1960 B x183 (3 peers); Isend 2880 B x372 (3 peers); Isend 11760 B x183 (3 peers); Reduce 8 B x1",
    ("bt", "B", 4): "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x4; Bcast 8 B x1; Bcast 12 B x1; "
    "Irecv 108160 B x603 (3 peers); Irecv 208080 B x1212 (3 peers); Irecv 648960 B x603 (3 peers); "
    "Isend 108160 B x603 (3 peers); Isend 208080 B x1212 (3 peers); Isend 648960 B x603 (3 peers); Reduce 8 B x1",
}  # fmt: skip
ADDED = ("Wait", "Waitall", "Comm_split", "Comm_dup")


def written(text: str) -> Calls:
    found: Calls = {}
    for one in text.split("; "):
        said = re.fullmatch(r"(\w+) (\d+) B x(\d+)(?: \((\d+) peers\))?", one)
        assert said, one
        name, size, times, peers = said.groups()
        found[name, int(size)] = (int(times), int(peers or 1) if name in MESSAGES else 0)
    return found


class Made:
    """Calls that are added up."""

    def __init__(self, collectives: str = "") -> None:
        self._times: Counter[tuple[str, int]] = Counter()
        self._peers: dict[tuple[str, int], set[int]] = defaultdict(set)
        for key, (times, _) in written(collectives).items() if collectives else ():
            self._times[key] += times

    def add(self, name: str, words: int, times: int = 1, peer: int | None = None) -> None:
        self._times[name, WORD * words] += times
        if peer is not None:
            self._peers[name, WORD * words].add(peer)

    def both(self, send: str, receive: str, words: int, times: int, peer: int) -> None:
        """As many each way."""
        self.add(send, words, times, peer)
        self.add(receive, words, times, peer)

    @property
    def calls(self) -> Calls:
        return {key: (times, len(self._peers[key])) for key, times in self._times.items()}


def log2(number: int) -> int:
    return number.bit_length() - 1


def is_on(rank: int, ranks: int, problem: str) -> Calls:
    """The largest key goes to the next rank, and from the last one to none."""
    keys, buckets = {"S": (1 << 16, 1 << 9), "B": (1 << 25, 1 << 10)}[problem]
    calls: Calls = {
        ("Allreduce", 4 * (buckets + 5)): (11, 0),
        ("Alltoall", 4 * ranks): (11, 0),
        ("Alltoallv", 4 * keys // ranks): (11, 0),
        **written("Bcast 4 B x1; Reduce 4 B x1; Reduce 8 B x1"),
    }
    if rank < ranks - 1:
        calls["Send", 4] = (1, 1)
    if rank > 0:
        calls["Irecv", 4] = (1, 1)
        calls["Wait", 4] = (1, 0)
    return calls


def ep_on(_rank: int, _ranks: int, _problem: str) -> Calls:
    return written("Allreduce 8 B x3; Allreduce 80 B x1; Barrier 0 B x1; Bcast 4 B x1")


def cg_on(rank: int, ranks: int, problem: str) -> Calls:
    """As many columns as rows, or twice as many. Sums go from column to column, over powers of two; a product is added
    up likewise, and then turned from rows into columns.
    """
    size, iterations = {"S": (1400, 15), "B": (75000, 75)}[problem]
    rows = 1 << log2(ranks) // 2
    columns = ranks // rows
    solves = iterations + 1
    made = Made("Barrier 0 B x1; Bcast 4 B x1; Reduce 8 B x1")
    row, column = divmod(rank, columns)
    half = rank // (columns // rows)
    turned = (columns // rows) * (half % rows * rows + half // rows) + rank % (columns // rows)
    for step in range(log2(columns)):
        other = row * columns + (column ^ 1 << step)
        made.both("Send", "Irecv", 1, 52 * solves, other)
        made.both("Send", "Irecv", 2, solves, other)
        made.both("Send", "Irecv", size // columns, 26 * solves, other)
    made.both("Send", "Irecv", size // columns, 26 * solves, turned)
    return with_waits(made.calls)


def with_waits(calls: Calls) -> Calls:
    """Each receive that was started is waited for by itself."""
    waits = {("Wait", size): (times, 0) for (name, size), (times, _) in calls.items() if name == "Irecv"}
    return {**calls, **waits}


def mg_on(rank: int, ranks: int, problem: str) -> Calls:
    """Point c of a coarse level lies on point 2c + 1 of the finer one, so of two ranks that share a point the second
    has it, and the first is idle. Going up again, it gets two layers from the rank below, and one from above.
    """
    top, iterations = {"S": (5, 4), "B": (8, 20)}[problem]
    cycles = iterations + 1
    third = log2(ranks) // 3
    parts = [1 << third, 1 << (log2(ranks) - third) // 2]
    parts.append(ranks // (parts[0] * parts[1]))
    at = (rank % parts[0], rank // parts[0] % parts[1], rank // (parts[0] * parts[1]))
    buffer = 2 * ((1 << top - third) + 2) ** 2
    made = Made(
        "Allreduce 8 B x48; Allreduce 16 B x40; Barrier 0 B x6; Bcast 4 B x6; Bcast 32 B x1; Reduce 8 B x1"
    )

    def apart(level: int) -> list[int]:
        """How far the ranks that are active lie apart on each axis."""
        return [max(1, some >> level) for some in parts]

    def is_active(level: int) -> bool:
        return all((place + 1) % step == 0 for place, step in zip(at, apart(level), strict=True))

    def beside(axis: int, by: int) -> int:
        place = list(at)
        place[axis] = (place[axis] + by) % parts[axis]
        return place[0] + parts[0] * (place[1] + parts[1] * place[2])

    for level in range(1, top + 1):
        if not is_active(level):
            continue
        inner = [max(1, (1 << level) // some) for some in parts]
        outer = [points + 2 for points in inner]
        faces = (inner[1] * inner[2], outer[0] * inner[2], outer[0] * outer[1])
        times = 3 * cycles + 4 if level == top else 2 * cycles if level == 1 else 3 * cycles
        for axis, step in enumerate(apart(level)):
            for by in (step, -step):
                made.add("Send", faces[axis], times, beside(axis, by))
                made.add("Irecv", buffer, times, beside(axis, by))
        for axis, step in enumerate(apart(level)):
            coarse = apart(level - 1)[axis]
            if level == 1 or coarse == step:
                continue
            assert axis == 2, "on several axes one after the other: not written here"
            whole = outer[0] * outer[1]
            if (at[axis] + 1) % coarse == 0:
                made.add("Send", 2 * whole, cycles, beside(axis, step))
                made.add("Send", whole, cycles, beside(axis, -step))
            else:
                made.add("Irecv", buffer, cycles, beside(axis, step))
                made.add("Irecv", buffer, cycles, beside(axis, -step))
    return with_waits(made.calls)


def ft_on(_rank: int, ranks: int, problem: str) -> Calls:
    points, iterations = {"S": (64**3, 6), "B": (512 * 256 * 256, 20)}[problem]
    return {
        ("Alltoall", 16 * points // ranks): (iterations + 2, 0),
        ("Reduce", 16): (iterations, 0),
        **written("Barrier 0 B x1; Bcast 4 B x5; Comm_split 0 B x2"),
    }


def share(points: int, parts: int, place: int) -> int:
    """The first ones have one more."""
    return points // parts + (place < points % parts)


def lu_grid(ranks: int) -> tuple[int, int]:
    """Along x, along y."""
    along_y = 1 << log2(ranks) // 2
    return ranks // along_y, along_y


def lu_surface(ranks: int, problem: str) -> Calls:
    """The last messages, which rank 0 gets. They go one way, so every rank has others."""
    points = {"S": 12, "B": 102}[problem]
    x, y = (share(points, parts, 0) for parts in lu_grid(ranks))
    south, east = 1, lu_grid(ranks)[0]
    made = Made()
    for words, peer in ((2 * x, east), (2 * (y + 2), south), (points, south), (points, east)):
        made.add("Irecv", words, 1, peer)
    return with_waits(made.calls)


def lu_on(rank: int, ranks: int, problem: str) -> Calls:
    """Two layers go to each neighbour after each step; in a sweep each plane's edge, one way and then the other."""
    points, iterations = {"S": (12, 50), "B": (102, 250)}[problem]
    grid = lu_grid(ranks)
    at = (rank % grid[0], rank // grid[0])
    made = Made(
        "Allreduce 8 B x5; Allreduce 40 B x5; Barrier 0 B x2; Bcast 4 B x7; Bcast 8 B x2; Bcast 40 B x1"
    )
    for axis in range(2):
        other = 1 - axis
        edge = share(points, grid[other], at[other])
        inner = edge - (at[other] == 0) - (at[other] == grid[other] - 1)
        for by in (-1, 1):
            if 0 <= at[axis] + by < grid[axis]:
                peer = rank + by * (1, grid[0])[axis]
                made.both("Send", "Irecv", 10 * edge * points, iterations + 4, peer)
                made.both("Send", "Recv", 5 * inner, (iterations + 1) * (points - 2), peer)
    return with_waits(made.calls) | (lu_surface(ranks, problem) if rank == 0 else {})


class Cells:
    """Of SP and BT: of side^3 cells each rank has one in every slab of every axis."""

    def __init__(self, rank: int, ranks: int, points: int) -> None:
        self.side = isqrt(ranks)
        i, j = rank % self.side, rank // self.side
        places = [((i + cell) % self.side, (j - cell) % self.side, cell) for cell in range(self.side)]
        self.along = [sorted(places, key=lambda place, axis=axis: place[axis]) for axis in range(3)]
        steps = ((1, 0), (0, 1), (-1, 1))
        self.after = [self._rank(i + a, j + b) for a, b in steps]
        self.before = [self._rank(i - a, j - b) for a, b in steps]
        self.points = points

    def _rank(self, i: int, j: int) -> int:
        return i % self.side + self.side * (j % self.side)

    def face(self, place: tuple[int, int, int], axis: int) -> int:
        """Points across an axis."""
        a, b = (share(self.points, self.side, place[(axis + by) % 3]) for by in (1, 2))
        return a * b

    def lines(self, place: tuple[int, int, int], axis: int) -> int:
        """Those of them that are not on the boundary of the cube."""
        found = 1
        for by in (1, 2):
            at = place[(axis + by) % 3]
            found *= share(self.points, self.side, at) - (at == 0) - (at == self.side - 1)
        return found

    def add_halo(self, made: Made, times: int) -> None:
        """Two layers of five words of every cell that has a neighbour on that side, in one message."""
        words = 0
        for axis in range(3):
            for some, peer in (
                (self.along[axis][1:], self.before[axis]),
                (self.along[axis][:-1], self.after[axis]),
            ):
                face = 10 * sum(self.face(place, axis) for place in some)
                made.both("Isend", "Irecv", face, times, peer)
                words += 2 * face
        made.add("Waitall", words, times)


def sp_on(rank: int, ranks: int, problem: str) -> Calls:
    points, iterations = {"S": (12, 100), "B": (102, 400)}[problem]
    cells, times = Cells(rank, ranks, points), iterations + 1
    made = Made(
        "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x2; Bcast 8 B x1; Bcast 12 B x1; Reduce 8 B x1; Comm_dup 0 B x3"
    )
    cells.add_halo(made, iterations + 2)
    for axis in range(3):
        lines = [cells.lines(place, axis) for place in cells.along[axis]]
        for each, to, received in ((22, cells.after, lines), (10, cells.before, lines[::-1])):
            other = cells.before if to is cells.after else cells.after
            for own, following in pairwise(received):
                made.add("Isend", each * own, times, to[axis])
                made.add("Irecv", each * following, times, other[axis])
                made.add("Waitall", each * (own + following), times)  # this receive, and the send before it
    return made.calls


def bt_on(rank: int, ranks: int, problem: str) -> Calls:
    """It sends whole faces, with a layer more than the smallest cell has."""
    points, iterations = {"S": (12, 60), "B": (102, 200)}[problem]
    cells, times = Cells(rank, ranks, points), iterations + 1
    made = Made(
        "Allreduce 40 B x2; Barrier 0 B x2; Bcast 4 B x4; Bcast 8 B x1; Bcast 12 B x1; Reduce 8 B x1; Comm_dup 0 B x3"
    )
    cells.add_halo(made, iterations + 2)
    face, stages = (points // cells.side + 1) ** 2, cells.side - 1
    for axis in range(3):
        for each, to, other in ((30, cells.after, cells.before), (5, cells.before, cells.after)):
            made.add("Isend", each * face, times * stages, to[axis])
            made.add("Irecv", each * face, times * stages, other[axis])
            made.add("Wait", each * face, 2 * times * stages)
    return made.calls


def sweep_on(rank: int, cells: int, columns: int, rows: int) -> Calls:
    """Of Sweep3D with blocks of one plane and three angles. In four of eight octants each face goes one way, and in
    four the other.
    """
    iterations, octants, angles, block = 12, 8, 6, 3
    blocks = iterations * octants * (angles // block) * cells
    column, row = rank % columns, rank // columns
    across = (column > 0) + (column < columns - 1)
    along = (row > 0) + (row < rows - 1)
    faces = ((share(cells, rows, row), across), (share(cells, columns, column), along))
    calls: Calls = {
        ("Barrier", 0): (3, 0),
        ("Allreduce", 4): (iterations, 0),
        ("Allreduce", 8): (iterations + 8, 0),
    }
    for size, times in Counter([4, 4 * columns * rows, 16 * 4, 4 * 8]).items():
        calls["Bcast", size] = (times, 0)
    for length, neighbours in faces:
        for name in ("Recv", "Send"):
            times, peers = calls.get((name, length * block * 8), (0, 0))
            if neighbours:
                calls[name, length * block * 8] = (times + blocks // 2 * neighbours, peers + neighbours)
    return calls


RULES: dict[str, Callable[[int, int, str], Calls]] = {
    "is": is_on,
    "ep": ep_on,
    "cg": cg_on,
    "mg": mg_on,
    "ft": ft_on,
    "lu": lu_on,
    "sp": sp_on,
    "bt": bt_on,
}
