# SPDX-License-Identifier: Apache-2.0
"""Layers that are built once per library (shmem, armci, tcgmsg), added for a test file, and run through the command."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from machines import TwoHosts, jobs_of, wait_until

from netpipe.failure import Failure
from netpipe.libraries.adding.add import Request, add
from netpipe.libraries.adding.added import Added

ROOT = Path(__file__).resolve().parents[2]
ROOT_ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Layered:
    """The modules of one layer by the name of their library."""

    folder: Path
    there: dict[str, Added] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "NETPIPE_MODULE_PATH": str(self.folder), "COLUMNS": "160"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "netpipe", "run", "--launches", "1", *arguments]

    def run(
        self,
        record: Path,
        *arguments: str,
        limit_s: float = 120.0,
        inside: Callable[..., list[str]] = lambda *command: list(command),
        **more: str,
    ) -> Measured:
        """One launch, to its end; `inside` a namespace, with `more` of an environment."""
        record.unlink(missing_ok=True)
        done = subprocess.run(
            inside(*self.command(*arguments, "-o", str(record))),
            env={**self.environment, **more},
            cwd=record.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
        )
        lines = record.read_text().split("\n")[:-1] if record.exists() else []
        return Measured(done.returncode, done.stderr + done.stdout, [json.loads(line) for line in lines])


@dataclass(frozen=True)
class Measured:
    code: int
    said: str
    records: list[dict[str, Any]]

    def of(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        wanted = {"type": kind, **fields}
        return [one for one in self.records if all(one.get(key) == value for key, value in wanted.items())]

    @property
    def sentence(self) -> str:
        """What it said, as one line."""
        return " ".join(self.said.split())

    def settings(self, variant: str, rank: int = 0) -> dict[str, Any]:
        (opened,) = self.of("variant", variant=variant)
        found: dict[str, Any] = opened["ranks"][rank]["settings"]
        return found

    def check_points(self, variants: list[str], patterns: list[str], sizes: str) -> None:
        """Every size of every pattern was measured with bytes that were checked."""
        assert self.code == 0, self.said
        for variant in variants:
            for pattern in patterns:
                points = self.of("point", variant=variant, pattern=pattern)
                assert {str(one["size_bytes"]) for one in points} == set(sizes.split(",")), (variant, pattern)
                assert all(one["verified_bytes"] > 0 or one["size_bytes"] == 0 for one in points), pattern


def build(layer: str, compilers: dict[str, str], folder: Path) -> Layered:
    """By the name of the library. Skips where no compiler is installed or knows the layer; what cannot be built for
    another reason is a failure.
    """
    found, missing = Layered(folder), []
    for name, program in compilers.items():
        path = shutil.which(program)
        if path is None:
            missing.append(f"there is no {program}")
            continue
        try:
            found.there[name] = add(Request(Path(path), name, folder=folder, layer=layer))
        except Failure as failure:
            if "finds no " not in failure.sentence and " was not found; apt " not in failure.sentence:
                raise
            missing.append(failure.sentence)
    if not found.there:
        pytest.skip("; ".join(missing))
    return found


def check_two_hosts(
    layer: Layered,
    two_hosts: TwoHosts,
    variant: str,
    tmp_path: Path,
    patterns: Sequence[str] = ("pingpong",),
    each: int = 1,
) -> None:
    """Verified patterns, a ping-pong among them, between two network namespaces with so many ranks on each, through the
    link that joins them.
    """
    large_bytes = (
        65537 if each == 1 else 65536
    )  # sums, which only more ranks are asked for, are of 8 bytes each
    before = two_hosts.carried_bytes()
    done = layer.run(
        tmp_path / "run.jsonl",
        *(variant, *asked(patterns), *two_hosts.with_ranks(each)),
        # Ranks that poll take turns on a processor: an operation of four on two takes tens of milliseconds.
        *("--sizes", f"8,{large_bytes}", "--verify", "--budget", str(0.5 if each == 1 else 2)),
        inside=two_hosts.inside,
    )
    done.check_points([variant], list(patterns), f"8,{large_bytes}")
    (opened,) = done.of("variant", variant=variant)
    assert [rank["host"] for rank in opened["ranks"]] == [two_hosts.near] * each + [two_hosts.far] * each
    assert done.settings(variant)["transport_found"] == "TCP"
    samples = [one for one in done.of("sample", pattern="pingpong") if one["size_bytes"] == large_bytes]
    large = sum(2 * one["ops"] * len(one["ns"]) for one in samples)
    assert large > 0
    assert two_hosts.carried_bytes() - before >= each * large * large_bytes / 2


def check_srun(
    layer: Layered, conf: Path, variants: Sequence[str], patterns: Sequence[str], tmp_path: Path
) -> None:
    """Slurm starts the ranks of all variants, in one allocation, and what they send is verified."""
    before = jobs_of(conf)
    done = layer.run(
        tmp_path / "run.jsonl",
        *(*variants, *asked(patterns), "--launcher", "srun", "--ranks", "4"),
        *("--sizes", "8,4096", "--verify", "--budget", "0.1"),
        SLURM_CONF=str(conf),
    )
    done.check_points(list(variants), list(patterns), "8,4096")
    assert len(jobs_of(conf) - before) == 1
    for variant in variants:
        (opened,) = done.of("variant", variant=variant)
        assert len(opened["ranks"]) == 4


def asked(patterns: Sequence[str]) -> list[str]:
    return [word for pattern in patterns for word in ("--pattern", pattern)]


@contextlib.contextmanager
def under_way(layer: Layered, variant: str, record: Path) -> Iterator[subprocess.Popen[str]]:
    """A measurement that would take long, from its first sample on."""
    process = subprocess.Popen(
        layer.command(variant, "--budget", "20", "--sizes", "8,4096", "-o", str(record)),
        env=layer.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        files = record.parent
        wait_until(
            lambda: any('"type":"sample"' in path.read_text() for path in files.glob("*.jsonl*")),
            "nothing was measured",
        )
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()


def ranks_of(added: Added) -> list[int]:
    """Processes that have this module loaded."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(added.file) in (folder / "maps").read_text():
                found.append(int(folder.name))
    return found


