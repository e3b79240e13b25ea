# SPDX-License-Identifier: Apache-2.0
"""What a rank leaves in the folder of its job (src/profiler/part.h), made here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netpipe.profiles.part import CALL, COMMUNICATOR, ENTRY, EVENT, HEADER, LAYOUT, MAGIC

PER_NS = 3  # ticks
YEAR = 365 * 86_400 * 10**9  # ns
UNFINISHED, FINALIZED = 1, 2


def rows(kind: np.dtype[Any], made: Sequence[dict[str, Any]]) -> np.ndarray[Any, Any]:
    table = np.zeros(len(made), kind)
    for row, fields in zip(table, made, strict=True):
        for name, value in fields.items():
            row[name] = value
    return table


def leave(
    folder: Path,
    rank: int = 0,
    entries: Sequence[dict[str, Any]] = (),
    communicators: Sequence[list[int]] = ([0],),
    events: Sequence[dict[str, Any]] = (),
    **header: Any,
) -> None:
    """A part, and the trace beside it. Communicators are their members; the same ones have one name on all ranks."""
    members = [one for some in communicators for one in some]
    contents = {
        "call": rows(CALL, [{"name": b"Iprobe", "does": 16}]),
        "communicator": rows(
            COMMUNICATOR,
            [
                {
                    "members_hash": hash(tuple(some)) & 0xFFFF,
                    "ordinal": communicators[:place].count(some),
                    "size": len(some),
                    "first": sum(map(len, communicators[:place])),
                    "listed": len(some),
                }
                for place, some in enumerate(communicators)
            ],
        ),
        "member": np.array(members, "<i4"),
        "entry": rows(ENTRY, entries),
    }
    whole = np.zeros(1, HEADER)
    known: dict[str, Any] = {
        "magic": MAGIC,
        "layout": LAYOUT,
        "event_bytes": EVENT.itemsize,
        "ranks": rank + 1,
        "state": FINALIZED,
        "host": b"node",
        "entry_capacity": len(entries),
        "communicators": len(communicators),
        "members": len(members),
        "call_count": 1,
        "events": len(events),
        "last": (YEAR * PER_NS, YEAR, YEAR),
    }
    offset = HEADER.itemsize
    for name, table in contents.items():
        known[f"{name}_offset"] = offset
        offset += table.nbytes
        if name != "member":
            known[f"{name}_bytes"] = table.itemsize
    for name, value in (known | {"rank": rank} | header).items():
        whole[0][name] = value
    data = b"".join([whole.tobytes(), *(table.tobytes() for table in contents.values())])
    (folder / f"{rank}.part").write_bytes(data)
    if events:
        (folder / f"{rank}.trace").write_bytes(rows(EVENT, events).tobytes())
