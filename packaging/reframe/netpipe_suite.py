# SPDX-License-Identifier: Apache-2.0
"""A ReFrame test that runs a suite of netpipe and reports its latencies and rates.

    reframe -c packaging/reframe/netpipe_suite.py --run -S suite=health
    reframe -c packaging/reframe/netpipe_suite.py --run -S suite=./mine.toml -S size=quick

A site derives a class of its own from NetpipeSuiteBase: it sets `suite`, `valid_systems`, `valid_prog_environs`, the
modules that have netpipe, and `reference` for the numbers that are to be watched. Their names are
VARIANT/PATTERN/latency and VARIANT/PATTERN/rate, with the run of the suite before them where it has several.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, sanity_function, variable

RESULTS = "results"  # of the suite
POINTS = "points"  # of its runs


class NetpipeSuiteBase(rfm.RunOnlyRegressionTest):
    """For tests of a site: everything but the systems."""

    suite = variable(str, value="health")  # a name of `netpipe suite list`, or a file
    size = variable(str, value="")  # quick, default or full; empty: the suite's own
    netpipe = variable(str, value="netpipe")  # the command
    hosts = variable(str, value="")  # of netpipe run --hosts; empty: the host where the job runs

    executable = "netpipe"
    num_tasks = 1  # netpipe starts the processes of each layer itself
    local = True
    time_limit = "1h"

    @run_after("setup")
    def set_command(self) -> None:
        self.executable = self.netpipe
        self.executable_opts = ["suite", "run", self.suite, "-o", RESULTS]
        if self.size:
            self.executable_opts += ["--size", self.size]
        if self.hosts:
            self.executable_opts += ["--hosts", self.hosts]
        table = f'{self.netpipe} export "$run" --format csv -o "{POINTS}/$(basename "$run" .jsonl).csv"'
        # The job is over when the exit code of the suite is known; the numbers are read from tables.
        self.postrun_cmds = [
            "code=$?",
            f"mkdir -p {POINTS}",
            f"for run in {RESULTS}/*.jsonl; do {table}; done",
            'echo "netpipe ended with exit code $code"',
        ]

    @sanity_function
    def was_measured(self) -> object:
        return sn.all(
            [
                sn.assert_found(r"^netpipe ended with exit code 0$", self.stdout),
                sn.assert_gt(sn.count(sn.glob(f"{POINTS}/*.csv")), 0, "no run of the suite was measured"),
            ]
        )

    @run_before("performance")
    def read_points(self) -> None:
        """The median of the smallest size, and the rate of the largest, of each curve."""
        files = sorted((Path(self.stagedir) / POINTS).glob("*.csv"))
        for file in files:
            run = f"{file.stem}/" if len(files) > 1 else ""
            for name, (value, unit) in numbers(file).items():
                self.perf_variables[run + name] = sn.make_performance_function(sn.defer(value), unit)


def numbers(file: Path) -> dict[str, tuple[float, str]]:
    """The numbers of one run by name, each with its unit: of several launches the median."""
    curves: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = {}
    with file.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            if row["median_ns"] and row["bytes_per_s"]:
                curve = curves.setdefault((row["variant"], row["pattern"]), {})
                times = curve.setdefault(int(row["size_bytes"]), [])
                times.append((float(row["median_ns"]), float(row["bytes_per_s"])))
    found = {}
    for (variant, pattern), points in curves.items():
        first, last = points[min(points)], points[max(points)]
        found[f"{variant}/{pattern}/latency"] = (median(time for time, _ in first) / 1e3, "us")
        found[f"{variant}/{pattern}/rate"] = (median(rate for _, rate in last) * 8 / 1e6, "Mbps")
    return found


@rfm.simple_test
class NetpipeSuite(NetpipeSuiteBase):
    descr = "a suite of netpipe"
    valid_systems = ["*"]  # noqa: RUF012  (as ReFrame wants it)
    valid_prog_environs = ["*"]  # noqa: RUF012