def check_interrupt(layer: Layered, added: Added, tmp_path: Path) -> None:
    with under_way(layer, f"{added.name}:transport=shm", tmp_path / "run.jsonl") as process:
        assert len(ranks_of(added)) == 2
        os.kill(process.pid, signal.SIGINT)
        process.wait(40)
    wait_until(lambda: not ranks_of(added), "ranks were left behind")


def check_killed_rank(layer: Layered, added: Added, tmp_path: Path) -> None:
    with under_way(layer, f"{added.name}:transport=shm", tmp_path / "run.jsonl") as process:
        os.kill(ranks_of(added)[0], signal.SIGKILL)
        said, _ = process.communicate(timeout=90)
    assert process.returncode == 4
    assert "gone" in said
    assert "its launcher says" in said, "what ended it is not told"
    wait_until(lambda: not ranks_of(added), "ranks were left behind")


def program(source: str, folder: Path) -> Path:
    """A C program of this folder that loads modules."""
    made = folder / Path(source).stem
    words = ["cc", "-std=gnu17", "-O1", "-I", str(ROOT / "include"), "-o", str(made)]
    subprocess.run([*words, str(Path(__file__).with_name(source)), "-ldl"], check=True, timeout=60)
    return made


def launch(added: Added, ranks: int, *words: str, limit_s: float = 100.0) -> subprocess.CompletedProcess[str]:
    """A program of ours under the library's own launcher."""
    assert added.launcher is not None
    kind, launcher = added.launcher
    more = ["--bind-to", "none", "--oversubscribe"] if kind in ("openmpi", "oshmem") else []
    return subprocess.run(
        [str(launcher), *more, "-n", str(ranks), *words],
        env={**os.environ, **ROOT_ALLOWED},
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
