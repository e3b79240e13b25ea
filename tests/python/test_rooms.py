# SPDX-License-Identifier: Apache-2.0
"""The rooms of the design: who may know whom, no circles, nothing too large. docs/decisions/0010-rooms.md draws them.

The exceptions are debts, each with its reason. An exception that no longer occurs is a failure too.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import imports  # noqa: E402  (the folder has to be on the path first)

PYTHON = ROOT / "python"
SRC = ROOT / "src"

# ----------------------------------------------------------------------------------------------------------- Python

# What each room may know besides itself; a file directly in netpipe/ is a room of its own. Order: from the bottom up.
# fmt: off
PYTHON_ROOMS: dict[str, set[str]] = {
    "failure": set(),
    "locks": set(),  # of files and folders
    "escapes": set(),  # control characters in foreign text
    "streams": {"escapes"},  # the standard ones: sentences for people, and what is closed
    "contents": {"failure"},  # files of others, up to a bound
    "columns": set(),  # the names that fields of records have in a table
    "records": {"columns", "contents"},
    "frames": {"records", "columns"},
    "schema": {"records"},
    "units": set(),  # numbers as people read them
    "netpipe": {"records", "frames"},  # netpipe/__init__.py: what a notebook imports
    "remembered": {"failure"},  # answers that are asked for once while one thing is planned
    "native": {"failure", "remembered"},
    "events": {"records"},  # what a worker says while it measures
    "run_file": {"records", "locks", "failure"},
    "profiles": {"contents", "units"},  # of applications: their file, and what is read off it
    "kernels": {"contents"},  # results of application kernels, the same
    "reading": {"records", "columns", "escapes", "units"},
    "history": {"reading", "records", "failure"},  # runs of a host over time: their files and an index
    "peers": set(),  # what other programs print
    "theory": {"records", "units", "failure"},  # models that are drawn beside what was measured
    "libraries": {"native", "remembered", "locks", "failure"},
    "findings": {"reading", "records", "units", "libraries"},  # what a library calls its settings
    "prediction": {"profiles", "reading", "records", "units"},
    "launch": {"libraries", "native", "events", "units", "failure"},
    "profiling": {"profiles", "launch", "libraries", "units",
                  "failure"},  # runs a program, and gathers its profile
    "applications": {"kernels", "profiles", "launch", "libraries", "native", "remembered", "units",
                     "failure"},  # runs the kernels
    "lab": {"native", "units", "failure"},  # virtual clusters on this machine
    "render": {"findings", "prediction", "profiles", "kernels", "history", "theory", "reading", "records",
               "columns", "frames", "events", "units", "escapes", "contents", "failure"},
    "measurement": {"launch", "native", "records", "events", "run_file", "failure"},
    "session": {"measurement", "launch", "libraries", "native", "reading", "records", "events", "run_file", "theory",
                "failure", "netpipe"},
    "tuning": {"session", "launch", "libraries", "native", "render", "findings", "prediction", "profiles", "reading",
               "records", "units", "failure"},
    "command": {"session", "libraries", "native", "render", "findings", "reading", "records", "failure", "contents",
                "streams", "units"},
    "cli": {"command", "session", "launch", "libraries", "native", "render", "findings", "tuning", "prediction",
            "profiles", "profiling", "kernels", "applications", "lab", "history", "peers", "reading", "records",
            "events", "run_file", "failure", "netpipe", "units", "escapes", "contents", "streams", "remembered",
            "theory"},
    "notebook": {"command", "session", "render", "findings", "reading", "records", "frames", "failure", "netpipe"},
    "__main__": {"cli"},
}

PYTHON_DEBTS: dict[str, str] = {}
PYTHON_CIRCLES: dict[str, str] = {}
# fmt: on


def python_room(module: str) -> str:
    return module.split(".")[1] if "." in module else "netpipe"


@functools.cache
def python_edges() -> dict[str, set[str]]:
    sources = imports.python_sources(PYTHON)
    return {
        name: {reference.target for reference in imports.imports(path, name, sources)}
        for name, path in sources.items()
    }


def arrows(edges: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    return ((source, target) for source, targets in sorted(edges.items()) for target in sorted(targets))


def assert_debts(found: Iterable[str], debts: Mapping[str, object]) -> None:
    found = set(found)
    assert found - set(debts) == set(), "these are new: find another way, or record the debt with its reason"
    assert set(debts) - found == set(), "these are paid: take them off the list"


def test_every_python_room_is_drawn() -> None:
    assert {python_room(module) for module in imports.python_sources(PYTHON)} <= set(PYTHON_ROOMS)


def test_the_decision_has_the_same_table_of_python_rooms() -> None:
    page = (ROOT / "docs" / "decisions" / "0010-rooms.md").read_text(encoding="utf-8")
    after = page.partition("| Python room | may import |")[2].partition("\n\n")[0]
    drawn = {}
    for row in after.splitlines()[2:]:
        room, known = row.strip("|").split("|")
        drawn[re.findall(r"`(\w+)`", room)[0]] = set(re.findall(r"`(\w+)`", known))
    assert list(drawn) == list(PYTHON_ROOMS), "in the same order"
    assert drawn == PYTHON_ROOMS


def test_no_python_room_knows_one_above_it() -> None:
    order = list(PYTHON_ROOMS)
    for room, known in PYTHON_ROOMS.items():
        assert {other for other in known if order.index(other) > order.index(room)} == set(), room


@pytest.mark.gate
def test_python_rooms_know_only_what_they_may() -> None:
    forbidden = []
    for source, target in arrows(python_edges()):
        here, there = python_room(source), python_room(target)
        if there != here and there not in PYTHON_ROOMS[here]:
            rooms = f"{here} -> {there}"
            forbidden.append(rooms if rooms in PYTHON_DEBTS else f"{source} -> {target}")
    assert_debts(forbidden, PYTHON_DEBTS)


@pytest.mark.gate
def test_python_modules_import_each_other_in_no_circle() -> None:
    assert_debts((" ".join(circle) for circle in imports.circles(python_edges())), PYTHON_CIRCLES)


# Commands that do what another command does; what several have in common belongs into netpipe.command.
COMMAND_DEBTS = {
    "explain -> run": "--confirm measures as netpipe run does, by its options",
    "suite -> apps": "a run of a suite is what the command of its kind does, by that command's options",
    "suite -> check": "the same, of [[check]]",
    "suite -> export": "the same, of results that are tables",
    "suite -> memory": "the same",
    "suite -> plot": "the same, of results that are figures",
    "suite -> run": "the same",
}


def test_commands_import_no_other_command() -> None:
    found = set()
    for source, target in arrows(python_edges()):
        here, there = source.split("."), target.split(".")
        if here[1:2] == there[1:2] == ["cli"] and len(here) > 2 and len(there) > 2 and here[2] != there[2]:
            found.add(f"{here[2]} -> {there[2]}")
    assert_debts(found, COMMAND_DEBTS)


# The rooms inside tuning; its own files may know all of them.
TUNING_ROOMS: dict[str, set[str]] = {
    "search": set(),  # pure
    "measuring": {"search"},
    "library": {"search"},
    "formats": {"search"},
    "system": {"search", "measuring"},
}


def test_rooms_of_tuning_know_only_what_they_may() -> None:
    forbidden = []
    for source, target in arrows(python_edges()):
        here, there = source.split("."), target.split(".")
        if here[1:2] != ["tuning"] or here[2:3] == [] or here[2] not in TUNING_ROOMS:
            continue
        if there[1:2] == ["tuning"] and there[2:3] not in (
            [],
            [here[2]],
            *([one] for one in TUNING_ROOMS[here[2]]),
        ):
            forbidden.append(f"{source} -> {target}")
    assert forbidden == []
    assert any(edge[0].startswith("netpipe.tuning.measuring") for edge in arrows(python_edges()))


@pytest.mark.parametrize("room", ["records", "reading", "findings", "render"])
def test_rooms_that_look_start_no_process(room: str) -> None:
    for path in [PYTHON / "netpipe" / f"{room}.py", *(PYTHON / "netpipe" / room).rglob("*.py")]:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "import subprocess" not in text, path
            assert "os.fork" not in text, path


# What a family says of its library; nothing of it looks for a library, or starts one.
TOLD_OF_LIBRARIES = {"netpipe.libraries", "netpipe.libraries.settings", "netpipe.libraries.adding.layers"}


def test_findings_read_of_libraries_what_families_say() -> None:
    read = {
        target
        for source, target in arrows(python_edges())
        if python_room(source) == "findings" and python_room(target) == "libraries"
    }
    assert read == TOLD_OF_LIBRARIES


# -------------------------------------------------------------------------------------------------------------- C++

MODULE_H = "module.h"
CPP_ROOMS: dict[str, set[str]] = {
    "base": set(),
    "record": {"base"},
    "sampling": {"base"},
    "link": {"base", MODULE_H},  # NP_ABI: two hosts compare it
    "machine": {"base", "record"},
    "layer": {"base", MODULE_H},
    "patterns/kit": {"base", "machine", "layer", MODULE_H},
    "catalog": {"base", "layer", "patterns/kit", MODULE_H},
    "plan": {"base", "record", "sampling", "machine", "catalog", "patterns/kit"},
    "engine": {
        "base",
        "record",
        "sampling",
        "machine",
        "link",
        "layer",
        "catalog",
        "plan",
        "patterns/kit",
        MODULE_H,
    },
    "patterns": {"base", "machine", "layer", "patterns/kit", MODULE_H},
    "serving": {"base", "record", "machine", "link", "catalog", "plan", "engine"},
    "worker": {
        "base",
        "record",
        "sampling",
        "machine",
        "link",
        "layer",
        "catalog",
        "plan",
        "engine",
        "serving",
        "patterns/kit",
        MODULE_H,
    },
    "modules/kit": {MODULE_H},
    "relay": {"base", "sampling"},  # the network of `netpipe lab`, a program of its own
    # Built with a library's compiler, and linked with nothing of ours:
    "apps": set(),
    "profiler": set(),
}
MPI_PROGRAMS = [SRC / "apps", SRC / "profiler"]  # they have mpi.h as every program of a user has
A_MODULE = {"modules/kit", MODULE_H}  # each folder of src/modules: these, and itself

CPP_DEBTS = {
    f"modules/{layer}/{layer}.c -> {layer}_families.h": "written when a library is added: the headers of the families"
    for layer in ("mpi", "armci", "tcgmsg")
}


def cpp_room(path: str) -> str:
    parts = path.split("/")
    if parts[0] == "netpipe":
        return MODULE_H
    deep = parts[0] == "modules" or parts[:2] == ["patterns", "kit"]
    return "/".join(parts[:2]) if deep else parts[0]


@functools.cache
def cpp_edges() -> dict[str, set[str]]:
    """Files below src/ to the project's headers that they include, as paths below src/ or include/."""
    found = imports.cpp_edges(SRC)
    return {below(file): {below(header) for header in headers} for file, headers in found.items()}


