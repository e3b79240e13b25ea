# SPDX-License-Identifier: Apache-2.0
"""A command in network and mount namespaces of its own, so that this machine stays as it is. Needs root."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from measured import MissingError

# In a new network namespace there is only loopback, which is down. Open MPI's TCP needs another interface.
NETWORK = (
    "ip link set lo up && ip link add lan type veth peer name wall && ip address add 192.0.2.1/24 dev lan && "
    "ip link set lan up"
)


ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")


def alone(command: Sequence[str], first: str = "") -> list[str]:
    """The words that run a command so; `first` is a shell command that prepares the namespaces. Raises MissingError."""
    for program in ("unshare", "ip"):
        if shutil.which(program) is None:
            raise MissingError(f"{program} is not installed")
    if os.geteuid() != 0:
        raise MissingError("namespaces need root")
    script = " && ".join(filter(None, (NETWORK, first, f"exec {shlex.join(command)}")))
    return ["unshare", "--net", "--mount", "sh", "-c", script]


def congestion(name: str) -> str:
    """The shell command that puts all TCP of the namespace under this congestion control. Raises ValueError where the
    kernel would refuse it there.
    """
    allowed = ALLOWED.read_text().split() if ALLOWED.is_file() else []
    if name not in allowed:
        raise ValueError(
            f"a namespace can be under {', '.join(allowed) or 'none'} ({ALLOWED}), and not under {name!r}"
        )
    return f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control"
