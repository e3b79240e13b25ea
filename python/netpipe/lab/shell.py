# SPDX-License-Identifier: Apache-2.0
"""How commands get onto a host: a program `ssh` that stands before the real one in the PATH of every host, so that
whatever starts processes by ssh (netpipe, mpirun, mpiexec, a script) needs no setting; and the start of a command by
`netpipe lab exec`.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from netpipe.failure import UNAVAILABLE, Failure
from netpipe.lab.keepers import namespace
from netpipe.lab.state import Host, Lab

LAB = "NETPIPE_LAB"  # in the environment of what runs on a host: the name of its lab
ENTER = ("--mount", "--uts", "--ipc", "--net")
LOGIN_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# As ssh: options before the host, the words of a command joined by blanks and read by a shell, a clean environment, the
# home folder, 255 where the host is not reached. Options are read and have no meaning: there is nothing to log in to.
SSH = r"""#!/bin/sh
# ssh [OPTION]... HOST [COMMAND]... on the hosts of lab {name}. Made by netpipe lab up.
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    -[BbcDEeFIiJLlmOopPQRSWw]) shift; [ $# -eq 0 ] || shift ;;
    -*) shift ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || {{ echo "ssh: no host was named; the hosts of lab {name} are {names}" >&2; exit 255; }}
host=${{1#*@}}
shift
case $host in
{cases}
  *) echo "ssh: Could not resolve hostname $host: the hosts of lab {name} are {names}" >&2; exit 255 ;;
esac
[ "$(readlink "/proc/$pid/ns/net")" = "$net" ] || {{ echo "ssh: connect to host $host: it is down" >&2; exit 255; }}
home=${{HOME:-/}}
[ $# -gt 0 ] || set -- exec "${{SHELL:-/bin/sh}}"
exec taskset -c "$processors" nsenter --target "$pid" {enter} -- env -i \
  HOME="$home" USER="${{USER:-root}}" LOGNAME="${{LOGNAME:-root}}" SHELL=/bin/sh TERM="${{TERM:-dumb}}" \
  PATH={folder}/bin:{path} {variable}={name} \
  /bin/sh -c 'cd "$HOME" 2>/dev/null || cd /; exec /bin/sh -c "$0"' "$*"
"""


def write_ssh(lab: Lab) -> Path:
    """The program, in the folder of the lab."""
    cases = "\n".join(
        f"  {host.name}|{host.address}) pid={host.pid} net='{host.network}' processors={listed(host)} ;;"
        for host in lab.hosts
    )
    text = SSH.format(
        name=lab.name,
        names=" ".join(host.name for host in lab.hosts),
        cases=cases,
        enter=" ".join(ENTER),
        folder=shlex.quote(str(lab.folder)),
        path=LOGIN_PATH,
        variable=LAB,
    )
    path = lab.folder / "bin" / "ssh"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def listed(host: Host) -> str:
    """Its processors as taskset takes them."""
    return ",".join(map(str, host.processors))


def entering(lab: Lab, host: Host, command: list[str]) -> list[str]:
    """The command line that runs a command on a host, in the current folder. Raises Failure (3)."""
    if namespace(host.pid) != host.network or not host.network:
        raise Failure(
            UNAVAILABLE,
            f"host {host.name} is down: its processes were killed, or this machine was restarted; "
            f"netpipe lab down {lab.name}, then up again",
        )
    if shutil.which(command[0]) is None:
        raise Failure(UNAVAILABLE, f"{command[0]} was not found, or cannot be executed")
    inside = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(Path.cwd()), *command]
    return ["taskset", "-c", listed(host), "nsenter", "--target", str(host.pid), *ENTER, "--", *inside]


def environment(lab: Lab) -> dict[str, str]:
    """That of a command on a host: everything from here, and the lab's ssh before all others."""
    before = os.environ.get("PATH", LOGIN_PATH)
    return {**os.environ, "PATH": f"{lab.folder / 'bin'}:{before}", LAB: lab.name}
