# SPDX-License-Identifier: Apache-2.0
"""What a figure is drawn from: one run or several, and which of their curves, sizes and measures were chosen; or a
profile, or results of kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from netpipe.findings.machine_state import other_text
from netpipe.reading import Reading
from netpipe.reading.across.merge import name_of
from netpipe.reading.curves import Curve, CurvePoint, CurvePoints
from netpipe.reading.estimate import Estimate
from netpipe.reading.losses import Loss, SizeLoss
from netpipe.reading.measures import Measured, typical_sizes
from netpipe.reading.sweeps import PatternSettings, pattern_settings, setting_text
from netpipe.records import Run
from netpipe.render.drawing import kernels as of_kernels
from netpipe.render.drawing import profiles as of_profiles
from netpipe.render.drawing.few import differing, first, with_few_points
from netpipe.render.drawing.picture import NothingToDraw
from netpipe.render.palette import HUES, hue_of
from netpipe.render.words import when, where
from netpipe.units import size_text

if TYPE_CHECKING:
    from netpipe.kernels.table import Row
    from netpipe.profiles import Profile
    from netpipe.profiles.figures import Figures
    from netpipe.profiles.tables import Tables

MOST_VIEWS = 24  # of one panel: nobody chooses from more


@dataclass(frozen=True, slots=True)
class Member:
    """One chosen curve."""

    reading: Reading
    curve: Curve
    state: str = ""  # in words, of another state of a curve

    @property
    def variant(self) -> str:
        return self.curve.variant

    @property
    def name(self) -> str:
        """The variant, and in which state if it is not its own."""
        return f"{self.variant} {self.state}" if self.state else self.variant

    @property
    def pattern(self) -> str:
        return self.curve.pattern

    @property
    def moved(self) -> float:
        """How many times its size an operation moves; 0 where there is no rate."""
        points = self.curve.points
        rated = points.moves & (points.size > 0)
        if not rated.any():
            return 0.0
        place = int(rated.argmax())
        return float(points.rates.value[place] * points.times.value[place] / points.size[place] / 1e9)

    def losses(self, loss: Loss) -> list[SizeLoss]:
        """Of the losses of this curve those at its sizes, without 0 bytes."""
        sizes = {point.size_bytes for point in self.points()}
        return list(loss.sizes.of_sizes(sizes))

    def points(self, rates: bool = False) -> list[CurvePoint]:
        """Its points. 0 bytes have no place on a logarithmic axis, and some patterns have no rate."""
        return [
            point
            for point in self.curve.points
            if point.size_bytes > 0 and (not rates or point.rate_bytes_per_s is not None)
        ]

    def values(self, measured: Measured) -> list[tuple[float, Estimate]]:
        """Of a measure of this curve what is known at its sizes, without 0 bytes."""
        sizes = {point.size_bytes for point in self.points()}
        return [(float(size), value) for size, value in measured.values.items() if size in sizes]


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
    fitted: bool = False  # curves as points, with the lines that were fitted to their pieces
    profiles: tuple[Profile, ...] = ()  # of launches of one program; figures of a profile show the first one
    own: str = ""  # the variant that they were taken over; empty: the library without settings
    kernels: tuple[Row, ...] = ()  # results of netpipe apps

    @cached_property
    def chosen(self) -> tuple[Member, ...]:
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
    def members(self) -> tuple[Member, ...]:
        """The chosen curves that are drawn, with the sizes that are drawn (`few`)."""
        patterns: dict[str, dict[int, CurvePoints]] = {}
        for place, member in enumerate(self.chosen):
            patterns.setdefault(member.pattern.partition(":")[0], {})[place] = member.curve.points
        drawn = [self.chosen[place] for place in sorted(differing(tuple(patterns.values())))]
        curves = with_few_points([one.curve for one in drawn])
        return tuple(Member(one.reading, curve) for one, curve in zip(drawn, curves, strict=True))

    @cached_property
    def first(self) -> tuple[Member, ...]:
        """Of the curves that are drawn those that a figure which can be explored begins with."""
        chains = {
            (step.variant, stack.pattern)
            for reading in self.readings
            for stack in reading.stacks
            for step in stack.steps
        }
        found: list[Member] = []
        for group in self.groups:
            curves = {place: one.curve.points for place, one in enumerate(group.members)}
            names = [(one.variant, one.pattern) for one in group.members]
            in_chains = [place for place, name in enumerate(names) if name in chains]
            found += [group.members[place] for place in sorted(first(curves, in_chains))]
        return tuple(found)

    @cached_property
    def others(self) -> tuple[Member, ...]:
        """What the curves that are drawn are in other states of the machine."""
        found = []
        for member in self.members:
            name = (member.variant, member.pattern)
            for other, curve in member.reading.other_states.get(name, ()):
                points = curve.points.of_sizes(member.curve.points.size.tolist())
                said = other_text(member.reading.in_states[name], other)
                found.append(Member(member.reading, replace(curve, points=points), said))
        return tuple(found)

    @cached_property
    def left_out(self) -> str:
        """What is not drawn, in words; empty if everything is."""
        parts = []
        if len(self.members) < len(self.chosen):
            parts.append(f"{len(self.members)} of {len(self.chosen)} curves, those that differ most")
        drawn = max((len(one.curve.points) for one in self.members), default=0)
        whole = max((len(one.curve.points) for one in self.chosen), default=0)
        if drawn < whole:
            parts.append(f"{drawn} of {whole} sizes")
        return " at ".join(parts)

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
        return self.variant_label(
            member.reading, f"{member.name}, {member.pattern}" if self._several else member.name
        )

    @cached_property
    def _several(self) -> bool:
        return len({one.pattern for one in self.members}) > 1

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
        """A variant has one colour in all figures: the hue of its module, with dashes in the order of the plan where
        several have one hue (`palette.style`).
        """
        if variant not in self._ranks:
            self._ranks[variant] = self._taken(self._hue(variant))
        return self._hue(variant) + HUES * self._ranks[variant]

    def _hue(self, variant: str) -> int:
        module = self._modules.get(variant, name_of(variant).partition(":")[0])
        return hue_of(module.partition("@")[0])  # of all libraries of a module alike

    def _taken(self, hue: int) -> int:
        return sum(self._hue(one) == hue for one in self._ranks)

    @cached_property
    def dash_step(self) -> int:
        """How many dashes the variants of one hue take. Whatever else differs in dashes counts in such steps."""
        return max(self._ranks.values(), default=0) + 1

    def dash_of_run(self, reading: Reading) -> int:
        """Where patterns do not stand beside each other."""
        return self.dash_step * self.readings.index(reading)

    def dash_of(self, member: Member) -> int:
        """The patterns and runs of a variant differ in their dashes, and so do other states of its curves."""
        known = self._curves_of[member.variant]
        place = known.index((member.reading, member.pattern))
        if member.state:
            of = (member.reading, member.variant, member.pattern)
            alike = [one.state for one in self.others if (one.reading, one.variant, one.pattern) == of]
            place += len(known) * (1 + alike.index(member.state))
        return self.dash_step * place

    @cached_property
    def _curves_of(self) -> dict[str, list[tuple[Reading, str]]]:
        """The runs and patterns of each variant that is drawn."""
        found: dict[str, list[tuple[Reading, str]]] = {}
        for one in self.members:
            found.setdefault(one.variant, []).append((one.reading, one.pattern))
        return found

    @cached_property
    def _modules(self) -> dict[str, str]:
        runs = [reading.run for reading in self.readings]
        known = {one.variant: one.module for run in runs for one in run.variants if one.module}
        return known | {
            one.variant: one.module for run in runs for plan in run.plans for one in plan.variants
        }

    @cached_property
    def _ranks(self) -> dict[str, int]:
        """Of each variant, how many before it have its hue. Those that were not chosen count too, so that a choice
        changes no look.
        """
        found: dict[str, int] = {}
        taken: dict[int, int] = {}
        for reading in self.readings:
            for curve in reading.curves:
                if curve.variant not in found and not reading.is_idle(curve.variant):
                    hue = self._hue(curve.variant)
                    found[curve.variant] = taken.get(hue, 0)
                    taken[hue] = taken.get(hue, 0) + 1
        return found

    @cached_property
    def conventions(self) -> dict[str, str]:
        """Of variants that were imported, what their numbers are: the mean or median, and how they were measured. By
        the name in figures.
        """
        return {
            self.variant_label(reading, one.variant): str(source)
            for reading in self.readings
            for one in reading.run.variants
            for rank in one.ranks
            if (source := rank.settings.get("source")) and "imported_from" in rank.settings
        }

    @cached_property
    def subtitle(self) -> str:
        """Where and when the runs were measured; else which program was profiled, or which kernels ran."""
        if self.kernels:
            return of_kernels.subtitle(self.kernels)
        if self.profiles and not self.readings:
            return of_profiles.subtitle(self.tables.facts)
        parts = [part for one in self.readings for part in (where(one.run), when(one.run)) if part]
        parts += [f"drawn: {self.left_out}"] if self.left_out else []
        return "  ·  ".join(dict.fromkeys(parts))

    # ------------------------------------------------------------------------------------------ profiles

    @property
    def profile(self) -> Profile:
        """Raises NothingToDraw."""
        if not self.profiles:
            raise NothingToDraw("there is no profile; name a file of netpipe profile")
        return self.profiles[0]

    @cached_property
    def tables(self) -> Tables:
        """Of the profile. Raises NothingToDraw."""
        from netpipe.profiles.tables import tables

        return tables(self.profile)

    @cached_property
    def profiled(self) -> Figures:
        """What the figures of the profile show. Raises NothingToDraw."""
        from netpipe.profiles.figures import figures

        return figures(self.profile)

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
