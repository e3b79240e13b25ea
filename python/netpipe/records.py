# SPDX-License-Identifier: Apache-2.0
"""The record types of a run file: the only place in Python that knows the format (docs/reference/record.md).

One Struct is one line. Unknown fields and types are ignored, so that an older reader opens a newer file; a field whose
value is not known is None. Times are nanoseconds (`*_ns`) or seconds (`*_s`), sizes are bytes, nothing is scaled.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args

import msgspec

from netpipe.columns import check, flat, measure_columns
from netpipe.contents import Unbounded, blocks_of_lines

SCHEMA = 1  # rises when a field changes its meaning

# Numbers that may stand in a record: times within 31 years, and what no quantity of ours exceeds. What is beyond is
# damage, and arithmetic with it would end in infinities.
Ns = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
Real = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Decoded = TypeVar("Decoded")


class NotARun(ValueError):  # noqa: N818  (it reads as what it says)
    """No run file, or one of a newer netpipe. The sentence names the file, the line and what is wrong."""


# ----------------------------------------------------------------------------------------------- the parts


class PlannedVariant(msgspec.Struct, kw_only=True):
    variant: str
    module: str
    options: dict[str, str] = {}  # defaults included
    copy_of: str | None = None  # the variant that this one is measured beside, as a control


class PlannedMode(msgspec.Struct, kw_only=True):
    pattern: str  # as in the points: with the settings that differ from their defaults
    name: str  # without them
    options: dict[str, str] = {}  # defaults included


class Schedule(msgspec.Struct, kw_only=True):
    kind: str
    start_bytes: Int | None = None
    end_bytes: Int | None = None
    perturbation_bytes: Int | None = None


class Buffers(msgspec.Struct, kw_only=True):
    policy: str
    send_offset_bytes: Int = 0
    recv_offset_bytes: Int = 0
    pool_bytes: Int | None = None
    fresh_bytes: Int | None = None  # beside it: pages that are mapped for the fresh buffers of a visit


class Rank(msgspec.Struct, kw_only=True):
    rank: Int
    host: str | None = None
    cpu: Int | None = None
    processors: str | None = None  # that it may run on, as "0-3,8"; None: not known, or ranks share a process
    settings: dict[str, str] = {}  # as they really are
    resident_bytes: Int | None = None  # by which opening the library has made this process grow
    private_bytes: Int | None = None  # of these in memory that no other process sees
    pinned_bytes: Int | None = None
    open_s: Real | None = None  # in the library, until it was open and connected
    barrier_resident_bytes: Int | None = None  # the same when all ranks had met in a barrier


class Histogram(msgspec.Struct, kw_only=True):
    resolution: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None  # bucket width over its lower edge
    low_ns: list[Ns] = []  # lower edges, per operation
    count: list[Int] = []


class Measure(msgspec.Struct, kw_only=True):
    """Something that a pattern says of a size beside the time of an operation; what it is, its page says."""

    name: str
    unit: str = ""  # ns, 1 (a ratio), 1/s, bytes/s
    median: Real | None = None
    low: Real | None = None  # interval of the median; None: too few samples for one
    high: Real | None = None


class Cell(msgspec.Struct, kw_only=True):
    """A rank, or a pair of ranks, with a time of its own."""

    rank: Int
    peer: Int | None = None
    median_ns: Ns | None = None  # per operation
    slowest: Int | None = None  # samples in which no other cell was slower


# --------------------------------------------------------------------------------------------- the records


class Record(msgspec.Struct, kw_only=True, tag_field="type", gc=False):
    """One line of a run file. `rows` is what it gives to a data frame: flat, one dictionary a row.

    Without gc, because a record is a tree: a large run has hundreds of thousands, and none is ever part of a cycle."""

    def rows(self) -> Iterator[dict[str, Any]]:
        yield flat(self.fields())

    def fields(self) -> dict[str, Any]:
        """The line as a dictionary, without its type."""
        whole: dict[str, Any] = msgspec.to_builtins(self)
        del whole["type"]
        return whole


class Header(Record, kw_only=True, tag="run"):
    """The first line."""

    schema: Int
    run: str  # 32 hex digits
    netpipe: str | None = None  # the version that measured
    started: str | None = None  # ISO 8601, UTC
    host: str | None = None
    argv: list[str] = []


class Plan(Record, kw_only=True, tag="plan"):
    launch: Int = 0
    hash: str | None = None
    variants: list[PlannedVariant] = []
    patterns: list[str] = []
    modes: list[PlannedMode] = []  # the same, taken apart
    schedule: Schedule | None = None
    sizes: list[Int] = []
    buffers: Buffers | None = None
    target: Real | None = None
    confidence: Real | None = None
    budget_s: Real | None = None  # of one curve, shared by the launches; in older files of each
    launches: Int | None = None
    verify: bool | None = None
    timeout_s: Real | None = None
    seed: int | None = None  # up to 2^64
    placement: str | None = None  # what was asked of the pinning: auto, none, smt, ..., or processors
    pin: list[Int | None] | None = None
    stack: dict[str, str] = {}  # by module, the one whose layer it stands on; of all that the worker knows
    state_tolerances: dict[str, float] = {}  # bounce, copy: within these factors two yardsticks are one state

    def rows(self) -> Iterator[dict[str, Any]]:
        whole = self.fields()
        del whole["variants"]
        whole = flat(whole)
        for planned in self.variants:
            yield whole | flat(msgspec.to_builtins(planned))


class Environment(Record, kw_only=True, tag="environment"):
    launch: Int = 0
    rank: Int = 0
    host: str | None = None
    facts: dict[str, Any] = {}

    def __post_init__(self) -> None:
        check(self.facts)


class Variant(Record, kw_only=True, tag="variant"):
    launch: Int = 0
    variant: str
    module: str
    version: str | None = None
    below: str | None = None
    adds: str | None = None
    idle: bool | None = None  # it touches no byte: netpipe itself is measured; None: an older file
    launch_s: Real | None = None  # that the library's launcher took until all processes were there
    ranks: list[Rank] = []

    def rows(self) -> Iterator[dict[str, Any]]:
        whole = self.fields()
        del whole["ranks"]
        for rank in self.ranks:
            yield whole | flat(msgspec.to_builtins(rank))


class Yardstick(Record, kw_only=True, tag="yardstick"):
    launch: Int = 0
    at_s: Real | None = None
    state: Int | None = None
    clock_ns: Ns | None = None
    clock_resolution_ns: Ns | None = None
    bounce_ns: Ns | None = None
    copy_bytes_per_s: Real | None = None
    wakeup_ns: Ns | None = None


class Sample(Record, kw_only=True, tag="sample", rename={"pass_": "pass"}):
    """The timed batches of one visit of a size; `ns` are raw durations of `ops` operations each."""

    launch: Int = 0
    variant: str
    pattern: str
    size_bytes: Int
    pass_: Int = 0
    block: Int | None = None
    state: Int | None = None
    at_s: Real | None = None
    ops: Int
    ns: list[Ns] = []
    dropped_ns: list[Ns] = []  # warm-up, before `ns`
    measures: dict[str, list[Real | None]] = {}  # beside `ns`, one value each
    verified_bytes: Int | None = None
    counters: dict[str, Int] = {}  # what the layer counted meanwhile, over all ranks; what is not there was 0
    messages: Int | None = None  # of a layer that may lose some, all ranks; None: it loses none
    lost: Int | None = None  # of these: a sample that they spoiled is not in `ns`

    exploded: ClassVar[dict[str, Any]] = {"ns": float, "dropped_ns": None, "op_ns": float, "dropped": bool}

    def rows(self) -> Iterator[dict[str, Any]]:
        whole = self.fields()
        del whole["dropped_ns"], whole["measures"], whole["counters"]
        for batch_ns, dropped in [(ns, True) for ns in self.dropped_ns] + [(ns, False) for ns in self.ns]:
            op_ns = batch_ns / self.ops if self.ops else None
            yield whole | {"ns": float(batch_ns), "op_ns": op_ns, "dropped": dropped}


def _check_lengths(visits: VisitTimes | Visits) -> None:
    if len(set(map(len, msgspec.structs.astuple(visits)))) > 1:
        raise ValueError("the lists of visits differ in length")


class VisitTimes(msgspec.Struct, kw_only=True, gc=False):
    """What most readers want of `Visits`."""

    block: list[Int]
    median_ns: list[Ns]

    def __post_init__(self) -> None:
        _check_lengths(self)


class Visits(msgspec.Struct, kw_only=True, gc=False):
    """The visits of a point, one entry each in every list, by time."""

    block: list[Int]  # all curves at one size, measured back to back; numbered within the launch
    at_s: list[Real]
    state: list[Int]  # of the machine
    samples: list[Int]  # kept
    median_ns: list[Ns]  # per operation

    def __post_init__(self) -> None:
        _check_lengths(self)


class Point(Record, kw_only=True, tag="point"):
    """All samples at one size. Every `*_ns` is per operation."""

    launch: Int = 0
    variant: str
    pattern: str
    size_bytes: Int
    state: Int | None = None
    samples: Int | None = None
    ops: Int | None = None
    single: bool = False  # every operation was timed by itself
    median_ns: Ns
    low_ns: Ns | None = None  # interval of the median; None: an imported point has none
    high_ns: Ns | None = None
    half_width: Real | None = None  # relative
    min_ns: Ns | None = None
    max_ns: Ns | None = None
    mean_ns: Ns | None = None
    p90_ns: Ns | None = None
    p99_ns: Ns | None = None
    p999_ns: Ns | None = None
    p9999_ns: Ns | None = None
    bytes_per_s: Real | None = None  # over the median
    correlation: Real | None = None  # integrated correlation time, in samples
    converged: bool | None = None  # None: imported, nobody knows
    stop: str | None = None  # precision, budget, limit, interrupted, error
    passes: Int | None = None
    dropped: Int | None = None
    leading: Int | None = None  # samples that each visit lost at its beginning as warm-up
    other_states: Int | None = None
    verified_bytes: Int | None = None
    histogram: Histogram | None = None
    visits: Visits | None = None
    measures: list[Measure] = []
    counters: dict[str, int] = {}  # over all visits and ranks; of gauges the largest value
    cells: list[Cell] = []

    exploded: ClassVar[dict[str, Any]] = {"measures": None, "visits": None, "cells": list[Cell]}

    def distribution(self) -> Histogram | None:
        """`histogram`, which is still JSON text in a run that was read without samples. Raises NotARun."""
        return self._unpacked("histogram", self.histogram, Histogram)

    def visit_times(self) -> VisitTimes | Visits | None:
        """The times in `visits`, which are still JSON text in a run that was read without samples. Raises NotARun."""
        return self._unpacked("list of visits", self.visits, VisitTimes)

    def _unpacked(self, name: str, packed: Any, kind: type[Decoded]) -> Decoded | Any:
        if not isinstance(packed, msgspec.Raw):
            return packed
        try:
            return _told(lambda text: msgspec.json.decode(text, type=kind), packed)
        except msgspec.DecodeError as error:
            where = f"{self.variant} {self.pattern} at {self.size_bytes} bytes"
            raise NotARun(f"the {name} of {where} is damaged: {_said(error)}") from None

    def fields(self) -> dict[str, Any]:
        self.histogram = self.distribution()
        self.visits = self._unpacked("list of visits", self.visits, Visits)
        return super().fields()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each measure becomes three columns (`measure_columns`); `cells` stays a list of objects; without visits."""
        whole = self.fields()
        del whole["measures"], whole["visits"]
        cells = whole.pop("cells") or None
        whole = flat(whole) | {"cells": cells}
        for measure in self.measures:
            values = (measure.median, measure.low, measure.high)
            whole |= dict(zip(measure_columns(measure.name, measure.unit), values, strict=True))
        yield whole

    def cell_rows(self) -> Iterator[dict[str, Any]]:
        """One row for each rank or pair that has a time of its own."""
        point = {
            "launch": self.launch,
            "variant": self.variant,
            "pattern": self.pattern,
            "size_bytes": self.size_bytes,
        }
        for cell in self.cells:
            yield point | msgspec.to_builtins(cell)


