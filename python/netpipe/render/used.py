# SPDX-License-Identifier: Apache-2.0
"""The cells of tables about profiles: what calls took, and what a phase of a program used. Terminal and page choose
their columns by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netpipe.profiles.phases import Used
from netpipe.profiles.tables import Timed
from netpipe.units import UNKNOWN, counts_text, percent_text, time_text, volume_text

MOST_CALLS = 10  # that have a row of their own; the others are summed
TIMED = ("time", "share", "calls", "mean", "most")
USED = ("time", "share", "calls", "messages", "collectives", "volume")


def timed_cells(of: Timed | None, columns: Sequence[str] = TIMED) -> list[str]:
    """Of TIMED, those of these columns; None: nobody knows."""
    if of is None:
        return _chosen(None, columns)
    texts = {
        "time": time_text(of.time_ns),
        "share": percent_text(of.share),
        "calls": counts_text(of.calls),
        "mean": time_text(of.mean_ns),
        "most": time_text(of.most_ns),
    }
    return _chosen(texts, columns)


def used_cells(of: Used | None, columns: Sequence[str] = USED) -> list[str]:
    """Of USED, those of these columns; None: nobody knows."""
    if of is None:
        return _chosen(None, columns)
    texts = {
        "time": time_text(of.time_ns),
        "share": percent_text(of.share),
        "calls": counts_text(of.calls),
        "messages": counts_text(of.messages),
        "collectives": counts_text(of.collectives),
        "volume": volume_text(of.bytes),
    }
    return _chosen(texts, columns)


def _chosen(texts: Mapping[str, str] | None, columns: Sequence[str]) -> list[str]:
    return [UNKNOWN if texts is None else texts[column] for column in columns]
