# SPDX-License-Identifier: Apache-2.0
"""Operations on the memory of another rank, and exchanges of all ranks, beside the loops that anybody would write."""

from __future__ import annotations

from measured import Result
from of_mpi import over_open_mpi
from slices import SAID, compared, netpipe

WINDOWS = ("allocate", "create")


def mpi_words(rounds: int) -> list[Result]:
    """Atomic operations and sums with a flush after each, in both kinds of window."""
    return [
        row
        for window in WINDOWS
        for row in over_open_mpi(
            rounds,
            "mpi-words",
            "words",
            [
                ("atomic", ("fetch_and_op", window), 8, "fetch and add"),
                ("atomic:op=compare_swap", ("compare_and_swap", window), 8, "compare and swap"),
                ("accumulate", ("accumulate", window), 8, "accumulate"),
                ("accumulate", ("accumulate", window), 1 << 20, "accumulate"),
                ("accumulate:fetch=yes", ("get_accumulate", window), 8, "get and accumulate"),
                ("accumulate:fetch=yes", ("get_accumulate", window), 1 << 20, "get and accumulate"),
            ],
            (f"window={window},transport=shm",),
        )
    ]


def mpi_ring(rounds: int) -> list[Result]:
    """A ring of two ranks: the slower of the two, begun at one moment, beside rank 0 of a loop."""
    return over_open_mpi(
        rounds,
        "mpi-ring",
        "words",
        [("ring", ("ring", "create"), size, "ring") for size in (8, 65536, 1 << 20)],
        ("transport=shm",),
    )


def shm_signal(rounds: int) -> list[Result]:
    """What a put with a signal costs more than a message, over netpipe's own shared memory."""
    return [
        compared(
            "shm-signal",
            f"{text}: put with a signal / message",
            rounds,
            netpipe("shm", size, "signal"),
            netpipe("shm", size),
            SAID,
        )
        for size, text in ((8, "8 B"), (65536, "64 KiB"))
    ]


COMPARISONS = {"mpi-words": mpi_words, "mpi-ring": mpi_ring, "shm-signal": shm_signal}
