# SPDX-License-Identifier: Apache-2.0
"""netpipe-relay, the switch of a lab with delay or loss: its start, and what it says of the packets so far."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any

from netpipe import native
from netpipe.failure import FAILED, UNAVAILABLE, Failure
from netpipe.lab import keepers
from netpipe.lab.keepers import Keeper
from netpipe.lab.state import RELAY_FILE, Host, Lab

PROGRAM = "netpipe-relay"
TUN = "/dev/net/tun"
ANSWER_S = 2.0


def program() -> str:
    """Raises Failure (3)."""
    path = native.worker().with_name(PROGRAM)
    if not os.access(path, os.X_OK):
        raise Failure(
            UNAVAILABLE,
            f"--delay and --loss need {path}, which does not exist; "
            "install netpipe anew, or build it with 'make build'",
        )
    if not os.access(TUN, os.R_OK | os.W_OK):
        raise Failure(
            UNAVAILABLE,
            f"--delay and --loss need {TUN}, which this machine does not have; "
            "'modprobe tun' loads it, or a container needs it as a device",
        )
    return str(path)


def start(lab: Lab, hosts: tuple[Host, ...]) -> Keeper:
    """Raises Failure."""
    network = lab.network
    words = [
        program(),
        *("--delay-ns", str(network.delay_ns)),
        *("--bits-per-s", repr(network.bits_per_s or 0.0)),
        *("--loss", repr(network.loss)),
        *("--seed", str(network.seed)),
        *("--state", str(lab.folder / RELAY_FILE)),
        *(f"{host.pid}:{host.hardware}" for host in hosts),
    ]
    return keepers.launch(words, lab.folder, keepers.RELAY)


def state(lab: Lab) -> dict[str, Any]:
    """What became of the packets so far, as src/relay/main.cpp writes it. Raises Failure (4) where it has died or does
    not answer.
    """
    path = lab.folder / RELAY_FILE
    relays = [one for one in keepers.of(lab.folder) if one.role == keepers.RELAY]
    if not relays:
        raise Failure(FAILED, f"{PROGRAM} of lab {lab.name} has died, so its hosts have no network")
    before = stamp(lab)
    with contextlib.suppress(ProcessLookupError):
        os.kill(relays[0].pid, signal.SIGUSR1)
    deadline = time.monotonic() + ANSWER_S
    while stamp(lab) == before:
        if time.monotonic() >= deadline:
            raise Failure(FAILED, f"{PROGRAM} of lab {lab.name} does not answer within {ANSWER_S:.0f} s")
        time.sleep(0.002)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def stamp(lab: Lab) -> tuple[int, int]:
    """It is another file each time."""
    status = (lab.folder / RELAY_FILE).stat()
    return status.st_ino, status.st_mtime_ns
