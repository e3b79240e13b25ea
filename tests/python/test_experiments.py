# SPDX-License-Identifier: Apache-2.0
"""Experiments that are a setting of the library itself: which variant confirms a finding, and where there is none."""

from __future__ import annotations

import msgspec
import pytest

from netpipe.findings import Finding, crowded, judge
from netpipe.findings.curves import backing_file
from netpipe.findings.curves.waiting import time_slice
from netpipe.reading import Reading
from netpipe.records import Plan, Run

OPENMPI5, OPENMPI4, INTEL = "Open MPI 5.0.11", "Open MPI 4.1.4", "Intel MPI 2021.13"
MPICH = "MPICH 5.0.2"


def of(made: Run, version: str, options: dict[str, str]) -> Run:
    """The run, whose variants are of this version of a library, on shared memory, with these options."""
    for plan in made.plans:
        plan.variants[:] = [msgspec.structs.replace(one, options=options) for one in plan.variants]
    for variant in made.variants:
        variant.version, variant.below = version, "shm"
    return made


def found_by(rule: str, made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == rule]


def one_by(rule: str, made: Run) -> Finding:
    (found,) = found_by(rule, made)
    return found


def remedied(found: Finding) -> str | None:
    return found.confirm.remedied if found.confirm else None


# ---------------------------------------------------------------------------------------------------- backing-file


@pytest.mark.parametrize(
    ("version", "env", "experiment", "remedy"),
    [
        (
            OPENMPI5,
            "",
            "env=OMPI_MCA_btl_sm_backing_directory=/dev/shm",
            "OMPI_MCA_btl_sm_backing_directory=/dev/shm",
        ),
        (
            OPENMPI5,
            "A=1;OMPI_MCA_btl_sm_backing_directory=/var/tmp",
            "env=A=1;OMPI_MCA_btl_sm_backing_directory=/dev/shm",
            "OMPI_MCA_btl_sm_backing_directory=/dev/shm",
        ),
        (
            OPENMPI4,
            "",
            "env=OMPI_MCA_btl_vader_backing_directory=/dev/shm",
            "OMPI_MCA_btl_vader_backing_directory=/dev/shm",
        ),
        # Told already: the file on the disk is another one.
        (OPENMPI5, "OMPI_MCA_btl_sm_backing_directory=/dev/shm", None, "TMPDIR"),
        (MPICH, "", None, "TMPDIR"),
    ],
)
def test_files_in_memory_are_the_experiment_for_files_on_a_disk(
    version: str, env: str, experiment: str | None, remedy: str
) -> None:
    found = one_by("backing-file", of(backing_file.fires(), version, {"env": env}))
    assert remedied(found) == (None if experiment is None else f"mpi@x:{experiment}")
    assert found.confirm is None or (found.confirm.pattern, found.confirm.sizes) == ("pingpong", [8])
    assert remedy in found.remedy


def test_of_an_older_run_the_remedy_is_still_a_folder_in_memory() -> None:
    """It does not say what the messages stood on."""
    made = of(backing_file.fires(), OPENMPI5, {"env": ""})
    for variant in made.variants:
        variant.below = None
    found = one_by("backing-file", made)
    assert found.confirm is None
    assert "/dev/shm" in found.remedy


# --------------------------------------------------------------------------------------------- ranks take turns

KEEPS, GIVES = "OMPI_MCA_mpi_yield_when_idle=0", "OMPI_MCA_mpi_yield_when_idle=1"
YIELDING = [
    (OPENMPI5, {"yield": "no", "env": ""}, "mpi@x:yield=yes"),
    (OPENMPI4, {"yield": "no"}, "mpi@x:yield=yes"),
    (INTEL, {"yield": "no"}, "mpi@x:yield=yes"),
    # A variable wins over the option, and is left out.
    (OPENMPI5, {"yield": "auto", "env": KEEPS}, "mpi@x:yield=yes"),
    (OPENMPI5, {"yield": "no", "env": GIVES}, None),
    (OPENMPI5, {"yield": "auto", "env": ""}, None),  # yields where ranks share processors
    (OPENMPI5, {"yield": "yes"}, None),
    (MPICH, {"yield": "no"}, None),  # polls all the same
    (OPENMPI5, {}, None),
]


@pytest.mark.parametrize(("version", "options", "experiment"), YIELDING)
def test_yielding_is_the_experiment_for_ranks_that_wait_for_time_slices(
    version: str, options: dict[str, str], experiment: str | None
) -> None:
    found = one_by("time-slice", of(time_slice.fires(), version, options))
    assert remedied(found) == experiment
    assert ("; or yield=yes (" in found.remedy) == (experiment is not None)


def test_a_layer_of_netpipe_itself_sleeps_instead() -> None:
    found = one_by("time-slice", of(time_slice.fires(), "", {"wait": "poll"}))
    assert remedied(found) == "mpi@x:wait=block"
    assert "; or wait=block" in found.remedy


def with_plan(made: Run) -> Run:
    """The run of a job, whose plan names its variants."""
    (plan,) = made.plans
    (variant,) = made.variants[-1:]
    named = msgspec.structs.replace(plan.variants[0], variant=variant.variant, module=variant.module)
    made.plans[:] = [Plan(variants=[named], patterns=["collective"], target=0.01)]
    made.variants[:] = [variant]
    return made


@pytest.mark.parametrize(("version", "options", "experiment"), YIELDING)
def test_yielding_is_the_experiment_for_a_job_with_too_many_ranks(
    version: str, options: dict[str, str], experiment: str | None
) -> None:
    found = one_by("oversubscribed-job", of(with_plan(crowded.fires()), version, options))
    assert remedied(found) == (experiment and experiment.replace("@x", "@mpich"))
    assert found.confirm is None or (found.confirm.pattern, found.confirm.sizes) == ("collective", [8])
    assert ("; or yield=yes (" in found.remedy) == (experiment is not None)


def test_a_job_that_was_told_not_to_yield_is_a_finding_of_its_own() -> None:
    """The others, which have the same numbers, are one."""
    made = with_plan(crowded.fires())
    (plan,), (variant,), (point,) = made.plans, made.variants, made.points
    for name in ("mpi@a", "mpi@b"):
        plan.variants.append(msgspec.structs.replace(plan.variants[0], variant=name, module=name))
        made.variants.append(msgspec.structs.replace(variant, variant=name, module=name))
        made.points.append(msgspec.structs.replace(point, variant=name))
    of(made, OPENMPI5, {"yield": "auto"})
    assert [one.variant for one in found_by("oversubscribed-job", made)] == [None]
    plan.variants[1] = msgspec.structs.replace(plan.variants[1], options={"yield": "no"})
    found = {one.variant: one for one in found_by("oversubscribed-job", made)}
    assert set(found) == {None, "mpi@a"}
    assert remedied(found["mpi@a"]) == "mpi@a:yield=yes"
    assert found[None].what.startswith("mpi@mpich and mpi@b were measured")
    assert "with Open MPI: OMPI_MCA_mpi_yield_when_idle=1" in found[None].remedy
