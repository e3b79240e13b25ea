# SPDX-License-Identifier: Apache-2.0
"""OpenSHMEM that was added beside what anybody would write by hand over it (bench/shmem)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from measured import LIMIT_S, ROOT, MissingError, Result, through_the_command
from slices import MEASURE_S, Program, Start, at_most, compared, from_numbers, netpipe

from netpipe.libraries import Job, find_launcher
from netpipe.libraries.adding import added
from netpipe.libraries.starting import description

SIZES = {8: "8 B", 65536: "64 KiB", 1 << 20: "1 MiB"}
# The pattern, and what the module is told for it.
WAYS = (("pingpong", "op=put,"), ("pingpong", "op=put,await=until,"), ("put", ""), ("get", ""))


class Library:
    """An OpenSHMEM that was added; its programs are started as netpipe starts its own, with what the module sets."""

    def __init__(self, one: added.Added, folder: Path) -> None:
        self.description = description.read(one.path)
        self.folder = folder
        self.variant = f"{one.name}:transport=shm"
        (opened,) = [r for r in through_the_command(self.variant, "--sizes", "8") if r["type"] == "variant"]
        words = str(opened["ranks"][0]["settings"].get("environment", "")).split()
        self.environment = {
            **self.description.environment,
            **dict(word.split("=", 1) for word in words if "=" in word),
        }
        self.built = folder / "by_hand"
        subprocess.run(
            [str(one.compiler), "-O3", "-o", str(self.built), str(ROOT / "bench/shmem/by_hand.c")],
            env={**os.environ, **self.description.environment},
            check=True,
            timeout=LIMIT_S,
        )

    def by_hand(self, size: int, way: str) -> Start:
        def program(output: Path) -> Program:
            words = (str(self.built), str(output), str(MEASURE_S), str(size), way)
            job = Job(self.description, words, 2, (), self.environment, (), None, self.folder)
            command = find_launcher(self.description, None)().command(job)
            return Program(command.argv, output, from_numbers, command.whole_environment())

        return program


def shmem(rounds: int) -> list[Result]:
    """Puts, gets and messages of every OpenSHMEM that was added."""
    chosen = added.all_(layer="shmem")
    if not chosen:
        raise MissingError("no OpenSHMEM was added: netpipe modules add shmem --oshcc oshcc")
    results = []
    for one in chosen:
        with tempfile.TemporaryDirectory(prefix="netpipe-shmem-") as folder:
            library = Library(one, Path(folder))
            for pattern, settings in WAYS:
                for size, text in SIZES.items():
                    variant = f"{one.name}:{settings}transport=shm"
                    ours, peer = netpipe(variant, size, pattern), library.by_hand(size, pattern)
                    what = f"{pattern}, {text} over {one.version}, {settings}shm: netpipe / by hand"
                    results.append(compared("shmem", what, rounds, ours, peer, at_most(1.02)))
    return results


COMPARISONS = {"shmem": shmem}
