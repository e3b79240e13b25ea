# SPDX-License-Identifier: Apache-2.0
"""Numbers that a paper printed, beside the same ones here: `[[published]]`, and `published` of a table that a paper has
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netpipe.cli.suite.checking import check_keys, text
from netpipe.cli.suite.parts import APPS, MEMORY, PROFILE, RUN, Value
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.cli.suite.runs.base import Done, Planned
    from netpipe.reading import Reading
    from netpipe.reading.curves import Curve
    from netpipe.reading.estimate import Estimate

# What one of the unit is in those of curves: bytes per second, nanoseconds, plain numbers.
RATES = {"Mbps": 1e6 / 8, "Gbps": 1e9 / 8, "MB/s": 1e6, "MiB/s": float(1 << 20), "GB/s": 1e9}
TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
PLAIN = ("calls", "bytes", "%", "")
UNITS = (*RATES, *TIMES, *PLAIN)
LATENCY, PEAK, TIME, RATE = "latency", "peak", "time", "rate"
TABLE_KEYS = ("published", "class", "ranks", "printed", "unit")
KEYS = ("what", "value", "unit", "where", "run", "of", "variant", "pattern", "size", "why")
FILE = "published.csv"
WIDE = 100  # columns of a terminal; with fewer the table has no room for what here is of
NO_BREAK = "\u00a0"  # a number and its unit stay on one line
SUMMARY = ((PEAK, "Mbps"), (LATENCY, "us"))  # the columns of `published` of a summary


@dataclass(frozen=True, slots=True)
class Beside:
    """A published value and its equal here, in the unit of the paper."""

    value: Value
    here: Estimate | None
    which: str = ""  # what here is of
    why: str = ""  # there is none

    @property
    def ratio(self) -> Estimate | None:
        """Here over the paper, which printed no interval."""
        if self.here is None or self.value.paper <= 0:
            return None
        return self.here.scaled(1 / self.value.paper)


# ----------------------------------------------------------------------------------------------------------- the file


def value(where: str, table: Mapping[str, Any], kinds: Mapping[str, str]) -> Value:
    """Of `[[published]]`. Raises Failure (2)."""
    from netpipe.command.config import did_you_mean
    from netpipe.reading.sweeps import number

    check_keys(where, table, KEYS)
    what, place, unit = (text(where, table, key) for key in ("what", "where", "unit"))
    where = f"{where} '{what}'"
    if unit not in UNITS:
        raise Failure(USAGE, f"{where} unit: there is no '{unit}'; {did_you_mean(unit, UNITS)}")
    paper = _number(where, table.get("value"))
    if "run" not in table:
        return Value(what, place, paper, unit, why=text(where, table, "why"))
    run = text(where, table, "run")
    if run not in kinds:
        raise Failure(USAGE, f"{where} run: there is no [[run]] '{run}'; {did_you_mean(run, list(kinds))}")
    if kinds[run] not in (RUN, MEMORY):
        raise Failure(
            USAGE, f"{where} run: '{run}' is of the kind {kinds[run]}; its table has its published values"
        )
    size = None
    if "size" in table:
        found = number(str(table["size"]))
        if found is None:
            raise Failure(USAGE, f"{where} size '{table['size']}' is not a size; write bytes, or \"64k\"")
        size = int(found)
    of = text(where, table, "of")
    if of in (TIME, RATE) and size is None:
        raise Failure(USAGE, f"{where} size is missing: at which the {of} is")
    pattern = table.get("pattern", "pingpong")
    return Value(what, place, paper, unit, run, of, text(where, table, "variant"), pattern, size)


def of_table(where: str, title: str, run: str, shows: str, table: Mapping[str, Any]) -> list[Value]:
    """Of `published = { "ROW WORDS" = [numbers] }` of a table: ROW is the variant or the kernel, the numbers are its
    columns in order, and a text in place of a number is one that the paper left out. Raises Failure (2).
    """
    from netpipe.cli.suite.tables import COLUMNS

    said = table.get("published", {})
    if not said:
        return []
    if not isinstance(said, dict):
        raise Failure(USAGE, f"{where} published is not a table; write [table.published]")
    check_keys(where, table, ("title", "variant", "pattern", "shows", *TABLE_KEYS))
    printed = text(where, table, "printed") if "printed" in table else ""
    place = f"{title.partition(':')[0]}{f', {printed}' if printed else ''}"
    ranks = table.get("ranks", [])
    if shows == "times":
        if not ranks or not all(type(one) is int for one in ranks):
            raise Failure(USAGE, f"{where} ranks is missing: the numbers of processes of the columns")
        columns = [("seconds", "s", one) for one in ranks]
    elif shows == "summary":
        columns = [(of, unit, None) for of, unit in SUMMARY]
    elif shows in COLUMNS:
        number = ranks[0] if ranks else None
        columns = [(name, _unit_of(name), number) for name in COLUMNS[shows]]
    else:
        raise Failure(USAGE, f"{where} published: a table of {shows} has none")
    found = []
    for row, numbers in said.items():
        if not isinstance(numbers, list) or len(numbers) != len(columns):
            raise Failure(
                USAGE,
                f"{where} published '{row}' has no list of {len(columns)} numbers, one for each of "
                f"{', '.join(name if number is None else f'{name} on {number}' for name, _, number in columns)}",
            )
        name, _, words = row.partition(" ")
        for (of, unit, number), paper in zip(columns, numbers, strict=True):
            if paper == "":
                continue
            on = f" on {number} processes" if number is not None and shows == "times" else ""
            found.append(
                Value(
                    what=f"{words or name if shows == 'summary' else row}, {of.replace('_', ' ')}{on}",
                    where=place,
                    paper=_number(f"{where} published '{row}'", paper),
                    unit=unit,
                    run=run,
                    of=of,
                    variant=name if shows == "summary" else "",
                    row="" if shows == "summary" else name,
                    problem=str(table.get("class", "")),
                    ranks=number,
                    shows=shows,
                    listed=shows == "summary",
                )
            )
    return found


def _unit_of(column: str) -> str:
    return "%" if column.endswith("percent") else "bytes" if column.endswith("bytes") else "calls"


def _number(where: str, said: Any) -> float:
    if type(said) not in (int, float):
        raise Failure(USAGE, f"{where} value must be a number")
    return float(said)


# --------------------------------------------------------------------------------------------------------------- here


def beside(values: Iterable[Value], runs: Mapping[str, Planned], done: Mapping[str, Done]) -> list[Beside]:
    return [_beside(one, runs, done) for one in values]


def _beside(one: Value, runs: Mapping[str, Planned], done: Mapping[str, Done]) -> Beside:
    if not one.run:
        return Beside(one, None, why=one.why)
    came = done.get(one.run)
    if came is None or came.problem:
        why = came.problem if came is not None else runs[one.run].reasons
        return Beside(one, None, why=why or f"the run {one.run} was not measured")
    kind = runs[one.run].run.does
    if kind == APPS:
        return _of_kernel(one, came)
    if kind == PROFILE:
        return _of_profile(one, came)
    assert came.reading is not None
    return _of_curve(one, came.reading)


def _of_curve(one: Value, reading: Reading) -> Beside:
    """Of several curves that are meant the best one."""
    from netpipe.cli.suite.runs.base import spelled
    from netpipe.command.options import matching

    pairs = list(reading.by_name)
    try:
        variants, patterns = matching(spelled((one.variant,), pairs), (one.pattern,), pairs)
    except Failure:
        return Beside(one, None, why=f"{one.variant} was not measured here")
    curves = [curve for name, curve in reading.by_name.items() if name[0] in variants and name[1] in patterns]
    known = [(curve, found) for curve in curves if (found := _number_of(one, reading, curve)) is not None]
    if not known:
        at = "" if one.size is None else f" at {one.size} bytes"
        return Beside(one, None, why=f"{one.variant} has no {one.of}{at} under {one.pattern}")
    best = max if one.unit in RATES else min
    curve, found = best(known, key=lambda pair: pair[1].value)
    ranks = {
        len(opened.ranks)
        for opened in reading.run.variants
        if opened.variant == curve.variant and opened.ranks
    }
    on = f", {max(ranks)} ranks" if ranks and curve.pattern.startswith("collective") else ""
    return Beside(one, found.scaled(1 / (RATES | TIMES).get(one.unit, 1.0)), f"{curve.variant}{on}")


def _number_of(one: Value, reading: Reading, curve: Curve) -> Estimate | None:
    """In bytes per second, nanoseconds or plain."""
    if one.of in (LATENCY, PEAK):
        for summary in reading.summaries:
            if (summary.variant, summary.pattern) == (curve.variant, curve.pattern):
                return summary.latency_ns if one.of == LATENCY else summary.peak_bytes_per_s
        return None
    if one.of in (TIME, RATE):
        for point in curve.points:
            if point.size_bytes == one.size:
                return point.time_ns if one.of == TIME else point.rate_bytes_per_s
        return None
    for measured in reading.measures:
        if (measured.variant, measured.pattern, measured.name) == (curve.variant, curve.pattern, one.of):
            sizes = [one.size] if one.size is not None else sorted(measured.values)
            return next((measured.values[size] for size in sizes if size in measured.values), None)
    return None


def _of_kernel(one: Value, came: Done) -> Beside:
    """The fastest library with the class and the number of processes of the paper."""
    from netpipe.cli.suite.runs.kernels import label
    from netpipe.reading.estimate import Estimate, unsure

    same = [
        row
        for row in came.rows or ()
        if label(row.cell.name, row.cell.problem) == one.row
        and row.cell.ranks == one.ranks
        and (not one.problem or row.cell.problem in (one.problem, one.row.partition("-")[2]))
        and row.seconds is not None
    ]
    if not same:
        size = f"class {one.problem} " if one.problem and "-" not in one.row else ""
        return Beside(one, None, why=f"{one.row} {size}on {one.ranks} processes was not run at this size")
    fastest = min(same, key=lambda row: row.seconds.value if row.seconds else 0.0)
    seconds = fastest.seconds
    assert seconds is not None
    whole = (
        unsure(seconds.value)
        if seconds.low is None or seconds.high is None
        else Estimate(seconds.value, seconds.low, seconds.high)
    )
    return Beside(one, whole, fastest.cell.variant)


def _of_profile(one: Value, came: Done) -> Beside:
    """A count is exact, so it has no interval. Of another class or number of processes it is another count."""
    from netpipe.cli.suite.tables import COLUMNS, of_profile
    from netpipe.reading.estimate import Estimate

    made = came.profiles.get(one.row)
    if made is None:
        return Beside(one, None, why=f"{one.row} was not profiled here")
    command = " ".join(made.facts.command)
    problem = command.partition("--class ")[2].partition(" ")[0]
    is_row = problem in (one.problem, one.row.rpartition("-")[2])
    if (one.problem and not is_row) or one.ranks not in (None, made.facts.ranks):
        why = f"the run was class {problem} on {made.facts.ranks} processes, whose counts are others"
        return Beside(one, None, why=why)
    # The paper counts the messages within a host over all processes (its table 6 is 16 times its table 1).
    found = of_profile(one.shows, made, one.shows == "same_host")[COLUMNS[one.shows].index(one.of)]
    if not isinstance(found, (int, float)):
        return Beside(one, None, why=f"{one.row} makes no such call")
    return Beside(one, Estimate(found, found, found), f"class {problem} on {made.facts.ranks} processes")


# ---------------------------------------------------------------------------------------------------------- as a table


def grid(found: Sequence[Beside]) -> Any:
    """All of them, for a file and the report."""
    from netpipe.cli.suite.tables import Grid

    columns = (
        "what",
        "where",
        "unit",
        "paper",
        "here",
        "low",
        "high",
        "ratio",
        "ratio_low",
        "ratio_high",
        "of",
        "why",
    )
    rows = []
    for one in found:
        here, ratio = one.here, one.ratio
        rows.append(
            (
                one.value.what,
                one.value.where,
                one.value.unit,
                one.value.paper,
                *_cells(here),
                *_cells(ratio),
                one.which,
                one.why,
            )
        )
    return Grid(columns, tuple(rows), "here is of this machine; ratio is here over the paper.")


def _cells(estimate: Estimate | None) -> tuple[float | None, float | None, float | None]:
    if estimate is None:
        return None, None, None
    value = float(f"{estimate.value:.4g}")
    if not estimate.known:
        return value, None, None
    return value, float(f"{estimate.low:.4g}"), float(f"{estimate.high:.4g}")


def shown(found: Sequence[Beside]) -> Any:
    """Those of the report: with an equal here, or listed by themselves. The file has all."""
    from netpipe.cli.suite.tables import Grid
    from netpipe.units import digits

    rows = []
    for one in found:
        if one.here is None and not one.value.listed:
            continue
        unit = f" {one.value.unit}" if one.value.unit else ""
        numbers = (
            f"{one.value.paper:g}{unit}",
            "–" if one.here is None else f"{_bracketed(one.here)}{unit}",
            "–" if one.ratio is None else f"{digits(one.ratio.value)} ×",
        )
        whole = (number.replace(" ", NO_BREAK) for number in numbers)
        rows.append((one.value.what, one.value.where, *whole, one.which or one.why))
    left = len(found) - len(rows)
    note = f"{left} more have no equal in this run: {FILE} has them with the reason." if left else ""
    return Grid(("what", "where in the paper", "paper", "here", "ratio", "of"), tuple(rows), note)


def _bracketed(estimate: Estimate) -> str:
    from netpipe.units import digits

    if not estimate.known or estimate.low == estimate.high:
        return digits(estimate.value)
    return f"{digits(estimate.value)} [{digits(estimate.low)} {digits(estimate.high)}]"


def print_listed(out: Console, found: Sequence[Beside]) -> None:
    """Those of `[[published]]`, with what is not here below them."""
    from rich.text import Text

    from netpipe.render.terminal.rows import Rows
    from netpipe.units import digits

    listed = [one for one in found if one.value.listed]
    wide = out.width >= WIDE
    columns = [("what", "left"), ("where", "left"), ("paper", "right"), ("here", "right"), ("ratio", "right")]
    table = Rows(*columns, *([("of", "name")] if wide else []))
    for one in listed:
        unit = f" {one.value.unit}" if one.value.unit else ""
        table.add_row(
            Text(one.value.what),
            Text(one.value.where),
            f"{one.value.paper:g}{unit}",
            "–" if one.here is None else f"{digits(one.here.value)}{unit}",
            "–" if one.ratio is None else f"{digits(one.ratio.value)} ×",
            *([one.which] if wide else []),
            style="dim" if one.here is None else "",
        )
    if listed:
        out.print()
        out.print("Published values beside those measured here", style="bold")
        out.print(table)
