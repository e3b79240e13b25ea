# SPDX-License-Identifier: Apache-2.0
"""Profiles in memory, from lists of calls; and the calls that rank 0 makes in the kernels of Liu et al. 2003: class B,
8 ranks (SP and BT: 4).

The lists are those of the reference codes, without what NPB 3.4 added since the paper (one more MPI_Bcast, one step of
LU).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from netpipe.profiles.lines import ANY, NONE, Call, End, Entries, Header, Profile, Rank

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "src/profiler/calls.h").read_text().partition("#define CALLS(X)")[2]
CALLS = [
    Call(name=name, does=re.findall(r"[a-z]\w+", does.lower()))
    for name, does in re.findall(r"X\((\w+), ([A-Z_ |0]+)\)", TABLE)
]
NUMBERS = {call.name: number for number, call in enumerate(CALLS)}

Made = tuple[str, int, int, int]  # call, bytes, how many, peer


def made(call: str, size: int, calls: int, peer: int = NONE) -> Made:
    return call, size, calls, peer


def entries(rank: int, rows: Iterable[Made], time_ns: int = 1000, most_ns: int = 5000) -> Entries:
    """Every call takes time_ns; half of those that start were found done."""
    rows = list(rows)
    many = len(rows)
    started = [calls if "starts" in CALLS[NUMBERS[call]].does else 0 for call, _, calls, _ in rows]
    return Entries(
        rank=rank,
        call=[NUMBERS[call] for call, *_ in rows],
        bytes=[size for _, size, _, _ in rows],
        peer=[peer for *_, peer in rows],
        communicator=[0] * many,
        phase=[1] * many,
        coarse=[0] * many,
        calls=[calls for _, _, calls, _ in rows],
        time_ns=[calls * time_ns for _, _, calls, _ in rows],
        most_ns=[most_ns] * many,
        waited=started,
        found_done=[calls // 2 for calls in started],
    )


def rank(number: int, host: str = "node0", seconds: float = 2.0, mpi_s: float = 0.5, **more: object) -> Rank:
    known = {"compute_s": seconds - mpi_s, "calls": 10, "program": "/opt/npb/cg.B"} | more
    return Rank(rank=number, host=host, seconds=seconds, mpi_s=mpi_s, **known)  # type: ignore[arg-type]


def profile_of(*ranks: Iterable[Made], hosts: int = 1, calls: list[Call] = CALLS) -> Profile:
    """One list of calls for each rank; the ranks are on `hosts` in blocks."""
    each = -(-len(ranks) // hosts)
    header = Header(
        schema=1,
        profile="0" * 32,
        started="2026-03-01T12:00:00+00:00",
        library="Open MPI 5.0.11",
        module="mpi@openmpi",
        ranks=len(ranks),
        calls=calls,
    )
    whole = [
        header,
        *(rank(number, f"node{number // each}") for number in range(len(ranks))),
        *(entries(number, rows) for number, rows in enumerate(ranks)),
        End(),
    ]
    return Profile(iter(whole))


# ----------------------------------------------------------------------------------------------------- rank 0, class B

MG_SENDS = {
    **dict.fromkeys((8, 24, 72), 84),
    **dict.fromkeys((32, 64, 192, 288, 512, 640, 800, 2048), 126),
    128: 252,
    **dict.fromkeys((2304, 2592, 8192, 8704, 9248, 32768, 33792, 34848), 126),
    **dict.fromkeys((131072, 133120, 135200), 134),
}
KERNELS: dict[str, list[Made]] = {
    "IS": [
        made("Allreduce", 4116, 11),
        made("Alltoall", 32, 11),
        made("Alltoallv", 16777216, 11),
        made("Reduce", 4, 1, 0),
        made("Reduce", 8, 1, 0),
        made("Send", 4, 1, 1),
    ],
    "CG": [
        *(made(call, 8, 3952, peer) for call in ("Irecv", "Send", "Wait") for peer in (1, 2)),
        *(made(call, 16, 76, peer) for call in ("Irecv", "Send", "Wait") for peer in (1, 2)),
        *(made(call, 150000, 1976, peer) for call in ("Irecv", "Send", "Wait") for peer in (0, 1, 2)),
        made("Barrier", 0, 1),
        made("Reduce", 8, 1, 0),
    ],
    "MG": [
        *(made("Send", size, calls, 1) for size, calls in MG_SENDS.items()),
        made("Irecv", 270400, 2922, ANY),
        made("Wait", 270400, 2922, ANY),
        made("Allreduce", 8, 48),
        made("Allreduce", 16, 40),
        made("Barrier", 0, 6),
        made("Bcast", 4, 5, 0),
        made("Bcast", 32, 1, 0),
        made("Reduce", 8, 1, 0),
    ],
    "LU": [
        *(
            made(call, size, 25000, peer)
            for call in ("Send", "Recv")
            for size, peer in ((1000, 1), (2000, 4))
        ),
        *(made("Send", size, 252, peer) for size, peer in ((212160, 1), (416160, 4))),
        *(made("Irecv", size, 252, ANY) for size in (212160, 416160)),
        made("Irecv", 416, 1, 4),
        made("Irecv", 816, 1, 1),
        made("Irecv", 816, 1, 4),
        made("Irecv", 848, 1, 1),
        made("Wait", 416160, 508, 4),
        made("Bcast", 4, 7, 0),
        made("Allreduce", 40, 10),
        made("Barrier", 0, 1),
    ],
    "FT": [
        made("Alltoall", 67108864, 22),
        made("Barrier", 0, 1),
        made("Bcast", 4, 4, 0),
        made("Reduce", 16, 20, 0),
        made("Comm_split", 0, 2),
    ],
    "SP": [
        *(
            made(call, size, calls, 1)
            for call in ("Isend", "Irecv")
            for size, calls in ((200000, 1203), (208080, 2412), (440000, 1203))
        ),
        made("Waitall", 440000, 2808),
        made("Allreduce", 40, 2),
        made("Barrier", 0, 2),
        made("Bcast", 4, 6, 0),
        made("Reduce", 8, 1, 0),
        made("Comm_dup", 0, 3),
    ],
    "BT": [
        *(
            made(call, size, calls, 1)
            for call in ("Isend", "Irecv")
            for size, calls in ((108160, 603), (208080, 1212), (648960, 603))
        ),
        made("Waitall", 648960, 202),
        made("Wait", 108160, 2412),
        made("Allreduce", 40, 2),
        made("Barrier", 0, 2),
        made("Bcast", 4, 6, 0),
        made("Reduce", 8, 1, 0),
        made("Comm_dup", 0, 3),
    ],
    "S3d-50": [
        *(made(call, size, 4800, peer) for call in ("Send", "Recv") for size, peer in ((600, 1), (312, 2))),
        made("Allreduce", 8, 32),
        made("Bcast", 4, 4, 0),
        made("Barrier", 0, 3),
    ],
}
