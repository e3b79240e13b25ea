# SPDX-License-Identifier: Apache-2.0
"""What is known of the labs of this user: a folder for each, with one file that says what it is. One lock keeps two
commands from changing them at once, so whoever holds it knows that a lab that is still being made has lost its maker.

The folder is netpipe/labs in the user's state folder (XDG_STATE_HOME).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.lab import keepers
from netpipe.lab.wanted import Network

FILE = "lab.json"
RELAY_FILE = "relay.json"
LOCK_S = 60.0  # another `netpipe lab up` of many hosts takes seconds
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    address: str
    hardware: str  # the address of its card
    processors: tuple[int, ...]
    pid: int = 0  # its keeper
    network: str = ""  # its network namespace


@dataclass(frozen=True, slots=True)
class Lab:
    name: str
    folder: Path
    network: Network
    hosts: tuple[Host, ...]
    subnet: int  # the third number of its addresses
    complete: bool = False  # False: being made, or left so
    facts: dict[str, Any] = field(default_factory=dict)  # what was read back and measured

    def host(self, name: str) -> Host:
        """Raises Failure (2)."""
        for one in self.hosts:
            if one.name == name:
                return one
        raise Failure(
            USAGE, f"lab {self.name} has no host '{name}'; it has {', '.join(one.name for one in self.hosts)}"
        )

    def down(self) -> tuple[str, ...]:
        """Its hosts that have died."""
        return tuple(
            one.name for one in self.hosts if keepers.namespace(one.pid) != one.network or not one.network
        )

    def write(self) -> None:
        content = {
            "format": FORMAT,
            "name": self.name,
            "subnet": self.subnet,
            "complete": self.complete,
            "network": self.network.as_json(),
            "hosts": [
                {
                    "name": one.name,
                    "address": one.address,
                    "hardware": one.hardware,
                    "processors": one.processors,
                    "pid": one.pid,
                    "network": one.network,
                }
                for one in self.hosts
            ],
            "facts": self.facts,
        }
        draft = self.folder / f"{FILE}.new"
        draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        draft.replace(self.folder / FILE)


def labs_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "netpipe" / "labs"


@contextlib.contextmanager
def locked() -> Iterator[Path]:
    """The folder of all labs, for this command alone. Raises Failure (3) where it cannot be written, (4) when another
    command holds it for long.
    """
    folder = labs_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Failure(
            UNAVAILABLE,
            f"{folder} cannot be written: {error.strerror}; name another place with XDG_STATE_HOME",
        ) from None
    try:
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise Failure(
                        FAILED,
                        f"another netpipe lab has held {folder} for {LOCK_S:.0f} s; try again when it has ended",
                    ) from None
                time.sleep(0.05)
        yield folder
    finally:
        os.close(lock)


def labs() -> list[Lab]:
    """All labs of this user, by name; those that a crash left too."""
    folder = labs_folder()
    there = sorted(one for one in folder.iterdir() if (one / FILE).exists()) if folder.is_dir() else []
    return [read(one) for one in there]


def read(folder: Path) -> Lab:
    """Raises Failure (2) for a file that is not one of ours: what it is about cannot be known then."""
    path = folder / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise Failure(
                USAGE,
                f"{path} has format {content['format']}, and this netpipe knows {FORMAT}; use the netpipe that made it",
            )
        return Lab(
            content["name"],
            folder,
            Network(**content["network"]),
            tuple(Host(**{**one, "processors": tuple(one["processors"])}) for one in content["hosts"]),
            content["subnet"],
            content["complete"],
            content["facts"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(
            USAGE,
            f"{path} is damaged ({error}); end the processes that have {keepers.MARK}={folder} and remove the folder",
        ) from None


def one(name: str | None) -> Lab:
    """The lab with this name, or the only one. Raises Failure (2)."""
    there = labs()
    names = ", ".join(lab.name for lab in there)
    if name is None and len(there) == 1:
        return there[0]
    if not there:
        raise Failure(USAGE, "no lab is up; netpipe lab up makes one")
    for lab in there:
        if lab.name == name:
            return lab
    if name is None:
        raise Failure(USAGE, f"there are several labs, {names}; name one")
    raise Failure(USAGE, f"there is no lab '{name}'; there is {names}")


def remove(lab: Lab) -> int:
    """Ends it and forgets it; the lock is held. How many processes ran on its hosts. Raises Failure (4)."""
    ended = keepers.end(lab.folder)
    shutil.rmtree(lab.folder, ignore_errors=True)
    return ended


def free_subnet(there: list[Lab]) -> int:
    """Raises Failure (3)."""
    taken = {lab.subnet for lab in there}
    for number in range(1, 255):
        if number not in taken:
            return number
    raise Failure(UNAVAILABLE, "254 labs are up; take one down")
