# SPDX-License-Identifier: Apache-2.0
"""Time over the value of a setting, of a pattern or of a variant, that is a number and takes four values or more."""

from __future__ import annotations

from netpipe.reading import Reading
from netpipe.reading.across.merge import MARK, name_of
from netpipe.reading.sweeps import Sweep, pattern_settings, sweeps
from netpipe.records import Plan, PlannedMode, Run
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Group, Member, Scope
from netpipe.render.drawing.values import Series, over_values
from netpipe.render.figures import figure

RANKS = "ranks"  # of a variant: the figure `scaling` draws these


@figure("time over the value of a setting, at a few sizes", "patterns", place=22, options=("size",))
def panels(scope: Scope) -> list[Panel]:
    panels = []
    for group in scope.groups:
        for sweep in sweeps(group.settings) if group.settings else ():
            panels += over_values(
                scope, sweep.option, _titles(sweep), _of_pattern(scope, group, sweep), group.name
            )
        for reading in scope.readings:
            for sweep in variant_sweeps(reading.run):
                if sweep.option != RANKS and (series := _of_variants(scope, group, reading, sweep)):
                    panels += over_values(scope, sweep.option, _titles(sweep), series, group.name)
    if not panels:
        raise scope.nothing("no setting of the chosen curves is a number with four values or more")
    return panels


def _titles(sweep: Sweep) -> tuple[str, str]:
    fixed = "".join(f", {option}={value}" for option, value in sweep.fixed.items())
    first = sweep.members[0][0]
    return f"Time over {sweep.option}{fixed}", f"The same, relative to {sweep.option}={first:g}"


def _of_pattern(scope: Scope, group: Group, sweep: Sweep) -> list[Series]:
    """A line for each variant."""
    found: dict[tuple[Reading, str], dict[str, Member]] = {}
    for member in group.members:
        found.setdefault((member.reading, member.variant), {})[member.pattern] = member
    return [
        Series(
            scope.variant_label(reading, variant),
            scope.color(variant),
            scope.dash_of_run(reading),
            [(value, there[pattern]) for value, pattern in sweep.members if pattern in there],
        )
        for (reading, variant), there in found.items()
    ]


def variant_sweeps(run: Run) -> tuple[Sweep, ...]:
    """Variants of one module that differ in the value of an option are like the settings of a pattern."""
    planned = {variant.variant: variant for plan in run.plans for variant in plan.variants}
    modes = [
        PlannedMode(
            pattern=one.variant,
            name=one.module + one.variant.removeprefix(name_of(one.variant)),  # overlaid runs stay apart
            options=one.options,
        )
        for one in planned.values()
    ]
    as_patterns = Run([Plan(modes=modes, patterns=[mode.pattern for mode in modes])])
    return tuple(sweep for settings in pattern_settings(as_patterns) for sweep in sweeps(settings))


def _of_variants(scope: Scope, group: Group, reading: Reading, sweep: Sweep) -> list[Series]:
    """A line for each setting of the pattern."""
    series = []
    for place, pattern in enumerate(dict.fromkeys(member.pattern for member in group.members)):
        there = {
            member.variant: member
            for member in group.members
            if member.reading is reading and member.pattern == pattern
        }
        members = [(value, there[variant]) for value, variant in sweep.members if variant in there]
        if len(members) > 1:
            name = sweep.name if MARK in sweep.name else scope.variant_label(reading, sweep.name)
            setting = group.setting(pattern)
            label = f"{name}, {setting}" if setting else name
            series.append(Series(label, scope.color(members[0][1].variant), scope.dash_step * place, members))
    return series
