# SPDX-License-Identifier: Apache-2.0
"""netpipe: how much of what the hardware can move reaches the application, and which layer loses the rest.

import netpipe
points = netpipe.load("run.jsonl")              # a polars data frame
samples = netpipe.load("run.jsonl", "sample")
run = netpipe.Run.read("run.jsonl")             # typed records
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.frames import load
    from netpipe.records import NotARun, Run, read

__all__ = ["NotARun", "Run", "load", "read", "version"]

_WHERE = {
    "load": "netpipe.frames",
    "NotARun": "netpipe.records",
    "Run": "netpipe.records",
    "read": "netpipe.records",
}


def __getattr__(name: str) -> Any:
    """Loads what is asked for, so that the program begins at once."""
    if name not in _WHERE:
        raise AttributeError(f"module 'netpipe' has no attribute '{name}'")
    return getattr(import_module(_WHERE[name]), name)


def version() -> str:
    """The version of this netpipe: of the source checkout that it runs in, else of the installed package."""
    from importlib import metadata
    from pathlib import Path

    source = Path(__file__).resolve().parents[2]
    if (source / "CMakeLists.txt").is_file() and (source / "VERSION").is_file():
        return (source / "VERSION").read_text().strip()
    try:
        return metadata.version("netpipe")
    except metadata.PackageNotFoundError:
        return "unknown"
