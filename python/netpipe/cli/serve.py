# SPDX-License-Identifier: Apache-2.0
"""netpipe serve: the far side of a measurement between two hosts. The worker does it; this side provides a token and
says what to run on the other host.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import NoReturn

import click

from netpipe.failure import UNAVAILABLE, Failure
from netpipe.launch import token as tokens
from netpipe.libraries.starting.hosts import check_name

LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANY = ("0.0.0.0", "::")  # noqa: S104  (compared with, not bound to)
# (name, metavar, help); the worker checks the values and knows the defaults.
PASSED_ON = (
    (
        "bind",
        "ADDRESS",
        "The address to listen on; 0.0.0.0 for every IPv4 address  [default: 127.0.0.1: only this host]",
    ),
    ("port", "PORT", "The port to listen on; 0 for any free one  [default: 5002]"),
    (
        "token-file",
        "FILE",
        "The token that clients must know  [default: NETPIPE_TOKEN, else ~/.config/netpipe/token, created if needed]",
    ),
    ("max-size", "SIZE", "The largest message that a client may measure  [default: 64M]"),
    ("max-memory", "SIZE", "The memory that a measurement may take  [default: 1G]"),
    ("max-seconds", "SECONDS", "The time that a measurement may take  [default: 600]"),
)


@click.command
@click.option("--once", is_flag=True, help="Exit after one measurement, with its exit code.")
def command(once: bool, **given: str | None) -> NoReturn:
    """Wait for netpipe run --host THIS_HOST on another host.

    Listens on loopback unless --bind says otherwise. A client must prove that it knows the token, which is never
    sent. One client measures at a time; others are told that the server is busy. Ctrl-C ends it.
    """
    from netpipe import native
    from netpipe.streams import say

    worker = native.worker()
    settings = {key.replace("_", "-"): value for key, value in given.items() if value is not None}
    check_name("--bind", settings.get("bind", ""))
    # Before a token is made for a server that cannot start.
    native.ask(["serve", "--check", *arguments_of(settings)])
    if "token-file" not in settings and tokens.VARIABLE not in os.environ:
        path = tokens.default_path()
        if tokens.make(path):
            say(f"a new token is in {path}")
        settings["token-file"] = str(path)
    for line in instructions(settings):
        say(line)
    try:
        # The worker replaces this process: signals and the exit code are its own.
        os.execv(worker, [str(worker), "serve", *arguments_of(settings), *(["--once"] if once else [])])  # noqa: S606
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{worker} cannot be started: {error.strerror}") from None


for name, metavar, text in reversed(PASSED_ON):
    command = click.option(f"--{name}", metavar=metavar, help=text)(command)


def arguments_of(settings: dict[str, str]) -> list[str]:
    return [f"--{name}={settings[name]}" for name, _, _ in PASSED_ON if name in settings]


def instructions(settings: dict[str, str]) -> list[str]:
    """What to do on the other host, line by line."""
    bind = settings.get("bind", LOOPBACK[0])
    host = socket.gethostname() if bind in ANY else bind
    port = settings.get("port")
    words = ["netpipe run tcp --host", host]
    if port is not None:
        words += ["--port", "PORT, the one below" if port == "0" else port]
    token = settings.get("token-file")
    lines = []
    if token is None:
        lines.append(f"the token is the one in {tokens.VARIABLE}; set the same on the other host")
    elif Path(token) == tokens.default_path():
        lines.append(f"the other host needs the same token: copy {token} to the same place there")
    else:
        words += ["--token-file", token]
        lines.append(f"the other host needs a copy of {token}")
    if bind in LOOPBACK:
        lines = [f"listening for this host only ({bind}); for another one give --bind ADDRESS"]
    where = "in another terminal" if bind in LOOPBACK else "then, on the other host"
    return [*lines, f"{where}: {' '.join(words)}"]
