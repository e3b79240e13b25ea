# SPDX-License-Identifier: Apache-2.0
"""A run, read once. `Reading(run)` computes every analysis of a run on first use and keeps it; findings, renderers and
commands take a `Reading` and never analyse a run themselves. None of them looks at samples.

    reading = Reading(Run.read("run.jsonl", samples=False))
    for curve in reading.curves: ...

Everything here is pure: no terminal, no processes, no files. A `Reading` does not notice records that are added to its
run later; make a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netpipe.reading.across.between import Between
    from netpipe.reading.blocks.beside import Beside
    from netpipe.reading.blocks.chains import Stack
    from netpipe.reading.blocks.collectives import Collectives
    from netpipe.reading.blocks.drift import Drift
    from netpipe.reading.blocks.steps import Step
    from netpipe.reading.blocks.verdicts import Verdict
    from netpipe.reading.blocks.visits import Seen, Sized
    from netpipe.reading.cells import Slowest
    from netpipe.reading.columns.by_curve import ByCurve
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate, Reals
    from netpipe.reading.explained.decision import InStates, OtherState, Split
    from netpipe.reading.launches import LaunchSpread
    from netpipe.reading.losses import Loss
    from netpipe.reading.machine.clock_changes import ClockChange
    from netpipe.reading.machine.crowding import Crowding
    from netpipe.reading.machine.links import Link
    from netpipe.reading.machine.states import States
    from netpipe.reading.measures import Measured
    from netpipe.reading.models.loggp import LogGP
    from netpipe.reading.models.pieces import Fit
    from netpipe.reading.modes import Mode, SeveralModes
    from netpipe.reading.openings import Opening
    from netpipe.reading.plausible import TooFast
    from netpipe.reading.summary import Summary
    from netpipe.reading.sweeps import PatternSettings
    from netpipe.records import Point, Run

__all__ = ["Reading"]


class Reading:
    """What a run says. Each property is computed once; all tuples are in the order of the plan."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._modes: dict[int, tuple[Mode, ...]] = {}
        self._fits: dict[tuple[str, str], Fit | None] = {}

    @cached_property
    def idle(self) -> frozenset[str]:
        """Variants of a module that moves nothing: they measure netpipe itself, and have no rate."""
        from netpipe.reading.layers import is_idle

        return frozenset(opened.variant for opened in self.run.variants if is_idle(opened))

    def is_idle(self, variant: str) -> bool:
        """Does this variant move nothing? A run without `variant` records (imported) is judged by the name."""
        from netpipe.reading.layers import idle_by_name

        return variant in self.idle or (not self.run.variants and idle_by_name(variant))

    @cached_property
    def crowded(self) -> dict[str, Crowding]:
        """Variants with more ranks than processors."""
        from netpipe.reading.machine.crowding import crowded

        return crowded(self.run)

    @cached_property
    def crowded_by_threads(self) -> dict[tuple[str, str], Crowding]:
        """(variant, pattern) of curves with more threads of ranks than processors."""
        from netpipe.reading.machine.crowding import crowded_by_threads

        return crowded_by_threads(self.run)

    def crowding_of(self, variant: str, pattern: str) -> Crowding | None:
        """Of one curve: by the threads of its ranks, else by its ranks."""
        return self.crowded_by_threads.get((variant, pattern)) or self.crowded.get(variant)

    @cached_property
    def operations(self) -> dict[str, str]:
        """Pattern, as in the points -> the operation that it stands for, of patterns that stand for several."""
        from netpipe.reading.sweeps import operations

        return operations(self.run)

    @cached_property
    def states(self) -> States:
        """States of the machine, from the yardsticks."""
        from netpipe.reading.machine.states import states

        return states(self.run)

    @cached_property
    def clock_changes(self) -> tuple[ClockChange, ...]:
        """Where the kernel began to read the time from something else."""
        from netpipe.reading.machine.clock_changes import clock_changes

        return clock_changes(self.run)

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """Every curve, its launches merged."""
        from netpipe.reading.curves import curves

        return curves(self.run, self.states, self._records, self._times, self.in_states)

    @cached_property
    def in_states(self) -> dict[tuple[str, str], InStates]:
        """Curves whose times come in states of the machine. They are of the one that the machine was in most."""
        return {name: split.said for name, split in self._splits.items()}

    @cached_property
    def other_states(self) -> dict[tuple[str, str], tuple[tuple[OtherState, Curve], ...]]:
        """Curve -> what it is in other states. These curves take no part in anything but figures and lists."""
        from netpipe.reading.explained.other import other_curves

        return {
            name: tuple(zip(split.said.others, other_curves(split, self._records[name]), strict=True))
            for name, split in self._splits.items()
        }

    @cached_property
    def _records(self) -> ByCurve:
        from netpipe.reading.columns.by_curve import by_curve

        return by_curve(self.run.points)

    @cached_property
    def _all_visits(self) -> dict[tuple[str, str], Seen]:
        from netpipe.reading.blocks.visits import seen

        return {name: seen(curve) for name, curve in self._records.items()}

    @cached_property
    def _splits(self) -> dict[tuple[str, str], Split]:
        from netpipe.reading.explained.decision import splits

        return splits(self.run, self._records, self._all_visits)

    @cached_property
    def _visits(self) -> dict[tuple[str, str], Seen]:
        """Those that count: of curves in states the ones in the state of the curve, at sizes that have any."""
        return self._all_visits | {name: split.kept for name, split in self._splits.items()}

    @cached_property
    def _alike(self) -> dict[tuple[str, str], Seen]:
        """Those that are compared over sizes: of each curve in one state, or in all."""
        return self._all_visits | {name: split.own for name, split in self._splits.items()}

    @cached_property
    def _times(self) -> dict[tuple[str, str], Sized]:
        """Curve -> size -> the time of an operation by its visits."""
        from netpipe.reading.blocks.visits import NEXT_RUN, estimates_of_each

        return dict(zip(self._visits, estimates_of_each(self._visits.values(), NEXT_RUN), strict=True))

    @cached_property
    def by_name(self) -> dict[tuple[str, str], Curve]:
        """(variant, pattern) -> curve."""
        return {(curve.variant, curve.pattern): curve for curve in self.curves}

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """Patterns that have a point, as the points name them."""
        return tuple(dict.fromkeys(curve.pattern for curve in self.curves))

    @cached_property
    def summaries(self) -> tuple[Summary, ...]:
        """One for each curve."""
        from netpipe.reading.summary import summarise

        return tuple(map(summarise, self.curves))

    @cached_property
    def half_widths(self) -> Reals:
        """Of all intervals that there are, relative."""
        import numpy as np

        widths = [curve.points.times.half_width for curve in self.curves]
        return np.concatenate([one[np.isfinite(one)] for one in widths] or [np.zeros(0)])

    @cached_property
    def losses(self) -> tuple[Loss, ...]:
        """What each layer loses of the one below. A curve that is too fast to be true says nothing about that."""
        from netpipe.reading.losses import losses

        wrong = {(one.variant, one.pattern) for one in self.too_fast}
        return tuple(
            loss
            for loss in losses(self.run, self._records, self._visits, self._times, self.in_states)
            if loss.variant not in self.copies
            and wrong.isdisjoint(((loss.variant, loss.pattern), (loss.below, loss.pattern)))
        )

    @cached_property
    def stacks(self) -> tuple[Stack, ...]:
        """The losses as trees, from the memory copy up."""
        from netpipe.reading.blocks.chains import stacks

        return stacks(self.losses, self.by_name)

    @cached_property
    def collectives(self) -> tuple[Collectives, ...]:
        """What collective operations cost in messages of the same variant: the last step of a chain."""
        from netpipe.reading.blocks.collectives import collectives

        wrong = {(one.variant, one.pattern) for one in self.too_fast}
        visits = {
            name: of for name, of in self._visits.items() if name not in wrong and name[0] not in self.copies
        }
        return collectives(self.run, visits, self._times, self.in_states)

    @cached_property
    def beside(self) -> tuple[Beside, ...]:
        """How far variants lie from themselves, where they were measured beside themselves."""
        from netpipe.reading.blocks.beside import beside

        return beside(self.run, self._alike)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Which variant of a layer, or setting of a pattern, is faster, and where."""
        from netpipe.reading.blocks.verdicts import verdicts

        return verdicts(self.run, self._alike)

    def ratios_of(self, curve: tuple[str, str], against: tuple[str, str]) -> dict[int, Estimate]:
        """By size how many times as long one curve (variant, pattern) takes as another, as verdicts have it. Empty if
        the run did not measure them by turns.
        """
        from netpipe.reading.blocks.verdicts import between_curves

        ours, theirs = self._alike.get(curve), self._alike.get(against)
        return between_curves(ours, theirs) if ours is not None and theirs is not None else {}

    def times_of(self, variant: str, against: str, pattern: str) -> dict[int, Estimate]:
        """By size how many times as long one variant takes as another, from the blocks of both. The intervals of all
        sizes hold together. Empty if the two were not measured together.
        """
        from netpipe.reading.blocks.visits import TRUTH, estimates, paired

        ours, theirs = self._alike.get((variant, pattern)), self._alike.get((against, pattern))
        if ours is None or theirs is None:
            return {}
        both = paired(ours, theirs)
        if not len(both.log):
            return {}
        return estimates(both, TRUTH, tests=len(set(both.size.tolist())))

    @cached_property
    def between(self) -> tuple[Between, ...]:
        """What differs between the runs, of several as one (merge.py)."""
        return self.between_of((), ())

    def between_of(
        self, variants: Collection[str], patterns: Collection[str], conventions: bool = True
    ) -> tuple[Between, ...]:
        """As `between`, of these variants (without the label of a run) and patterns; all, where none are named.
        `conventions`: may the patterns that are compared differ in these?
        """
        from netpipe.reading.across.between import between
        from netpipe.reading.across.merge import MARK, name_of

        runs = list(dict.fromkeys(point.variant.partition(MARK)[2] for point in self.run.points))
        chosen = {
            (variant, pattern): curve
            for (variant, pattern), curve in sorted(
                self.by_name.items(), key=lambda of: runs.index(of[0][0].partition(MARK)[2])
            )
            if (not variants or name_of(variant) in variants) and (not patterns or pattern in patterns)
        }
        return between(chosen, self._alike, conventions)

    def within_of(self, variants: Sequence[str], patterns: Collection[str]) -> tuple[Between, ...]:
        """Each of these variants against the first of them, by pairs of visits of this run, under these patterns; under
        all, where none are named. Empty if the run did not measure two of them by turns.
        """
        from netpipe.reading.across.within import within

        return within(
            variants, [one for one in self.patterns if not patterns or one in patterns], self._alike
        )

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Thresholds: where curves step."""
        from netpipe.reading.blocks.steps import steps

        return tuple(
            step for curve in self.curves for step in steps(curve, self._alike[curve.variant, curve.pattern])
        )

    @cached_property
    def drifts(self) -> tuple[Drift, ...]:
        """Curves whose times go one way during the run."""
        from netpipe.reading.blocks.drift import drifts

        return drifts({name: of for name, of in self._alike.items() if name[0] not in self.copies})

    @cached_property
    def fits(self) -> tuple[Fit, ...]:
        """Latency and rate by pieces, of each curve with two sizes or more. Takes some milliseconds a curve."""
        return tuple(found for curve in self.curves if (found := self.fit_of(curve)) is not None)

    def fit_of(self, curve: Curve) -> Fit | None:
        """Of one curve; None where it has fewer than two sizes."""
        from netpipe.reading.models.pieces import fit

        name = (curve.variant, curve.pattern)
        if name not in self._fits:
            own = [step for step in self.steps if (step.variant, step.pattern) == name]
            self._fits[name] = fit(self.by_name[name], own)
        return self._fits[name]

    @cached_property
    def links(self) -> dict[str, Link]:
        """By variant: the link that its messages cross, where the record has its rate."""
        from netpipe.reading.machine.links import links

        return links(self.run)

    @cached_property
    def copies(self) -> dict[str, str]:
        """Variants that are measured beside the one that they are a copy of."""
        from netpipe.reading.blocks.beside import copies

        return copies(self.run)

    @cached_property
    def too_fast(self) -> tuple[TooFast, ...]:
        """Curves that are faster than their bytes can be moved."""
        from netpipe.reading.plausible import too_fast

        return too_fast(self.run, self.curves, self.is_idle)

    @cached_property
    def launch_spreads(self) -> tuple[LaunchSpread, ...]:
        """How far apart launches lie; empty for a run of one launch."""
        from netpipe.reading.launches import launch_spreads

        own = {}
        if self._splits:
            from netpipe.reading.explained.other import launch_medians

            own = {name: launch_medians(split) for name, split in self._splits.items()}
        return launch_spreads(self.curves, own)

    @cached_property
    def measures(self) -> tuple[Measured, ...]:
        """What patterns measure besides the time of an operation, also of sizes and curves that have no time because
        every sample lost a message.
        """
        return tuple(measure for of_curve in self._measures.values() for measure in of_curve)

    def measures_of(self, curve: Curve) -> tuple[Measured, ...]:
        """The measures of one curve."""
        return self._measures[curve.variant, curve.pattern]

    @cached_property
    def _measures(self) -> dict[tuple[str, str], tuple[Measured, ...]]:
        from netpipe.reading.measures import lost_sizes, measures_of, measures_of_lost

        lost = lost_sizes(self.run)
        return {
            name: measures_of(curve, lost.get(name, ()))
            if self._records[name].has_measures or name in lost
            else ()
            for name, curve in self.by_name.items()
        } | {name: measures_of_lost(*name, of) for name, of in lost.items() if name not in self.by_name}

    @cached_property
    def pattern_settings(self) -> tuple[PatternSettings, ...]:
        """Patterns that were measured with more than one setting."""
        from netpipe.reading.sweeps import pattern_settings

        return pattern_settings(self.run)

    @cached_property
    def settings_of(self) -> dict[str, PatternSettings]:
        """Pattern, as in the points -> the settings that it belongs to. Patterns with one setting are absent."""
        return {pattern: of for of in self.pattern_settings for pattern in of.values}

    @cached_property
    def curves_by_pattern(self) -> dict[str, tuple[Curve, ...]]:
        """Name of a pattern without its settings, where it has several -> all its curves."""
        groups: dict[str, list[Curve]] = {}
        for curve in self.curves:
            settings = self.settings_of.get(curve.pattern)
            groups.setdefault(settings.name if settings else curve.pattern, []).append(curve)
        return {name: tuple(group) for name, group in groups.items()}

    @cached_property
    def openings(self) -> tuple[Opening, ...]:
        """What it costs to open each library."""
        from netpipe.reading.openings import openings

        return openings(self.run)

    @cached_property
    def loggp(self) -> tuple[LogGP, ...]:
        """Parameters of the LogGP model."""
        from netpipe.reading.models.loggp import loggp

        return loggp(self.curves)

    @cached_property
    def slowest(self) -> tuple[Slowest, ...]:
        """The host, rank or pair that stands out most in each curve that has one."""
        from netpipe.reading.cells import slowest_of

        hosts = {one.variant: {rank.rank: rank.host for rank in one.ranks} for one in self.run.variants}
        return tuple(
            one
            for curve in self.curves
            if self._records[curve.variant, curve.pattern].has_cells
            for one in slowest_of(curve, hosts.get(curve.variant))[:1]
        )

    @cached_property
    def several_modes(self) -> tuple[SeveralModes, ...]:
        """Curves whose distributions have more than one mode."""
        from netpipe.reading.modes import several_modes

        return several_modes(self.curves, self.modes_of)

    def modes_of(self, point: Point) -> tuple[Mode, ...]:
        """The modes of the distribution of one point record."""
        from netpipe.reading.modes import modes

        if id(point) not in self._modes:
            operations = 1 if point.single else point.ops or 1
            self._modes[id(point)] = modes(
                point.distribution(), self._ticks.get(point.launch, 0.0) / operations
            )
        return self._modes[id(point)]

    @cached_property
    def _ticks(self) -> dict[int, float]:
        """Launch -> the coarsest step of its clock, ns."""
        ticks: dict[int, float] = {}
        for yardstick in self.run.yardsticks:
            step = yardstick.clock_resolution_ns or 0.0
            ticks[yardstick.launch] = max(ticks.get(yardstick.launch, 0.0), step)
        return ticks

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that recorded their environment."""
        return tuple(dict.fromkeys(one.host for one in self.run.environments if one.host))
