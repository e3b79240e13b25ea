# SPDX-License-Identifier: Apache-2.0
"""The command line in this process over a worker that measures nothing, and what it said."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_mpi import modules  # noqa: F401  (fixture)
from hypothesis import settings

from netpipe import cli
from netpipe.cli import run as _  # noqa: F401  (its help says the presets as they are, not as a fixture has them)
from netpipe.command.presets import PRESETS

FAKE = Path(__file__).with_name("fake_worker.py")

# Hypothesis fails an example that takes over 0.2 s, which any may on a busy machine.
settings.register_profile("netpipe", parent=settings(), deadline=None)
settings.load_profile("netpipe")


@dataclass(frozen=True)
class Said:
    code: int
    out: str  # standard output: data
    err: str  # standard error: for people


Netpipe = Callable[..., Said]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same terminal wherever the tests run: a CI often has TERM=dumb, which rich takes for one without a cursor."""
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake worker as the native part of netpipe, in an empty folder and an environment without options."""
    for name in [name for name in os.environ if name.startswith(("NETPIPE_", "FAKE_WORKER"))]:
        monkeypatch.delenv(name)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    prefix = tmp_path / "native"
    worker = prefix / "bin" / "netpipe-worker"
    worker.parent.mkdir(parents=True)
    worker.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "{FAKE}" "$@"\n')
    worker.chmod(0o755)
    monkeypatch.setenv("NETPIPE_NATIVE", str(prefix))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return worker


@pytest.fixture
def netpipe(fake: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Netpipe:
    """netpipe("run", "tcp", fake="die=tcp") is one command line, with the worker behaving so. One launch of
    the classic sizes, unless the command line asks for others.
    """
    monkeypatch.setitem(PRESETS, "default", {"launches": "1"})

    def call(*arguments: str, fake: str = "") -> Said:
        monkeypatch.setenv("FAKE_WORKER", fake)
        capsys.readouterr()
        code = cli.call(arguments)
        out, err = capsys.readouterr()
        return Said(code, out, err)

    return call
