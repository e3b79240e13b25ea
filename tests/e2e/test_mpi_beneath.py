# SPDX-License-Identifier: Apache-2.0
"""The library that an MPI's messages go through, UCX or libfabric, as the MPI that is running shows it, and the losses
that are read against it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Netpipe
from mpi import Mpis

from netpipe.findings import judge
from netpipe.reading import Reading
from netpipe.records import Run

# By library and setting: the module below, and what that stands on.
BENEATH = {
    "mpich": {
        "auto": ("shm", None),
        "shm": ("shm", None),
        "ucx": ("ucx", "shm"),
        "ucx_tcp": ("ucx", "tcp"),
        "ofi_tcp": ("libfabric", "tcp"),
        "tcp": ("libfabric", "tcp"),
    },
    "openmpi": {
        "auto": ("shm", None),
        "tcp": ("tcp", None),
        "ucx_shm": ("ucx", "shm"),
        "ucx_tcp": ("ucx", "tcp"),
        "ofi_tcp": ("libfabric", "tcp"),
    },
    "mpich4": {"auto": ("shm", None), "ucx_shm": ("ucx", "shm"), "tcp": ("ucx", "tcp")},
    "openmpi4": {
        "tcp": ("tcp", None),
        "ucx_shm": ("ucx", "shm"),
        "ucx_tcp": ("ucx", "tcp"),
        "ofi_tcp": ("libfabric", "tcp"),
    },
    "impi": {"shm": ("shm", None), "tcp": ("libfabric", "tcp")},
}
QUICK = ("--sizes", "8", "--budget", "0.02", "--launches", "1")


@pytest.mark.gate
@pytest.mark.parametrize("library", BENEATH)
def test_the_library_below_is_the_one_in_force(netpipe: Netpipe, with_mpis: Mpis, library: str) -> None:
    with_mpis.need(library)
    variants = {f"mpi@{library}:transport={value}": found for value, found in BENEATH[library].items()}
    auto = f"mpi@{library}"
    asked = [auto if variant.endswith("=auto") else variant for variant in variants]
    done = netpipe(*asked, *QUICK)
    assert done.code == 0, done.said
    for variant, (below, carrier) in zip(asked, variants.values(), strict=True):
        (opened,) = done.of("variant", variant=variant)
        for rank in opened["ranks"]:
            assert rank["settings"].get("below_stands_on") == carrier, variant
            version = rank["settings"].get("below_version", "")
            assert version.startswith({"ucx": "UCX 1.", "libfabric": "libfabric "}.get(below, "")), variant
            assert bool(version) == (carrier is not None), variant
        assert opened["below"] == below, variant


def test_what_the_environment_chose_is_found_too(
    netpipe: Netpipe, with_mpis: Mpis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No option says so: the library is asked, and not the options."""
    with_mpis.need("mpich", "openmpi")
    for name, value in {
        "MPIR_CVAR_NOLOCAL": "1",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
        "UCX_TLS": "tcp,self",
    }.items():
        monkeypatch.setenv(name, value)
    done = netpipe("mpi@mpich:transport=auto", "mpi@openmpi:transport=auto", *QUICK)
    assert done.code == 0, done.said
    found = {one["module"]: one["below"] for one in done.of("variant")}
    assert found == {"mpi@mpich": "libfabric", "mpi@openmpi": "ucx"}


def test_an_mpi_over_ucx_stands_on_ucx_in_the_stack_and_in_the_losses(
    netpipe: Netpipe, with_mpis: Mpis, listing: dict[str, Any], tmp_path: Path
) -> None:
    """By shared memory and by TCP; over libfabric, which is not measured, it is held against TCP."""
    with_mpis.need("openmpi")
    if "ucx" not in {one["name"] for one in listing["modules"]}:
        pytest.skip("module ucx is not built: apt install libucx-dev")
    ucx, over_ucx = ("ucx", "ucx:tls=tcp"), ("mpi@openmpi:transport=ucx_shm", "mpi@openmpi:transport=ucx_tcp")
    fabric = "mpi@openmpi:transport=ofi_tcp"
    done = netpipe("shm", "tcp:wait=poll", *ucx, *over_ucx, fabric, *QUICK)
    assert done.code == 0, done.said
    reading = Reading(Run.read(tmp_path / "run.jsonl"))
    below = {loss.variant: loss.below for loss in reading.losses}
    carrier = {one["variant"]: one["below"] for one in done.of("variant")}
    assert carrier["ucx:tls=tcp"] == "tcp"
    assert below[over_ucx[1]] == "ucx:tls=tcp"
    assert below[over_ucx[0]] == ("ucx" if carrier["ucx"] == "shm" else "shm")
    assert below[fabric] == "tcp:wait=poll"
    (stack,) = reading.stacks
    depth = {step.variant: step.depth for step in stack.steps}
    assert depth[over_ucx[1]] == depth["ucx:tls=tcp"] + 1 == depth["tcp:wait=poll"] + 2
    assert f"{fabric} goes through libfabric over tcp, which was not measured" in " ".join(done.said.split())


def test_libfabric_within_a_host_is_called_a_wrong_transport(
    netpipe: Netpipe, with_mpis: Mpis, tmp_path: Path
) -> None:
    """Nobody asked for a transport, and Open MPI left its shared memory for libfabric's TCP."""
    with_mpis.need("openmpi")
    fabric = "OMPI_MCA_pml=cm;OMPI_MCA_mtl=ofi;OMPI_MCA_mtl_ofi_provider_include=tcp!ofi_rxm"
    variant = f"mpi@openmpi:env={fabric}"
    done = netpipe(variant, *QUICK)
    assert done.code == 0, done.said
    judgement = judge(Reading(Run.read(tmp_path / "run.jsonl")))
    (found,) = [one for one in judgement.findings if one.rule == "wrong-transport"]
    assert found.what.startswith(
        f"{variant} sends through libfabric over TCP although its ranks share a host"
    )
    assert "OMPI_MCA_pml=ob1" in found.remedy
