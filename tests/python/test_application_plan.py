# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures that are imported and then named as parameters)
"""What a request for application kernels stands for, and what is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from two_libraries import Here, here, refused  # noqa: F401

from netpipe.applications import listing, plan
from netpipe.failure import FAILED, UNAVAILABLE, USAGE, Failure
from netpipe.libraries.adding import programs
from netpipe.remembered import remembered

SOURCES = Path(__file__).resolve().parents[2] / "src" / "apps"

# ---------------------------------------------------------------------------------------------------- what is run


def test_a_kernel_runs_in_its_smallest_class_over_every_library_and_transport(here: Here) -> None:
    assert here.texts("cg", ranks=(2,)) == [
        f"cg class S on 2 ranks over mpi@{library}:transport={transport}"
        for library in ("one", "two")
        for transport in ("shm", "tcp")
    ]


def test_all_is_every_kernel_in_the_classes_that_it_has(here: Here) -> None:
    assert here.texts("all", ranks=(4,), on=("mpi@one",)) == [
        f"{name} on 4 ranks over mpi@one" for name in ("cg class S", "sp class S", "sweep3d class 20")
    ]
    assert here.texts("all", ranks=(4,), on=("mpi@one",), classes=("W", "50", "20")) == [
        f"{name} on 4 ranks over mpi@one"
        for name in ("cg class W", "sp class W", "sweep3d class 50", "sweep3d class 20")
    ]


def test_lists_of_settings_are_several_kernels_and_several_variants(here: Here) -> None:
    found = here.plan("sweep3d:mk=1|10,mmi=3", ranks=(2,), on=("mpi@one:transport=shm|tcp",))
    assert [task.cell.text for task in found.tasks] == [
        f"sweep3d:mk={planes},mmi=3 class 20 on 2 ranks over mpi@one:transport={transport}"
        for planes in (1, 10)
        for transport in ("shm", "tcp")
    ]
    assert found.tasks[0].words[1:] == ("--class", "20", "--pin", "0,1", "--mk", "1", "--mmi", "3")
    assert found.tasks[0].environment == {"SETTING": "mpi@one:transport=shm 2"}


def test_what_is_named_twice_runs_once(here: Here) -> None:
    assert len(here.texts("cg", "cg", "all", ranks=(2,), on=("mpi@one", "mpi@one"))) == 2  # sp has no 2 ranks


def test_a_class_may_be_written_small(here: Here) -> None:
    assert here.texts("cg", classes=("w",), ranks=(2,), on=("mpi@one",)) == [
        "cg class W on 2 ranks over mpi@one"
    ]


def test_a_number_of_ranks_that_a_kernel_cannot_have_is_left_out_with_the_reason(here: Here) -> None:
    found = here.plan("cg", "sp", ranks=(2, 3, 4), on=("mpi@one",))
    assert [(task.cell.name, task.cell.ranks) for task in found.tasks] == [("cg", 2), ("cg", 4), ("sp", 4)]
    assert found.notes == (
        "cg class S is left out on 3 ranks: it needs a power of two of ranks",
        "sp class S is left out on 2 and 3 ranks: it needs a square number of ranks",
    )


def test_a_kernel_is_asked_once_and_not_compiled_for_other_libraries_in_vain(here: Here) -> None:
    here.plan("cg", ranks=(2, 4))
    asked = (here.folder.parent / "mpi@one-cg.asked").read_text().splitlines()
    assert asked == ["--class S --plan 2", "--class S --plan 4"]
    here.built.clear()
    assert "square" in refused(USAGE, lambda: here.plan("sp", ranks=(2,)))
    assert here.built == [("sp", "mpi@one")]


def test_where_nothing_shall_be_compiled_only_kernels_that_were_are_asked(here: Here) -> None:
    request = plan.Request(("cg", "sp"), ("mpi@one", "mpi@two"), ranks=(4,))
    found = plan.plan(request, build=False)
    assert here.built == []
    assert found.tasks == ()
    assert found.notes == ("cg and sp are compiled when measured, and only then known to fit here",)
    here.plan("cg", on=("mpi@two",))
    begun = list(here.built)
    found = plan.plan(request, build=False)
    assert [task.cell.text for task in found.tasks] == ["cg class S on 4 ranks over mpi@two"]
    assert found.notes == ("sp is compiled when measured, and only then known to fit here",)
    here.plan("sp", on=("mpi@one",), ranks=(4,))
    assert here.built[: len(begun)] == begun
    assert "square" in refused(
        USAGE, lambda: plan.plan(plan.Request(("sp",), ("mpi@one",), ranks=(2,)), build=False)
    )


def test_several_requests_ask_a_kernel_once_while_one_thing_is_planned(here: Here) -> None:
    def asked() -> list[str]:
        return [line for path in here.folder.parent.glob("*.asked") for line in path.read_text().splitlines()]

    with remembered():
        for library in ("mpi@one", "mpi@two"):
            here.plan("cg", on=(library,), ranks=(2, 4))
    assert asked() == ["--class S --plan 2", "--class S --plan 4"], "MPI has no part in it"
    here.plan("cg", on=("mpi@one",), ranks=(2,))
    assert len(asked()) == 3, "the next thing asks again"


def test_what_the_plan_is_at_is_told(here: Here) -> None:
    here.plan("cg", on=("mpi@two",))
    assert here.said[0] == "compiling cg for mpi@two"


# ------------------------------------------------------------------------------------------------ where ranks run


def test_each_rank_is_bound_to_a_processor_of_its_own(here: Here) -> None:
    (task,) = here.plan("cg", ranks=(4,), on=("mpi@one",)).tasks
    assert (task.pin, task.oversubscribed) == ((0, 1, 2, 3), False)
    assert task.words[-2:] == ("--pin", "0,1,2,3")


def test_ranks_that_would_share_a_processor_are_not_bound(here: Here) -> None:
    here.processors = 2
    two, four = here.plan("cg", ranks=(2, 4), on=("mpi@one",)).tasks
    assert (two.pin, two.oversubscribed) == ((0, 1), False)
    assert (four.pin, four.oversubscribed) == ((None,) * 4, True)
    assert "--pin" not in four.words


def test_processors_are_named_or_left_to_the_kernel(here: Here) -> None:
    found = here.plan("cg", ranks=(2,), on=("mpi@one",), pin="3,1")
    assert (found.tasks[0].pin, found.placement) == ((3, 1), "3,1")
    assert found.tasks[0].environment == {"SETTING": "mpi@one 2 3,1"}, "a library polls or yields by it"
    (free,) = here.plan("cg", ranks=(2,), on=("mpi@one",), pin="none").tasks
    assert (free.pin, free.oversubscribed, "--pin" in free.words) == ((None, None), False, False)
    (shared,) = here.plan("cg", ranks=(2,), on=("mpi@one",), pin="0,0").tasks
    assert (shared.pin, shared.oversubscribed) == ((0, 0), True)


def test_a_placement_that_cannot_be_is_refused_before_anything_is_compiled(here: Here) -> None:
    said = refused(USAGE, lambda: here.plan("cg", ranks=(2, 4), pin="0,1"))
    assert said == "pin 0,1 names 2 processors for 4 ranks"
    assert here.built == []


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        ("sweep", "there is no kernel 'sweep'; did you mean 'sweep3d'?"),
        ("linpack", "there is no kernel 'linpack'; there are cg, sp, sweep3d, and all"),
        ("", "there is no kernel ''; there are cg, sp, sweep3d, and all"),
        ("cg:mk=3", "cg has no setting 'mk'; it has none"),
        ("all:mk=3", "cg has no setting 'mk'; it has none"),
        ("sweep3d:planes=3", "sweep3d has no setting 'planes'; it has mk, mmi"),
        ("sweep3d:mk", "sweep3d:mk: 'mk' is not mk=NUMBER"),
        ("sweep3d:mk=-1", "sweep3d:mk=-1: 'mk=-1' is not mk=NUMBER"),
        ("sweep3d:mk=1k", "sweep3d:mk=1k: 'mk=1k' is not mk=NUMBER"),
        ("sweep3d:mk=99999999999", "sweep3d:mk=99999999999: 'mk=99999999999' is not mk=NUMBER"),
    ],
)
def test_a_kernel_that_there_is_not_is_refused(here: Here, kernel: str, sentence: str) -> None:
    assert refused(USAGE, lambda: here.plan(kernel)) == sentence


def test_a_class_that_a_kernel_does_not_have_is_refused(here: Here) -> None:
    said = refused(USAGE, lambda: here.plan("cg", classes=("S", "X")))
    assert said == "there is no class 'X'; cg has S W A"
    said = refused(USAGE, lambda: here.plan("cg", "sweep3d", classes=("W",)))
    assert said == "sweep3d has no class W; it has 20 50"


def test_a_setting_that_the_kernel_refuses_is_told(here: Here) -> None:
    said = refused(USAGE, lambda: here.plan("sweep3d:mk=99", ranks=(2,)))
    assert said == "sweep3d:mk=99 class 20 is left out on 2 ranks: mk must be at most the number of planes"


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        ("tcp", "'tcp' is no MPI library that was added, and the kernels are MPI programs; choose one"),
        ("one:transport=tcp", "; did you mean 'mpi@one'?"),
        ("", "'' is no MPI library"),
        ("mpi@three", "no module was added as 'mpi@three'"),
        ("mpi@one:ranks=4", "mpi@one:ranks=4: --ranks says how many processes there are; leave ranks=4 out"),
        ("mpi@one:transport=tcp,ranks=4#2", "leave ranks=4 out"),
        ("mpi@one:op=isend", "mpi@one:op=isend: op=isend says how netpipe calls the library"),
        ("mpi:op=isend", "mpi@one:op=isend and mpi@two:op=isend are left out: op=isend says how"),
        ("mpi:eager=1k", "it has no option 'eager'"),
    ],
)
def test_a_library_that_kernels_cannot_have_is_refused(here: Here, variant: str, words: str) -> None:
    assert words in refused(USAGE, lambda: here.plan("cg", on=(variant,)))


def test_a_library_that_simulates_is_refused(here: Here) -> None:
    here.write("mpi@simgrid", version="SimGrid 3.36", family="smpi")
    assert "simulates its machine" in refused(USAGE, lambda: here.plan("cg", on=("mpi@simgrid",)))
    assert not any("simgrid" in text for text in here.texts("cg"))


def test_without_any_library_it_says_how_to_add_one(here: Here) -> None:
    for path in here.folder.glob("*.module"):
        path.unlink()
    said = refused(UNAVAILABLE, lambda: here.plan("cg"))
    assert "netpipe modules add mpi --mpicc PATH" in said


def test_too_little_memory_is_refused_with_the_numbers(here: Here) -> None:
    assert len(here.texts("cg", classes=("A",), ranks=(8,), on=("mpi@one",))) == 1
    here.free = 7 << 30
    said = refused(UNAVAILABLE, lambda: here.plan("cg", classes=("A",), ranks=(2, 8), on=("mpi@one",)))
    assert said == "cg class A on 8 ranks needs 8 GiB of memory, and there are 7 GiB; choose a smaller class"


@pytest.mark.parametrize("fault", ["compiler", "launcher", "description"])
def test_a_library_that_does_not_work_is_left_out_or_refused_by_name(here: Here, fault: str) -> None:
    if fault == "compiler":
        here.broken["mpi@one"] = Failure(UNAVAILABLE, "/gone/mpicc does not exist any more")
    elif fault == "launcher":
        here.write("mpi@one", launcher="/gone/mpirun")
    else:
        (here.folder / "mpi@one.module").write_text("netpipe-module 7\n")
    found = here.plan("cg", ranks=(2,))
    assert [task.cell.variant for task in found.tasks] == ["mpi@two:transport=shm", "mpi@two:transport=tcp"]
    assert len(found.notes) == 1
    assert found.notes[0].startswith("mpi@one is left out: ")
    assert list(found.libraries) == ["mpi@two"]
    why = found.notes[0].partition(": ")[2]
    assert why in refused(UNAVAILABLE, lambda: here.plan("cg", on=("mpi@one:transport=tcp", "mpi")))


def test_when_no_library_works_every_reason_is_told(here: Here) -> None:
    for name in ("mpi@one", "mpi@two"):
        here.broken[name] = Failure(UNAVAILABLE, f"the compiler of {name} is gone")
    said = refused(UNAVAILABLE, lambda: here.plan("cg"))
    assert "the compiler of mpi@one is gone" in said
    assert "the compiler of mpi@two is gone" in said


def test_a_compiler_that_fails_at_a_later_kernel_takes_its_library_out_of_all(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = programs.application

    def fails_later(builder: Any, name: str) -> Path:
        if (builder.name, name) == ("mpi@two", "sp"):
            raise Failure(UNAVAILABLE, "internal compiler error")
        return build(builder, name)

    monkeypatch.setattr(programs, "application", fails_later)
    found = here.plan("cg", "sp", ranks=(4,))
    assert {task.cell.variant.partition(":")[0] for task in found.tasks} == {"mpi@one"}
    assert found.notes == ("mpi@two is left out: internal compiler error",)


def test_a_program_that_does_not_work_is_no_usage_error(here: Here, tmp_path: Path) -> None:
    def ask(text: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return refused(UNAVAILABLE, lambda: plan.ask(path, {}, "S", 2, {}))

    assert "libmpi.so: cannot open" in ask("echo 'libmpi.so: cannot open' >&2; exit 127")
    assert "ended with exit code 1" in ask("exit 1")
    assert "invalid JSON: 'hello" in ask("echo hello")


# ---------------------------------------------------------------------------------------------------- the kernels


def test_every_kernel_says_what_it_is() -> None:
    found = listing.kernels()
    assert set(found) == {"bt", "cg", "ep", "ft", "is", "lu", "mg", "sp", "sweep3d"}
    for one in found.values():
        assert 10 < len(one.summary) <= 36, "a line of the list has 80 columns"
        assert 5 < len(one.ranks) <= 21
        # The same classes and settings as the program itself has.
        text = (SOURCES / f"{one.name}.c").read_text()
        assert f'"{" ".join(one.classes)}"' in text
        assert f'"{" ".join(one.settings)}"' in text


def test_a_source_that_says_nothing_is_named(here: Here) -> None:
    path = programs.source_folder("apps") / "mine.c"
    path.write_text("int main(void) { return 0; }\n")
    assert f"{path} does not say its classes" in refused(FAILED, listing.kernels)
