# SPDX-License-Identifier: Apache-2.0
"""`netpipe run --continue FILE`: more launches of the same plan on the same hosts, added to the run in FILE. What would
be measured differently now is refused: the numbers of one curve must mean one thing.

What is known of this host is compared before the start. Other hosts and the processes of a library say how they are
when they have started: then the records of the first new launch are compared, before its first sample counts.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from netpipe.failure import USAGE, Failure
from netpipe.findings.experiments.going_on import NOT_SAID, not_continued

if TYPE_CHECKING:
    from netpipe.records import Plan, Run

# What may differ: the launch, how long it takes, what follows from these, and what is only known when it has started.
OWN = frozenset({"launch", "launches", "hash", "budget_s", "pin", "state_tolerances", "stack"})
# Facts of the environment on which numbers depend, and which an update, sysctl or a tool may change in between.
FACTS = (
    *("kernel.release", "kernel.command_line", "cpu.model", "cpu.microcode", "cpu.smt", "clock.source"),
    *("limits.allowed_cpus", "limits.cgroup.cpu_quota", "memory.transparent_huge_pages.enabled"),
    *(
        f"cpu.frequency.{name}"
        for name in (
            *("driver", "governor", "energy_preference", "boost", "pstate_mode"),
            *("min_hz", "max_hz", "on_battery"),
        )
    ),
    *(f"network.tcp.{name}" for name in ("congestion_control", "rmem_bytes", "wmem_bytes")),
)


def recorded_words(run: Run) -> Sequence[str]:
    """The words after `netpipe run` that measured this run. Raises Failure (2) for what cannot be continued."""
    header = run.header
    if header is None or (why := not_continued(run)):
        raise _refused(run, why or NOT_SAID)
    return header.argv[1:]


def check_same(
    run: Run,
    plan: Plan,
    version: str,
    environment: Mapping[str, Any],
    versions: Mapping[str, str | None],
) -> None:
    """Raises Failure (2) where this plan, measured here and now, is not that of the run: of its last launch, where that
    says in which environment and with which libraries. `version` is that of netpipe, `environment` the facts of this
    host, and `versions` those of the libraries that the modules bind.
    """
    header = run.header
    assert header is not None
    # Of a run whose ranks are all elsewhere there are no facts of this host.
    last = {one.host: one.facts for one in run.environments if one.rank == 0}
    facts = last.get(header.host, last.get(None))
    # Of a library that netpipe runs with a launcher, only the one that its module was added for is known here.
    bound = {one.module: one.added_for or one.version for one in run.variants if one.version}
    said = [
        ("host", header.host, socket.gethostname()),
        ("netpipe", header.netpipe, version),
        *((name, _fact(facts, name), _fact(environment, name)) for name in FACTS if facts is not None),
        *((f"the library of {module}", bound[module], versions.get(module)) for module in bound),
        *_settings(run.plans[0], plan),
    ]
    _check(run, said)


def check_started(before: Run, run: Run, launch: int) -> None:
    """Raises Failure (2) where this launch of `run`, whose variants have been opened, differs from the run `before` in
    a fact of another host, in where the ranks of a variant are, or in the version of a library that answered.
    """
    then, now = _recorded(before), _recorded(run, launch)
    _check(before, ((what, then[what], now[what]) for what in then if what in now))


def _recorded(run: Run, launch: int | None = None) -> dict[str, Any]:
    """What this launch recorded beside what `check_same` knows, by what it is called; None: the last one that did."""
    found: dict[str, Any] = {}
    for opened in run.variants:
        if launch in (None, opened.launch):
            found[f"the hosts of {opened.variant}"] = [rank.host or "unknown" for rank in opened.ranks]
            found[f"the library of {opened.variant}"] = opened.version
    here = run.header.host if run.header else None
    for one in run.environments:
        if launch in (None, one.launch) and (one.rank, one.host) != (0, here):
            # Two hosts may have one name: network namespaces.
            where = f"host {one.host} (rank {one.rank})"
            found |= {f"{name} of {where}": _fact(one.facts, name) for name in FACTS}
    return found


def _check(run: Run, said: Iterable[tuple[str, Any, Any]]) -> None:
    """Raises Failure (2) for the first of these that is not as it was."""
    for what, then, now in said:
        if then != now:
            raise _refused(
                run, f"it was measured with {what} {_text(then)}, and now it would be {_text(now)}"
            )


def _refused(run: Run, why: str) -> Failure:
    return Failure(USAGE, f"{run.path} cannot be continued: {why}; measure anew, with another --output")


def _settings(then: Plan, now: Plan) -> Iterator[tuple[str, Any, Any]]:
    yield "variants", [one.variant for one in then.variants], [one.variant for one in now.variants]
    for before, after in zip(then.variants, now.variants, strict=False):
        yield from _options(f"{before.variant}:", before.options, after.options)
    yield "patterns", then.patterns, now.patterns
    for old, new in zip(then.modes, now.modes, strict=False):
        yield from _options(f"{old.pattern}:", old.options, new.options)
    for name in then.__struct_fields__:
        if name not in OWN | {"variants", "patterns", "modes"}:
            yield name, getattr(then, name), getattr(now, name)


def _options(of: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
    return ((f"{of}{key}", then.get(key), now.get(key)) for key in sorted({*then, *now}))


def _fact(facts: Mapping[str, Any], name: str) -> Any:
    here: Any = facts
    for word in name.split("."):
        here = here.get(word) if isinstance(here, dict) else None
    return here


def _text(value: Any) -> str:
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "unknown" if value is None else f"{value}"
