# SPDX-License-Identifier: Apache-2.0
"""Run files of any size, made up without measuring: for the tests of what large runs cost, and by hand:

python tests/python/large.py FILE [--curves 1600] [--sizes 125] [--launches 1] [--patterns 1] [--buckets 0]
                                  [--samples 0] [--visits 0]
"""

from __future__ import annotations

import argparse
import json
import random
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAYERS = (("memcpy", None), ("shm", "memcpy"), ("unix", "shm"), ("tcp", "unix"))
POINTS_BETWEEN_YARDSTICKS = 10  # as in a run of netpipe: 158 yardsticks beside 1612 points


def lines(
    curves: int = 1600,
    sizes: int = 125,
    launches: int = 1,
    patterns: int = 1,
    buckets: int = 0,
    samples: int = 0,
    visits: int = 0,
) -> Iterator[str]:
    """`curves` of as many variants of four layers as `patterns` leaves, each at `sizes` sizes in each launch, with
    histograms of so many buckets and so many visits; and so many sample records in all.
    """
    draw = random.Random(1)
    variants = [
        (f"{LAYERS[place % 4][0]}:chunk={place // 4}k", *LAYERS[place % 4])
        for place in range(curves // patterns)
    ]
    modes = [f"window:in_flight={place + 1}" for place in range(patterns)] if patterns > 1 else ["pingpong"]
    classic = [1 << power for power in range(min(24, sizes))]
    every = sorted({*classic, *(8 * place + 3 for place in range(sizes - len(classic)))})
    yield _line("run", schema=1, run="0" * 32, netpipe="0.1.0", started="2026-03-01T12:00:00Z", host="node17",
                argv=["netpipe", "run"])  # fmt: skip
    left = samples
    points = launches * len(variants) * len(modes) * len(every)
    written = 0
    for launch in range(launches):
        yield from _opening(launch, variants, modes, every)
        for size in every:
            for mode in modes:
                for name, module, _ in variants:
                    if written % POINTS_BETWEEN_YARDSTICKS == 0:
                        yield _yardstick(launch, written, draw)
                    written += 1
                    base = 100.0 * (1 + [layer for layer, _ in LAYERS].index(module)) ** 3
                    own = 1 + zlib.crc32(name.encode()) % 97 / 40
                    median = own * (base + size / 8) * draw.uniform(0.99, 1.01)
                    here = left // (points - written + 1)
                    left -= here
                    for number in range(here):
                        yield _sample(launch, name, mode, size, number, median, draw)
                    first = every.index(size) if visits else 0
                    yield _point(launch, name, mode, size, median, buckets, draw, visits, first)
        yield _line("launch", launch=launch, seconds=27.4, passes=7, rss_bytes=41 << 20, buffer_bytes=32 << 20,
                    states=1)  # fmt: skip
    yield _line("end", exit=0, reason="done", seconds=27.4 * launches)


def _line(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields}, separators=(",", ":")) + "\n"


def _opening(
    launch: int, variants: list[tuple[str, str, str | None]], modes: list[str], sizes: list[int]
) -> Iterator[str]:
    options = {"wait": "poll", "buffer": "64k", "align": "64", "pages": "4k", "ranks": "2"}
    yield _line(
        "plan",
        launch=launch,
        hash="5a" * 32,
        variants=[
            {"variant": name, "module": module, "options": {**options, "chunk": name.partition("=")[2]}}
            for name, module, _ in variants
        ],
        patterns=modes,
        modes=[
            {
                "pattern": mode,
                "name": mode.partition(":")[0],
                "options": {"in_flight": mode.partition("=")[2]},
            }
            for mode in modes
        ],
        schedule={"kind": "list", "start_bytes": sizes[0], "end_bytes": sizes[-1], "perturbation_bytes": 0},
        sizes=sizes,
        target=0.01,
        confidence=0.95,
        budget_s=3.5,
        stack={module: below for module, below in LAYERS if below},
    )
    facts = {"cpu": {"model": "AMD EPYC 9454 48-Core Processor", "cores": 2}, "kernel": {"system": "Linux"}}
    for rank in (0, 1):
        yield _line("environment", launch=launch, rank=rank, host="node17", facts=facts)
    for name, module, below in variants:
        settings = {"library": "glibc 2.36", "wait": "poll", "sndbuf": "4194304", "nodelay": "yes"}
        ranks = [{"rank": rank, "host": "node17", "cpu": rank, "settings": settings} for rank in (0, 1)]
        yield _line("variant", launch=launch, variant=name, module=module, version="glibc 2.36", below=below,
                    adds=f"what {module} adds", idle=False, ranks=ranks)  # fmt: skip


def _yardstick(launch: int, number: int, draw: random.Random) -> str:
    return _line("yardstick", launch=launch, at_s=number * 0.01, state=0, clock_ns=19.5, clock_resolution_ns=1,
                 bounce_ns=54 * draw.uniform(0.98, 1.02), copy_bytes_per_s=1.12e10 * draw.uniform(0.98, 1.02),
                 wakeup_ns=24_000 * draw.uniform(0.9, 1.1))  # fmt: skip


def _sample(
    launch: int, variant: str, pattern: str, size: int, number: int, median: float, draw: random.Random
) -> str:
    ns = [round(1000 * median * draw.uniform(0.98, 1.05)) for _ in range(8)]
    return _line("sample", launch=launch, variant=variant, pattern=pattern, size_bytes=size, **{"pass": number},
                 state=0, at_s=number * 0.1, ops=1000, ns=ns, dropped_ns=ns[:2], measures={}, verified_bytes=0,
                 counters={})  # fmt: skip


def _point(
    launch: int, variant: str, pattern: str, size: int, median: float, buckets: int, draw: random.Random,
    visits: int, first: int,
) -> str:  # fmt: skip
    blocks = [10_000 * place + first for place in range(visits)]
    of_visits = {
        "block": blocks,
        "at_s": [block * 0.001 for block in blocks],
        "state": [0] * visits,
        "samples": [70] * visits,
        "median_ns": [round(median * draw.uniform(0.98, 1.02), 3) for _ in blocks],
    }
    width = draw.uniform(0.003, 0.0105)
    histogram = None
    if buckets:
        low = [median * 1.01**place for place in range(buckets)]
        histogram = {"resolution": 0.0078125, "low_ns": low, "count": [draw.randrange(1, 90) for _ in low]}
    return _line(
        "point", launch=launch, variant=variant, pattern=pattern, size_bytes=size, state=0, samples=700, ops=1000,
        single=False, median_ns=median, low_ns=median * (1 - width), high_ns=median * (1 + width), half_width=width,
        min_ns=median * 0.97, max_ns=median * 2.9, mean_ns=median * 1.01, p90_ns=median * 1.04,
        p99_ns=median * 1.3, p999_ns=None, p9999_ns=None, bytes_per_s=size / median * 1e9, correlation=1.62,
        converged=width <= 0.01, stop="precision" if width <= 0.01 else "budget", passes=6, dropped=3, leading=0,
        other_states=0, verified_bytes=0, histogram=histogram, measures=[], counters={}, cells=[],
        **({"visits": of_visits} if visits else {}),
    )  # fmt: skip


def write(path: Path, **shape: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines(**shape))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    for name, default in (("curves", 1600), ("sizes", 125), ("launches", 1), ("patterns", 1), ("buckets", 0),
                          ("samples", 0), ("visits", 0)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    shape = vars(parser.parse_args())
    write(shape.pop("file"), **shape)


if __name__ == "__main__":
    main()
