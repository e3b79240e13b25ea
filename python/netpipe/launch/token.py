# SPDX-License-Identifier: Apache-2.0
"""The token that a server and its clients share: where it is unless the user names a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

VARIABLE = "NETPIPE_TOKEN"  # the worker reads the token from it


def default_path() -> Path:
    """The same on every host: $XDG_CONFIG_HOME/netpipe/token, or below ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "netpipe" / "token"


def make(path: Path) -> bool:
    """Writes a new token that only its owner can read. False when the file exists already; it is kept."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(file, "w") as token:
        token.write(secrets.token_urlsafe(32) + "\n")
    return True
