# SPDX-License-Identifier: Apache-2.0
"""By which addresses the daemons of a run talk to each other: those of the hosts as the user named them. PVM knows IPv4
alone.
"""

from __future__ import annotations

import ipaddress
import socket

from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.libraries.daemons import Site
from netpipe.libraries.starting.own import is_here

LOOPBACK = "127.0.0.1"


def addresses(site: Site) -> tuple[str, dict[str, str]]:
    """The address of this host, and of each other host of the site by its name. Without others this host's is the
    loopback address. Raises Failure: 3 for a host without an address, 2 where the others could not reach this one.
    """
    names = {name: name.strip("[]") for name in site.hosts}
    here = [plain for plain in names.values() if is_here(plain)]
    far = {name: _ipv4(plain) for name, plain in names.items() if plain not in here}
    if not far:
        return LOOPBACK, far
    named = (address for address in map(_ipv4, here) if not _is_loopback(address))
    own = next(named, None) or _ipv4(site.address or LOOPBACK)
    if _is_loopback(own):
        raise Failure(
            USAGE,
            f"the PVM daemons of other hosts cannot reach {own}; name this host by another address, or give one with "
            "--bind",
        )
    return own, far


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


def _ipv4(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_DGRAM)[0][4][0])
    except (OSError, UnicodeError):  # a part of the name with more than 63 characters
        raise Failure(
            UNAVAILABLE,
            f"no IPv4 address of {host} was found, and PVM knows no others; name the host by one, or leave pvm out",
        ) from None
