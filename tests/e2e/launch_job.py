# SPDX-License-Identifier: Apache-2.0
"""Launches one job as netpipe does and stands in the conductor's place, in a process of its own, so that it can be put
into a network namespace or a batch job. What to do comes as JSON on standard input, what came of it goes to standard
output.
"""

from __future__ import annotations

import json
import secrets
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any

from netpipe.events import Launch
from netpipe.launch.jobs import Jobs, Launchers, settings
from netpipe.libraries.starting.description import read
from netpipe.libraries.starting.hosts import parse
from netpipe.libraries.starting.processes import all_with, shared_memory

LIMIT_S = 60.0
FIELDS = ("secret", "job", "rank", "size", "pid", "uid", "cpus", "host")


def command_lines() -> str:
    said = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said.append(file.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(said)


def main() -> None:
    wish: dict[str, Any] = json.load(sys.stdin)
    description = read(Path(wish["description"]))
    given = settings(
        parse(wish.get("hosts")), wish.get("launcher"), wish.get("arguments"), wish.get("remote_shell")
    )
    listener = socket.create_server((wish.get("bind", "127.0.0.1"), 0))
    where = "{}:{}".format(*listener.getsockname())
    secret = secrets.token_hex(16)
    failed: list[str] = []
    joined: list[dict[str, str]] = []
    sockets: list[socket.socket] = []
    interrupts = 0

    def tell(_job: int, sentence: str) -> None:
        failed.append(sentence)

    with Launchers(given, tuple(wish["program"]), lambda _: description) as launchers:
        jobs = Jobs(launchers, lambda: interrupts)
        name = description.name
        event = Launch(job=7, variant=name, module=name, ranks=wish["ranks"], join=where, secret=secret)
        jobs.launch(event, tell)
        deadline = time.monotonic() + LIMIT_S
        while len(joined) < wish["ranks"] and not failed and time.monotonic() < deadline:
            ready, _, _ = select.select([listener, jobs], [], [], 0.2)
            if listener in ready:
                one, _ = listener.accept()
                sockets.append(one)
                if line := one.makefile().readline():  # a rank that is killed just now says nothing
                    joined.append(dict(zip(FIELDS, line.split(), strict=True)))
            jobs.attend(tell)
        seen = secret in command_lines()
        memory = shared_memory(secret) if not failed else set()
        if wish.get("then") == "stop":
            jobs.stop(7)
            while jobs.wait_s() < LIMIT_S and time.monotonic() < deadline:
                select.select([jobs], [], [], 0.1)
                jobs.attend(tell)
        elif wish.get("then") != "interrupt":
            for one in sockets:
                one.close()
        else:
            interrupts = 1
        jobs.close()
        left = list(all_with(secret))
    kept = sorted(str(file) for file in memory if file.exists())
    came = {"joined": joined, "secret": secret, "seen": seen, "failed": failed, "left": left, "kept": kept}
    print(json.dumps(came))


if __name__ == "__main__":
    main()
