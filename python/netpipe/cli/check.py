# SPDX-License-Identifier: Apache-2.0
"""netpipe check: a gate against a baseline."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.options import pattern_option, variant_option
from netpipe.failure import DONE, GATE, UNSTABLE, USAGE, Failure

if TYPE_CHECKING:
    from netpipe.reading.across.compared import Compared
    from netpipe.reading.across.gate import Tested

DEFAULT = "latency=5%,throughput=5%,all=5%,any=10%"


@click.command
@click.argument("run", metavar="[RUN]", default="run.jsonl", type=click.Path(path_type=Path))
@click.option(
    "--baseline",
    required=True,
    metavar="FILE|last|best",
    help="The run to hold RUN against: a file, or of the history of this host the last run or the best one.",
)
@variant_option
@pattern_option
@click.option(
    "--slower",
    metavar="METRIC=PERCENT,...",
    default=DEFAULT,
    show_default=True,
    help="How much longer each metric may take; those that are not named are not checked.",
)
@click.option("--faster", metavar="PERCENT", help="Also fail when something is faster by more than this.")
@click.option("--strict", is_flag=True, help="Exit with 5 when the runs cannot tell.")
@click.option("--json", "as_json", is_flag=True, help="Print every metric as JSON.")
def command(
    run: Path,
    baseline: str,
    variants: tuple[str, ...],
    patterns: tuple[str, ...],
    slower: str,
    faster: str | None,
    strict: bool,
    as_json: bool,
) -> int:
    """Check that RUN is not slower than a baseline.

    RUN is run.jsonl unless given. The metrics of each variant and pattern are ratios of times: latency (at 8 bytes),
    throughput (at the largest size), all (the mean over all sizes), any (every size). One fails when it takes longer by
    more than its limit and its 95 % interval lies above 1. Then the exit code is 1.
    """
    from netpipe.command.comparing import compared
    from netpipe.reading.across.gate import METRICS, gate

    limits = slower_limits(slower, tuple(METRICS))
    file, name = of_history(baseline, run)
    found = compared((file, run), variants, patterns, conventions=False)
    if name:
        found = replace(found, first=name)
    results = gate(found.between, limits, None if faster is None else percent("--faster", faster))
    gone = missing(found, variants, patterns)
    code = exit_code(results, gone, strict)
    if as_json:
        import msgspec

        from netpipe.escapes import printable_json

        answer: dict[str, Any] = {"exit": code, "baseline": found.first, "metrics": results, "missing": gone}
        answer |= {"differences": found.others[0][1], "yardsticks": found.others[0][2]}
        click.echo(printable_json(msgspec.json.encode(answer).decode()))
        return code
    from netpipe.render.terminal.gate import print_gate
    from netpipe.render.terminal.rows import console

    print_gate(console(), results, gone, found)
    return code


def exit_code(results: tuple[Tested, ...], gone: tuple[str, ...], strict: bool) -> int:
    from netpipe.reading.across.gate import Result

    counts = Counter(one.result for one in results)
    if gone or counts[Result.FAILED] or counts[Result.BETTER]:
        return GATE
    return UNSTABLE if strict and counts[Result.UNDECIDED] else DONE


def slower_limits(text: str, known: tuple[str, ...]) -> dict[str, float]:
    """latency=5%,all=2% as fractions. Raises Failure (2)."""
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise Failure(USAGE, f"--slower {text}: '{part}' is not METRIC=PERCENT; write latency=5%")
        if name not in known:
            raise Failure(
                USAGE, f"--slower {text}: there is no metric '{name}'; there are {', '.join(known)}"
            )
        if name in limits:
            raise Failure(USAGE, f"--slower {text}: {name} is there twice; write it once")
        limits[name] = percent("--slower", value)
    return limits


def percent(option: str, text: str) -> float:
    """5% or 5 as 0.05. Raises Failure (2)."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise Failure(USAGE, f"{option}: '{text}' is not a percentage of 0 or more; write 5%")
    return value


def of_history(baseline: str, run: Path) -> tuple[Path, str]:
    """The file of the baseline, and what a run of the history is called. Raises Failure (2) where it has none."""
    if baseline not in ("last", "best"):
        return Path(baseline), ""
    from netpipe.history import History

    with History.open() as history:
        file, started = history.baseline(baseline, run)
    return file, f"the {baseline} run, of {started.replace('T', ' ')[:16]}"


def missing(found: Compared, variants: tuple[str, ...], patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Curves of the baseline that the run lacks, unless some were chosen."""
    return () if variants or patterns else found.missing[0]
