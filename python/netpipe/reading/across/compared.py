# SPDX-License-Identifier: Apache-2.0
"""Runs held against the first of them, or variants of one run, with all that is said about it."""

from __future__ import annotations

from dataclasses import dataclass

from netpipe.reading.across.between import Between
from netpipe.reading.across.differences import Difference, Pace

Other = tuple[str, tuple[Difference, ...], tuple[Pace, ...]]


@dataclass(frozen=True, slots=True)
class Compared:
    first: str  # the label of the first run, or the first variant
    others: tuple[Other, ...]  # the label of each other one, and what else differs from the first
    between: tuple[Between, ...]  # never empty
    missing: tuple[tuple[str, ...], ...]  # of each other run: curves of the first of which it has no size
    sources: tuple[str, ...] = ()  # of curves that were imported: what their numbers are
