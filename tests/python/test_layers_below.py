# SPDX-License-Identifier: Apache-2.0
"""What stands below each variant: two variants of one module may stand on different layers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from synthetic import point

from netpipe.reading import Reading
from netpipe.reading.layers import STACK, Below, may_stand_below, stack
from netpipe.records import Plan, PlannedVariant, Rank, Run, Variant
from netpipe.render.losses import unmeasured_sentences

TABLES = {"ucx": "shm", "libfabric": "tcp", "tcp": "unix", "unix": "pipe", "pipe": "shm", "shm": "memcpy"}
ON_SHM = ["shm", "memcpy"]
ON_TCP = ["tcp", "unix", "pipe", "shm", "memcpy"]
EVERY = {"memcpy": "", "shm": "memcpy", "pipe": "shm", "unix": "pipe", "tcp": "unix"}


def run(below: Mapping[str, str], versions: Mapping[str, str] | None = None) -> Run:
    """Variants with the layers below that each says, the nearest first, separated by spaces. `versions` is that of a
    module, and of the library below a variant that says more than one layer.
    """
    opened = []
    for name, said in below.items():
        nearest, _, further = said.partition(" ")
        settings = {"below_stands_on": further} if further else {}
        if nearest == "mpi":
            settings["below_version"] = (versions or {}).get(nearest, "Open MPI 4.1.4")
        one = Variant(variant=name, module=name.partition(":")[0], below=nearest or None)
        one.version = (versions or {}).get(one.module)
        one.ranks = [Rank(rank=rank, host="a", settings=dict(settings)) for rank in (0, 1)]
        opened.append(one)
    planned = [PlannedVariant(variant=one.variant, module=one.module) for one in opened]
    return Run([Plan(variants=planned, stack=TABLES), *opened, *(point(name, 8, 100) for name in below)])


def down(of: Run) -> dict[str, list[str]]:
    below = Below(of)
    return {one.variant: list(below.down(one)) for one in of.variants}


def compared(of: Run) -> dict[str, str]:
    return {loss.variant: loss.below for loss in Reading(of).losses}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("shm", "tcp"),
    [
        ("ucx", "ucx:tls=tcp"),
        ("libfabric:provider=shm", "libfabric:provider=tcp;ofi_rxm"),
        ("shmem@x:transport=shm", "shmem@x:transport=tcp"),
    ],
)
def test_two_variants_of_a_module_stand_each_on_its_own_layer(shm: str, tcp: str, turned: bool) -> None:
    both = {shm: "shm", tcp: "tcp"}
    made = run(EVERY | (dict(reversed(both.items())) if turned else both))
    assert {name: down(made)[name] for name in both} == {shm: ON_SHM, tcp: ON_TCP}
    assert {name: compared(made)[name] for name in both} == both
    (tree,) = Reading(made).stacks
    assert {step.variant: step.depth for step in tree.steps if step.variant in both} == {shm: 2, tcp: 5}


@pytest.mark.parametrize("turned", [False, True])
def test_what_stands_on_a_module_alone_stands_on_its_plain_variant(turned: bool) -> None:
    """The chain of an MPI that only knows that UCX is below it, whichever variant of ucx was opened last."""
    both = {"ucx": "shm", "ucx:tls=tcp": "tcp"}
    made = run(EVERY | {"mpi@x": "ucx"} | (dict(reversed(both.items())) if turned else both))
    assert down(made)["mpi@x"] == ["ucx", *ON_SHM]
    assert compared(made)["mpi@x"] == "ucx"


def test_without_a_plain_variant_the_table_decides_among_those_that_differ() -> None:
    settings = {"libfabric:provider=shm": "shm", "libfabric:provider=tcp": "tcp"}
    assert stack(run(settings))["libfabric"] == "tcp"
    neither = {"ucx:tls=tcp": "tcp", "ucx:tls=rc": "verbs"}
    assert stack(run(neither))["ucx"] is None
    assert down(run(neither | {"mpi@x": "ucx"}))["mpi@x"] == ["ucx"]


def test_one_opened_variant_goes_before_the_table_and_older_files_have_theirs() -> None:
    assert stack(run({"ucx:tls=tcp": "tcp"}))["ucx"] == "tcp"
    old = Run([Variant(variant="tcp", module="tcp", below="unix")])
    assert stack(old) == {**STACK, "tcp": "unix"}
    assert down(old) == {"tcp": ["unix", "pipe", "shm", "memcpy"]}


def test_a_variant_may_say_several_layers_below() -> None:
    versions = {"mpi@a": "Open MPI 4.1.4", "mpi@b": "Open MPI 5.0.11"}
    mpis = {
        "mpi@b": "ucx shm",
        "mpi@a": "shm",
        "mpi@a:transport=ucx_tcp": "ucx tcp",
        "mpi@a:transport=ucx_shm": "ucx shm",
    }
    ucx = {"ucx": "shm", "ucx:tls=tcp": "tcp"}
    made = run(EVERY | ucx | mpis | {"armci@a": "mpi ucx shm", "tcgmsg@a": "mpi shm"}, versions)
    assert down(made)["armci@a"] == ["mpi@a", "ucx", *ON_SHM]
    assert down(made)["tcgmsg@a"] == ["mpi@a", *ON_SHM]
    found = compared(made)
    assert found["armci@a"] == "mpi@a:transport=ucx_shm"
    assert found["tcgmsg@a"] == "mpi@a"
    (tree,) = Reading(made).stacks
    depth = {step.variant: step.depth for step in tree.steps}
    assert [depth[name] for name in ("shm", "ucx", "mpi@a:transport=ucx_shm", "armci@a")] == [1, 2, 3, 4]


def test_an_mpi_of_another_library_is_not_the_one_below() -> None:
    made = run(
        EVERY | {"ucx": "shm", "mpi@b": "ucx shm", "armci@a": "mpi ucx shm"}, {"mpi@b": "Open MPI 5.0.11"}
    )
    assert down(made)["armci@a"] == ["mpi", "ucx", *ON_SHM]
    (loss,) = (one for one in Reading(made).losses if one.variant == "armci@a")
    assert (loss.below, loss.absent, loss.through) == ("ucx", ("mpi",), ("mpi", "ucx"))
    (sentence,) = unmeasured_sentences([loss])
    assert sentence.startswith("armci@a goes through mpi over ucx, which was not measured:")


@pytest.mark.parametrize(
    ("asked", "other", "may"),
    [
        ("", "", True),
        ("", "tcp", True),
        ("tcp", "tcp", True),
        ("tcp", "", False),
        ("tcp", "shm", False),
        ("ucx shm", "ucx", True),
        ("ucx", "ucx shm", True),
        ("ucx shm", "ucx tcp", False),
    ],
)
def test_the_layer_below_must_stand_on_the_same(asked: str, other: str, may: bool) -> None:
    assert may_stand_below(tuple(asked.split()), tuple(other.split())) is may