class Counters(Record, kw_only=True, tag="counters"):
    launch: Int = 0
    variant: str
    rank: Int = 0
    values: dict[str, str] = {}


class Skipped(Record, kw_only=True, tag="skipped"):
    launch: Int = 0
    variant: str
    pattern: str | None = None
    size_bytes: Int | None = None
    reason: str


class Error(Record, kw_only=True, tag="error"):
    launch: Int = 0
    variant: str | None = None
    pattern: str | None = None
    size_bytes: Int | None = None
    rank: Int | None = None
    host: str | None = None
    code: Int | None = None  # the exit code that it leads to
    message: str


class Launch(Record, kw_only=True, tag="launch"):
    """The end of a launch; sizes are the largest over its ranks."""

    launch: Int = 0
    seconds: Real | None = None
    passes: Int | None = None
    rss_bytes: Int | None = None
    buffer_bytes: Int | None = None
    states: Int | None = None


class End(Record, kw_only=True, tag="end"):
    """The last line."""

    exit: Int
    reason: str  # done, failed, interrupted, unstable
    seconds: Real | None = None


AnyRecord = Union[  # noqa: UP007
    Header, Plan, Environment, Variant, Yardstick, Sample, Point, Counters, Skipped, Error, Launch, End
]
KINDS: dict[str, type[Record]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyRecord)}

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


