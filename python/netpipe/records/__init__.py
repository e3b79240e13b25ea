# SPDX-License-Identifier: Apache-2.0
"""The record types of a run file: the only place in Python that knows the format (docs/reference/record.md).

One Struct is one line. Unknown fields and types are ignored, so that an older reader opens a newer file; a field whose
value is not known is None. Times are nanoseconds (`*_ns`) or seconds (`*_s`), sizes are bytes, nothing is scaled.
"""

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
from netpipe.records.lines import SCHEMA, Run, decode, encode, read
from netpipe.records.parts import (
    Buffers,
    Cell,
    Histogram,
    Measure,
    NotARun,
    PlannedMode,
    PlannedVariant,
    Rank,
    Schedule,
    VisitMoments,
    Visits,
    VisitTimes,
)

__all__ = [
    "KINDS",
    "SCHEMA",
    "AnyRecord",
    "Buffers",
    "Cell",
    "Counters",
    "End",
    "Environment",
    "Error",
    "Header",
    "Histogram",
    "Launch",
    "Measure",
    "NotARun",
    "Pause",
    "Plan",
    "PlannedMode",
    "PlannedVariant",
    "Point",
    "Rank",
    "Record",
    "Run",
    "Sample",
    "Schedule",
    "Skipped",
    "Theory",
    "Variant",
    "VisitMoments",
    "VisitTimes",
    "Visits",
    "Yardstick",
    "decode",
    "encode",
    "read",
]
