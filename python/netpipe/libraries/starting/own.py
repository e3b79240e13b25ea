# SPDX-License-Identifier: Apache-2.0
"""netpipe's own layers on other hosts: one remote shell for each host starts its ranks, or srun all of them. They are
no library: the name of their module in a `launch` event is empty, and each process is told which rank it is.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from netpipe.failure import UNAVAILABLE, Failure
from netpipe.libraries import Command, Job, Launcher
from netpipe.libraries.starting.description import OWN, Description

RANK = "NETPIPE_JOIN_RANK"
SECRET = "NETPIPE_JOIN_SECRET"  # noqa: S105  (the name of a variable)
# Nobody can type a password. Who does not answer a connection is not waited for longer than anything else by default.
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
# A shell says of a program that is not there what each shell says; we say what to do.
THERE = (
    '[ -x "$0" ] || { echo "netpipe-worker: $0 does not exist on $(uname -n); install the same netpipe at the same '
    'path on all hosts" >&2; exit 3; }'
)
# The first line of standard input: every user of a host can read command lines.
READ = f"IFS= read -r {SECRET} || exit 3; export {SECRET}"


def own(program: Path) -> Description:
    return Description("netpipe", program, "", OWN, "ssh", Path("ssh"))


class Ssh(Launcher):
    """ssh, or what --remote-shell says. A host that is this one needs none."""

    name = "ssh"
    title = "ssh"

    def check(self, description: Description, program: tuple[str, ...]) -> None:
        """ssh is looked for where a host needs it."""

    def commands(self, job: Job) -> tuple[Command, ...]:
        commands, first = [], 0
        for host in job.hosts:
            commands.append(self._start(job, range(first, first + host.ranks), host.name))
            first += host.ranks
        return tuple(commands)

    def _start(self, job: Job, ranks: range, name: str) -> Command:
        """All ranks of a host are forked by one process: a server of ssh refuses many connections at once."""
        host = name.strip("[]")
        alone = len(ranks) == 1
        known = {name: value for name, value in job.variables.items() if name != SECRET}
        known |= job.of_host.get(name, {})
        known[RANK] = str(ranks[0]) if alone else f"{ranks[0]}-{ranks[-1]}"
        export = "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in known.items())
        start = f'{READ}; {export}; {THERE}; exec "$0" "$@"'
        argv: tuple[str, ...] = ("/bin/sh", "-c", start, *job.program)
        if not is_here(host):
            argv = on(host, argv, job.remote_shell)
        secret = f"{job.variables[SECRET]}\n".encode()
        who = f"rank {ranks[0]}" if alone else f"ranks {ranks[0]} to {ranks[-1]}"
        return Command(argv, name=f"the start of {who} on {host}", said=secret)


def on(host: str, argv: Sequence[str], remote_shell: Path | None) -> tuple[str, ...]:
    """The command line that runs `argv` on another host. Raises Failure (3) where there is no ssh."""
    shell = (str(remote_shell),) if remote_shell else SSH
    if shutil.which(shell[0]) is None:
        raise Failure(
            UNAVAILABLE,
            "ssh was not found; install it, name another command with --remote-shell, or use netpipe serve",
        )
    return (*shell, host, f"exec {shlex.join(argv)}")


def under_srun(program: tuple[str, ...]) -> tuple[str, ...]:
    """The program of a task of Slurm, which knows its rank by another name."""
    return ("/bin/sh", "-c", f'export {RANK}="$SLURM_PROCID"; {THERE}; exec "$0" "$@"', *program)


def wants_srun(launcher: str | None, remote_shell: tuple[str, ...]) -> bool:
    """`launcher` and `remote_shell` as the user gave them. Without either: inside an allocation."""
    if launcher is not None or remote_shell:
        return launcher == "srun"
    return bool(os.environ.get("SLURM_JOB_ID")) and shutil.which("srun") is not None


def is_here(host: str) -> bool:
    """Whether this name or address is one of this host: what goes there leaves from the very same address."""
    try:
        kind, _, _, _, there = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(there)  # sends nothing
            near, far = probe.getsockname()[0], probe.getpeername()[0]
    except (OSError, UnicodeError):
        return False
    return near == far or ipaddress.ip_address(far.partition("%")[0]).is_loopback
