# SPDX-License-Identifier: Apache-2.0
"""What a notebook or a script needs: measure, and look at runs as data frames and figures.

    import netpipe

    run = netpipe.measure("tcp:wait=poll|block", sizes="8,64k", budget=1, output="run.jsonl")
    netpipe.load(run, "size")               # its sizes, a polars data frame: intervals for the next run
    netpipe.load(run)                       # the points of its launches, with the interval inside each
    netpipe.compare(run)                    # its variants against each other, by size
    netpipe.compare("monday.jsonl", run)    # the same variants in two runs
    netpipe.findings(run)                   # what the rules found, with remedies and what experiments came to
    netpipe.findings(run, "skipped")        # the rules that could not judge, and why; also "withdrawn"
    netpipe.plot("throughput", run)         # a figure of matplotlib

A run is the path of its file, or what `measure` or `netpipe.Run.read` returned. Times are in nanoseconds, sizes in
bytes, rates in bytes per second; intervals are 95 % intervals. Mistakes raise netpipe.failure.Failure with a sentence.
docs/notebook.ipynb shows all of it at work.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from netpipe import frames
from netpipe.failure import USAGE, Failure
from netpipe.records import Run

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

    from netpipe.findings import Finding, Quantity
    from netpipe.reading import Reading
    from netpipe.reading.blocks.verdicts import Verdict, Word
    from netpipe.reading.estimate import Estimate

__all__ = ["compare", "findings", "load", "measure", "plot"]

FINDINGS = ("found", "withdrawn", "skipped")

AnyRun: TypeAlias = "str | os.PathLike[str] | Run"
Names: TypeAlias = "str | Sequence[str]"


def measure(
    *variants: str,
    patterns: Names = (),
    output: str | os.PathLike[str] | None = None,
    launches: int | None = None,
    beside_itself: bool = False,
    **settings: object,
) -> Run:
    """Measures variants (`tcp:wait=poll|block`) as `netpipe run` does, and returns the run. Without variants, patterns,
    sizes or launches it measures what `netpipe run` measures without them (its preset `default`).

    `settings` are the keys of a plan (docs/reference/worker.md) with `_` for `-`: sizes="8,64k", budget=2 (seconds for
    each variant and pattern, shared by the launches), verify=True, send_offset=3. `output`: the run file that is also
    written. Raises Failure where the plan is not valid (exit code 2), something is not available (3), or something
    could not be measured (4), and KeyboardInterrupt when it was interrupted; what was measured is in `output`.
    """
    from netpipe.command.presets import preset
    from netpipe.failure import DONE, INTERRUPTED
    from netpipe.session import Request, Session

    texts = {
        name.replace("_", "-"): ("yes" if value else "no") if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
    usual, usual_launches = preset("default", texts)
    request = Request(
        variants,
        _names(patterns),
        usual | texts,
        launches=usual_launches if launches is None else launches,
        beside_itself=beside_itself,
    )
    result = Session(request).measure(output)
    if result.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    if result.exit_code != DONE:
        said = "; ".join(dict.fromkeys(error.message for error in result.run.errors))
        raise Failure(result.exit_code, said or "the measurement failed")
    return result.run


def load(run: AnyRun, kind: str = "point") -> polars.DataFrame:
    """`size`: the numbers of the whole run, a row for each size; `low_ns` to `high_ns` is the interval for the next run
    (what `netpipe export --table sizes` writes). Else the records of one kind, a row each: `point`, `sample`, `cell`,
    `variant`, ... (docs/reference/record.md); the interval of a `point` is that inside its launch.

    A run from `measure` or `Run.read` has no samples; read them from its file. Raises NotARun, OSError, or ValueError
    for an unknown kind.
    """
    if kind == frames.SIZE:
        from netpipe.reading import Reading
        from netpipe.render.export import table, whole

        read = _run(run)
        return table.size_frame(whole.sizes(Reading(read), read.points))
    return frames.of_kind(run.body(), kind) if isinstance(run, Run) else frames.load(run, kind)


def compare(first: AnyRun, *others: AnyRun, variants: Names = (), patterns: Names = ()) -> polars.DataFrame:
    """How long each variant takes over another one at each size: a row for each, and with several runs one for all
    sizes together (`size_bytes` is null).

    One run: its variants of one module or library against each other, and the settings of a pattern (as variants
    "tcp (in_flight=4)" and "tcp (in_flight=16)"), by pairs of visits (what `netpipe show` says). Several: each variant
    of the other runs against itself in the first (what `netpipe compare` says). Columns: variant, against, pattern,
    size_bytes, ratio (2 is twice as long), low, high (null without an interval), word (faster, slower, no difference,
    undecided). The intervals of all sizes of one pair of variants hold together, and so do
    those of one call with several runs. `plot("comparison", ...)` draws the same. Raises Failure (2) where there is
    nothing to compare.
    """
    import polars

    from netpipe.reading import Reading

    rows: list[dict[str, Any]]
    if others:
        from netpipe.command.comparing import compared_runs

        runs = [_run(one) for one in (first, *others)]
        found = compared_runs(runs, _names(variants), _names(patterns))
        rows = []
        for one in found.between:
            names = {"variant": one.label, "against": one.against}
            if not one.variants_differ:
                names = {key: f"{one.variant} ({of})" for key, of in names.items()}
            rows += [
                names | {"pattern": one.pattern} | _row(at.size_bytes, at.times, at.word) for at in one.sizes
            ]
            rows.append(names | {"pattern": one.pattern} | _row(None, one.overall, one.word))
    else:
        reading = Reading(_run(first))
        chosen = _chosen(reading, _names(variants), _names(patterns))
        rows = [
            _compared(one) | _row(at.size_bytes, at.times, at.word)
            for one in reading.verdicts
            if (one.variant, one.pattern) in chosen
            for at in one.sizes
        ]
        if not rows:
            raise Failure(
                USAGE,
                "the run has no two variants of one module or library, and no two settings of a pattern, that were "
                "measured by turns",
            )
    reals = dict.fromkeys(("ratio", "low", "high"), polars.Float64)
    texts = dict.fromkeys(("variant", "against", "pattern"), polars.String)
    return polars.DataFrame(
        rows, schema={**texts, "size_bytes": polars.Int64, **reals, "word": polars.String}
    )


def findings(run: AnyRun, kind: str = "found") -> polars.DataFrame:
    """What the rules found in a run, a row for each finding: rule, title, severity, variant, pattern, size_bytes, host,
    what, certainty, cause, remedy, experiment (the command that confirms it), gain, gain_low, gain_high (how many times
    as fast the remedy makes it, as measured where it is confirmed; null where the run does not tell), outcome (of
    `netpipe explain --confirm`: confirmed, undecided, withdrawn; null: it was not run), outcome_path (of its run file),
    evidence (a list of name, value, unit, low, high). docs/reference/findings.md lists them.

    `kind`: "found"; "withdrawn", by their experiments, with the same columns; or "skipped", the rules that could not
    judge the run: rule, title, reason. Raises ValueError for any other.
    """
    import polars

    from netpipe.findings import judge, rules
    from netpipe.reading import Reading

    if kind not in FINDINGS:
        raise ValueError(f"there are no findings '{kind}'; there are {', '.join(FINDINGS)}")
    judgement = judge(Reading(_run(run)))
    if kind == "skipped":
        reasons = [(one.rule, rules()[one.rule].title, one.reason) for one in judgement.skipped]
        names = dict.fromkeys(("rule", "title", "reason"), polars.String)
        return polars.DataFrame(reasons, schema=names, orient="row")
    return _frame(judgement.findings if kind == "found" else judgement.withdrawn)


def _frame(chosen: Iterable[Finding]) -> polars.DataFrame:
    import msgspec
    import polars

    from netpipe.findings import Finding

    wide = {"evidence", "gain", "confirm", "outcome"}
    names = [field.name for field in msgspec.structs.fields(Finding) if field.name not in wide]
    limits = dict.fromkeys(("value", "low", "high"), polars.Float64)
    quantity = polars.Struct({"name": polars.String, "unit": polars.String, **limits})
    schema: dict[str, Any] = dict.fromkeys(names, polars.String) | {"size_bytes": polars.Int64}
    schema |= dict.fromkeys(("gain", "gain_low", "gain_high"), polars.Float64)
    schema |= dict.fromkeys(("outcome", "outcome_path"), polars.String)
    schema["evidence"] = polars.List(quantity)
    rows = []
    for one in chosen:
        row = {name: getattr(one, name) for name in names}
        row |= zip(("gain", "gain_low", "gain_high"), _numbers(one.gain).values(), strict=True)
        row |= {
            "outcome": one.outcome and one.outcome.outcome,
            "outcome_path": one.outcome and one.outcome.path,
        }
        row["evidence"] = [
            {"name": name, "unit": of.unit} | _numbers(of) for name, of in one.evidence.items()
        ]
        rows.append(row)
    return polars.DataFrame(rows, schema=schema)


def plot(
    figure: str,
    *runs: AnyRun,
    variants: Names = (),
    patterns: Names = (),
    sizes: Sequence[int] = (),
    title: str | None = None,
) -> Figure:
    """A figure of runs, laid over each other: any that `netpipe plot --list` names. Returns a matplotlib figure, which
    a notebook shows after `%matplotlib inline`, and `savefig` writes. `sizes` are bytes, for figures that take them.
    Raises Failure (2) for an unknown figure, and for one for which the runs lack the data.
    """
    from netpipe.reading import Reading
    from netpipe.render import figures
    from netpipe.render.drawing.paper.draw import drawn
    from netpipe.render.drawing.picture import NothingToDraw
    from netpipe.render.drawing.scope import Scope

    if figure not in figures.names() or figures.RUN not in figures.get(figure).needs:
        known = ", ".join(sorted(one.name for one in figures.every(figures.RUN)))
        raise Failure(USAGE, f"there is no figure '{figure}' of runs; there are {known}")
    if not runs:
        raise Failure(USAGE, f"name a run: plot('{figure}', 'run.jsonl')")
    readings = tuple(Reading(_run(one)) for one in runs)
    there = [name for reading in readings for name in reading.by_name]
    chosen = _matching(_names(variants), _names(patterns), there)
    scope = Scope(readings, *chosen, tuple(sizes), (), None)
    of = figures.get(figure)
    try:
        return drawn(of.panels(scope), scope.subtitle, title, of.help, scope.conventions)
    except NothingToDraw as why:
        raise Failure(USAGE, f"cannot draw {figure}: {why}") from None


# --------------------------------------------------------------------------------------------------------- inside


def _compared(verdict: Verdict) -> dict[str, Any]:
    if verdict.settings is None:
        return {"variant": verdict.variant, "against": verdict.against, "pattern": verdict.pattern}
    ours, theirs = (f"{verdict.variant} ({setting})" for setting in verdict.settings)
    return {"variant": ours, "against": theirs, "pattern": verdict.pattern}


def _run(run: AnyRun) -> Run:
    return run if isinstance(run, Run) else Run.read(run, samples=False)


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _matching(
    variants: tuple[str, ...], patterns: tuple[str, ...], there: Iterable[tuple[str, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from netpipe.command.options import matching

    return matching(variants, patterns, there)


def _chosen(reading: Reading, variants: tuple[str, ...], patterns: tuple[str, ...]) -> set[tuple[str, str]]:
    """The curves of these names; all, where none is given."""
    found = _matching(variants, patterns, reading.by_name)
    return {
        (variant, pattern)
        for variant, pattern in reading.by_name
        if (not found[0] or variant in found[0]) and (not found[1] or pattern in found[1])
    }


def _numbers(of: Quantity | None) -> dict[str, float | None]:
    """As reals: the record has integers too."""
    each = {name: getattr(of, name, None) for name in ("value", "low", "high")}
    return {name: None if number is None else float(number) for name, number in each.items()}


def _row(size_bytes: int | None, times: Estimate, word: Word) -> dict[str, Any]:
    low, high = (times.low, times.high) if times.known else (None, None)
    return {"size_bytes": size_bytes, "ratio": times.value, "low": low, "high": high, "word": word.value}
