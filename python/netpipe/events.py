# SPDX-License-Identifier: Apache-2.0
"""What a worker writes to its standard output, one JSON object a line (docs/reference/worker.md), and what is known
after each: what the session tells whoever shows its progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

import msgspec

if TYPE_CHECKING:
    from netpipe.records import AnyRecord, Run


class Event(msgspec.Struct, kw_only=True, tag_field="event"):
    pass


class Ready(Event, kw_only=True, tag="ready"):
    """The plan is valid and the variants are open."""

    variants: int | None = None
    points: int | None = None  # of all curves
    budget_s: float | None = None  # of all curves


class Pass(Event, kw_only=True, tag="pass"):
    """A pass over the sizes has ended. A paced worker now waits for "go"."""

    number: int = msgspec.field(default=0, name="pass")
    done: int = 0  # points that need no more samples
    total: int = 0
    elapsed_s: float = 0.0
    left_s: float | None = None  # of the budgets of curves that are not done; slow sizes may take longer


class Ended(Event, kw_only=True, tag="end"):
    exit: int


class Launch(Event, kw_only=True, tag="launch"):
    """The worker wants processes that a launcher starts: those of a library, or one on each host for netpipe's own
    layers. They are to `join` the worker.
    """

    job: int
    variant: str
    module: str  # mpi@NAME; "": netpipe's own layers
    ranks: int
    join: str  # host:port
    secret: str  # for the environment of the ranks, never for a command line


class Stop(Event, kw_only=True, tag="stop"):
    """A job is over, or stuck: what is left of it is to end. There is no answer."""

    job: int


AnyEvent = Union[Ready, Pass, Ended, Launch, Stop]  # noqa: UP007  (msgspec reads it at run time)

_decoder = msgspec.json.Decoder(AnyEvent)
_TAGS = ("ready", "pass", "end", "launch", "stop")


class _Line(msgspec.Struct):
    event: str


def decode(line: bytes) -> AnyEvent | None:
    """None for an event of an unknown kind. Raises msgspec.DecodeError for anything that is not an event."""
    try:
        event: AnyEvent = _decoder.decode(line)
    except msgspec.ValidationError:
        if msgspec.json.decode(line, type=_Line).event in _TAGS:
            raise
        return None
    return event


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known after an event of a worker. `run` grows with the measurement; do not change it."""

    run: Run
    event: AnyEvent | None  # None: between two workers
    launch: int  # of the worker
    launches: int  # still to come after it, including those that a loss has added
    lines: list[tuple[bytes, AnyRecord]]  # of the run file, since the last call
    note: str | None = None  # a sentence for people
