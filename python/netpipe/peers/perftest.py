# SPDX-License-Identifier: Apache-2.0
"""perftest (ib_send_lat, ib_write_bw, ...): a title, column names, rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from netpipe.peers import MEBI, US, Given, NotReadable, Number, Result, numbered, peer, rated, rows

TITLE = re.compile(
    r"(Send|RDMA[_ ]Write|RDMA[_ ]Read|Write|Read)\s*(?:with \w+ )?(?:Bidirectional )?(?:BW|Latency) Test"
)
COLUMNS = re.compile(r"^\s*#bytes\s+#iterations\s+(.*)")
KINDS = {"send": "pingpong", "write": "put", "read": "get"}
GIGA = 1e9


@peer("perftest", r"^\s*#bytes\s+#iterations\s")
def read(text: str, given: Given) -> Iterator[Result]:
    """Every table in the text."""
    lines = numbered(text, given)
    title = TITLE.search(text)
    kind = KINDS.get(title[1].lower().replace("rdma_", "").replace("rdma ", "") if title else "", "")
    starts = [place for place, (_, line) in enumerate(lines) if COLUMNS.match(line)]
    if not starts:
        raise NotReadable("it has no line '#bytes #iterations ...'")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        header = COLUMNS.match(lines[start][1])
        assert header
        yield _one(kind, header[1], lines[start + 1 : end], given)


def _one(kind: str, header: str, lines: list[tuple[int, str]], given: Given) -> Result:
    found: list[Number | None]
    if "t_typical" in header:
        # min, max, typical (the median), average, deviation, 99 %, 99.9 %
        found = [
            Number(
                int(row[0]),
                row[4] * US,
                row[0] / (row[4] * US) * 1e9 if row[0] else None,
                mean_ns=row[5] * US if len(row) > 5 else None,
                min_ns=row[2] * US,
                max_ns=row[3] * US,
                p99_ns=row[7] * US if len(row) > 7 else None,
                p999_ns=row[8] * US if len(row) > 8 else None,
            )
            for row in rows(lines, 5, given)
            if row[4] > 0
        ]
        return Result(kind or "pingpong", "perftest: the median (typical)", [one for one in found if one])
    unit = GIGA / 8 if "Gb/sec" in header else MEBI
    found = [rated(row[0], row[3] * unit) for row in rows(lines, 4, given)]
    source = "perftest: the mean over the test, with its transmit depth of messages in flight"
    return Result("window" if kind in ("", "pingpong") else kind, source, [one for one in found if one])
