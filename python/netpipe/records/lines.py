# SPDX-License-Identifier: Apache-2.0
"""Lines as records and records as lines, and a whole run in memory."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Union

import msgspec

from netpipe.contents import Unbounded, blocks_of_lines
from netpipe.records.kinds import (
    KINDS,
    AnyRecord,
    Counters,
    End,
    Environment,
    Error,
    Header,
    Launch,
    Pause,
    Plan,
    Point,
    Record,
    Sample,
    Skipped,
    Theory,
    Variant,
    Yardstick,
)
from netpipe.records.parts import Counted, NotARun, said, told

SCHEMA = 1  # rises when a field changes its meaning

_decoder = msgspec.json.Decoder(AnyRecord)
_encoder = msgspec.json.Encoder()


class _Line(msgspec.Struct):
    type: str


class _Passed(msgspec.Struct, tag_field="type", tag="sample"):
    """A sample without anything in it."""


class _Brief(Point, tag="point"):
    """A point whose histogram and visits are left as they stand in the line."""

    histogram: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]
    visits: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


_passing_decoder = msgspec.json.Decoder(
    Union[(_Passed, _Brief, *(kind for kind in KINDS.values() if kind not in (Sample, Point)))]
)
_NONE = msgspec.Raw(b"null")


def encode(record: Record) -> bytes:
    """One line, with its newline."""
    return _encoder.encode(record) + b"\n"


def decode(line: bytes) -> AnyRecord | None:
    """The record of one whole line; None where its type is not known. Raises msgspec.DecodeError."""
    return told(_decoded, line)


def _decoded(line: bytes) -> AnyRecord | None:
    try:
        record: AnyRecord = _decoder.decode(line)
    except msgspec.ValidationError:
        if msgspec.json.decode(line, type=_Line).type in KINDS:
            raise
        return None
    return record


def read(path: str | os.PathLike[str], samples: bool = True) -> Iterator[AnyRecord]:
    """The records of a run file in their order; a torn last line is left out. Raises NotARun, OSError.

    Without `samples` these are passed over: their lines must be JSON, and nothing else of them is looked at. Histograms
    and visits are then decoded when they are asked for: together they take most of the time and the memory.
    """
    return chain.from_iterable(_decoded_blocks(path, _decoder if samples else _passing_decoder))


def _decoded_blocks(path: str | os.PathLike[str], decoder: Any) -> Iterator[list[AnyRecord]]:
    """By blocks, which takes less time than by lines; a block with anything unusual by lines, to say which it is."""
    name = os.fspath(path)
    number = 1  # of the first line of the block
    with Path(path).open("rb") as file:
        try:
            for block, count in blocks_of_lines(file):
                if number == 1:
                    first, newline, block = block.partition(b"\n")
                    yield [_header(first + newline, name)]
                    number, count = 2, count - 1
                if block:
                    yield _records(block, number, count, decoder, name)
                number += count
        except Unbounded as error:
            raise NotARun(f"{name} {error}") from None
    if number == 1:
        raise NotARun(f"{name} is not a netpipe run file: it is empty")


def _records(block: bytes, number: int, count: int, decoder: Any, name: str) -> list[AnyRecord]:
    """Of so many lines from this number on."""
    try:
        records = decoder.decode_lines(block)
    except (msgspec.DecodeError, ValueError, RecursionError):
        records = None
    if records is None or len(records) != count:
        records = _by_line(block, number, name)
    return records if decoder is _decoder else _without_samples(records)


def _without_samples(records: Iterable[Any]) -> list[AnyRecord]:
    kept: list[AnyRecord] = []
    for record in records:
        kind = type(record)
        if kind is _Brief:
            histogram, visits = record.histogram, record.visits
            # not a view of the whole block
            record.histogram = None if histogram == _NONE else histogram.copy()
            record.visits = None if visits == _NONE else visits.copy()
            record.__class__ = Point
        elif kind is Sample or kind is _Passed:
            continue
        kept.append(record)
    return kept


def _header(line: bytes, name: str) -> Header:
    try:
        record = decode(line)
    except msgspec.DecodeError as error:
        raise NotARun(f"{name} is not a netpipe run file: line 1: {said(error)}") from None
    if not isinstance(record, Header):
        raise NotARun(f"{name} is not a netpipe run file: line 1 is not a record of type 'run'")
    if record.schema > SCHEMA:
        raise NotARun(
            f"{name} has record schema {record.schema} and this netpipe reads up to {SCHEMA}; use a newer netpipe"
        )
    return record


def _by_line(block: bytes, number: int, name: str) -> list[AnyRecord]:
    """The records of lines from this number on, without those of unknown types."""
    records = []
    for place, line in enumerate(io.BytesIO(block)):
        try:
            record = decode(line)
        except msgspec.DecodeError as error:
            if not line.endswith(b"\n"):
                break
            raise NotARun(f"{name} is not a netpipe run file: line {number + place}: {said(error)}") from None
        if record is not None:
            records.append(record)
    return records


class Run:
    """A run in memory, every type of record in a list of its own, in the order of the file."""

    _places: ClassVar[Mapping[type[Record], str]] = {
        Plan: "plans",
        Theory: "theories",
        Environment: "environments",
        Variant: "variants",
        Yardstick: "yardsticks",
        Pause: "pauses",
        Sample: "samples",
        Point: "points",
        Counters: "counters",
        Skipped: "skipped",
        Error: "errors",
        Launch: "launches",
    }

    def __init__(self, records: Iterable[Record] = (), path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self.header: Header | None = None
        self.plans: list[Plan] = []
        self.theories: list[Theory] = []
        self.environments: list[Environment] = []
        self.variants: list[Variant] = []
        self.yardsticks: list[Yardstick] = []
        self.pauses: list[Pause] = []
        self.samples: list[Sample] = []
        self.points: list[Point] = []
        self.counters: list[Counters] = []
        self.skipped: list[Skipped] = []
        self.errors: list[Error] = []
        self.launches: list[Launch] = []
        self.end: End | None = None  # None: the run was cut off, or goes on
        keep = {kind: getattr(self, place).append for kind, place in self._places.items() if kind is not Plan}
        for record in records:
            keep.get(type(record), self.add)(record)

    @classmethod
    def read(cls, path: str | os.PathLike[str], samples: bool = True) -> Run:
        """Without `samples` the run has none. Raises NotARun, or OSError from the file system."""
        return cls(read(path, samples), path)

    def add(self, record: Record) -> None:
        if isinstance(record, Header):
            self.header = record
        elif isinstance(record, End):
            self.end = record
        else:
            if isinstance(record, Plan):
                self.end = None  # the run was continued
            getattr(self, self._places[type(record)]).append(record)

    @property
    def counted(self) -> dict[str, dict[str, Counted]]:
        """By variant and the name of a counter. Without variants whose layer counts nothing, and those of older files,
        which say nothing of their counters.
        """
        return {one.variant: one.counted for one in self.variants if one.counted}

    def body(self) -> list[Record]:
        """All records but the first and the last of the file, those of one type together."""
        return [record for place in self._places.values() for record in getattr(self, place)]
