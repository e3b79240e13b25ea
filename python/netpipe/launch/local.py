# SPDX-License-Identifier: Apache-2.0
"""On this host: the worker is started as it is, and forks its own ranks."""

from __future__ import annotations

from netpipe import native
from netpipe.launch import Command, Job, launcher


@launcher("local", "all ranks on this host, or the near side of a measurement with a server")
def local(_: Job) -> Command:
    return Command((str(native.worker()), "run"))
