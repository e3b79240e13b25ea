# SPDX-License-Identifier: Apache-2.0
"""Changes settings of the kernel and of network interfaces, and puts them back: at the end, after a failure, and, where
the process was killed, when netpipe starts the next time, whatever its command. What was there before is in a file on
disk before anything is changed, with the host and the network namespace that it belongs to; each host has its own file.
One tuner at a time changes settings: of two, each would take what the other has changed for what was there before.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.tuning.system import nic, table
from netpipe.tuning.system.table import ROOT, path_of

OWN_NAMESPACE = Path("/proc/self/ns/net")
NAMED_NAMESPACES = Path("/run/netns")  # of ip netns
BOOT = Path("/proc/sys/kernel/random/boot_id")  # another one on each host, and after each start of it


def state_file() -> Path:
    """Of this host, as several may have the same home."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "netpipe" / f"tune-system.{socket.gethostname()}.json"


@contextlib.contextmanager
def alone(state: Path | None = None) -> Iterator[None]:
    """While this holds, no other process of this user does. Raises Failure (2) while another one does."""
    path = (state or state_file()).with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(
                USAGE,
                "another netpipe tune --apply changes system settings; wait for its end, and start again",
            ) from None
        except OSError:
            pass  # a file system without locks
        yield


def read(key: str, root: Path = ROOT) -> str | None:
    """None: there is no such setting here."""
    return nic.read(key) if nic.is_nic(key) else table.read(key, root)


class Applied:
    """The changes of one process. Raises Failure: 3 without the right to change settings, 2 while another process has
    changed some.
    """

    def __init__(
        self, root: Path = ROOT, state: Path | None = None, before: Mapping[str, str] | None = None
    ) -> None:
        self._root = root
        self._state = state or state_file()
        self._before = dict(before or {})

    def set(self, key: str, value: str) -> None:
        """Changes one setting, and reads it back."""
        before = read(key, self._root)
        if before is None:
            whose = "this interface, or its driver," if nic.is_nic(key) else "this kernel"
            raise Failure(UNAVAILABLE, f"{whose} has no setting {key}")
        if key not in self._before:
            self._before[key] = before
            self._save()
        self._write(key, value)
        now = read(key, self._root)
        if now != " ".join(value.split()):
            raise Failure(FAILED, f"{key} is {now} although {value} was written: it was not taken")

    def revert(self, keep: tuple[str, ...] = ()) -> None:
        """Puts everything back but `keep`."""
        for key, value in self._before.items():
            if key not in keep and read(key, self._root) != value:
                self._write(key, value)
        self._before = {}
        self._state.unlink(missing_ok=True)

    def _write(self, key: str, value: str) -> None:
        if nic.is_nic(key):
            nic.write(key, value)
            return
        try:
            path_of(key, self._root).write_text(value + "\n", encoding="ascii")
        except PermissionError:
            raise Failure(
                UNAVAILABLE, f"{key} cannot be changed without privileges; run as root, or leave --apply out"
            ) from None
        except OSError as error:
            raise Failure(FAILED, f"{key} = {value}: {error.strerror}") from None

    def _save(self) -> None:
        """On disk before the change is made."""
        self._state.parent.mkdir(parents=True, exist_ok=True)
        part = self._state.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            whose = {
                "pid": os.getpid(),
                "started": _started(os.getpid()),
                "namespace": _namespace(OWN_NAMESPACE),
                "host": socket.gethostname(),
                "boot": _boot(),
            }
            json.dump({**whose, "before": self._before}, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._state)


def restore_left(say: Callable[[str], None], root: Path = ROOT, state: Path | None = None) -> None:
    """Puts back what a process that was killed has left changed, and says so. Raises Failure (2) while the process that
    changed settings is still running.
    """
    path = state or state_file()
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        pid, started, before = int(there["pid"]), there["started"], dict(there["before"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise Failure(
            USAGE,
            f"{path} says which system settings an interrupted netpipe tune has changed, and it is damaged; check "
            "them and remove the file",
        ) from None
    if there.get("boot") not in (None, _boot()):
        if there.get("host") == socket.gethostname():
            path.unlink(missing_ok=True)  # they ended when the machine was started again
        return  # else they are of another host, which has the same folder
    if pid != os.getpid() and _started(pid) == started is not None:
        raise Failure(
            USAGE, f"netpipe tune --apply is running as process {pid} and changes system settings; wait"
        )
    where = there.get("namespace")
    if where not in (None, _namespace(OWN_NAMESPACE)):
        if _exists(where):
            raise Failure(
                USAGE,
                "an interrupted netpipe tune has left settings changed in another network namespace; run netpipe "
                f"there, which puts them back, or remove {path}",
            )
        path.unlink(missing_ok=True)  # they ended with their namespace
        return
    left = Applied(root, path, before)
    changed = [f"{key} = {value}" for key, value in before.items() if read(key, root) != value]
    left.revert()
    if changed:
        say(f"put back what an interrupted netpipe tune had left changed: {', '.join(changed)}")


def _boot() -> str | None:
    try:
        return BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _namespace(path: Path) -> int | None:
    """The number of a network namespace."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _exists(number: int) -> bool:
    """Whether a process is in this network namespace, or it has a name."""
    named = NAMED_NAMESPACES.iterdir() if NAMED_NAMESPACES.is_dir() else iter(())
    return any(_namespace(one) == number for one in (*Path("/proc").glob("[0-9]*/ns/net"), *named))


def _started(pid: int) -> str | None:
    """When a process began, in ticks since the machine did: its number alone may be another's by now."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        return text.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