# ----------------------------------------------------------------------------------------- lines and files


def encode(record: Record) -> bytes:
    """One line, with its newline."""
    return _encoder.encode(record) + b"\n"


def decode(line: bytes) -> AnyRecord | None:
    """The record of one whole line; None where its type is not known. Raises msgspec.DecodeError."""
    return _told(_decoded, line)


def _told(decoded: Callable[[Any], Decoded], text: bytes | msgspec.Raw) -> Decoded:
    """What comes of the text. Whatever is wrong with it is a msgspec.DecodeError."""
    try:
        return decoded(text)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"invalid UTF-8: {error.reason} (byte {error.start})") from None
    except RecursionError:
        raise msgspec.DecodeError("JSON is nested too deeply") from None
    except ValueError as error:  # an integer of thousands of digits
        if isinstance(error, msgspec.DecodeError):
            raise
        raise msgspec.DecodeError(f"a value is out of range: {error}") from None


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
            record.histogram = (
                None if histogram == _NONE else histogram.copy()
            )  # not a view of the whole block
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
        raise NotARun(f"{name} is not a netpipe run file: line 1: {_said(error)}") from None
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
            raise NotARun(
                f"{name} is not a netpipe run file: line {number + place}: {_said(error)}"
            ) from None
        if record is not None:
            records.append(record)
    return records


def _said(error: Exception) -> str:
    text = str(error)
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]


class Run:
    """A run in memory, every type of record in a list of its own, in the order of the file."""

    _places: ClassVar[Mapping[type[Record], str]] = {
        Plan: "plans",
        Environment: "environments",
        Variant: "variants",
        Yardstick: "yardsticks",
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
        self.environments: list[Environment] = []
        self.variants: list[Variant] = []
        self.yardsticks: list[Yardstick] = []
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

    def body(self) -> list[Record]:
        """All records but the first and the last of the file, those of one type together."""
        return [record for place in self._places.values() for record in getattr(self, place)]
