# SPDX-License-Identifier: Apache-2.0
"""netpipe serve: the far side of a measurement between two hosts. The worker does it; this side provides a token and
says what to run on the other host. The options are those of `netpipe-worker serve`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import click

from netpipe.command.worker_options import WorkerCommand
from netpipe.failure import UNAVAILABLE, Failure
from netpipe.launch import token as tokens
from netpipe.libraries.starting.hosts import check_name

LOOPBACK = ("127.0.0.1", "::1", "localhost")
ANY = ("0.0.0.0", "::")  # noqa: S104  (compared with, not bound to)
# Options of netpipe-worker that have no meaning here: this side asks for the check, and has a help of its own.
NOT_HERE = ("check", "help")
# Where this side looks for what the worker is not told.
OWN_DEFAULTS = {"token-file": "NETPIPE_TOKEN, else ~/.config/netpipe/token, created if needed"}


class ServeCommand(WorkerCommand):
    def worker_options(self) -> list[click.Option]:
        from netpipe import native

        return [_option(one) for one in native.keys()["serve_options"] if one["name"] not in NOT_HERE]


def _option(known: Mapping[str, str]) -> click.Option:
    """An option as the worker describes it. Its text goes to the worker as it is."""
    name, help_text = known["name"], known["help"]
    if not known["metavar"]:
        return click.Option([f"--{name}"], is_flag=True, help=f"{help_text}.")
    preset = OWN_DEFAULTS.get(name, known["default"])
    shown = f"{help_text}  [default: {preset}]" if preset else f"{help_text}."
    return click.Option([f"--{name}"], metavar=known["metavar"], help=shown)


@click.command(cls=ServeCommand)
def command(**given: str | bool | None) -> NoReturn:
    """Wait for netpipe run --host THIS_HOST on another host.

    Listens on loopback unless --bind says otherwise. A client must prove that it knows the token, which is never
    sent. One client measures at a time; others are told that the server is busy. Ctrl-C ends it.
    """
    from netpipe import native
    from netpipe.streams import say

    worker = native.worker()
    said = {key.replace("_", "-"): value for key, value in given.items()}
    settings = {name: value for name, value in said.items() if isinstance(value, str)}
    flags = [f"--{name}" for name, value in said.items() if value is True]
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
        os.execv(worker, [str(worker), "serve", *arguments_of(settings), *flags])  # noqa: S606
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{worker} cannot be started: {error.strerror}") from None


def arguments_of(settings: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in settings.items()]


def instructions(settings: Mapping[str, str]) -> list[str]:
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
