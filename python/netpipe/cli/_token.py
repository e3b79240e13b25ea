# SPDX-License-Identifier: Apache-2.0
"""Where the token is that a server and its clients share, when nobody says otherwise."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

VARIABLE = "NETPIPE_TOKEN"  # the worker takes the token itself from there


def default_path() -> Path:
    """The same on every host: $XDG_CONFIG_HOME/netpipe/token, or below ~/.config."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "netpipe" / "token"


def make(path: Path) -> bool:
    """Writes a new token that only its owner can read. False where a file is there already, which is kept."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(file, "w") as token:
        token.write(secrets.token_urlsafe(32) + "\n")
    return True
