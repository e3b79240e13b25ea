# SPDX-License-Identifier: Apache-2.0
"""How far the ratio of two layers differs from one minute to the next, whoever measures: loops by hand over the layers
of a default run, in slices beside each other, in as many starts as a default run has launches. What they come to is
what this machine leaves to be said about a loss (of_runs.py has netpipe's own).
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, stdev

from of_mpi import Library
from of_native import by_hand
from slices import Start, beside, usual

from netpipe.libraries.adding import added

STARTS = 4
T_95 = 3.18  # Student's t for the mean of so many
LARGE = 1 << 20  # the loops write a line every 50 messages: of 8 MiB that would take half a minute a pair


@dataclass
class ByHand:
    """One ratio of two loops at one size: ln of it, of each start, run after run."""

    runs: list[list[float]] = field(default_factory=list)

    def differences(self) -> Iterator[float]:
        for one, following in pairwise(self.runs):
            yield abs(fmean(one) - fmean(following))

    def half_widths(self) -> Iterator[float]:
        """Of the 95 % intervals of the ratio itself."""
        for one in self.runs:
            yield math.expm1(T_95 * stdev(one) / math.sqrt(STARTS))


class Losses:
    """The loops of one host's layers, to be measured as often as one likes."""

    def __init__(self, folder: Path) -> None:
        self.pairs: dict[str, list[tuple[ByHand, Start, Start]]] = defaultdict(list)
        libraries = {}
        for one in added.all_():
            family = one.facts.get("family", "")
            if family in ("openmpi", "mpich") and family not in libraries:
                libraries[family] = one.name
        for place, size in (("8 B", 8), ("the largest size", LARGE)):
            below = {
                "tcp": by_hand("stream_pingpong", "--bytes", str(size), "--wait", "poll"),
                "tcp:block": by_hand("stream_pingpong", "--bytes", str(size), "--wait", "block"),
            }
            if size == 8:
                below["shm"] = by_hand("shm_pingpong", "--bytes", "8")
                self._add(place, below["tcp"], below["shm"])
            self._add(place, below["tcp:block"], below["tcp"])
            for family, module in libraries.items():
                for transport in ("shm", "tcp"):
                    if transport not in below:
                        continue
                    inside = folder / f"{family}-{transport}"
                    inside.mkdir(exist_ok=True)
                    library = Library(module, f"transport={transport}", inside)
                    loop = library.by_hand("pingpong", size, (), usual)
                    self._add(place, loop, below[transport])

    def _add(self, place: str, above: Start, below: Start) -> None:
        self.pairs[place].append((ByHand(), above, below))

    def measure(self) -> None:
        """Once more."""
        for pairs in self.pairs.values():
            for one, above, below in pairs:
                one.runs.append([math.log(start.ratio) for start in beside(STARTS, above, below)])

    def run_to_run(self, place: str) -> float:
        return median(apart for one, _, _ in self.pairs[place] for apart in one.differences())

    def half_width(self, place: str) -> float:
        return median(wide for one, _, _ in self.pairs[place] for wide in one.half_widths())


@contextmanager
def losses_by_hand() -> Iterator[Losses]:
    """Raises MissingError where the loops are not built."""
    with tempfile.TemporaryDirectory() as folder:
        yield Losses(Path(folder))
