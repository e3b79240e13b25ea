# SPDX-License-Identifier: Apache-2.0
"""What settings of the kernel and of network interfaces gain: launches with and without take turns (turns.py)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import Failure
from netpipe.session import Request
from netpipe.tuning.measuring.ratios import Verdict
from netpipe.tuning.measuring.turns import Series, take_turns
from netpipe.tuning.system import nic
from netpipe.tuning.system.applied import Applied
from netpipe.tuning.system.table import Candidate

NAME = "system"


@dataclass(frozen=True)
class Tried:
    candidate: Candidate
    verdict: Verdict


def trial(
    request: Request,
    some: Sequence[Candidate],
    folder: Path,
    going_on: Callable[[], bool],
    say: Callable[[str], None],
    applied: Applied,
) -> list[Tried]:
    """`request` is one launch of the variant. Everything is put back after each launch."""

    def series(one: Candidate) -> Series:
        return Series(_name(one), request, lambda: applied.set(one.key, one.value), applied.revert)

    some = [one for one in some if _can_set(one, applied, say)]
    decided = take_turns(request, [series(one) for one in some], folder / NAME, going_on, say)
    found = [Tried(one, decided[_name(one)]) for one in some if _name(one) in decided]
    _log(folder / NAME, found)
    return found


def _can_set(one: Candidate, applied: Applied, say: Callable[[str], None]) -> bool:
    """Whether the kernel takes it; said where it does not."""
    try:
        applied.set(one.key, one.value)
    except Failure as failure:
        say(f"{one.key} = {one.value} is not tried: {failure.sentence}")
        return False
    finally:
        applied.revert()
    return True


def _name(one: Candidate) -> str:
    return f"{nic.public(one.key)}={one.value}"


def _log(folder: Path, found: Sequence[Tried]) -> None:
    lines = [
        {
            "type": "system_setting",
            "key": nic.public(one.candidate.key),
            "before": one.candidate.now,
            "value": one.candidate.value,
            "times_as_fast": one.verdict.times_as_fast.value,
            "low": one.verdict.times_as_fast.low,
            "high": one.verdict.times_as_fast.high,
            "beside_itself": one.verdict.floor,
            "gains": one.verdict.gains,
        }
        for one in found
    ]
    (folder / "settings.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
    )


def gaining(found: Sequence[Tried]) -> list[Tried]:
    """Those that gain; of several values of one setting the fastest."""
    best: dict[str, Tried] = {}
    for one in sorted(found, key=lambda one: -one.verdict.times_as_fast.value):
        if one.verdict.gains:
            best.setdefault(one.candidate.key, one)
    return list(best.values())


def sysctl_file(found: Sequence[Tried]) -> str:
    """A file for /etc/sysctl.d of those of the kernel that gain; "" where none does."""
    best = [one for one in gaining(found) if not nic.is_nic(one.candidate.key)]
    if not best:
        return ""
    lines = ["# netpipe tune: copy it to /etc/sysctl.d/90-netpipe.conf, then: sysctl --system\n"]
    for one in best:
        lines += [_comment(one), f"{one.candidate.key} = {one.candidate.value}\n"]
    return "".join(lines)


def nic_file(found: Sequence[Tried]) -> str:
    """Commands that set those of network interfaces that gain; "" where none does."""
    best = [one for one in gaining(found) if nic.is_nic(one.candidate.key)]
    if not best:
        return ""
    lines = [
        "#!/bin/sh\n",
        "# netpipe tune: until the machine is started again; on the other host it may matter as well.\n",
    ]
    for one in best:
        lines += [_comment(one), f"{nic.command(one.candidate.key, one.candidate.value)}\n"]
    return "".join(lines)


def _comment(one: Tried) -> str:
    times = one.verdict.times_as_fast
    return (
        f"# {one.candidate.meaning}; {times.value:.2f} ({times.low:.2f} to {times.high:.2f}) times as fast\n"
    )
