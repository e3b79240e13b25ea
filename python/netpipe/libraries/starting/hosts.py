# SPDX-License-Identifier: Apache-2.0
"""On which hosts the processes of a job are, how many on each, and in which order: `--ranks`, `--hosts A:2,B:2` and
`--map`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from netpipe.failure import UNAVAILABLE, USAGE, Failure

# Names and addresses only: what goes on the command line of a launcher must not look like an option of it.
LONGEST_NAME = 253
BLOCK, CYCLIC = "block", "cyclic"  # rank 1 is on the host of rank 0, or on the next one
MAPPINGS = (BLOCK, CYCLIC)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    ranks: int


@dataclass(frozen=True, slots=True)
class Hosts:
    """As the user wrote them: names with how many ranks each has, or None where that was not said."""

    given: tuple[tuple[str, int | None], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.given)

    def ranks(self) -> int | None:
        """How many they make together; None where nothing was said about it."""
        if not self.given:
            return None
        if all(count is None for _, count in self.given):
            return max(2, len(self.given))
        return sum(count or 1 for _, count in self.given)

    def spread(self, ranks: int) -> tuple[Host, ...]:
        """So many ranks over them, in blocks: the first ones on the first host. Fewer than the counts that were said
        are as many on each. Raises Failure (2) where that does not come out even. No host: all are here.
        """
        if not self.given:
            return ()
        each, rest = divmod(ranks, len(self.given))
        if any(count is not None for _, count in self.given):
            said = self.ranks()
            if said == ranks:
                return tuple(Host(name, count or 1) for name, count in self.given)
            if rest or not each or each > min(count or 1 for _, count in self.given):
                raise _other_count(said, ranks)
        elif rest or not each:
            some = [(name, each + (place < rest)) for place, name in enumerate(self.names)]
            raise Failure(
                USAGE,
                f"{ranks} {'rank does' if ranks == 1 else 'ranks do'} not spread evenly over {len(self.given)} hosts; "
                f"say how many each has: {','.join(f'{name}:{count}' for name, count in some if count)}",
            )
        return tuple(Host(name, each) for name in self.names)


def parse(text: str | None, ranks: int | None = None) -> Hosts:
    """`A,B` or `A:2,B:2`. Raises Failure (2), also where `ranks` does not go with them."""
    given: list[tuple[str, int | None]] = []
    for part in filter(None, (text or "").split(",")):
        name, colon, count = part.strip().rpartition(":") if _has_count(part) else (part.strip(), "", "")
        check_name("--hosts", name)
        if not NAME.fullmatch(name):
            raise Failure(
                USAGE, f"'{part}' is not a host; write names or addresses with commas: a,b or a:2,b:2"
            )
        if colon and not (len(count) < 19 and 0 < int(count) <= 1 << 20):
            raise Failure(USAGE, f"'{part}': a host needs at least one rank")
        if name in [known for known, _ in given]:
            raise Failure(USAGE, f"host {name} is named twice; write {name}:2 for two ranks there")
        given.append((name, int(count) if colon else None))
    if text is not None and not given:
        raise Failure(USAGE, "--hosts names no host; write names or addresses with commas: a,b or a:2,b:2")
    hosts = Hosts(tuple(given))
    if ranks is not None:
        if any(count is not None for _, count in given) and (said := hosts.ranks()) != ranks:
            raise _other_count(said, ranks)
        hosts.spread(ranks)
    return hosts


def _other_count(said: int | None, ranks: int) -> Failure:
    have = f"{said} {'rank' if said == 1 else 'ranks'}"
    return Failure(
        USAGE, f"the hosts have {have} together and {ranks} {'was' if ranks == 1 else 'were'} requested"
    )


def check_name(option: str, name: str) -> None:
    """Raises Failure (2) for what is longer than any name of a host (RFC 1035, section 2.3.4) or address."""
    if len(name) > LONGEST_NAME:
        raise Failure(
            USAGE, f"{option}: a host name has at most {LONGEST_NAME} characters, this one {len(name)}"
        )


def _has_count(part: str) -> bool:
    return re.search(r":\d+\s*$", part) is not None and not part.strip().endswith("]")


def order(hosts: Sequence[Host], mapping: str) -> tuple[int, ...]:
    """The host of each rank, as a place in `hosts`. Raises Failure (2) for a mapping that these hosts cannot have."""
    if mapping == BLOCK:
        return tuple(place for place, host in enumerate(hosts) for _ in range(host.ranks))
    if len({host.ranks for host in hosts}) > 1:
        raise Failure(
            USAGE,
            f"ranks are dealt to hosts in turn (cyclic) where each has as many; {joined(hosts)} have not",
        )
    return tuple(range(len(hosts))) * hosts[0].ranks if hosts else ()


def joined(hosts: Sequence[Host]) -> str:
    """`a:2,b:2`, as several launchers and our own records write it."""
    return ",".join(f"{host.name}:{host.ranks}" for host in hosts)


def own_address(hosts: Hosts) -> str | None:
    """The address of this host that processes on those reach it at: the one that packets to the first of them leave
    from. None: all are here. Raises Failure (3) where there is no way to it.
    """
    for name in hosts.names:
        plain = name.strip("[]")
        try:
            kind, _, _, _, there = socket.getaddrinfo(plain, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(kind, socket.SOCK_DGRAM) as probe:
                probe.connect(there)  # sends nothing
                address: str = probe.getsockname()[0]
        except (OSError, UnicodeError) as error:  # a part of the name with more than 63 characters
            why = error.strerror if isinstance(error, OSError) else "it is not a valid name"
            raise Failure(
                UNAVAILABLE,
                f"no way to host {plain} was found ({why}); give its address, or say with --bind which "
                "address of this host the others reach",
            ) from None
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return address
    return None
