# SPDX-License-Identifier: Apache-2.0
"""Settings of a network interface as the kernel takes them: of a virtual pair in a network namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machines import needs

PROBE = Path(__file__).with_name("nic_probe.py")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    needs("ip", "unshare", packages="iproute2 util-linux")
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    state = tmp_path_factory.mktemp("nic") / "tune.json"
    done = subprocess.run(
        ["unshare", "--net", sys.executable, str(PROBE), str(state)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_mtu_and_offloads_are_changed_and_put_back(seen: dict[str, Any]) -> None:
    assert seen["mtu"] == ["1500", "9000", "1500"]
    assert seen["tso"] == ["on", "off", "on"]
    before, then, after = seen["gro"]
    assert (then, after) == ("on", before)


def test_what_a_virtual_interface_does_not_have_is_refused_and_said(seen: dict[str, Any]) -> None:
    assert all(one.startswith("3 np0: ") for one in seen["refused"].values())
    assert "rx_usecs stays as it is, its driver cannot change that" in seen["refused"]["rx_usecs"]
    assert seen["said"] == ["np0: its driver has no interrupt coalescing and no ring sizes to set"]
    assert seen["candidates"] == ["nic.np0.mtu", "nic.np0.tso", "nic.np0.gso", "nic.np0.gro"]


def test_a_value_that_is_not_taken_and_a_device_that_is_not_there_are_named(seen: dict[str, Any]) -> None:
    assert seen["too large"].startswith("4 nic.np0.mtu = 1000000: ")
    assert seen["no device"] == "3 np7: mtu stays as it is, it does not exist"


def test_the_interface_is_the_one_that_packets_leave_by(seen: dict[str, Any]) -> None:
    assert seen["devices"] == ["np0"]


def test_what_a_killed_process_left_is_put_back_by_the_next(seen: dict[str, Any]) -> None:
    left, now, said = seen["killed"]
    assert (left, now) == ("9000", "1500")
    assert "nic.np0.mtu = 1500" in said