def below(path: str) -> str:
    return path.removeprefix("src/").removeprefix("include/")


def test_every_cpp_room_is_drawn() -> None:
    rooms = {cpp_room(path) for path in cpp_edges()}
    assert {room for room in rooms if not room.startswith("modules/")} <= set(CPP_ROOMS)


def test_no_cpp_room_knows_one_above_it() -> None:
    order = [MODULE_H, *CPP_ROOMS]
    for room, known in CPP_ROOMS.items():
        assert {other for other in known if order.index(other) > order.index(room)} == set(), room


def test_cpp_rooms_know_only_what_they_may() -> None:
    forbidden = []
    for source, target in arrows(cpp_edges()):
        here, there = cpp_room(source), cpp_room(target)
        known = CPP_ROOMS.get(here, A_MODULE)
        if there != here and there not in known:
            forbidden.append(f"{source} -> {target}")
    assert_debts(forbidden, CPP_DEBTS)


def test_cpp_files_include_each_other_in_no_circle() -> None:
    assert imports.circles(cpp_edges()) == []


def test_a_library_is_included_by_its_own_module_alone() -> None:
    """mpi.h stands for all of them: nothing that measures knows it outside src/modules/mpi."""
    known = [SRC / "modules" / "mpi", *MPI_PROGRAMS]
    modules = SRC / "modules"
    # What layers that stand on an MPI share (armci, tcgmsg), and one whose library says its version nowhere else.
    over_mpi = (
        *(modules / "kit" / "libraries" / name for name in ("over_mpi.h", "mpi_beneath.h")),
        modules / "shmem" / "shmem.c",
    )
    for path in SRC.rglob("*"):
        if path in over_mpi:
            continue
        if path.suffix in {".c", ".cpp", ".h"} and not any(folder in path.parents for folder in known):
            assert "#include <mpi.h>" not in path.read_text(encoding="utf-8"), path


