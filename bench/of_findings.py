# SPDX-License-Identifier: Apache-2.0
"""Do the findings find what is there, and nothing else? A labelled set of curves (bench/labelled/cases.py), half with a
cause that is provoked for real, a quarter of all on a disturbed machine, measured and judged in one call. No peer says
anything about its numbers, so the targets are numbers.

    python bench/compare.py findings [--rounds N]           all cases; fewer than 15 rounds: less time for each curve
    python bench/of_findings.py --keep DIR [CASE ...]       and keep the runs
    python bench/of_findings.py --again DIR [CASE ...]      judge what was kept, without measuring
    ... --confirm                                           and run the experiments for the causes that were found
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from labelled import measure
from labelled.cases import CASES, Case
from labelled.score import OUTCOMES, Score, experiments, right, scored
from measured import MissingError, Result

from netpipe.records import NotARun, Run

LEAST, LEAST_CURVES = 0.95, 80
USUAL_ROUNDS = 15


def file_of(folder: Path, case: Case) -> Path:
    return folder / f"{case.name.replace('@', '-')}.jsonl"


def total(
    cases: Iterable[Case], folder: Path, budget_s: float | None, confirm_s: float | None = None
) -> tuple[Score, list[str]]:
    """The score of these cases, and those that could not be counted, with the reason. `budget_s` None: their files are
    there already. `confirm_s`: the experiments too, each for so many seconds.
    """
    whole, left_out = Score(), []
    for case in cases:
        path, began = file_of(folder, case), time.monotonic()
        try:
            if budget_s is not None:
                path.unlink(missing_ok=True)
                measure.measured(case, path, budget_s)
            one = scored(case, Run.read(path, samples=False))
        except (MissingError, RuntimeError, OSError, NotARun) as why:
            left_out.append(f"{case.name}: {why}")
            print(f"  {case.name}: left out: {why}", flush=True)
            continue
        whole.add(one)
        seconds = time.monotonic() - began
        print(
            f"  {case.name}: {one.hits} found, {len(one.missed)} missed, {len(one.false)} false, {seconds:.0f} s",
            flush=True,
        )
        if confirm_s is not None:
            try:
                whole.add(confirmed(case, path, confirm_s))
            except (MissingError, RuntimeError, OSError) as why:
                whole.failed.append(f"{case.name}, all of them: {why}")
                print(f"  {case.name}: its experiments could not be run: {why}", flush=True)
    for title, lines in (
        ("missed", whole.missed),
        ("false", whole.false),
        ("provoked without effect, not counted", whole.not_bitten),
        *((name, getattr(whole, name)) for name in OUTCOMES),
        ("found, and without an experiment", whole.without),
    ):
        for line in lines:
            print(f"  {title}: {line}", flush=True)
    return whole, left_out


def confirmed(case: Case, path: Path, budget_s: float) -> Score:
    """What the experiments for the causes that were found in the run of a case came to. Raises as `measure.explained`
    does.
    """
    found = right(case, Run.read(path, samples=False))
    variants = list(dict.fromkeys(one.variant for one in found if one.variant is not None))
    if not variants:
        return Score()
    began = time.monotonic()
    one = experiments(case, found, measure.explained(case, path, variants, budget_s))
    others = ", ".join(f"{len(getattr(one, name))} {name}" for name in OUTCOMES)
    print(
        f"  {case.name}: {one.confirmed} confirmed, {others}, {len(one.without)} without an experiment, "
        f"{time.monotonic() - began:.0f} s",
        flush=True,
    )
    return one


def rows_of_experiments(score: Score) -> list[Result]:
    """What the experiments came to. A cause that is there must not be withdrawn."""
    ran = score.confirmed + sum(len(getattr(score, name)) for name in OUTCOMES)

    def row(what: str, ours: int, figure: str, target: str, met: bool) -> Result:
        return Result("findings", what, f"{ours}", "", figure, target, met)

    without = f"of {ran} experiments; {len(score.without)} findings have none"
    wrong = len(score.withdrawn)
    return [
        row("causes that their experiments confirmed", score.confirmed, without, "none", True),
        row("wrongly withdrawn: the cause was there", wrong, f"of {ran}", "0", not wrong),
        row("undecided", len(score.undecided), f"of {ran}", "none", True),
        row("experiments that failed", len(score.failed), f"of {ran}", "none", True),
    ]


def rows(score: Score, left_out: list[str]) -> list[Result]:
    """The score as rows of the comparison."""
    there = score.hits + len(score.missed)
    set_of = f"{score.provoked} provoked, {score.clean} clean, {score.noisy} under noise"
    if left_out:
        set_of += f"; {len(left_out)} runs left out"

    def row(what: str, ours: str, figure: str, target: str, met: bool) -> Result:
        return Result("findings", what, ours, "", figure, target, met)

    return [
        row("labelled curves", f"{score.curves}", set_of, f">= {LEAST_CURVES}", score.curves >= LEAST_CURVES),
        row(
            "precision: of what was said, it was there",
            f"{score.precision:.1%}",
            f"{score.hits} of {score.hits + len(score.false)}",
            f">= {LEAST:.0%}",
            score.precision >= LEAST,
        ),
        row(
            "recall: of what was there, it was said",
            f"{score.recall:.1%}",
            f"{score.hits} of {there}",
            f">= {LEAST:.0%}",
            score.recall >= LEAST,
        ),
        row(
            "thresholds located within a sixteenth of an octave",
            f"{sum(score.located)} of {len(score.located)}",
            "",
            "all",
            bool(score.located) and all(score.located),
        ),
        row("provoked without effect today, not counted", f"{len(score.not_bitten)}", "", "none", True),
    ]


def findings(rounds: int) -> list[Result]:
    """All cases, once. The time for each curve grows with the rounds."""
    with tempfile.TemporaryDirectory() as folder:
        budget_s = measure.BUDGET_S * max(1, rounds) / USUAL_ROUNDS
        score, left_out = total(CASES, Path(folder), budget_s)
    if not score.curves:
        raise MissingError(left_out[0] if left_out else "there are no cases")
    return rows(score, left_out)


COMPARISONS = {"findings": findings}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="CASE", help="of " + ", ".join(case.name for case in CASES)
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--keep", type=Path, metavar="DIR", help="measure, and keep the runs there")
    where.add_argument("--again", type=Path, metavar="DIR", help="judge the runs that are there")
    parser.add_argument("--rounds", type=int, default=USUAL_ROUNDS)
    parser.add_argument(
        "--confirm", action="store_true", help="also run the experiments for the causes that were found"
    )
    asked = parser.parse_args()
    unknown = set(asked.names) - {case.name for case in CASES}
    if unknown:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    folder = asked.keep or asked.again
    folder.mkdir(parents=True, exist_ok=True)
    cases = [case for case in CASES if not asked.names or case.name in asked.names]
    seconds = measure.BUDGET_S * max(1, asked.rounds) / USUAL_ROUNDS
    score, left_out = total(
        cases, folder, seconds if asked.keep else None, seconds if asked.confirm else None
    )
    for row in (*rows(score, left_out), *(rows_of_experiments(score) if asked.confirm else ())):
        print(f"{row.verdict or 'said':<6} {row.what}: {row.ours} {row.figure} (target {row.target})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
