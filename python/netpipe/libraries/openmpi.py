# SPDX-License-Identifier: Apache-2.0
"""mpirun of Open MPI 4 (ORTE) and 5 (PRRTE)."""

from __future__ import annotations

from netpipe.launch.hosts import joined
from netpipe.libraries import Family, Start, Task, family

# Asked for in the environment, because the option stands before others in 4 and is unknown to some front ends.
ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


@family("openmpi")
class OpenMpi(Family):
    """mpirun of Open MPI 4 and 5"""

    def command(self, task: Task) -> Start:
        recent = task.description.major >= 5
        # No binding: the worker pins itself. In network namespaces both hosts' mpiruns would bind to processor 0.
        argv = [str(task.description.launcher), "-n", str(task.ranks), "--bind-to", "none"]
        argv += ["--map-by", "slot:OVERSUBSCRIBE"] if recent else ["--map-by", "slot", "--oversubscribe"]
        for name in task.variables:
            argv += ["-x", name]
        if task.hosts:
            argv += ["--host", joined(task.hosts)]
        if task.remote_shell is not None and recent:
            argv += ["--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", str(task.remote_shell)]
        elif task.remote_shell is not None:
            argv += ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(task.remote_shell)]
        return Start((*argv, *task.extra, *task.program), {**ROOT, **task.variables})
