# SPDX-License-Identifier: Apache-2.0
"""Starts the worker on this host. It forks its own ranks, or connects to a server for the second one."""

from __future__ import annotations

from netpipe import native
from netpipe.launch import Assignment, Command, starter


@starter("local", "all ranks on this host, or the near side of a measurement with a server")
def local(_: Assignment) -> Command:
    return Command((str(native.worker()), "run"))
