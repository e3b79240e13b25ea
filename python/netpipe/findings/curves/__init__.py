# SPDX-License-Identifier: Apache-2.0
"""Rules about curves: what makes a layer slow, and the setting that gets it back. Each names the experiment that
confirms it: the variant beside itself with the remedy, at the sizes in question (`netpipe explain --confirm`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from netpipe.findings import Confirm
from netpipe.reading import Reading
from netpipe.reading.curves import Curve


@dataclass(frozen=True, slots=True)
class Opened:
    """A curve with what its variant was when it was open."""

    curve: Curve
    module: str
    settings: Mapping[str, str]  # as rank 0 recorded them
    options: Mapping[str, str]  # as they were planned, defaults included


def opened(reading: Reading) -> Iterator[Opened]:
    """Every curve of which the record knows the settings."""
    settings = {one.variant: one.ranks[0].settings for one in reading.run.variants if one.ranks}
    planned = {one.variant: one for plan in reading.run.plans for one in plan.variants}
    for curve in reading.curves:
        if curve.variant in settings and curve.variant in planned and curve.variant not in reading.copies:
            of = planned[curve.variant]
            yield Opened(curve, of.module, settings[curve.variant], of.options)


def with_setting(variant: str, name: str, value: str) -> str:
    """tcp:wait=poll with nodelay=yes: tcp:wait=poll,nodelay=yes."""
    module, _, text = variant.partition(":")
    kept = [one for one in text.split(",") if one and one.partition("=")[0] != name]
    return f"{module}:{','.join([*kept, f'{name}={value}'])}"


def without_settings(variant: str, *names: str) -> str:
    """tcp:sndbuf=16k,wait=poll without sndbuf: tcp:wait=poll."""
    module, _, text = variant.partition(":")
    kept = [one for one in text.split(",") if one and one.partition("=")[0] not in names]
    return f"{module}:{','.join(kept)}" if kept else module


def command(confirm: Confirm) -> str:
    """The command that runs an experiment."""
    pattern = [] if confirm.pattern == "pingpong" else ["--pattern", confirm.pattern]
    sizes = ",".join(map(str, confirm.sizes))
    return shlex.join(["netpipe", "run", confirm.variant, confirm.remedied, *pattern, "--sizes", sizes])
