# SPDX-License-Identifier: Apache-2.0
"""The runs of a host over time: the run files, without their samples, in one folder, and an index of their numbers in
SQLite beside them. The folder is NETPIPE_HISTORY, else netpipe/history in the user's data folder (XDG_DATA_HOME).

A run is known by the id in its header, so adding it twice changes nothing. The index can be made anew from the files.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure

if TYPE_CHECKING:
    from netpipe.records import Run

INDEX = "index.sqlite"
WAIT_S = 10.0  # for another netpipe that writes the index
TABLES = """
create table if not exists runs (
    id text primary key, host text not null, started text not null, netpipe text, command text, file text not null);
create table if not exists points (
    run text not null references runs (id) on delete cascade, variant text not null, pattern text not null,
    size_bytes integer not null, time_ns real not null, low_ns real, high_ns real, bytes_per_s real);
create index if not exists points_of on points (variant, pattern, size_bytes, run);
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """One run of the history."""

    id: str
    host: str
    started: str  # ISO 8601, UTC
    command: str
    file: Path
    curves: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What one run found of a curve at a size."""

    started: str
    time_ns: float
    low_ns: float | None
    high_ns: float | None
    bytes_per_s: float | None


def folder() -> Path:
    if own := os.environ.get("NETPIPE_HISTORY"):
        return Path(own)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "netpipe" / "history"


class History:
    """Use as a context; changes are kept when it ends without an error. Raises Failure (3, 4) or OSError."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._index = sqlite3.connect(place / INDEX, timeout=WAIT_S)
        self._index.execute("pragma foreign_keys = on")
        self._index.create_function("ln", 1, math.log, deterministic=True)  # SQLite has it only if built so
        self._index.executescript(TABLES)

    @classmethod
    def open(cls, create: bool = False) -> History:
        """Raises Failure (2) where there is none yet."""
        place = folder()
        if create:
            place.mkdir(parents=True, exist_ok=True)
        elif not (place / INDEX).is_file():
            raise Failure(
                USAGE, f"there is no history in {place}; begin one with 'netpipe history add run.jsonl'"
            )
        with _sentences(place):
            return cls(place)

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _sentences(self.place):
            if kind is None:
                self._index.commit()
            self._index.close()

    def add(self, path: Path) -> bool:
        """Keeps a run. False: it is there already. Raises NotARun, OSError, or Failure (2) for a run that cannot be
        kept.
        """
        from netpipe.reading import Reading
        from netpipe.records import Run

        run = Run.read(path, samples=False)
        name, host, started = identity(run, path)
        with _sentences(self.place):
            if self._index.execute("select 1 from runs where id = ?", (name,)).fetchone():
                return False
            file = self.place / f"{name}.jsonl"
            keep(path, file)
            assert run.header
            self._index.execute(
                "insert into runs values (?, ?, ?, ?, ?, ?)",
                (name, host, started, run.header.netpipe, " ".join(run.header.argv or ()), file.name),
            )
            rows = []
            for curve in Reading(run).curves:
                for at in curve.points:
                    limits = (at.time_ns.low, at.time_ns.high) if at.time_ns.known else (None, None)
                    rate = at.rate_bytes_per_s.value if at.rate_bytes_per_s else None
                    rows.append(
                        (name, curve.variant, curve.pattern, at.size_bytes, at.time_ns.value, *limits, rate)
                    )
            self._index.executemany("insert into points values (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        return True

    def remove(self, name: str) -> None:
        """name: the first letters of an id, as many as tell it apart. Raises Failure (2)."""
        found = [one for one in self.runs() if one.id.startswith(name)]
        if len(found) != 1:
            raise Failure(USAGE, f"{len(found) or 'no'} runs of the history begin with '{name}'; name one")
        with _sentences(self.place):
            self._index.execute("delete from runs where id = ?", (found[0].id,))
        found[0].file.unlink(missing_ok=True)

    def runs(self, host: str | None = None) -> tuple[Kept, ...]:
        """The earliest first."""
        with _sentences(self.place):
            rows = self._index.execute(
                "select id, host, started, command, file, (select count(*) from (select distinct variant, pattern from "
                "points where run = id)) from runs where host = coalesce(?, host) order by started, id",
                (host,),
            ).fetchall()
        return tuple(
            Kept(name, where, when, said, self.place / file, n) for name, where, when, said, file, n in rows
        )

    def curves(self, host: str) -> tuple[tuple[str, str], ...]:
        """(variant, pattern) that any run of the host has."""
        with _sentences(self.place):
            return tuple(
                self._index.execute(
                    "select distinct variant, pattern from points join runs on run = id where host = ? "
                    "order by pattern, variant",
                    (host,),
                ).fetchall()
            )

    def sizes(self, host: str, variant: str, pattern: str) -> tuple[int, ...]:
        """Those that most runs have; by rising size."""
        with _sentences(self.place):
            rows = self._index.execute(
                "select size_bytes, count(*) from points join runs on run = id where host = ? and variant = ? and "
                "pattern = ? group by size_bytes order by size_bytes",
                (host, variant, pattern),
            ).fetchall()
        most = max((count for _, count in rows), default=0)
        return tuple(size for size, count in rows if 2 * count >= most)

    def moments(self, host: str, variant: str, pattern: str, size: int) -> tuple[Moment, ...]:
        """The earliest first."""
        with _sentences(self.place):
            rows = self._index.execute(
                "select started, time_ns, low_ns, high_ns, bytes_per_s from points join runs on run = id where "
                "host = ? and variant = ? and pattern = ? and size_bytes = ? order by started, id",
                (host, variant, pattern, size),
            ).fetchall()
        return tuple(Moment(*row) for row in rows)

    def baseline(self, which: str, path: Path) -> tuple[Path, str]:
        """The file, and when it was measured, of the run to hold this one against. last: the latest earlier one of its
        host that has one of its curves; best: of these the one with the shortest times, over all that both have. Raises
        Failure (2) where there is none.
        """
        from netpipe.records import Run

        run = Run.read(path, samples=False)
        name, host, started = identity(run, path)
        with _sentences(self.place):
            self._index.execute(
                "create temp table if not exists ours (variant text, pattern text, size_bytes integer, time_ns real)"
            )
            self._index.execute("delete from ours")
            self._index.executemany(
                "insert into ours values (?, ?, ?, ?)",
                [(one.variant, one.pattern, one.size_bytes, one.median_ns) for one in run.points],
            )
            rows = self._index.execute(
                "select file, started, avg(ln(points.time_ns / ours.time_ns)) from runs join points on run = id join "
                "ours using (variant, pattern, size_bytes) where id != ? and host = ? and started <= ? and "
                "ours.time_ns > 0 and points.time_ns > 0 group by id order by started",
                (name, host, started),
            ).fetchall()
        if not rows:
            raise Failure(
                USAGE,
                f"the history has no earlier run of {host} with a curve of {path}; add one with 'netpipe history add', "
                "or name a file",
            )
        chosen = rows[-1] if which == "last" else min(rows, key=lambda row: row[2])
        return self.place / str(chosen[0]), str(chosen[1])


def identity(run: Run, path: Path) -> tuple[str, str, str]:
    """The id, the host and the start of a run. Raises Failure (2) for a file without them."""
    header = run.header
    hosts = [one.host for one in run.environments if one.host]
    host = hosts[0] if hosts else header.host if header else None
    if header is None or not header.run or not header.started or not host:
        raise Failure(
            USAGE,
            f"{path} does not say on which host and when it was measured, so it cannot be part of a history",
        )
    if not header.run.replace("-", "").isalnum():
        raise Failure(USAGE, f"{path} has an id that is not a word, so it cannot be part of a history")
    if run.end is None:
        raise Failure(USAGE, f"{path} is incomplete: interrupted, or still running; only whole runs are kept")
    return header.run, host, header.started


def keep(source: Path, target: Path) -> None:
    """A copy of a run file without its samples; it appears whole or not at all."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with source.open("rb") as lines, part.open("wb") as copy:
            copy.writelines(line for line in lines if not line.startswith(b'{"type":"sample"'))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def _sentences(place: Path) -> Iterator[None]:
    """What SQLite says, as a Failure."""
    try:
        yield
    except sqlite3.OperationalError as error:
        code = FAILED if "full" in str(error) or "disk" in str(error) else UNAVAILABLE
        raise Failure(code, f"the history in {place} cannot be used: {error}") from None
    except sqlite3.DatabaseError as error:
        raise Failure(
            UNAVAILABLE,
            f"the history in {place} is damaged: {error}; remove {INDEX} and add its run files again",
        ) from None
