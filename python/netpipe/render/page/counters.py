# SPDX-License-Identifier: Apache-2.0
"""What the layers counted at each size, for the report: retransmits, round-trip times, registrations, drops."""

from __future__ import annotations

from collections.abc import Mapping

from netpipe.reading.curves import Curve
from netpipe.records import Counted
from netpipe.render.page.tables import Column, Table, fixed

REMARK = (
    "Of each size, over all ranks and all visits together; where a column says largest, the largest value at the end "
    "of a visit. Counters that stayed at zero are left out. netpipe export --table counters writes all of them."
)


def table(curve: Curve, counted: Mapping[str, Counted]) -> Table | None:
    """A row for each size and launch, a column for each counter that is not zero everywhere; None: there is none.
    `counted` has their units, as far as the run says them.
    """
    records = [record for at in curve.points for record in at.by_launch]
    names = list(dict.fromkeys(name for one in records for name, value in one.counters.items() if value))
    if not names:
        return None
    several = len({one.launch for one in records}) > 1
    columns = [Column("size", "B"), *([Column("launch")] if several else [])]
    columns += [Column(name, _unit(counted.get(name, Counted()))) for name in names]
    rows = [
        (
            fixed(one.size_bytes),
            *([str(one.launch)] if several else []),
            *(fixed(one.counters.get(name)) for name in names),
        )
        for one in records
    ]
    return Table(tuple(columns), tuple(rows))


def _unit(of: Counted) -> str:
    return ", ".join([*([of.unit] if of.unit not in ("", "1") else []), *(["largest"] if of.gauge else [])])
