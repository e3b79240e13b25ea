# SPDX-License-Identifier: Apache-2.0
"""A run beside bench/noise, which steals the processors, moves memory and fires timers: it ends in time with a number
for each size, though nothing settles, and says in one sentence how far to trust it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import parse

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import noise  # noqa: E402

NOISE = "steal=0.4,burst-ms=5,bandwidth=0.3,memory=64,wakeups=500,seed=7"
VARIANTS = ("shm", "pipe", "tcp")
SIZES = (8, 4096, 65536)
LAUNCHES = 2
TRUST = (
    "Trust these times to ",
    "Do not trust these numbers until this is fixed: ",
    "Nothing says how far to trust ",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler builds netpipe itself"
    built = tmp_path_factory.mktemp("noise") / "noise"
    source = ROOT / "bench/noise.c"
    subprocess.run(
        [compiler, "-std=gnu17", "-O2", "-pthread", "-o", built, source, "-lm"], check=True, timeout=60
    )
    return built


def netpipe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netpipe", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def measured_s(path: Path) -> float:
    return sum(float(one["seconds"]) for one in parse(path.read_text()) if one["type"] == "launch")


@pytest.mark.deep
def test_a_run_under_noise_keeps_its_time_and_says_how_far_to_trust_it(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "PROGRAM", program)
    options = ["--sizes", ",".join(map(str, SIZES)), "--budget", "0.6", "--launches", str(LAUNCHES)]
    alone = netpipe(tmp_path, "run", *VARIANTS, *options, "-q", "-o", "alone.jsonl")
    assert alone.returncode == 0, alone.stderr
    with noise.made(NOISE) as did:
        # which nothing reaches: without --strict that is no failure
        done = netpipe(tmp_path, "run", *VARIANTS, *options, "--target", "0.01%")
        strict = netpipe(
            tmp_path, "run", *VARIANTS, *options, "--target", "0.01%", "--strict", "-o", "strict.jsonl"
        )
    assert done.returncode == 0, done.stderr
    assert strict.returncode == 5, strict.stderr
    stolen = sum(one["stolen_s"] for one in json.loads(did.said)["threads"] if one["what"] == "steal")
    assert stolen > 0, "nothing disturbed this run"
    said = " ".join(done.stdout.split())
    assert sum(said.count(sentence) for sentence in TRUST) == 1, said
    records = parse((tmp_path / "run.jsonl").read_text())
    assert not any(one["converged"] for one in records if one["type"] == "point")
    assert "half of their intervals within ±" in said
    assert records[-1]["type"] == "end"
    assert records[-1]["reason"] == "done"
    for launch in range(LAUNCHES):
        there = {
            (one["variant"], one["size_bytes"])
            for one in records
            if one["type"] == "point" and one["launch"] == launch
        }
        assert there == {(variant, size) for variant in VARIANTS for size in SIZES}
    # The budget is time on the clock, whatever happens in it. What is above are visits that were begun, and starting.
    assert measured_s(tmp_path / "run.jsonl") < 3 * measured_s(tmp_path / "alone.jsonl") + 5
