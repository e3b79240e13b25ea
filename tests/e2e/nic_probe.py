# SPDX-License-Identifier: Apache-2.0
"""In a network namespace of its own with a pair of virtual interfaces: what netpipe.tuning.system can set of one.
Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from netpipe.failure import Failure
from netpipe.tuning.system import nic
from netpipe.tuning.system.applied import Applied, restore_left
from netpipe.tuning.system.table import ROOT, candidates


def refused(key: str, value: str) -> str:
    try:
        nic.write(key, value)
    except Failure as failure:
        return f"{failure.exit_code} {failure.sentence}"
    return "taken"


def killed_after(state: Path, key: str, value: str) -> None:
    """In a process that does not come to put it back."""
    child = os.fork()
    if child == 0:
        Applied(ROOT, state).set(key, value)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def main(state: Path) -> None:
    for words in (
        "link add np0 type veth peer name np1",
        "addr add 10.9.8.1/24 dev np0",
        "link set np0 up",
        "link set np1 up",
    ):
        subprocess.run(["ip", *words.split()], check=True, timeout=10)
    found: dict[str, object] = {}
    for name, value in (("mtu", "9000"), ("tso", "off"), ("gro", "on")):
        key = nic.key_of("np0", name)
        before = nic.read(key)
        changes = Applied(ROOT, state)
        changes.set(key, value)
        then = nic.read(key)
        changes.revert()
        found[name] = [before, then, nic.read(key)]
    found["refused"] = {
        name: refused(nic.key_of("np0", name), "0")
        for name in (*nic.GROUPS["interrupt coalescing"], "rx_ring")
    }
    found["too large"] = refused("nic.np0.mtu", "1000000")
    found["no device"] = refused("nic.np7.mtu", "1500")
    found["said"] = nic.refusals("np0")
    found["candidates"] = [one.key for one in candidates(devices=["np0"]) if nic.is_nic(one.key)]
    found["devices"] = nic.devices_to(["10.9.8.2", "127.0.0.1", "no.such.host.invalid"])
    killed_after(state, "nic.np0.mtu", "9000")
    left = nic.read("nic.np0.mtu")
    said: list[str] = []
    restore_left(said.append, ROOT, state)
    found["killed"] = [left, nic.read("nic.np0.mtu"), *said]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
