# SPDX-License-Identifier: Apache-2.0
"""netpipe check: a gate against a baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.comparing import compared_runs, worse_of_measures
from netpipe.command.options import pattern_option, variant_option
from netpipe.failure import DONE, GATE, UNSTABLE, USAGE, Failure

if TYPE_CHECKING:
    from netpipe.command.more import More
    from netpipe.reading.across.compared import Compared
    from netpipe.reading.across.gate import Result, Tested, TestedMeasure
    from netpipe.reading.across.measured import MeasureBetween
    from netpipe.records import Run

DEFAULT = "latency=5%,throughput=5%,all=5%,any=10%"


@dataclass(frozen=True, slots=True)
class Checked:
    """A run held against its baseline."""

    found: Compared
    metrics: tuple[Tested, ...]
    measures: tuple[TestedMeasure, ...]
    gone: tuple[str, ...]  # curves of the baseline that the run lacks
    more: More | None  # what it takes to tell what could not be told

    def results(self) -> Counter[Result]:
        every: tuple[Tested | TestedMeasure, ...] = (*self.metrics, *self.measures)
        return Counter(one.result for one in every)

    def exit_code(self, strict: bool) -> int:
        from netpipe.reading.across.gate import Result

        counts = self.results()
        if self.gone or counts[Result.FAILED] or counts[Result.BETTER]:
            return GATE
        return UNSTABLE if strict and counts[Result.UNDECIDED] else DONE


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
    help="How much longer each metric may take, or how much worse a measure may be (loss=1%); those that are not named "
    "are not checked. A percentage alone is for each metric.",
)
@click.option(
    "--faster",
    metavar="METRIC=PERCENT,...",
    help="Also fail when a metric is faster, or a measure better, by more than this. A percentage alone is for each "
    "one that --slower checks.",
)
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

    A measure of a pattern or layer (loss, fraction, imbalance; see netpipe list PATTERN) is checked at every size if
    --slower names it. Of a share or ratio the limit is the difference: with loss=1% a loss of 2 % may become 3 %.
    """
    limits = Limits.of(slower, faster)
    file, name = of_history(baseline, run)
    came = checked(file, run, variants, patterns, limits, name)
    code = came.exit_code(strict)
    if as_json:
        import msgspec

        from netpipe.escapes import printable_json

        answer: dict[str, Any] = {"exit": code, "baseline": came.found.first, "metrics": came.metrics}
        answer |= {"measures": came.measures, "missing": came.gone, "more": came.more}
        answer |= {"differences": came.found.others[0][1], "yardsticks": came.found.others[0][2]}
        click.echo(printable_json(msgspec.json.encode(answer).decode()))
        return code
    from netpipe.render.terminal.gate import print_gate
    from netpipe.render.terminal.rows import console

    more = (came.more.sentence, came.more.commands) if came.more else ()
    print_gate(console(), came.metrics, came.measures, came.gone, came.found, *more)
    return code


@dataclass(frozen=True, slots=True)
class Limits:
    """What --slower and --faster say, as fractions: by metric or measure."""

    slower: dict[str, float]
    faster: dict[str, float]
    said: dict[str, str]  # by metric or measure, the option with its text

    @classmethod
    def of(cls, slower: str, faster: str | None) -> Limits:
        """Raises Failure (2) for a wrong form. Which measures there are is known only when the runs are (`check`)."""
        from netpipe.reading.across.gate import METRICS

        limits = _limits("--slower", slower, METRICS)
        others = {} if faster is None else _limits("--faster", faster, limits)
        said = dict.fromkeys(others, f"--faster {faster}") | dict.fromkeys(limits, f"--slower {slower}")
        return cls(limits, others, said)

    @property
    def measures(self) -> tuple[str, ...]:
        """The names that are no metrics."""
        from netpipe.reading.across.gate import METRICS

        return tuple(name for name in self.said if name not in METRICS)

    def check(self, known: Collection[str], whose: str) -> None:
        """Raises Failure (2) for a name that is neither a metric nor one of these measures."""
        from netpipe.reading.across.gate import METRICS

        there = f"and {whose} have " + (
            f"the measures {', '.join(sorted(known))}" if known else "no measures"
        )
        for name in self.measures:
            if name not in known:
                raise Failure(
                    USAGE,
                    f"{self.said[name]}: there is no metric '{name}'; there are {', '.join(METRICS)}, {there}",
                )


def checked(
    file: Path, run: Path, variants: tuple[str, ...], patterns: tuple[str, ...], limits: Limits, name: str
) -> Checked:
    """The run in `run` against the baseline in `file`, which is of the history if it has a `name`. Raises NotARun,
    OSError, or Failure (2) where there is nothing to compare, or a limit is for a measure that there is not.
    """
    from netpipe.command.more import more, of_gate
    from netpipe.reading.across.gate import gate, gate_measures
    from netpipe.records import Run

    runs = [Run.read(path, samples=False) for path in (file, run)]
    found = compared_runs(runs, variants, patterns, conventions=False)
    if name:
        found = replace(found, first=name)
    metrics = gate(found.between, limits.slower, limits.faster)
    measures: tuple[TestedMeasure, ...] = ()
    if limits.measures:
        measures = gate_measures(*_measures(runs, variants, patterns, limits), limits.slower, limits.faster)
    gone = () if variants or patterns else found.missing[0]
    needed = more(of_gate(metrics, measures), runs, found.others[0][2], fixed=bool(name))
    return Checked(found, metrics, measures, gone, needed)


def _measures(
    runs: list[Run], variants: tuple[str, ...], patterns: tuple[str, ...], limits: Limits
) -> tuple[tuple[MeasureBetween, ...], Mapping[str, str | None]]:
    """Those that have a limit, and of which each is worse. Raises Failure (2) for one that there is not."""
    from netpipe.command.options import matching
    from netpipe.reading.across.gate import MORE
    from netpipe.reading.across.measured import in_both, measures_between

    base, run = runs
    names = [(point.variant, point.pattern) for of in runs for point in of.points]
    both = in_both(base, run, *matching(variants, patterns, names))
    there = {key.measure for key in both}
    limits.check(there, "both runs")
    worse = dict.fromkeys(there, MORE) | worse_of_measures()
    for name in limits.measures:
        if worse[name] is None:
            raise Failure(
                USAGE,
                f"{limits.said[name]}: more of {name} is neither better nor worse, so it has no limit; leave it out",
            )
    return measures_between(both, limits.measures), worse


def _limits(option: str, text: str, every: Iterable[str]) -> dict[str, float]:
    """latency=5%,all=2% as fractions; 5% is that of each name in `every`. Raises Failure (2)."""
    if "=" not in text and "," not in text:
        return dict.fromkeys(every, _percent(option, text))
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise Failure(USAGE, f"{option} {text}: '{part}' is not METRIC=PERCENT; write latency=5%")
        if name in limits:
            raise Failure(USAGE, f"{option} {text}: {name} is there twice; write it once")
        limits[name] = _percent(option, value)
    return limits


def _percent(option: str, text: str) -> float:
    """5% or 5 as 0.05. Raises Failure (2)."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise Failure(USAGE, f"{option}: '{text}' is not a percentage of 0 or more; write 5% or latency=5%")
    return value


def of_history(baseline: str, run: Path) -> tuple[Path, str]:
    """The file of the baseline, and what a run of the history is called. Raises Failure (2) where it has none."""
    if baseline not in ("last", "best"):
        return Path(baseline), ""
    from netpipe.history import History

    with History.open() as history:
        file, started = history.baseline(baseline, run)
    return file, f"the {baseline} run, of {started.replace('T', ' ')[:16]}"
