# SPDX-License-Identifier: Apache-2.0
"""Runs a case: `netpipe run` in namespaces of its own, so that /dev/shm and the links of this machine stay as
they are, or between two hosts of a lab."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import noise
from alone import alone
from measured import MissingError
from refusing import refusing

from .cases import Case

LAB = "labelled"
LIMIT_S = 180
BUDGET_S = 2.0
SETTLE_S = 2.0  # until the noise is in the kernel's count of what runs


def measured(case: Case, output: Path, budget_s: float = BUDGET_S) -> None:
    """Writes the case's run file. Raises MissingError if this machine lacks something, RuntimeError if it broke off."""
    for program in case.needs:
        if shutil.which(program) is None:
            raise MissingError(f"{program} is not installed")
    words = [sys.executable, "-m", "netpipe", "run", "-q", "-o", str(output), *case.variants]
    words += [word for pattern in case.patterns for word in ("--pattern", pattern) if pattern != "collective"]
    if "collective" in case.patterns:
        words += ["--pattern", "collective"]
    if "--budget" not in case.words:
        words += ["--budget", f"{budget_s:g}"]
    words += case.words
    with _disturbed(case.noise):
        if case.lab is not None:
            with _lab(case.lab) as hosts:
                _run([*_lab_words("exec", hosts[0]), "--", *words, "--hosts", ",".join(hosts)])
            return
        _run(alone(refusing(words) if case.refuses_attach else words, case.shell))


@contextmanager
def _disturbed(text: str) -> Iterator[None]:
    if not text:
        yield
        return
    with noise.made(text):
        time.sleep(SETTLE_S)
        yield


def _lab_words(*words: str) -> list[str]:
    return [sys.executable, "-m", "netpipe", "lab", *words]


@contextmanager
def _lab(options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    _run(_lab_words("up", "--name", LAB, "--hosts", "2", *options))
    try:
        yield f"{LAB}1", f"{LAB}2"
    finally:
        _run(_lab_words("down", LAB))


def _run(words: list[str]) -> None:
    """Raises RuntimeError with what the command said. It is ended at its deadline with all that it started."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.terminate()  # netpipe ends what it started, and keeps what was measured
        try:
            said = process.communicate(timeout=20)[0]
        finally:
            process.kill()
        raise RuntimeError(f"{shlex.join(words[-6:])} took longer than {LIMIT_S} s: {said[-200:]}") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(
            f"{shlex.join(words[:8])} ... ended with {process.returncode}: {said.strip()[-300:]}"
        )
