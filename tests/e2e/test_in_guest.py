# SPDX-License-Identifier: Apache-2.0
"""What needs devices or a kernel that this machine may lack, in one emulated guest that has them (tests/guest): verbs
over soft-RoCE, SCTP, TLS by the kernel, a clock source that may be changed. One guest for all of it, because Python
alone takes half a minute to start in it. And the guest itself: that it ends with who booted it, and says why it does
not boot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from guests import GUEST, IN_GUEST, run_in_guest
from machines import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.skipif(IN_GUEST, reason="a guest boots no guest")]

# Of the conformance tests. All sizes of each setting would take half an hour, and soft-RoCE carries 8 MiB at most.
CONFORMS = "few or every_pattern or many_ranks or every_buffer or thresholds"


@dataclass(frozen=True)
class Part:
    """Tests of one file."""

    file: str
    layer: str
    which: str  # as of -k
    fewest: int


PARTS = (
    Part("test_verbs", "verbs", "", 95),
    Part("test_verbs_hosts", "verbs", "", 3),
    Part("test_sctp", "sctp", "", 13),
    Part("test_tcp_tls", "tcp", "(kernel or records)", 8),
    Part("test_conformance", "verbs", f"verbs and ({CONFORMS})", 20),
    Part("test_conformance", "sctp", f"sctp and ({CONFORMS} or 8_mib)", 14),
    Part("test_many_ranks", "verbs", "many_pairs and verbs", 3),
    Part("test_many_ranks", "sctp", "many_pairs and sctp", 1),
    Part("test_changed_machine", "shm", "clock_takes_longer", 1),
)
LACKS = ("no RDMA device", "not built", "no SCTP", "this kernel has no TLS")


def words_of(part: Part) -> str:
    return f"({part.file}.py and {part.which})" if part.which else f"{part.file}.py"


@pytest.mark.takes(1500)
@pytest.mark.module("verbs", "sctp")
def test_in_a_guest_that_has_the_devices_and_the_kernel(listing: dict[str, Any], tmp_path: Path) -> None:
    built = any(one["name"] == "verbs" and one.get("options") for one in listing["modules"])
    parts = [part for part in PARTS if built or part.layer != "verbs"]
    fewest: Counter[str] = Counter()
    for part in parts:
        fewest[part.file] += part.fewest
    files = [f"tests/e2e/{file}.py" for file in fewest]
    ran, skipped = run_in_guest((*files, "-k", " or ".join(map(words_of, parts))), tmp_path)
    assert ran >= fewest, f"{ran} ran, {fewest} are there"
    assert not [reason for reason in skipped if any(lack in reason for lack in LACKS)], skipped
    if not built:
        pytest.skip("verbs is not built: apt install libibverbs-dev; the other tests passed in the guest")


def need_qemu() -> None:
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("qemu-system-x86_64 is not installed: apt install qemu-system-x86")


def test_no_guest_outlives_who_booted_it() -> None:
    need_qemu()
    guest = subprocess.Popen([sys.executable, GUEST, "--", "sleep", "60"], stderr=subprocess.PIPE)
    children = Path(f"/proc/{guest.pid}/task/{guest.pid}/children")

    def qemu() -> list[int]:
        """None while it is not there yet; the folder may have to be built before."""
        pids = [int(pid) for pid in children.read_text().split()]
        return [pid for pid in pids if b"qemu-system" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    wait_until(lambda: bool(qemu()), "qemu begins", 120)
    (emulator,) = qemu()
    guest.kill()
    guest.communicate(timeout=20)
    wait_until(lambda: not Path(f"/proc/{emulator}").exists(), "qemu ends")


def test_a_guest_that_does_not_boot_is_named_with_what_it_said() -> None:
    need_qemu()
    done = subprocess.run(
        [sys.executable, GUEST, "--memory", "48M", "--", "true"],
        env={**os.environ, "NETPIPE_GUEST_ACCEL": "tcg"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 125
    assert re.search(r"guest: the guest \(tcg\) (ended|did not come up in time)", done.stderr), done.stderr
    assert re.search(r"memory|panic|its console is empty", done.stderr, re.IGNORECASE), done.stderr
