# SPDX-License-Identifier: Apache-2.0
"""A comparison on a machine that is bad on purpose: bench/noise.c beside it, for as long as it lasts."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from measured import PEERS, MissingError

PROGRAM = PEERS / "noise"
OPTIONS = ("steal", "burst-ms", "priority", "bandwidth", "memory", "wakeups", "cpus", "seed")
LONGEST_S = 6 * 3600  # it is ended when the comparison is done


def words(text: str) -> list[str]:
    """The options of bench/noise.c for a text such as steal=0.2,bandwidth=0.5,seed=1; two processors are cpus=0+1."""
    found = []
    for one in text.split(","):
        name, _, value = one.partition("=")
        if name not in OPTIONS or not value:
            raise ValueError(
                f"{one!r} is no option of the noise; write NAME=VALUE, with {', '.join(OPTIONS)}"
            )
        found += [f"--{name}", value.replace("+", ",")]
    return found


@dataclass
class Made:
    """What the noise really did; nothing before it has ended."""

    said: str = ""

    def __str__(self) -> str:
        whole = json.loads(self.said)
        threads = whole["threads"]
        parts = []
        for kind in ("steal", "stream"):
            if some := [t for t in threads if t["what"] == kind]:
                stolen, planned = (sum(t[what] for t in some) for what in ("stolen_s", "planned_s"))
                parts.append(f"{kind} {stolen:.1f} s of {planned:.1f} s planned")
        parts += [f"{t['bytes'] / 1e9:.0f} GB moved" for t in threads if t["what"] == "stream"]
        if wakes := [t for t in threads if t["what"] == "wake"]:
            late = max(t["late_us"] for t in wakes)
            parts.append(f"{sum(t['events'] for t in wakes)} wake-ups, {late:.0f} us late in the mean")
        return f"noise of {whole['seconds']:.0f} s: {', '.join(parts)}"


@contextmanager
def made(text: str) -> Iterator[Made]:
    """Noise until the end of the block."""
    if not PROGRAM.is_file():
        raise MissingError(f"{PROGRAM.name} is not built: cmake -B build -DNETPIPE_BENCH=ON")
    process = subprocess.Popen(
        [PROGRAM, *words(text), "--seconds", str(LONGEST_S)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    did = Made()
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(process.communicate()[1].strip() or "the noise made none")
        yield did
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            did.said = process.communicate(timeout=20)[0]
        finally:
            process.kill()
            process.wait()
