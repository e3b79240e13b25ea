# SPDX-License-Identifier: Apache-2.0
"""Experiments that confirm findings: a variant beside itself with the remedy, measured in blocks, with the hosts, the
pinning, the launches and the other options of the run.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from netpipe.failure import INTERRUPTED, USAGE, Failure
from netpipe.findings.experiments import Confirm, Confirmed, outcomes, words
from netpipe.findings.experiments.going_on import not_by_run

if TYPE_CHECKING:
    from netpipe.records import Plan, Run
    from netpipe.session import Session

Planner = Callable[[Sequence[str]], "Session"]  # the checked plan of the words after `netpipe run`
# Of the plan: what a number depends on, and may come from the environment or a configuration file.
SAME = ("placement", "verify")


def check(run: Run) -> None:
    """Raises Failure (2) where experiments would not be those of this run: another host, or it does not say how it was
    measured.
    """
    why = not_by_run(run)
    here = socket.gethostname()
    if why is None and run.header is not None and run.header.host != here:
        why = f"it was measured on {run.header.host}, and this is {here}"
    if why is not None:
        raise Failure(USAGE, f"the experiments for {run.path} cannot be run: {why}")


def measure(confirm: Confirm, run: Run, planner: Planner, output: Path, budget: str) -> Confirmed:
    """Measures for a finding of `run`, at most `budget` seconds for each curve, and records to `output`. What goes
    wrong is an outcome, except Ctrl-C: KeyboardInterrupt.
    """
    line = [*words.words(confirm), "--budget", budget]
    try:
        session = planner(line)
        _check_same(run.plans[0], session.plan)
        of = run.header.run if run.header else None
        result = session.measure(output, argv=["run", *line], confirms=of)
    except Failure as failure:
        return Confirmed("failed", confirm.remedied, None, failure.sentence, None)
    except click.ClickException as error:  # an option that this netpipe does not have
        said = " ".join(error.format_message().split())
        return Confirmed("failed", confirm.remedied, None, said, None)
    if result.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    came = outcomes.came_to(result.reading, confirm)
    path = None if result.path is None else str(result.path)
    if came is None:
        said = next((error.message for error in result.run.errors), "the two were not measured together")
        return Confirmed("failed", confirm.remedied, None, said, path)
    return msgspec.structs.replace(came, path=path)


def _check_same(then: Plan, now: Plan) -> None:
    """Raises Failure (2) where something in the surroundings would make it another experiment."""
    said = [(name, getattr(then, name), getattr(now, name)) for name in SAME]
    if then.buffers is not None and now.buffers is not None:
        said.append(("buffers", then.buffers.policy, now.buffers.policy))
    for name, before, after in said:
        if before is not None and before != after:
            raise Failure(USAGE, f"the run was measured with {name} {before}, and now it would be {after}")
