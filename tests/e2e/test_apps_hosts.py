# SPDX-License-Identifier: Apache-2.0
"""Application kernels on two hosts, in both mappings: every rank says where it is, and that is what was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from machines import TwoHosts, open_folder, two_hosts  # noqa: F401
from mpi import SIX, Mpis

from netpipe.kernels import read

LIMIT_S = 240


@pytest.mark.deep
@pytest.mark.parametrize("name", SIX)
def test_ranks_are_dealt_to_hosts_as_asked(
    mpis: Mpis,
    worker: Path,
    two_hosts: TwoHosts,  # noqa: F811
    tmp_path: Path,
    name: str,
) -> None:
    mpis.need(name)
    words = ("--class", "S", "--ranks", "2,4", "--launches", "1", "--pin", "none", "--timeout", "60")
    over = ("--on", f"mpi@{name}:transport=tcp", "--map", "block,cyclic", "-o", "apps.jsonl")
    command = (sys.executable, "-m", "netpipe", "apps", "is", *words, *over, *two_hosts.options)
    done = subprocess.run(
        two_hosts.inside(*command),
        cwd=tmp_path,
        env={
            **os.environ,
            "NETPIPE_NATIVE": str(worker.parents[1]),
            "NETPIPE_MODULE_PATH": str(mpis.folder),
            "NETPIPE_LAM_USER": two_hosts.user,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {(one.ranks, one.mapping): one for one in read(tmp_path / "apps.jsonl").results}
    near, far = two_hosts.near, two_hosts.far
    assert {key: one.places for key, one in found.items()} == {
        (2, "block"): [near, far],
        (2, "cyclic"): [near, far],
        (4, "block"): [near, near, far, far],
        (4, "cyclic"): [near, far, near, far],
    }
    assert all(one.verified and one.hosts == 2 for one in found.values())
    assert two_hosts.left() == []
