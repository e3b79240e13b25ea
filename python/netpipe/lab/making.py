# SPDX-License-Identifier: Apache-2.0
"""Makes a lab. Whatever stops it, nothing of a lab that is not complete stays."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.lab import keepers, links, relay, shell, state, tools, wanted
from netpipe.lab.keepers import SWITCH
from netpipe.lab.state import Host, Lab
from netpipe.lab.wanted import Network

NETWORK = "10.87"  # of all labs; each is a /24 of it
LONGEST_PATH = 4000  # of the state folder, which is mounted and quoted

# How long a TCP connection to a port without a server takes to be refused, in nanoseconds, one line each: the kernel of
# the other host answers by itself, so this is the network and nothing else.
PROBE = """
import socket, sys, time
address, count, limit_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
end = time.monotonic() + limit_s
for _ in range(count):
    with socket.socket() as one:
        one.settimeout(max(0.001, end - time.monotonic()))
        begin = time.perf_counter_ns()
        try:
            one.connect((address, 9))
        except ConnectionRefusedError:
            print(time.perf_counter_ns() - begin)
        except OSError:
            pass
    if time.monotonic() >= end:
        break
"""
PROBES, PROBE_S = 41, 4.0


@dataclass(frozen=True, slots=True)
class Request:
    hosts: int
    network: Network
    name: str = "lab"


def up(request: Request, say: Callable[[str], None]) -> Lab:
    """Raises Failure; then nothing is left."""
    wanted.check(request.network)
    tools.need_root()
    tools.need("ip", "tc", "unshare", "nsenter", "mount", "taskset", "ethtool")
    if os.environ.get(shell.LAB):
        raise Failure(USAGE, f"this is a host of lab {os.environ[shell.LAB]}; make labs outside of it")
    if request.network.relayed:
        relay.program()
    with state.locked() as folder:
        there = swept(say)
        for one in there:
            if one.name == request.name:
                raise Failure(
                    USAGE,
                    f"lab {one.name} is up already; netpipe lab down {one.name}, or give this one another --name",
                )
        if request.network.relayed:  # its frames are what a wire would carry
            request = replace(request, network=replace(request.network, offloads=False))
        lab = begin(request, folder / request.name, state.free_subnet(there))
        try:
            return made(lab)
        except BaseException:
            state.remove(lab)
            raise


def swept(say: Callable[[str], None]) -> list[Lab]:
    """The labs that there are, after those that nobody completed were removed; the lock is held."""
    there = []
    for lab in state.labs():
        if lab.complete:
            there.append(lab)
        else:
            state.remove(lab)
            say(f"lab {lab.name}, whose making was killed, was removed")
    return there


def begin(request: Request, folder: Path, subnet: int) -> Lab:
    """Written before anything is made, so that it is found whatever happens."""
    if len(str(folder)) > LONGEST_PATH or not str(folder).isprintable():
        raise Failure(USAGE, "the state folder has no usable name; name another place with XDG_STATE_HOME")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "sys").mkdir()  # where each host mounts its own /sys first
    processors = sorted(os.sched_getaffinity(0))
    if request.network.relayed and len(processors) > request.hosts:
        processors.pop()  # for the relay alone
    dealt = deal(processors, request.hosts)
    hosts = tuple(
        Host(
            f"{request.name}{i + 1}",
            f"{NETWORK}.{subnet}.{i + 1}",
            f"02:6e:70:00:{subnet:02x}:{i + 1:02x}",
            dealt[i],
        )
        for i in range(request.hosts)
    )
    lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in hosts)]
    (folder / "hosts").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    lab = Lab(request.name, folder, request.network, hosts, subnet)
    lab.write()
    return lab


def deal(processors: list[int], hosts: int) -> list[tuple[int, ...]]:
    """Each host has its own processors where there are enough, else one of them in turn."""
    each = len(processors) // hosts
    if each == 0:
        return [(processors[i % len(processors)],) for i in range(hosts)]
    return [tuple(processors[i * each : (i + 1) * each]) for i in range(hosts)]


def made(lab: Lab) -> Lab:
    network = lab.network
    hosts = []
    for host in lab.hosts:
        keeper = keepers.start(lab.folder, host.name)
        hosts.append(replace(host, pid=keeper.pid, network=keeper.network))
    lab = replace(lab, hosts=tuple(hosts))
    ports: list[tuple[int, str, str]] = [(host.pid, links.DEVICE, f"host {host.name}") for host in lab.hosts]
    if network.relayed:
        relay.start(lab, lab.hosts)
    else:
        switch = keepers.start(lab.folder, SWITCH).pid
        links.make_switch(switch, network)
        for i, host in enumerate(lab.hosts):
            links.make_cable(switch, f"port{i + 1}", host, network)
            ports.append((switch, f"port{i + 1}", f"the switch, towards {host.name}"))
    for host in lab.hosts:
        links.set_up(host, lab.hosts, network)
    for pid, device, _ in ports:
        if network.offloads is not None:
            links.set_offloads(pid, device, network.offloads)
        if limited(device, lab):
            links.set_rate(pid, device, network)
    found = [links.check(pid, device, where, network, limited(device, lab)) for pid, device, where in ports]
    if network.relayed:
        check_relay(lab)
    shell.write_ssh(lab)
    times_ns = probe(lab)
    lab = replace(
        lab, complete=True, facts={"device": found[0], "round_trip_ns": statistics.median(times_ns)}
    )
    lab.write()
    return lab


def limited(device: str, lab: Lab) -> bool:
    """Whether tbf is at this end of a link: at the switch only where several hosts can send to one."""
    return lab.network.bits_per_s is not None and (device == links.DEVICE or len(lab.hosts) > 2)


def check_relay(lab: Lab) -> None:
    """Raises Failure (3) where it does not do what was asked for."""
    has = relay.state(lab)
    for name in ("delay_ns", "loss", "seed"):
        if has[name] != getattr(lab.network, name):
            raise Failure(
                UNAVAILABLE,
                f"{relay.PROGRAM} has {name} {has[name]} in place of {getattr(lab.network, name)}",
            )


def probe(lab: Lab) -> list[int]:
    """Round trips between the first two hosts, in ns, each below the time that a lost packet costs. Raises
    Failure (4) if none came back.
    """
    near, far = lab.hosts[:2]
    words = [*links.inside(near.pid), sys.executable, "-c", PROBE, far.address, str(PROBES), str(PROBE_S)]
    times: list[int] = [int(line) for line in tools.call(words).split()]
    if not times:
        raise Failure(FAILED, f"nothing came back from {far.name} to {near.name} within {PROBE_S:.0f} s")
    return times


def summary(lab: Lab) -> dict[str, Any]:
    """What `netpipe lab list --json` shows of a lab."""
    down = lab.down()
    return {
        "name": lab.name,
        "complete": lab.complete,
        "network": lab.network.as_json(),
        "hosts": [
            {
                "name": host.name,
                "address": host.address,
                "processors": list(host.processors),
                "up": host.name not in down,
            }
            for host in lab.hosts
        ],
        **lab.facts,
        "relay": carried(lab) if lab.network.relayed and lab.complete else None,
        "ssh": str(lab.folder / "bin" / "ssh"),
    }


def carried(lab: Lab) -> dict[str, Any]:
    """What became of the packets, or why that is not known."""
    try:
        return relay.state(lab)
    except Failure as failure:
        return {"problem": failure.sentence}
