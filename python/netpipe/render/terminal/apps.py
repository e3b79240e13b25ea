# SPDX-License-Identifier: Apache-2.0
"""Application kernels on the terminal: which there are, where a session is, and its results as a table."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from netpipe.escapes import printable
from netpipe.findings.machine.load import LOADED
from netpipe.kernels.lines import bound
from netpipe.kernels.table import LEAST
from netpipe.render.terminal.live import LINE_S
from netpipe.render.terminal.rows import Rows, print_paragraph
from netpipe.units import TIME_STEPS, UNKNOWN, bracketed_text, counted, digits, listed

if TYPE_CHECKING:
    from rich.console import Console

    from netpipe.kernels.lines import Pin
    from netpipe.kernels.table import Row


MOPS, SPEED_UP = "Mop/s", "speed-up"
CLASSES = "SWABCDEF"  # of the NAS benchmarks, the smallest first


class Listed(Protocol):
    """A kernel that there is."""

    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def ranks(self) -> str: ...
    @property
    def classes(self) -> Sequence[str]: ...
    @property
    def settings(self) -> Mapping[str, str]: ...


def print_kernels(out: Console, kernels: Sequence[Listed]) -> None:
    table = Rows(("kernel", "name"), ("what it does", "left"), ("ranks", "name"), ("classes", "right"))
    for one in kernels:
        table.add_row(one.name, one.summary, one.ranks, " ".join(one.classes))
    out.print(table)
    out.print()
    for one in kernels:
        if one.settings:
            some = listed(f"{name} ({meaning})" for name, meaning in one.settings.items())
            out.print(f"Settings of {one.name}: {some}.", style="dim")
    out.print(
        "netpipe apps cg mg --class A runs two of them over every MPI library that was added.", style="dim"
    )


class Line:
    """One line that is written over, on a terminal; elsewhere lines, at most one in LINE_S."""

    def __init__(
        self, out: Console, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._out = out  # on standard error
        self._say = say
        self._clock = clock
        self._said_at = clock()
        self._drawn = False

    def show(self, text: str) -> None:
        if self._out.file.isatty():
            self._write(f"\r\x1b[K{printable(text)[: self._out.width - 1]}")
            self._drawn = True
        elif self._clock() - self._said_at >= LINE_S:
            self._said_at = self._clock()
            self._say(text)

    def close(self) -> None:
        """Leaves nothing on the terminal."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody may be left to read it
            self._out.file.write(text)
            self._out.file.flush()


def print_table(out: Console, rows: Sequence[Row], processors: int | None) -> None:
    """A block of rows for each kernel and class. On a narrow terminal Mop/s are left out, then names are broken, then
    speed-ups are left out: a name that is cut is that of another variant.
    """
    whole, unrated, least = (table(rows, left_out) for left_out in ((), (MOPS,), (MOPS, SPEED_UP)))
    fitting = (one for one in (whole, unrated) if one.fits(out.width))
    out.print(next(fitting, unrated if unrated.fits(out.width, broken=True) else least))
    if alarm := load_alarm(rows, processors):
        print_paragraph(out, "!", "yellow", alarm)
    for note in notes(rows, processors):
        out.print(note, style="dim")


def table(rows: Sequence[Row], left_out: Sequence[str] = ()) -> Rows:
    """Without these columns, and without those in which there is nothing to compare."""
    compared = len({(row.cell.variant, row.cell.mapping) for row in rows}) > 1
    mapped = any(row.cell.mapping for row in rows)
    rated = MOPS not in left_out
    scaled = SPEED_UP not in left_out and any(row.speedup is not None for row in rows)
    made = Rows(
        ("kernel", "name"),
        ("ranks", "right"),
        *([("map", "left")] if mapped else []),
        ("over", "name"),
        ("time", "right"),
        *([(MOPS, "right")] if rated else []),
        *([(SPEED_UP, "right")] if scaled else []),
        *([("to fastest", "right")] if compared else []),
    )
    last = ""
    for row in in_order(rows):
        kernel = kernel_text(row)
        made.add_row(
            kernel if kernel != last else "",
            str(row.cell.ranks),
            *([row.cell.mapping or UNKNOWN] if mapped else []),
            row.cell.variant,
            time_text(row),
            *([UNKNOWN if row.mops is None else digits(row.mops)] if rated else []),
            *([UNKNOWN if row.speedup is None else f"{digits(row.speedup)} ×"] if scaled else []),
            *([behind_text(row)] if compared else []),
            style="dim" if row.seconds is None else "",
        )
        last = kernel
    return made


def in_order(rows: Sequence[Row]) -> list[Row]:
    """By kernel, class and number of ranks; of one number of ranks the fastest first."""
    return sorted(rows, key=_place)


def kernel_text(row: Row) -> str:
    """cg A"""
    return f"{row.cell.kernel} {row.cell.problem}"


def _place(row: Row) -> tuple[str, str, int, int, float]:
    """Larger classes and more ranks further down; of one number of ranks the slowest, and last what has no result."""
    problem = row.cell.problem
    size = int(problem) if problem.isdecimal() else CLASSES.find(problem)
    time = math.inf if row.seconds is None else row.seconds.value
    return row.cell.name, row.cell.settings, size, row.cell.ranks, time


def time_text(row: Row) -> str:
    """The median and its 95 % interval, in one unit."""
    if row.seconds is None:
        return UNKNOWN
    found = row.seconds
    low, high = (1e9 * (0.0 if limit is None else limit) for limit in (found.low, found.high))
    return bracketed_text(1e9 * found.value, low, high, TIME_STEPS, "ns")


def behind_text(row: Row) -> str:
    """Times the seconds of the fastest; ~ where it is not known which of the two is faster."""
    if row.behind is None:
        return UNKNOWN
    if row.tied:
        return f"~{digits(row.behind)} ×"
    return "fastest" if row.behind == 1 else f"{digits(row.behind)} ×"


