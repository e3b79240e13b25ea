# SPDX-License-Identifier: Apache-2.0
"""What needs devices or a kernel that this machine may lack, in one emulated guest that has them (tests/guest): verbs
over soft-RoCE, SCTP, TLS by the kernel. One guest for all of it, because Python alone takes half a minute to start in
it. And the guest itself: that it ends with who booted it, and says why it does not boot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from guests import GUEST, IN_GUEST, run_in_guest
from machines import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.skipif(IN_GUEST, reason="a guest boots no guest")]

# Of each file: which of its tests, and how many there are at least. All sizes of each setting of verbs would take half
# an hour.
PARTS = {
    "test_verbs": ("", 93),
    "test_verbs_hosts": ("", 3),
    "test_sctp": ("", 13),
    "test_tcp_tls": ("kernel or records", 8),
    "test_conformance": ("verbs and (few or every_pattern or every_buffer or thresholds)", 17),
}
OF_VERBS = {"test_verbs", "test_verbs_hosts", "test_conformance"}
LACKS = ("no RDMA device", "not built", "no SCTP", "this kernel has no TLS")


def of_file(name: str, which: str) -> str:
    return f"({name}.py and ({which}))" if which else f"{name}.py"


@pytest.mark.takes(1000)
@pytest.mark.module("verbs", "sctp")
def test_in_a_guest_that_has_the_devices_and_the_kernel(listing: dict[str, Any], tmp_path: Path) -> None:
    built = any(one["name"] == "verbs" and one.get("options") for one in listing["modules"])
    parts = {name: part for name, part in PARTS.items() if built or name not in OF_VERBS}
    files = [f"tests/e2e/{name}.py" for name in parts]
    chosen = " or ".join(of_file(name, which) for name, (which, _) in parts.items())
    ran, skipped = run_in_guest((*files, "-k", chosen), tmp_path)
    for name, (_, fewest) in parts.items():
        assert ran[name] >= fewest, f"{name}: {ran[name]} ran"
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
