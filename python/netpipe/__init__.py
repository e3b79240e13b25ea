# SPDX-License-Identifier: Apache-2.0
"""netpipe: how much of what the hardware can move reaches the application, and which layer loses the rest.

import netpipe
points = netpipe.load("run.jsonl")              # a polars data frame
samples = netpipe.load("run.jsonl", "sample")
run = netpipe.Run.read("run.jsonl")             # typed records
"""

from __future__ import annotations

from netpipe.frames import load
from netpipe.records import NotARun, Run, read

__all__ = ["NotARun", "Run", "load", "read", "version"]


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
