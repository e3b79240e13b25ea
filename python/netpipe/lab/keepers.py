# SPDX-License-Identifier: Apache-2.0
"""The processes that keep the namespaces of a lab, and all others that live in them.

A keeper bears the folder of its lab in its environment, so it is found whatever became of the `netpipe lab up` that
started it, and no process is ever taken for one because of its number.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netpipe.failure import FAILED, UNAVAILABLE, Failure

MARK = "NETPIPE_LAB_KEEPER"  # the folder of the lab
ROLE = "NETPIPE_LAB_ROLE"  # the host that it keeps, SWITCH or RELAY
SWITCH, RELAY = "switch", "relay"  # no host is called so: hosts end with a number

START_S = 20.0  # until a keeper is ready, on a machine that is busy
LEAVE_S = 2.0  # that processes on the hosts may take to end after SIGTERM
GONE_S = 20.0  # and after SIGKILL; the kernel takes its time with those that wait for a disk

# What a host has of its own besides devices: a name, the names of the others, shared memory, and /sys with its devices
# and the cgroups of this machine. IPv6 is off, or every device would announce itself at times of its own.
KEEP = """
name=$1 folder=$2
echo "$name" >/proc/sys/kernel/hostname
for one in all default; do echo 1 >/proc/sys/net/ipv6/conf/$one/disable_ipv6; done 2>/dev/null || true
ip link set lo up
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t sysfs sysfs "$folder/sys"
if [ -d "$folder/sys/fs/cgroup" ]; then mount --rbind /sys/fs/cgroup "$folder/sys/fs/cgroup"; fi
mount --rbind "$folder/sys" /sys
mount --bind "$folder/hosts" /etc/hosts
echo ready
exec sleep infinity </dev/null >/dev/null 2>&1
"""


@dataclass(frozen=True, slots=True)
class Keeper:
    pid: int
    role: str

    @property
    def network(self) -> str:
        """Its network namespace, as the kernel names it. Empty: it has ended."""
        return namespace(self.pid)


def namespace(pid: int | str) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def start(folder: Path, role: str) -> Keeper:
    """A new host, or the switch. Raises Failure (3 where the kernel makes no namespaces, else 4)."""
    words = ["unshare", "--net", "--uts", "--ipc", "--mount", "--propagation", "private", "--"]
    return launch([*words, "/bin/sh", "-euc", KEEP, "sh", role, str(folder)], folder, role)


def launch(words: list[str], folder: Path, role: str) -> Keeper:
    """Starts a process that says `ready` and stays. Raises Failure with what it said instead."""
    environment = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "HOME")},
        MARK: str(folder),
        ROLE: role,
    }
    try:
        process = subprocess.Popen(
            words,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{words[0]} cannot be started: {error.strerror}") from None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout as out, process.stderr as errors:
        readable, _, _ = select.select([out], [], [], START_S)
        if readable and out.readline() == b"ready\n":
            return Keeper(process.pid, role)
        process.kill()
        process.wait()
        said = " ".join(errors.read(10_000).decode(errors="replace").split())
    if not readable:
        raise Failure(FAILED, f"the start of {role} took longer than {START_S:.0f} s")
    denied = "not permitted" in said or "denied" in said
    raise Failure(
        UNAVAILABLE if denied else FAILED,
        f"{role} cannot be made: {said or 'it said nothing'}"
        + ("; this container or kernel does not let root make namespaces" if denied else ""),
    )


def of(folder: Path) -> list[Keeper]:
    """The keepers of the lab in this folder that live."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for pid in processes():
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if mark in variables and not has_ended(pid):
                role = next((one for one in variables if one.startswith(f"{ROLE}=".encode())), b"=")
                found.append(Keeper(pid, role.partition(b"=")[2].decode(errors="replace")))
    return found


def living_in(networks: set[str]) -> list[int]:
    """All processes in these network namespaces."""
    return [pid for pid in processes() if namespace(pid) in networks and not has_ended(pid)]


def end(folder: Path) -> int:
    """Ends a lab: the processes on its hosts, then those that keep them. How many ran on the hosts. Raises
    Failure (4) if some do not end.
    """
    keepers = of(folder)
    networks = {one.network for one in keepers if one.role != RELAY} - common()
    own = {one.pid for one in keepers}
    guests = [pid for pid in living_in(networks) if pid not in own]
    deadline = time.monotonic() + LEAVE_S
    while (left := [pid for pid in living_in(networks) if pid not in own]) and time.monotonic() < deadline:
        send(left, signal.SIGTERM)
        time.sleep(0.05)
    deadline = time.monotonic() + GONE_S
    while left := [*living_in(networks), *(one.pid for one in of(folder))]:
        if time.monotonic() >= deadline:
            raise Failure(FAILED, f"processes {', '.join(map(str, left))} of the lab do not end")
        send(left, signal.SIGKILL)
        time.sleep(0.02)
    return len(guests)


def common() -> set[str]:
    """Network namespaces that are no host's: a keeper that was just started is still in that of this machine, and
    whatever else is there must never be taken for a guest.
    """
    return {"", namespace("self"), namespace(1), namespace(os.getppid())}


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def processes() -> Iterator[int]:
    return (int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal())


def has_ended(pid: int) -> bool:
    """Also one that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True
