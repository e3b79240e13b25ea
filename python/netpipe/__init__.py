# SPDX-License-Identifier: Apache-2.0
"""netpipe: how much of what the hardware can move reaches the application, and which layer loses the rest.

import netpipe
run = netpipe.measure("tcp:wait=poll|block", sizes="8,64k", output="run.jsonl")
netpipe.load("run.jsonl", "size")               # its sizes, a polars data frame: intervals for the next run
netpipe.load("run.jsonl")                       # the points of its launches, with the interval inside each
netpipe.load("run.jsonl", "sample")             # every timed batch
netpipe.compare(run)                            # its variants against each other
netpipe.findings(run)                           # what the rules found, with remedies and what experiments came to
netpipe.findings(run, "skipped")                # the rules that could not judge, and why; also "withdrawn"
netpipe.plot("throughput", run)                 # a figure of matplotlib
netpipe.Run.read("run.jsonl")                   # typed records

netpipe/notebook.py says more about the functions. All of it is loaded on first use; __init__.pyi has the types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["NotARun", "Run", "compare", "findings", "load", "measure", "plot", "read", "version"]

_WHERE = dict.fromkeys(("compare", "load", "measure", "plot"), "netpipe.notebook")
_WHERE |= dict.fromkeys(("NotARun", "Run", "read"), "netpipe.records")


def __getattr__(name: str) -> Any:
    """Loads what is asked for, so that the program begins at once."""
    if name == "findings":  # a package that can be called
        return import_module("netpipe.findings")
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
