# SPDX-License-Identifier: Apache-2.0
"""Hydra, the mpiexec of MPICH and of what comes from it."""

from __future__ import annotations

from netpipe.libraries import Family, Start, Task, family


class Hydra(Family):
    def command(self, task: Task) -> Start:
        argv = [str(task.description.launcher)]
        if task.remote_shell is not None:
            argv += ["-launcher", "ssh", "-launcher-exec", str(task.remote_shell)]
        elif not task.hosts:
            argv += ["-launcher", "fork"]  # in a batch job too: the ranks are here
        if task.hosts:
            lines = [f"{host.name}:{host.ranks}\n" for host in task.hosts]
            argv += [self.hosts_option, str(task.file("hydra-hosts", "".join(lines)))]
        # All of the environment: -genvlist loses one of the names for other hosts, the one that happens to be last.
        argv += [*self.unbound, "-genvall", "-n", str(task.ranks)]
        return Start((*argv, *task.extra, *task.program), {**task.variables, **self.environment})

    hosts_option = "-f"
    unbound: tuple[str, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012


@family("mpich")
class Mpich(Hydra):
    """mpiexec of MPICH"""

    unbound = ("-bind-to", "none")


@family("intel")
class Intel(Hydra):
    """mpiexec.hydra of Intel MPI"""

    hosts_option = "-machine"
    environment = {"I_MPI_PIN": "0"}  # noqa: RUF012
