# SPDX-License-Identifier: Apache-2.0
"""netpipe serve: the far side of a measurement between two hosts. The worker does it; this finds it a token, and says
what to run on the other host.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

import click

from netpipe.cli import _token
from netpipe.failure import UNAVAILABLE, Failure

LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANY = ("0.0.0.0", "::", "*")  # noqa: S104  (compared with, not bound to)
# (name, metavar, help); the worker checks the values and has the defaults.
PASSED_ON = (
    ("bind", "ADDRESS", "Where to listen; 0.0.0.0 for every address of IPv4  [127.0.0.1: only this host]"),
    ("port", "PORT", "0 takes any that is free  [5002]"),
    (
        "token-file",
        "FILE",
        "What clients must know. Default: NETPIPE_TOKEN, else ~/.config/netpipe/token, made if needed.",
    ),
    ("max-size", "SIZE", "The largest message that a client may measure  [64M]"),
    ("max-memory", "SIZE", "The memory that a measurement may take  [1G]"),
    ("max-seconds", "SECONDS", "The time that a measurement may take  [600]"),
)


@click.command
@click.option("--once", is_flag=True, help="End after one measurement, with its exit code.")
def command(once: bool, **given: str | None) -> NoReturn:
    """Wait for another host to measure with: netpipe run tcp --host THIS_HOST.

    Listens on loopback unless --bind says otherwise. A client must prove that it knows the token, which is never
    sent; one measures at a time, the others are told "busy". Ctrl-C ends it.
    """
    from netpipe import native

    worker = native.worker()
    settings = {key.replace("_", "-"): value for key, value in given.items() if value is not None}
    if "token-file" not in settings and _token.VARIABLE not in os.environ:
        path = _token.default_path()
        if _token.make(path):
            print(f"netpipe: a new token is in {path}", file=sys.stderr)
        settings["token-file"] = str(path)
    for line in instructions(settings):
        print(f"netpipe: {line}", file=sys.stderr)
    sys.stderr.flush()
    arguments = [f"--{name}={settings[name]}" for name, _, _ in PASSED_ON if name in settings]
    try:
        # The worker takes the place of this process: signals and the exit code are its own.
        os.execv(worker, [str(worker), "serve", *arguments, *(["--once"] if once else [])])  # noqa: S606
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{worker} cannot be started: {error.strerror}") from None


for name, metavar, text in reversed(PASSED_ON):
    command = click.option(f"--{name}", metavar=metavar, help=text)(command)


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
        lines.append(f"the token is the one in {_token.VARIABLE}; set the same on the other host")
    elif Path(token) == _token.default_path():
        lines.append(f"the other host needs the same token: copy {token} to the same place there")
    else:
        words += ["--token-file", token]
        lines.append(f"the other host needs a copy of {token}")
    if bind in LOOPBACK:
        lines = [f"listening for this host only ({bind}); for another one give --bind ADDRESS"]
    where = "in another terminal" if bind in LOOPBACK else "then, on the other host"
    return [*lines, f"{where}: {' '.join(words)}"]