# ------------------------------------------------------------------------------------------------------------- size

LINES_OF_A_FILE = 600
LINES_OF_A_FOLDER = 2500
FILES_OF_A_FOLDER = 20
SOURCES = {".py", ".c", ".cpp", ".h", ".js", ".css", ".j2", ".sh"}

LARGE_FILES = {}
# Folder -> what is in it, and how many lines it may have. None: one file for each thing of a kind, which users may add.
LARGE_FOLDERS: dict[str, tuple[str, int | None]] = {
    "python/netpipe": ("what all rooms share and what programs import, one small file each", 3000),
    "python/netpipe/cli": ("one file per command", None),
    "python/netpipe/findings": ("one file per rule", None),
    "python/netpipe/render/figures": ("one file per figure", None),
    "python/netpipe/render/terminal": ("one file per kind of answer", 4000),
    "src/apps": ("one file per kernel, and what they share", None),
    "src/profiler": ("one file per kind of call", 3000),
    "src/modules/libfabric": ("one library with four kinds of endpoints; no file above 270 lines", 2750),
    "src/modules/tcp": (
        "one protocol, with rails, TLS and six ways to the kernel; no file above 400 lines",
        2750,
    ),
    "src/modules/udp": ("one protocol, between two ranks and to all at once; no file above 490 lines", 3000),
    "src/modules/verbs": ("one library with three kinds of queue pairs; no file above 380 lines", 3500),
    "src/modules/mpi": ("one library with messages, one-sided transfers and collectives, a file each", 3750),
    "src/patterns": ("one file per pattern", None),
}


def sources_below(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")))
    return [path for path in found if path.suffix in SOURCES and path.is_file()]


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_file_is_too_long_to_be_one_idea() -> None:
    files = sources_below("bench", "examples", "include", "python", "src", "tests", "tools")
    assert_debts(
        (str(path.relative_to(ROOT)) for path in files if lines_of(path) > LINES_OF_A_FILE), LARGE_FILES
    )


def test_no_folder_is_too_large_to_be_one_idea() -> None:
    folders: dict[Path, list[Path]] = {}
    for path in sources_below("python/netpipe", "src"):
        folders.setdefault(path.parent, []).append(path)
    large = (
        str(folder.relative_to(ROOT))
        for folder, files in folders.items()
        if len(files) > FILES_OF_A_FOLDER or sum(map(lines_of, files)) > LINES_OF_A_FOLDER
    )
    assert_debts(large, LARGE_FOLDERS)
    for name, (_, most) in LARGE_FOLDERS.items():
        lines = sum(map(lines_of, folders[ROOT / name]))
        assert most is None or lines <= most, f"{name} has {lines} lines, and {most} are its limit"
