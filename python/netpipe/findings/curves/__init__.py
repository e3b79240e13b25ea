# SPDX-License-Identifier: Apache-2.0
"""Rules about curves: what makes a layer slow, and the setting that gets it back. Each names the experiment that
confirms it: the variant beside itself with the remedy, at the sizes in question (`netpipe explain --confirm`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from netpipe.findings import Confirm
from netpipe.findings.library import variables
from netpipe.libraries.settings import YIELDS
from netpipe.reading import Reading
from netpipe.reading.curves import Curve
from netpipe.reading.estimate import Estimate
from netpipe.reading.summary import latency_place

ENV = "env"  # the option of libraries that takes variables: NAME=VALUE;NAME=VALUE


@dataclass(frozen=True, slots=True)
class Opened:
    """A curve with what its variant was when it was open."""

    curve: Curve
    module: str
    settings: Mapping[str, str]  # as rank 0 recorded them
    options: Mapping[str, str]  # as they were planned, defaults included
    hosts: frozenset[str | None]  # of its ranks

    @property
    def has(self) -> frozenset[str]:
        """The names of the options that its module has."""
        return frozenset(self.options)


def opened(reading: Reading) -> Iterator[Opened]:
    """Every curve of which the record knows the settings."""
    ranks = {one.variant: one.ranks for one in reading.run.variants if one.ranks}
    planned = {one.variant: one for plan in reading.run.plans for one in plan.variants}
    for curve in reading.curves:
        if curve.variant in ranks and curve.variant in planned and curve.variant not in reading.copies:
            of, own = planned[curve.variant], ranks[curve.variant]
            hosts = frozenset(rank.host for rank in own)
            yield Opened(curve, of.module, own[0].settings, of.options, hosts)


def beside(reading: Reading, confirm: Confirm, least_bytes: int = 0) -> tuple[int, Estimate] | None:
    """What the run itself says of an experiment, if it measured both variants in blocks: the size, from `least_bytes`
    on, at which the variant is most certainly slower than the remedied one, and how many times as long it takes there.
    """
    found = reading.times_of(confirm.variant, confirm.remedied, confirm.pattern)
    known = {size: times for size, times in found.items() if times.known and size >= least_bytes}
    if not known:
        return None
    size = max(known, key=lambda size: known[size].low)
    return size, known[size]


def with_setting(variant: str, name: str, value: str) -> str:
    """tcp:wait=poll with nodelay=yes: tcp:wait=poll,nodelay=yes."""
    module, _, text = variant.partition(":")
    kept = [one for one in text.split(",") if one and one.partition("=")[0] != name]
    return f"{module}:{','.join([*kept, f'{name}={value}'])}"


def variant_with(reading: Reading, one: Opened, name: str, value: str) -> str:
    """The variant with another setting, by the name that it has in the run if it was measured too: the run's `shm` is
    `shm:wait=poll`, as that is the default. A variable of its option `env` that the setting becomes is left out,
    because it would win over the setting.
    """
    options = {**one.options, name: value}
    variant = one.curve.variant
    _, own = variables(reading, variant, name, value)
    kept = _other_variables(one, own)
    if kept != _other_variables(one, ()):
        options[ENV] = ";".join(kept)
        variant = with_setting(variant, ENV, options[ENV]) if kept else without_settings(variant, ENV)
    for plan in reading.run.plans:
        for other in plan.variants:
            if other.module == one.module and other.options == options:
                return other.variant
    return with_setting(variant, name, value)


def with_variables(one: Opened, added: Mapping[str, str]) -> str:
    """The variant with these variables in its option `env`, in place of what it has of the same names."""
    return variables_added(one.curve.variant, one.options.get(ENV, ""), added)


def variables_added(variant: str, env: str, added: Mapping[str, str]) -> str:
    """The variant with these variables beside what its option `env` has, and in place of those of the same names."""
    own = [f"{name}={value.replace(',', '|').replace(';', '!')}" for name, value in added.items()]
    return with_setting(variant, ENV, ";".join([*_others(env, added), *own]))


def by_yielding(reading: Reading, one: Opened) -> Confirm | None:
    """The experiment for ranks that keep their processor while they wait: the setting by which their library gives it
    away, at a small message. None: the library has none, or it was not told to leave that: without a word it yields
    where ranks share processors.
    """
    name, no = YIELDS[0], "no"
    place = latency_place(one.curve.points)
    _, own = variables(reading, one.curve.variant, *YIELDS)
    if place is None or name not in one.has or not own:
        return None
    said = dict(word.partition("=")[::2] for word in one.options.get(ENV, "").split(";"))
    by_variables = [
        said[variable] != value for variable, value in own.items() if variable in said
    ]  # these win
    if not any(by_variables or [one.options[name] == no]):
        return None
    yielding = variant_with(reading, one, *YIELDS)
    return Confirm(one.curve.variant, yielding, one.curve.pattern, [one.curve.points[place].size_bytes])


def _other_variables(one: Opened, names: Collection[str]) -> list[str]:
    """NAME=VALUE of what a variant has in its option `env` beside these."""
    return _others(one.options.get(ENV, ""), names)


def _others(env: str, names: Collection[str]) -> list[str]:
    return [word for word in env.split(";") if word and word.partition("=")[0] not in names]


def without_settings(variant: str, *names: str) -> str:
    """tcp:sndbuf=16k,wait=poll without sndbuf: tcp:wait=poll."""
    module, _, text = variant.partition(":")
    kept = [one for one in text.split(",") if one and one.partition("=")[0] not in names]
    return f"{module}:{','.join(kept)}" if kept else module
