# SPDX-License-Identifier: Apache-2.0
"""PVM beside NPpvm of the classic NetPIPE, which measures the direct route with data left in place."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from measured import LIMIT_S, Result, Shown, beside_a_tool, peer_program, through_the_command

from netpipe.libraries.daemons import Daemons

VARIANT = "pvm:route=direct,encoding=inplace"  # PvmRouteDirect and PvmDataInPlace are compiled into NPpvm
TRIALS = 3  # of which NPpvm tells the shortest mean
REPEATS = {8: 4000, 65536: 2000, 1 << 20: 300}  # of one trial: a tenth of a second and more
TEXTS = {8: "8 B", 65536: "64 KiB", 1 << 20: "1 MiB"}


def nppvm(size: int, environment: Mapping[str, str]) -> Callable[[], float]:
    """One-way time in ns, of messages of this size alone."""
    program = peer_program("NPpvm")

    def run() -> float:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "np.out"
            words = ["-l", str(size), "-u", str(size + 1), "-p", "0", "-n", str(REPEATS[size])]
            where = {"cwd": folder, "env": {**os.environ, **environment}}
            receiver = subprocess.Popen(
                ["taskset", "-c", "1", program, *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **where,  # type: ignore[call-overload]
            )
            try:
                time.sleep(0.2)  # it has to be there: the sender looks for it once
                subprocess.run(
                    ["taskset", "-c", "0", program, "-h", "here", "-o", str(out), *words],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=True,
                    timeout=LIMIT_S,
                    **where,  # type: ignore[call-overload]
                )
                receiver.wait(10)
            finally:
                receiver.kill()
                receiver.wait(10)
            (row,) = [line.split() for line in out.read_text().splitlines()]
            return float(row[2]) * 1e9

    return run


def netpipe_of(size: int) -> Callable[[], float]:
    """The same in NPpvm's way: of three stretches the one with the shortest mean."""

    def run() -> float:
        records = through_the_command(VARIANT, "--sizes", str(size), "--budget", "0.6")
        visits = [
            statistics.fmean(r["ns"]) / r["ops"]
            for r in records
            if r["type"] == "sample" and r["pass"] >= 0 and r["ns"]
        ]
        each = max(1, len(visits) // TRIALS)
        return min(
            statistics.fmean(visits[i : i + each]) for i in range(0, each * TRIALS, each) if visits[i:]
        )

    return run


def pvm(rounds: int) -> list[Result]:
    """A ping-pong on the direct route, in place, on the same two processors."""
    results = []
    daemons = Daemons()
    try:
        environment = daemons.start(["pvm"], lambda: False)
        for size, text in TEXTS.items():
            peer = nppvm(size, environment)
            peer()  # the first one finds nothing in any cache
            latency = size == min(TEXTS)
            what = f"{text} over {VARIANT}: netpipe / NPpvm, {'time' if latency else 'rate'}"
            printed = Shown(2, " us", lambda ns: ns / 1000, rate=not latency)
            results.append(beside_a_tool("pvm", what, min(rounds, 9), netpipe_of(size), peer, printed))
    finally:
        daemons.close()
    return results


COMPARISONS = {"pvm": pvm}
