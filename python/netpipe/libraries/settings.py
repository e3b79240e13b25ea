# SPDX-License-Identifier: Apache-2.0
"""What a library calls a setting of its module: the environment that `eager=64k` becomes. A family's header (family.h)
sets it when a variant is opened; what is here says it to readers of a run file, which has no library at hand. A test
holds the two to each other (tests/e2e/test_words_of_libraries.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# What messages stand on: a module, as the variant recorded it.
SHM, TCP, UCX, OFI = "shm", "tcp", "ucx", "libfabric"
# Settings, with the value that a remedy gives them.
SHARED, ONE_COPY, NO_NAGLE = ("transport", SHM), ("single_copy", "cma"), ("nodelay", "yes")
TWO_COPIES, YIELDS = ("single_copy", "none"), ("yield", "yes")
# The folder of the files through which ranks share memory. No module has an option for it: it goes through `env`.
FILES_IN_MEMORY = ("backing_directory", "/dev/shm")  # noqa: S108  (where POSIX shared memory is)
# A thread of the library that moves messages while the program computes; the same.
PROGRESSES = ("progress_thread", "yes")

# The network interface that messages between hosts take, by its name. No module has an option for it either.
INTERFACE = "interface"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a library's module."""

    name: str  # of the option
    value: str  # sizes in bytes, without a unit
    version: str  # of the library: "Open MPI 5.0.11"
    below: str | None  # the module that its messages stand on; None: not known

    @property
    def said(self) -> tuple[str, str]:
        return self.name, self.value

    @property
    def major(self) -> int:
        """Of the version; 0 if that is not known."""
        found = re.search(r"\b(\d+)\.", self.version)
        return int(found[1]) if found else 0

    @property
    def after(self) -> str:
        """The next number of bytes, for limits that count from the first size above."""
        return str(int(self.value) + 1)


# Of libfabric's provider tcp, whichever library stands on it.
OFI_INTERFACE = "FI_TCP_IFACE"
NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"


def of_ucx(one: Setting) -> Mapping[str, str]:
    """Variables of UCX, whichever library stands on it."""
    if one.name == "eager":
        return {"UCX_RNDV_THRESH": one.after}
    if one.said == ONE_COPY:
        return {"UCX_TLS": "self,posix,sysv,cma"}
    if one.said == TWO_COPIES:
        return {"UCX_TLS": "self,posix,sysv"}
    if one.said == NO_NAGLE:
        return {"UCX_TCP_NODELAY": "y"}
    names = {"rndv": "UCX_RNDV_THRESH", "sndbuf": "UCX_TCP_SNDBUF", "rcvbuf": "UCX_TCP_RCVBUF"}
    names[INTERFACE] = "UCX_NET_DEVICES"
    return {names[one.name]: one.value} if one.name in names else {}
