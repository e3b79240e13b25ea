# SPDX-License-Identifier: Apache-2.0
"""smpirun of SimGrid: all ranks in one process, on a machine that is a file."""

from __future__ import annotations

from netpipe.failure import USAGE, Failure
from netpipe.libraries import Family, Start, Task, family

# A host for each rank, on links of their own to a switch that is never full. SimGrid reads nothing that has not the
# second line, word for word; it fetches nothing.
PLATFORM = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="netpipe" prefix="node-" suffix="" radical="0-{last}" speed="1Gf" bw="10Gbps" lat="1us"/>
</platform>
"""
OPTIONS = (
    # What a rank computes takes no time, so the numbers are the network's alone.
    "--cfg=smpi/simulate-computation:no",
    # Globals of its own for each rank, by a copy of the module: they are what makes it a process.
    "--cfg=smpi/privatization:dlopen",
    "--log=root.thresh:warning",
    "--log=root.fmt:%m%n",  # what it says, and not from which line of its source
    "-quiet",  # of the command line that failed
)


@family("smpi")
class Smpi(Family):
    """smpirun of SimGrid"""

    def command(self, task: Task) -> Start:
        if task.hosts:
            raise Failure(
                USAGE,
                f"{task.description.name} has the hosts of its platform: leave --hosts away, or describe them in a "
                "file for --launcher-args '-platform FILE'",
            )
        argv = [str(task.description.launcher), "-np", str(task.ranks), *OPTIONS]
        if "-platform" not in task.extra:
            hosts = "".join(f"node-{rank}\n" for rank in range(task.ranks))
            platform = task.file("platform.xml", PLATFORM.format(last=task.ranks - 1))
            argv += ["-platform", str(platform), "-hostfile", str(task.file("hostfile", hosts))]
        argv += [*task.extra, str(task.description.file)]  # the module is the program
        return Start(tuple(argv), task.variables)
