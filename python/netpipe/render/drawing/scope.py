# SPDX-License-Identifier: Apache-2.0
"""What a figure is drawn from: one run or several, and which of their curves, sizes and measures were chosen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from netpipe.reading import Reading
from netpipe.reading.curves import Curve, CurvePoint
from netpipe.reading.measures import typical_sizes
from netpipe.reading.sweeps import PatternSettings, pattern_settings, setting_text
from netpipe.records import Run
from netpipe.render.drawing.picture import NothingToDraw
from netpipe.render.words import when, where
from netpipe.units import size_text

MOST_VIEWS = 24  # of one panel: nobody chooses from more


@dataclass(frozen=True, slots=True)
class Member:
    """One chosen curve."""

    reading: Reading
    curve: Curve

    @property
    def variant(self) -> str:
        return self.curve.variant

    @property
    def pattern(self) -> str:
        return self.curve.pattern

    def points(self, rates: bool = False) -> list[CurvePoint]:
        """Its points. 0 bytes have no place on a logarithmic axis, and some patterns have no rate."""
        return [
            point
            for point in self.curve.points
            if point.size_bytes > 0 and (not rates or point.rate_bytes_per_s is not None)
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """The chosen curves of one pattern with all its settings."""

    name: str
    settings: PatternSettings | None  # None: the pattern was run with one setting only
    members: tuple[Member, ...]

    def setting(self, pattern: str) -> str:
        """What tells this pattern from the others of the group; empty if it is the only one."""
        return setting_text(self.settings, pattern) if self.settings else ""


@dataclass(frozen=True)
class Scope:
    readings: tuple[Reading, ...]
    variants: tuple[str, ...] = ()  # keep only these; empty: all
    patterns: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    measures: tuple[str, ...] = ()
    log: bool | None = None  # the axis of rates; None: by the range of the curves

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """The chosen curves, in the order of the plan. The floor of the harness is among them only if it is alone."""
        chosen = [
            Member(reading, curve)
            for reading in self.readings
            for curve in reading.curves
            if (not self.variants or curve.variant in self.variants)
            and (not self.patterns or curve.pattern in self.patterns)
        ]
        layers = tuple(member for member in chosen if not member.reading.is_idle(member.variant))
        return layers or tuple(chosen)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """By pattern, in the order of the plan."""
        if len(self.readings) == 1:
            of = self.readings[0].settings_of
        else:
            whole = Run()
            whole.plans = [plan for reading in self.readings for plan in reading.run.plans]
            whole.points = [point for reading in self.readings for point in reading.run.points]
            of = {pattern: settings for settings in pattern_settings(whole) for pattern in settings.values}
        found: dict[str, list[Member]] = {}
        for member in self.members:
            settings = of.get(member.pattern)
            found.setdefault(settings.name if settings else member.pattern, []).append(member)
        return tuple(Group(name, of.get(some[0].pattern), tuple(some)) for name, some in found.items())

    def group(self, name: str) -> Group | None:
        """The curves of this pattern, if there are any."""
        return next((one for one in self.groups if one.name.partition(":")[0] == name), None)

    # ------------------------------------------------------------------------------------------ names and colours

    def label(self, member: Member) -> str:
        """The name of a curve among all: the pattern and the run only where there are several."""
        several = len({one.pattern for one in self.members}) > 1
        return self.variant_label(
            member.reading, f"{member.variant}, {member.pattern}" if several else member.variant
        )

    def variant_label(self, reading: Reading, name: str) -> str:
        """The name with that of its run, if there are several runs."""
        return f"{name}, {self._stems[self.readings.index(reading)]}" if len(self.readings) > 1 else name

    @cached_property
    def _stems(self) -> tuple[str, ...]:
        paths = [reading.run.path or Path() for reading in self.readings]
        stems = [path.stem for path in paths]
        return tuple(
            stem if stem and stems.count(stem) == 1 else f"run {number}"
            for number, stem in enumerate(stems, start=1)
        )

    def color(self, variant: str) -> int:
        """A variant has one colour in all figures, in the order of the plan."""
        return self._colors.setdefault(variant, len(self._colors))

    def dash(self, reading: Reading, pattern: str) -> int:
        """Patterns and runs differ in their dashes."""
        return self._dashes.setdefault((self.readings.index(reading), pattern), len(self._dashes))

    @cached_property
    def _colors(self) -> dict[str, int]:
        variants = dict.fromkeys(member.variant for member in self.members)
        return {variant: place for place, variant in enumerate(variants)}

    @cached_property
    def _dashes(self) -> dict[tuple[int, str], int]:
        found = dict.fromkeys((self.readings.index(one.reading), one.pattern) for one in self.members)
        return {key: place for place, key in enumerate(found)}

    @cached_property
    def subtitle(self) -> str:
        """Where and when the runs were measured."""
        parts = [part for one in self.readings for part in (where(one.run), when(one.run)) if part]
        return "  ·  ".join(dict.fromkeys(parts))

    # ------------------------------------------------------------------------------------------ sizes

    def few_sizes(self, sizes: Iterable[int]) -> tuple[int, ...]:
        """Of these sizes the ones that were chosen, else a few that stand for all."""
        there = set(sizes)
        return tuple(sorted(there.intersection(self.sizes))) if self.sizes else typical_sizes(there)

    # ------------------------------------------------------------------------------------------ what is missing

    def nothing(self, what: str) -> NothingToDraw:
        """The error that says what is missing and which curves there are."""
        there = dict.fromkeys(
            f"{curve.variant} ({curve.pattern})" for reading in self.readings for curve in reading.curves
        )
        if not there:
            return NothingToDraw(f"{what}: the run has no finished points")
        names = list(there)
        more = f" and {len(names) - 12} more" if len(names) > 12 else ""
        sizes = f"; chosen sizes: {', '.join(map(size_text, self.sizes))}" if self.sizes else ""
        return NothingToDraw(f"{what}; the run has {', '.join(names[:12])}{more}{sizes}")
