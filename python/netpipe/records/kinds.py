# SPDX-License-Identifier: Apache-2.0
"""The types of records: one Struct is one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Union, get_args

import msgspec

from netpipe.columns import check, flat, measure_columns
from netpipe.records.parts import (
    Buffers,
    Cell,
    Counted,
    Decoded,
    Histogram,
    Int,
    Measure,
    NotARun,
    Ns,
    PlannedMode,
    PlannedVariant,
    Promises,
    Rank,
    Rate,
    Real,
    Schedule,
    VisitMoments,
    Visits,
    VisitTimes,
    said,
    told,
)


def _columns_of(measures: list[Measure]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for one in measures:
        columns |= zip(measure_columns(one.name, one.unit), (one.median, one.low, one.high), strict=True)
    return columns


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
    confirms: str | None = None  # `run` of the run whose finding this experiment confirms or not
    # `run` of the runs whose curves these are read with (netpipe predict --measure)
    completes: list[str] = []


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
    version: str | None = None  # of the library that answered in its ranks, or of the kernel
    added_for: str | None = None  # the library that the module was added for, where another one answered
    below: str | None = None
    adds: str | None = None
    idle: bool | None = None  # it touches no byte: netpipe itself is measured; None: an older file
    promises: Promises | None = None  # None: an older file
    counted: dict[str, Counted] = {}  # by the name of a counter of its layer; none in older files
    launch_s: Real | None = None  # that the library's launcher took until all processes were there
    ranks: list[Rank] = []

    def rows(self) -> Iterator[dict[str, Any]]:
        whole = self.fields()
        del whole["ranks"], whole["counted"]
        whole = flat(whole)
        for rank in self.ranks:
            yield whole | flat(msgspec.to_builtins(rank))


class Theory(Record, kw_only=True, tag="theory"):
    """A model that is drawn beside what was measured (theory.py). Nothing was measured for it."""

    theory: str  # as it was given
    rate_bytes_per_s: Rate
    latency_ns: Ns
    packet_ns: Ns = 0.0  # of each packet
    packet_bytes: Int = 0  # most bytes of a message in one; 0: a message is one packet
    header_bytes: Int = 0  # that each packet has beside them
    rendezvous_bytes: Int | None = None  # messages from this size on wait for one round trip


class Yardstick(Record, kw_only=True, tag="yardstick"):
    launch: Int = 0
    at_s: Real | None = None
    state: Int | None = None
    clock_ns: Ns | None = None
    clock_resolution_ns: Ns | None = None
    bounce_ns: Ns | None = None
    copy_bytes_per_s: Rate | None = None
    wakeup_ns: Ns | None = None
    multiply_ns: Ns | None = None  # of 64-bit integers, each needing the one before; None: an older file
    clock_source: str | None = None  # that the kernel reads the time from
    # of the processor time since the yardstick before, that the hypervisor gave to others; none of a launch's first
    stolen_share: Real | None = None


class Pause(Record, kw_only=True, tag="pause"):
    """Nothing ran for a while. With a variant: it fell into this visit, which does not count."""

    launch: Int = 0
    variant: str | None = None
    pattern: str | None = None
    size_bytes: Int | None = None
    at_s: Real | None = None
    seconds: Real | None = None
    cause: str | None = None  # suspended (the host), stopped (a process of the run, or another host)


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
    bytes_per_s: Rate | None = None  # over the median
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
    counters: dict[str, Int] = {}  # over all visits and ranks; of gauges the largest value
    cells: list[Cell] = []

    exploded: ClassVar[dict[str, Any]] = {"measures": None, "visits": None, "cells": list[Cell]}

    def distribution(self) -> Histogram | None:
        """`histogram`, which is still JSON text in a run that was read without samples. Raises NotARun."""
        return self._unpacked("histogram", self.histogram, Histogram)

    def visit_times(self) -> VisitTimes | Visits | None:
        """The times in `visits`, which are still JSON text in a run that was read without samples. Raises NotARun."""
        return self._unpacked("list of visits", self.visits, VisitTimes)

    def visit_moments(self) -> VisitMoments | Visits | None:
        """As `visit_times`, when the visits were. Raises NotARun."""
        return self._unpacked("list of visits", self.visits, VisitMoments)

    def _unpacked(self, name: str, packed: Any, kind: type[Decoded]) -> Decoded | Any:
        if not isinstance(packed, msgspec.Raw):
            return packed
        try:
            return told(lambda text: msgspec.json.decode(text, type=kind), packed)
        except msgspec.DecodeError as error:
            where = f"{self.variant} {self.pattern} at {self.size_bytes} bytes"
            raise NotARun(f"the {name} of {where} is damaged: {said(error)}") from None

    def whole_visits(self) -> Visits | None:
        """`visits`, which are still JSON text in a run that was read without samples. Raises NotARun."""
        return self._unpacked("list of visits", self.visits, Visits)

    def fields(self) -> dict[str, Any]:
        self.histogram = self.distribution()
        self.visits = self.whole_visits()
        return super().fields()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each measure becomes three columns (`measure_columns`); `cells` stays a list of objects; without visits."""
        whole = self.fields()
        del whole["measures"], whole["visits"]
        cells = whole.pop("cells") or None
        whole = flat(whole) | {"cells": cells}
        yield whole | _columns_of(self.measures)

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
    # Of a size that has no time because every sample lost a message, as those of a point.
    measures: list[Measure] = []
    counters: dict[str, int] = {}

    exploded: ClassVar[dict[str, Any]] = {"measures": None}

    def rows(self) -> Iterator[dict[str, Any]]:
        whole = self.fields()
        del whole["measures"]
        yield flat(whole) | _columns_of(self.measures)


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
    Header,
    Plan,
    Theory,
    Environment,
    Variant,
    Yardstick,
    Pause,
    Sample,
    Point,
    Counters,
    Skipped,
    Error,
    Launch,
    End,
]
KINDS: dict[str, type[Record]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyRecord)}
