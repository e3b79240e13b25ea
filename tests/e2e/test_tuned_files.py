# SPDX-License-Identifier: Apache-2.0
"""The files that `netpipe tune` writes, read by those for whom they are written: Open MPI, MPICH, UCX, sysctl, ip and
ethtool. tests/python/test_tuning_files.py has what stands in them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from machines import needs
from mpi import Mpis

from netpipe import native
from netpipe.reading.estimate import Estimate
from netpipe.tuning.formats import Tuned, files
from netpipe.tuning.library import Library, library
from netpipe.tuning.measuring.ratios import verdict
from netpipe.tuning.search.variants import Changes
from netpipe.tuning.system import nic, table
from netpipe.tuning.system.trial import Tried, nic_file, sysctl_file

GAIN = verdict(Estimate(0.5, 0.45, 0.55), Estimate(1.0, 0.99, 1.01))

pytestmark = pytest.mark.deep


def of(with_mpis: Mpis, name: str) -> tuple[str, Library]:
    (added,) = with_mpis.need(name)
    return added.name, library(next(one for one in native.list_()["modules"] if one["name"] == added.name))


def written(name: str, libs: Library, variables: dict[str, str]) -> dict[str, str]:
    changes = Changes.of(variables)
    tuned = Tuned(
        name, name, changes, "1.3 times as fast", libs.family, tunables=libs.tunables, variables=variables
    )
    return files(tuned)


def said(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        words,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_open_mpi_reads_its_file_of_parameters(with_mpis: Mpis, tmp_path: Path) -> None:
    name, libs = of(with_mpis, "openmpi")
    parameter = libs.tunables.parameters[0]
    (tmp_path / ".openmpi").mkdir()
    text = written(name, libs, {parameter.variable: str(parameter.most)})["openmpi-mca-params.conf"]
    assert libs.tunables.settings_place == "~/.openmpi/mca-params.conf"
    (tmp_path / ".openmpi" / "mca-params.conf").write_text(text)
    without = libs.ask([parameter.variable], {"HOME": str(tmp_path / "nobody")})
    with_ = libs.ask([parameter.variable], {"HOME": str(tmp_path)})
    assert without[parameter.variable]["value"] != str(parameter.most)
    assert with_[parameter.variable]["value"] == str(parameter.most)


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_the_command_of_the_launcher_gives_each_rank_the_settings(
    with_mpis: Mpis, tmp_path: Path, name: str
) -> None:
    module, libs = of(with_mpis, name)
    parameter = libs.tunables.parameters[0]
    _, command = written(module, libs, {parameter.variable: str(parameter.most)})["command.txt"].splitlines()
    launcher, *words = shlex.split(command)
    assert words.pop() == "PROGRAM"
    assert libs.programs is not None
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    more = ("--oversubscribe",) if name == "openmpi" else ()
    out = said(libs.programs / launcher, *more, *words, "env", **libs.environment, **as_root)
    assert out.splitlines().count(f"{parameter.variable}={parameter.most}") == 2


def test_ucx_reads_its_file(tmp_path: Path) -> None:
    needs("ucx_info", packages="ucx-utils")
    text = written("ucx", Library(), {"UCX_RNDV_THRESH": "77777"})["ucx.conf"]
    (tmp_path / "ucx.conf").write_text(text)
    before = said("ucx_info", "-c", UCX_CONFIG_DIR=str(tmp_path / "none"))
    after = said("ucx_info", "-c", UCX_CONFIG_DIR=str(tmp_path))
    assert "UCX_RNDV_THRESH=77777\n" not in before
    assert "UCX_RNDV_THRESH=77777\n" in after


def test_settings_of_the_kernel_and_of_interfaces_are_taken(tmp_path: Path) -> None:
    """In a network namespace of its own, on an interface that leads nowhere."""
    needs("ip", "ethtool", "sysctl", "unshare", packages="iproute2 ethtool procps util-linux")
    settings = {"net.ipv4.tcp_autocorking": "0", "net.ipv4.tcp_wmem": "4096 16384 8388608"}
    devices = {nic.key_of("none0", "mtu"): "9000", nic.key_of("none0", "tso"): "off"}
    tried = [
        Tried(table.Candidate(key, "", value, "what it is"), GAIN)
        for key, value in {**settings, **devices}.items()
    ]
    (tmp_path / "90-netpipe.conf").write_text(sysctl_file(tried))
    (tmp_path / "nic.sh").write_text(nic_file(tried))
    script = (
        "ip link add none0 type veth peer name none1 && sysctl -q -p 90-netpipe.conf && sh nic.sh && "
        f"sysctl -n {' '.join(settings)} && ip -o link show dev none0 && ethtool -k none0"
    )
    out = said("unshare", "-n", "sh", "-c", f"cd {shlex.quote(str(tmp_path))} && {script}")
    autocorking, buffers, link, *features = out.splitlines()
    assert (autocorking, buffers.split()) == ("0", ["4096", "16384", "8388608"])
    assert " mtu 9000 " in link
    assert any(re.match(r"tcp-segmentation-offload: off", line) for line in features)
