# SPDX-License-Identifier: Apache-2.0
"""Runs a case: `netpipe run` in namespaces of its own, so that /dev/shm and the links of this machine stay as
they are, or between two hosts of a lab."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import noise
from alone import alone
from measured import MissingError
from refusing import refusing

from .cases import Case

LAB = "labelled"
HOSTS = (f"{LAB}1", f"{LAB}2")
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
    if case.lab is not None:
        words += ["--hosts", ",".join(HOSTS)]
    _in_place(case, words, LIMIT_S)


def explained(case: Case, path: Path, variants: Sequence[str], budget_s: float) -> list[dict[str, Any]]:
    """Runs the experiments for the findings about these variants of the run of a case, where and as that was measured,
    and returns all of these findings, as `netpipe explain --json` has them. Raises as `measured` does, also where the
    experiments of the run cannot be run here.
    """
    words = [sys.executable, "-m", "netpipe", "explain", str(path), "--confirm", "--json"]
    words += ["--budget", f"{budget_s:g}", *(word for variant in variants for word in ("--variant", variant))]
    said = _in_place(case, words, LIMIT_S * max(1, len(variants)))
    try:
        found: list[dict[str, Any]] = json.loads(said)
    except ValueError:
        raise RuntimeError(f"netpipe explain {path} did not print JSON: {said[-200:]}") from None
    return found


def _in_place(case: Case, words: list[str], limit_s: float) -> str:
    """What a command prints in the surroundings of a case."""
    with _disturbed(case.noise):
        if case.lab is None:
            return _run(alone(refusing(words) if case.refuses_attach else words, case.shell), limit_s)
        with _lab(case.lab) as hosts:
            for host in hosts if case.shell else ():
                _run([*_lab_words("exec", host), "--", "sh", "-c", case.shell], LIMIT_S)
            return _run([*_lab_words("exec", hosts[0]), "--", *words], limit_s)


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
def _lab(options: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    _run(_lab_words("up", "--name", LAB, "--hosts", str(len(HOSTS)), *options), LIMIT_S)
    try:
        yield HOSTS
    finally:
        _run(_lab_words("down", LAB), LIMIT_S)


def _run(words: list[str], limit_s: float) -> str:
    """What the command printed. Raises RuntimeError with what it said. It is ended at its deadline with all that it
    started.
    """
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, said = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()  # netpipe ends what it started, and keeps what was measured
        try:
            said = "".join(process.communicate(timeout=20))
        finally:
            process.kill()
        raise RuntimeError(f"{shlex.join(words[-6:])} took longer than {limit_s} s: {said[-200:]}") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(
            f"{shlex.join(words[:8])} ... ended with {process.returncode}: {(printed + said).strip()[-300:]}"
        )
    return printed
