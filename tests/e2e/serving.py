# SPDX-License-Identifier: Apache-2.0
"""A server on this host, and clients that measure with it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Outcome, Runner


@dataclass
class Server:
    process: subprocess.Popen[str]
    port: int
    host: str
    token: Path
    log: Path

    def said(self) -> str:
        return self.log.read_text()

    def waits_to_say(self, words: str) -> None:
        for _ in range(200):
            if words in self.said():
                return
            time.sleep(0.05)
        raise AssertionError(f"the server never said {words!r} but: {self.said()}")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(secrets.token_hex(16))
    return path


Serve = Callable[..., Server]


@pytest.fixture
def serve(worker: Path, token: Path, tmp_path: Path) -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:

        def start(*options: str, inside: tuple[str, ...] = ()) -> Server:
            log = tmp_path / f"server-{secrets.token_hex(4)}.log"
            errors = stack.enter_context(log.open("w"))
            process = subprocess.Popen(
                [*inside, worker, "serve", "--port", "0", "--token-file", token, *options],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

            def end() -> None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait(10)
                assert process.stdout is not None
                process.stdout.close()

            stack.callback(end)
            assert process.stdout is not None
            listening = json.loads(process.stdout.readline())
            return Server(process, listening["port"], listening["host"], token, log)

        yield start


def plan(server: Server, *lines: str, token: Path | None = None) -> list[str]:
    return [f"host {server.host}", f"port {server.port}", f"token-file {token or server.token}", *lines]


def quick(server: Server, measure: Runner, *lines: str) -> Outcome:
    return measure(*plan(server, "variant tcp", "schedule list", "sizes 1,8,65536", "budget 0.2", *lines))


def wait_until_it_serves(server: Server, measure: Runner) -> None:
    """It may take a moment to notice that a client has gone."""
    for _ in range(100):
        done = quick(server, measure)
        if done.code == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"the server did not come back: {done.said} / {server.said()}")
