# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netpipe.failure import UNAVAILABLE, USAGE, Failure, NotHere
from netpipe.launch.variants import added, expand, reaching


def module(name: str, transports: str = "auto|shm|tcp", **more: Any) -> dict[str, Any]:
    options = [{"name": "transport", "choices": transports.split("|")}, {"name": "eager", "choices": []}]
    return {"name": name, "launched": "@" in name, "options": options, "available": True, **more}


LISTING = {
    "modules": [
        module("tcp"),
        module("mpi@one"),
        module("mpi@two", "auto|ucx"),
        {**module("mpi@three"), "options": [{"name": "rpi", "choices": ["tcp", "usysv"]}]},
    ]
}


def test_mpi_alone_is_every_library_over_every_transport_that_it_can_choose() -> None:
    found, notes = expand(["tcp", "mpi"], LISTING)
    assert found == ("tcp", "mpi@one:transport=shm", "mpi@one:transport=tcp", "mpi@two", "mpi@three")
    assert not notes


def test_between_hosts_mpi_alone_is_every_library_by_its_own_choice_and_over_tcp() -> None:
    found, _ = expand(["mpi"], LISTING, far=True)
    assert found == ("mpi@one", "mpi@one:transport=tcp", "mpi@two", "mpi@three")


def test_shared_memory_of_a_library_reaches_no_other_host() -> None:
    asked = ("tcp", "shm:transport=shm", "mpi@one:eager=64k,transport=shm#2", "mpi@one")
    there, notes = reaching(asked, named=False)
    assert there == ("tcp", "shm:transport=shm", "mpi@one")
    assert notes == [
        "mpi@one:eager=64k,transport=shm#2 is left out: shared memory ends at the host",
    ]
    with pytest.raises(Failure, match="shared memory ends at the host; choose another transport") as near:
        reaching(asked, named=True)
    assert near.value.exit_code == UNAVAILABLE
    assert reaching(("mpi@one",), named=True) == (("mpi@one",), [])


def test_mpi_with_settings_is_every_library_that_has_them() -> None:
    found, notes = expand(["mpi:eager=64k"], LISTING, lambda _: "")
    assert found == ("mpi@one:eager=64k", "mpi@two:eager=64k")
    assert notes == ["mpi@three is left out of mpi:eager=64k: it has no option 'eager'"]


def test_mpi_with_an_option_of_every_variant_is_every_library() -> None:
    listing = {
        "modules": [module("mpi@one"), module("mpi@two", transports="auto|tcp")],
        "variant_options": [{"name": "ranks"}],
    }
    found, notes = expand(["mpi:ranks=4"], listing, lambda _: "")
    assert (found, notes) == (("mpi@one:ranks=4", "mpi@two:ranks=4"), [])


def test_mpi_leaves_out_libraries_that_cannot_take_a_value() -> None:
    why = {"mpi@two:transport=ucx": "module mpi@two cannot take transport=ucx: it was built without UCX"}
    found, notes = expand(["mpi:transport=ucx"], LISTING, lambda variant: why.get(variant, ""))
    assert found == ("mpi@one:transport=ucx",)
    assert notes[0] == f"mpi@two is left out of mpi:transport=ucx: {why['mpi@two:transport=ucx']}"
    with pytest.raises(
        NotHere, match="no library that was added can take this; mpi@three is left out"
    ) as none:
        expand(["mpi:transport=ucx"], LISTING, lambda _: "it cannot")
    assert none.value.exit_code == USAGE


def test_what_names_its_library_stays_as_it_is() -> None:
    assert expand(["mpi@one", "mpi", "mpi@one:transport=shm"], LISTING)[0][0] == "mpi@one"
    assert len(expand(["mpi", "mpi"], LISTING)[0]) == 4


def test_no_library_and_no_such_option_are_said() -> None:
    with pytest.raises(Failure, match="no library for MPI was added") as none:
        expand(["mpi"], {"modules": [module("tcp")]})
    assert none.value.exit_code == UNAVAILABLE
    with pytest.raises(Failure, match="no library that was added can take this") as unknown:
        expand(["mpi:colour=red"], LISTING)
    assert unknown.value.exit_code == USAGE


def test_a_default_run_takes_the_libraries_whose_files_are_there(tmp_path: Path) -> None:
    here = {}
    for name, launcher, file in (
        ("mpi@one", "openmpi /bin/sh", "/bin/sh"),
        ("mpi@two", "openmpi /nowhere/mpirun", "/bin/sh"),
        ("mpi@three", "openmpi /bin/sh", "/nowhere/mpi@three.so"),
        ("mpi@not-real", "smpi /bin/sh", "/bin/sh"),
    ):
        path = tmp_path / f"{name}.module"
        path.write_text(f"netpipe-module 1\nname {name}\nfile {file}\nversion 1\nlauncher {launcher}\n")
        here[name] = str(path)
    listing = {"modules": [module(name, description=path) for name, path in here.items()]}
    assert added(listing) == ["mpi@one:transport=shm", "mpi@one:transport=tcp"]
    found, _ = expand(["mpi"], listing)
    assert {variant.partition(":")[0] for variant in found} == {"mpi@one", "mpi@two", "mpi@three"}
    assert expand(["mpi@not-real"], listing)[0] == ("mpi@not-real",)