def notes(rows: Sequence[Row], processors: int | None) -> list[str]:
    """What the marks and columns of these rows mean, as far as they have them."""
    said = []
    bases = {row.speedup_from for row in rows if row.speedup is not None}
    if bases:
        which = counted(bases.pop(), "rank") if len(bases) == 1 else "the fewest ranks of each kernel"
        said.append(f"Speed-up: against {which}.")
    if any(row.tied for row in rows):
        why = "the intervals of the two meet"
        if any(row.tied and row.seconds is not None and row.seconds.low is None for row in rows):
            why = f"an interval needs {LEAST} launches that verify"
        said.append(f"~: not known to be slower than the fastest, as {why}.")
    return [*said, *_hosts(rows), *_placements(rows, processors), *_busy(rows, processors)]


def load_alarm(rows: Sequence[Row], processors: int | None) -> str:
    """That other work ran beside at least half of the launches, in the words of `netpipe show` for a run; empty if not.
    The load average alone does not tell: the ranks of the launch before are in it.
    """
    loads = [one for row in rows for one in row.loads]
    loaded = [
        one for one in loads if one.other_busy_processes and (one.average_1 or 0) > LOADED * (processors or 1)
    ]
    if not loaded or 2 * len(loaded) < len(loads):
        return ""
    most = max(one.average_1 or 0 for one in loaded)
    others = max(one.other_busy_processes or 0 for one in loaded)
    on = "" if processors is None else f" on {counted(processors, 'processor')}"
    return (
        f"Do not trust these times until this is fixed: load. {counted(others, 'other process', 'other processes')} at "
        f"most wanted to run when {len(loaded)} of {counted(len(loads), 'launch', 'launches')} began, and the load "
        f"average of a minute was up to {most:.1f}{on}. List what runs with: top -o %CPU"
    )


def _busy(rows: Sequence[Row], processors: int | None) -> list[str]:
    """The same of fewer launches, which medians bear."""
    loads = [one for row in rows for one in row.loads]
    busy = sum(bool(one.other_busy_processes) for one in loads)
    if not busy or load_alarm(rows, processors):
        return []
    return [
        f"Other processes wanted to run when {busy} of {counted(len(loads), 'launch', 'launches')} began."
    ]


def _hosts(rows: Sequence[Row]) -> list[str]:
    """Where the ranks said that they were."""
    names = dict.fromkeys(name for row in rows for name in row.hosts)
    if not names:
        return []
    meant = {
        "block": "block: consecutive ranks are on one host",
        "cyclic": "cyclic: each next rank is on the next host",
    }
    mappings = dict.fromkeys(row.cell.mapping for row in rows if row.cell.mapping in meant)
    return [f"On {listed(names)}, as the ranks say; {'; '.join(meant[one] for one in mappings)}."]


# Of ranks that share processors.
SHARED = "Such times tell how a library waits more than how it communicates."


def placed_text(pin: Sequence[int | None], oversubscribed: bool) -> str:
    """bound to processors 0 and 1; not bound; oversubscribed, not bound"""
    where = f"bound to {_processors(pin)}" if bound(pin) else "not bound"
    return f"oversubscribed, {where}" if oversubscribed else where


def _processors(pin: Sequence[int | None]) -> str:
    """processors 2 and 0, processors 4 to 19, processor 3; all ranks are bound."""
    some = [one for one in pin if one is not None]
    if len(some) == 1:
        return f"processor {some[0]}"
    if len(some) > 2 and some == list(range(some[0], some[0] + len(some))):
        return f"processors {some[0]} to {some[-1]}"
    return f"processors {listed(map(str, some))}"


def _placements(rows: Sequence[Row], processors: int | None) -> list[str]:
    """On which processors the ranks were. `processors`: how many the host has for them; None: not known."""
    hosts = max((len(row.hosts) for row in rows), default=0) or 1
    held: list[str] = []
    free: list[str] = []
    shared: list[str] = []
    for ranks, pin, oversubscribed in sorted(
        set(_placed(rows, processors)), key=lambda one: (one[0], str(one[1]))
    ):
        count = counted(ranks, "rank")
        if bound(pin):
            held.append(f"{count} to {_processors(pin)}{' of their hosts' if hosts > 1 else ''}")
        elif pin and not oversubscribed:
            free.append(count)
        if oversubscribed:
            there = len(set(pin)) if bound(pin) else processors
            on = "" if there is None else f" on {counted(there * hosts, 'processor')}"
            shared.append(f"{count}{on}{', not bound' if pin and not bound(pin) else ''}")
    said = [f"Bound: {'; '.join(held)}."] if held else []
    said += [f"Not bound: {listed(free)}."] if free else []
    said += [f"Oversubscribed: {'; '.join(shared)}. {SHARED}"] if shared else []
    return said


def _placed(rows: Sequence[Row], processors: int | None) -> Iterator[tuple[int, Pin, bool]]:
    """The ranks of each row, their processors, and whether they share some: that is not in older files."""
    known = {row.cell.ranks for row in rows if row.pins}
    for row in rows:
        ranks = row.cell.ranks
        for pin in row.pins or ([] if ranks in known else [()]):
            more = processors is not None and ranks > processors * (len(row.hosts) or 1)
            yield ranks, pin, row.oversubscribed or (more and not bound(pin))


def failures(rows: Sequence[Row]) -> list[str]:
    """A sentence for each reason why launches have no result."""
    said = []
    for row in rows:
        some = f" in {row.launches - row.verified} of {counted(row.launches, 'launch', 'launches')}"
        said += [f"{row.cell.text}{some if row.verified else ''}: {why}" for why in row.failures]
    return said
