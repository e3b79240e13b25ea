# SPDX-License-Identifier: Apache-2.0
"""SMPI of SimGrid: all ranks run in one process, on a machine that a file describes."""

from __future__ import annotations

from netpipe.failure import USAGE, Failure
from netpipe.libraries import Command, Family, Header, Job, Launcher, family, launcher

# A host for each rank, on links of their own to a switch that is never full. SimGrid insists on the second line, word
# for word; it fetches nothing.
PLATFORM = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="netpipe" prefix="node-" suffix="" radical="0-{last}" speed="1Gf" bw="10Gbps" lat="1us"/>
</platform>
"""
OPTIONS = (
    # Computing takes no time, so the numbers are the network's alone.
    "--cfg=smpi/simulate-computation:no",
    # Each rank gets globals of its own, in a copy of the module: that makes it a process.
    "--cfg=smpi/privatization:dlopen",
    "--log=root.thresh:warning",
    "--log=root.fmt:%m%n",  # the message, without the place in SimGrid's source
    "-quiet",  # about a command line that failed
)


@launcher
class Smpirun(Launcher):
    """smpirun of SimGrid"""

    name = "smpi"
    title = "SimGrid"
    says = r"\bSimGrid\b"
    programs = ("smpirun",)

    def command(self, job: Job) -> Command:
        if job.hosts:
            raise Failure(
                USAGE,
                f"{job.description.name} runs on the hosts of its platform file: leave --hosts out, or describe other "
                "hosts in a file and add --launcher-args '-platform FILE'",
            )
        argv = [str(job.description.launcher), "-np", str(job.ranks), *OPTIONS]
        if "-platform" not in job.extra:
            hosts = "".join(f"node-{rank}\n" for rank in range(job.ranks))
            platform = job.file("platform.xml", PLATFORM.format(last=job.ranks - 1))
            argv += ["-platform", str(platform), "-hostfile", str(job.file("hostfile", hosts))]
        argv += [*job.extra, str(job.description.file)]  # the module is the program
        return Command(tuple(argv), job.variables)


# SimGrid claims MPI 3.1 without these. MPI_Iprobe takes longer each time it is called, so nothing may wait with it for
# a passive target; and no two ranks share a host.
MISSING = ("TOOLS", "NEIGHBORS", "PASSIVE_TARGET", "SHARED_WINDOWS")
# What the simulator answers for each rank (program.c).
WRAPPED = ("clock_gettime", "gethostname")


def flags(version: str) -> tuple[str, ...]:  # noqa: ARG001
    return (
        *(f"-DHAVE_{part}=0" for part in MISSING),
        "-DSMPI_NO_OVERRIDE_MALLOC",  # smpicc would replace malloc, whose memory others then free
        *(f"-Wl,--wrap={name}" for name in WRAPPED),
        "-Wl,-Bsymbolic",
        "-lstdc++",
    )


family(
    Family(
        name="smpi",
        title="SimGrid",
        module="simgrid",
        headers=(Header("SMPI_H", ("SIMGRID_VERSION_MAJOR", "SIMGRID_VERSION_MINOR"), "simgrid/version.h"),),
        launcher=Smpirun,
        compilers=("smpicc",),
        files=("libsimgrid.so*",),
        flags=flags,
        sources=("program.c",),
        simulates=True,
    )
)
