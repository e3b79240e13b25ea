# SPDX-License-Identifier: Apache-2.0
"""netpipe explain: the findings of a run at length, and the experiments that confirm them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.command.options import matching, pattern_option, variant_option
from netpipe.streams import say

if TYPE_CHECKING:
    from netpipe.findings import Confirmed, Finding
    from netpipe.records import Run


@click.command
@click.argument("run", metavar="[RUN]", default="run.jsonl", type=click.Path(path_type=Path))
@variant_option
@pattern_option
@click.option(
    "--confirm",
    is_flag=True,
    help="Run the experiments: each variant beside itself with the remedy. Findings are then confirmed or withdrawn.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    metavar="SECONDS",
    help="With --confirm: for each experiment  [default: 5]",
)
@click.option(
    "--all",
    "reasons",
    is_flag=True,
    help="Also say why rules could not judge the run, a line for each reason.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(
    run: Path,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    confirm: bool,
    budget: float,
    reasons: bool,
    as_json: bool,
) -> int:
    """Explain RUN: what costs time, why, and what to do.

    Prints the findings about the curves of RUN, which is run.jsonl unless given, each with its evidence, how sure it
    is, its likely cause, the remedy and the experiment that would confirm it.

    With --confirm the experiments are run as RUN was, with its hosts, pinning and launches. Their runs are kept beside
    RUN (run.confirm-1.jsonl), and every command that shows findings of RUN reads them.
    """
    from netpipe.findings import MACHINE, judge, rules
    from netpipe.reading import Reading
    from netpipe.records import Run

    measured = Run.read(run, samples=False)
    reading = Reading(measured)
    chosen = matching(variants, patterns, list(reading.by_name))
    known = rules()

    def wanted(found: Finding) -> bool:
        of_the_run = known[found.rule].about != MACHINE
        named = (not chosen[0] or found.variant in chosen[0]) and (
            not chosen[1] or found.pattern in chosen[1]
        )
        return of_the_run and named

    judgement = judge(reading)
    found = list(filter(wanted, judgement.findings))
    withdrawn = list(filter(wanted, judgement.withdrawn))
    if confirm:  # a finding that was withdrawn gets another chance
        found, withdrawn = experiments(measured, run, [*found, *withdrawn], f"{budget:g}"), []
    if as_json:
        click.echo(to_json(found))
        return 0
    from netpipe.render.terminal.explain import print_explained
    from netpipe.render.terminal.rows import console

    skipped = [one for one in judgement.skipped if known[one.rule].about != MACHINE]
    print_explained(console(), found, confirm, len(withdrawn), skipped, reasons)
    return 0


def experiments(run: Run, path: Path, found: list[Finding], budget: str) -> list[Finding]:
    """The findings with what their experiments came to. The same experiment runs once."""
    from netpipe.cli.run import session_of
    from netpipe.command import confirming
    from netpipe.findings import with_outcome
    from netpipe.findings.experiments.outcomes import file_of

    several = sum(one.confirm is not None for one in found)
    if several:
        confirming.check(run)
    done: dict[str, Confirmed] = {}
    told = []
    for one in found:
        if one.confirm is not None:
            name = one.experiment or ""
            if name not in done:
                say(f"{len(done) + 1} of at most {several}: {name}")
                target = file_of(path, len(done) + 1)
                done[name] = confirming.measure(one.confirm, run, session_of, target, budget)
            one = with_outcome(one, done[name])
        told.append(one)
    return told


def to_json(found: list[Finding]) -> str:
    import msgspec

    from netpipe.escapes import printable_json

    return printable_json(msgspec.json.encode(found).decode())
