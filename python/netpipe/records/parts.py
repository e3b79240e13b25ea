# SPDX-License-Identifier: Apache-2.0
"""The parts of records, and why an invalid text is not a record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

# Numbers that may stand in a record: times within 31 years, and what no quantity of ours exceeds. What is beyond is
# damage, and arithmetic with it would end in infinities.
Ns = Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)]
Real = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e30)]
Int = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Decoded = TypeVar("Decoded")


class NotARun(ValueError):  # noqa: N818  (it reads as what it says)
    """No run file, or one of a newer netpipe. The sentence names the file, the line and what is wrong."""


def told(decoded: Callable[[Any], Decoded], text: bytes | msgspec.Raw) -> Decoded:
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


def said(error: Exception) -> str:
    text = str(error)
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]


class PlannedVariant(msgspec.Struct, kw_only=True):
    variant: str
    module: str
    options: dict[str, str] = {}  # defaults included
    tunable: list[str] | None = None  # options that a tuner searches unasked; None: an older file
    copy_of: str | None = None  # the variant that this one is measured beside, as a control


class PlannedMode(msgspec.Struct, kw_only=True):
    pattern: str  # as in the points: with the settings that differ from their defaults
    name: str  # without them
    options: dict[str, str] = {}  # defaults included
    tunable: list[str] = []  # options whose value leaves the operation the same; none in older files


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
    huge_bytes: Int | None = None  # of its message memory on huge pages; None: no setting pages
    memory_node: Int | None = None  # NUMA node of all its message memory; None: no setting node


class Promises(msgspec.Struct, kw_only=True):
    """What a layer promises of messages with the settings of a variant."""

    delivers: bool = True  # what is sent arrives somewhere
    lossy: bool = False  # messages may be lost
    # it keeps no order: messages are received in order all the same, so one that was overtaken may count as lost
    unordered: bool = False
    empty: bool = False  # messages may have 0 bytes
    max_message_bytes: Int | None = None  # None: no limit
    max_inline_bytes: Int = 0  # the largest message that travels inside its request; 0: none does
    alignment_bytes: Int = 1  # messages begin at multiples of it


class Counted(msgspec.Struct, kw_only=True):
    """What a number in `counters` of points and samples is; the module that counts says so."""

    unit: str = ""  # 1, bytes, us, bytes/s, ...
    gauge: bool = False  # a value at the end of each visit, of which the largest counts; False: visits add up


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


LENGTHS = "the lists of visits differ in length"


class VisitTimes(msgspec.Struct, kw_only=True, gc=False):
    """What most readers want of `Visits`."""

    block: list[Int]
    median_ns: list[Ns]

    def __post_init__(self) -> None:
        if len(self.block) != len(self.median_ns):
            raise ValueError(LENGTHS)


class VisitMoments(msgspec.Struct, kw_only=True, gc=False):
    """When they were, of `Visits`."""

    block: list[Int]
    at_s: list[Real]

    def __post_init__(self) -> None:
        if len(self.block) != len(self.at_s):
            raise ValueError(LENGTHS)


class Visits(msgspec.Struct, kw_only=True, gc=False):
    """The visits of a point, one entry each in every list, by time."""

    block: list[Int]  # all curves at one size, measured back to back; numbered within the launch
    at_s: list[Real]
    state: list[Int]  # of the machine
    samples: list[Int]  # kept
    median_ns: list[Ns]  # per operation

    def __post_init__(self) -> None:
        if len(set(map(len, msgspec.structs.astuple(self)))) > 1:
            raise ValueError(LENGTHS)
