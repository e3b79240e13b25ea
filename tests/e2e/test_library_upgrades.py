# SPDX-License-Identifier: Apache-2.0
"""A library that was upgraded or removed after netpipe was built with it: its layer is named with what to do, and all
others are measured. In place of another version stands a library that tells that version, and whose other functions
abort: none of them is called.

verbs and grpc compare no version. libibverbs gives each function the version in which it came, and the loader refuses
a module that asks for one which is not there. libgrpc has the number of its interface in its file name, which changes
with each interface, so another one is not found at all; what has that name is asked for each function.

What `netpipe modules add` has added is in test_mpi.py and test_modules.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import NATIVE, ROOT, WORKER, Runner, parse

MODULES = NATIVE / "lib/netpipe/modules"
SOURCES = ROOT / "src/modules"
BOUND = sorted(path.stem for path in MODULES.glob("*.needs"))

# The function of each library that tells its version, in C.
TELLS = {
    "libfabric": "unsigned fi_version(void) {{ return {major}u << 16 | {minor}u; }}",
    "nng": 'const char* nng_version(void) {{ return "{major}.{minor}.0"; }}',
    "pvm": 'const char* pvm_version(void) {{ return "{major}.{minor}.0"; }}',
    "ucx": 'const char* ucp_get_version_string(void) {{ return "{major}.{minor}.0"; }}',
    "zmq": "void zmq_version(int* a, int* b, int* c) {{ *a = {major}; *b = {minor}; *c = 0; }}",
}
LINKED = [name for name in TELLS if name != "libfabric"]  # which is loaded when an endpoint is opened


def value(name: str, key: str) -> str:
    """Of a layer's module.toml."""
    found = re.search(rf'^{key} = "(.*)"$', (SOURCES / name / "module.toml").read_text(), re.MULTILINE)
    assert found is not None, (name, key)
    return found[1]


def file_of_library(name: str) -> str:
    """The one that the loader looks for, as it stands in the module: libzmq.so.5."""
    library = value(name, "libraries").split()[0].encode()
    found = re.search(rb"\0(lib%s\.so\.\d+)\0" % library, (MODULES / f"{name}.so").read_bytes())
    assert found is not None, name
    return found[1].decode()


def compile_library(path: Path, source: str, *flags: str) -> None:
    path.parent.mkdir(exist_ok=True)
    text = path.with_suffix(".c")
    text.write_text(source)
    soname = f"-Wl,-soname,{path.name}"
    subprocess.run(["cc", "-shared", "-fPIC", soname, *flags, "-o", path, text], check=True, timeout=60)


def undefined(name: str) -> str:
    """The symbols that a module looks for in others, a line each."""
    command = ["nm", "-D", "--undefined-only", MODULES / f"{name}.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def stand_in(folder: Path, name: str, major: int, minor: int, *, whole: bool = True) -> str:
    """For LD_LIBRARY_PATH; `whole`: with all functions that the module calls."""
    tells = TELLS[name].format(major=major, minor=minor)
    (teller,) = re.findall(r"(\w+)\(", tells)
    prefix = teller.partition("_")[0]
    functions = set(re.findall(rf"\bU ({prefix}_\w+)", undefined(name))) - {teller}
    others = "".join(f"void {one}(void) {{ abort(); }}\n" for one in sorted(functions))
    source = f"#include <stdlib.h>\n{tells}\n{others if whole else ''}"
    compile_library(folder / file_of_library(name), source)
    return str(folder)


def listed(**more: str) -> dict[str, Any]:
    done = subprocess.run(
        [WORKER, "list"], env={**os.environ, **more}, capture_output=True, text=True, check=True, timeout=60
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def module(name: str, listing: dict[str, Any]) -> dict[str, Any]:
    """What the listing says of a module that was built."""
    found: dict[str, Any] = next((one for one in listing["modules"] if one["name"] == name), {"options": []})
    if not found["options"]:
        pytest.skip(found.get("reason", f"{name} is not built"))
    return found


def built_with(name: str, listing: dict[str, Any]) -> tuple[str, int, int]:
    """The library, and major and minor number of its version: the one that is installed here."""
    found = re.match(r"(\w+) (\d+)\.(\d+)", module(name, listing)["version"])
    assert found is not None
    return found[1], int(found[2]), int(found[3])


def what_to_do(name: str) -> str:
    return f"; install its library ({value(name, 'get')}), and build netpipe again if that is another version"


@pytest.mark.parametrize("change", ["major", "older"])
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.gate if one == "zmq" else ()) for one in TELLS]
)
def test_another_version_is_named_and_the_other_layers_are_measured(
    measure: Runner,
    listing: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: str,
) -> None:
    title, major, minor = built_with(name, listing)
    if change == "older" and minor == 0:
        pytest.skip(f"no {title} {major} is older than {major}.0")
    found = (major + 1, 0) if change == "major" else (major, minor - 1)
    path = stand_in(tmp_path / "lib", name, *found)
    monkeypatch.setenv("LD_LIBRARY_PATH", path)
    said = (
        rf"this module was built with {title} {major}\.{minor}[.\d]*, and {title} {found[0]}\.{found[1]}[.\d]* is "
        "installed; build netpipe again"
    )
    if name in LINKED:
        one = module(name, listed())
        assert one["available"] is False
        assert re.fullmatch(said, one["reason"]), one["reason"]
    done = measure(f"variant {name}", "variant pipe", "schedule list", "sizes 8", "budget 0.05")
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert (error["variant"], error["code"]) == (name, 3)
    assert re.search(said, error["message"]), error["message"]
    assert {point["variant"] for point in done.of("point")} == {"pipe"}


@pytest.mark.parametrize("name", LINKED)
def test_a_later_version_of_the_same_major_number_is_used(
    listing: dict[str, Any], tmp_path: Path, name: str
) -> None:
    title, major, minor = built_with(name, listing)
    usable = module(name, listing)["available"]  # not PVM without its daemon
    one = module(name, listed(LD_LIBRARY_PATH=stand_in(tmp_path, name, major, minor + 7)))
    assert one["version"] == f"{title} {major}.{minor + 7}.0"
    assert one["available"] is usable, one["reason"]


@pytest.mark.module("zmq")
def test_what_a_module_was_built_with_is_recorded_where_another_version_answers(
    measure: Runner, listing: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    title, major, minor = built_with("zmq", listing)
    plan = ("variant zmq", "schedule list", "sizes 8", "budget 0.05")
    (usual,) = measure(*plan).of("variant")
    assert all("built_with" not in rank["settings"] for rank in usual["ranks"])
    # The library itself, which tells another version.
    library = tmp_path / "newer.so"
    compile_library(library, TELLS["zmq"].format(major=major, minor=minor + 7))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    done = measure(*plan)
    assert done.code == 0, done.said
    (newer,) = done.of("variant")
    assert newer["version"] == f"{title} {major}.{minor + 7}.0"
    assert {rank["settings"]["built_with"] for rank in newer["ranks"]} == {
        usual["version"].removeprefix(f"{title} ")
    }


@pytest.mark.module("zmq")
def test_a_library_without_a_function_that_the_module_calls_is_refused_with_what_to_do(
    listing: dict[str, Any], tmp_path: Path
) -> None:
    _, major, minor = built_with("zmq", listing)
    said = listed(LD_LIBRARY_PATH=stand_in(tmp_path, "zmq", major, minor, whole=False))
    (refused,) = said["refused"]
    assert refused["path"] == str(MODULES / "zmq.so")
    assert "undefined symbol: zmq_" in refused["reason"]
    assert refused["reason"].endswith(what_to_do("zmq"))


# -------------------------------------------------------------------------------- what is found without a comparison


def versioned() -> dict[str, list[str]]:
    """The functions of libibverbs that the module calls, by the version in which each came; the oldest first."""
    found: dict[str, list[str]] = {}
    for function, version in re.findall(r"\bU (\w+)@(IBVERBS_[\d.]+)", undefined("verbs")):
        found.setdefault(version, []).append(function)
    return {one: found[one] for one in sorted(found, key=lambda one: [*map(int, one[8:].split("."))])}


def verbs_stand_in(folder: Path, versions: dict[str, list[str]]) -> str:
    """For LD_LIBRARY_PATH: a libibverbs with these functions, on a host without devices."""
    folder.mkdir()
    nodes = (f"{version} {{ global: {'; '.join(all_)}; }};" for version, all_ in versions.items())
    (folder / "versions").write_text("\n".join(nodes))
    answers = {
        "ibv_get_device_list": "void* {}(int* n) {{ static void* none; if (n) *n = 0; return &none; }}",
        "ibv_free_device_list": "void {}(void* list) {{ (void)list; }}",
    }
    functions = [one for all_ in versions.values() for one in all_]
    bodies = [answers.get(one, "void {}(void) {{ abort(); }}").format(one) for one in functions]
    source = "\n".join(["#include <stdlib.h>", *bodies, ""])
    compile_library(folder / file_of_library("verbs"), source, f"-Wl,--version-script={folder / 'versions'}")
    return str(folder)


@pytest.mark.module("verbs")
def test_the_loader_refuses_verbs_over_a_library_that_is_older_and_takes_a_later_one(
    listing: dict[str, Any], tmp_path: Path
) -> None:
    module("verbs", listing)
    versions = versioned()
    newest = list(versions)[-1]
    older = {version: all_ for version, all_ in versions.items() if version != newest}
    assert older, "all functions came with one version: this test shows nothing"
    said = listed(LD_LIBRARY_PATH=verbs_stand_in(tmp_path / "older", older))
    (refused,) = said["refused"]
    assert refused["path"] == str(MODULES / "verbs.so")
    assert f"version `{newest}' not found" in refused["reason"]
    assert refused["reason"].endswith(what_to_do("verbs"))
    assert {"pipe", "tcp"} <= {one["name"] for one in said["modules"] if one["available"]}
    later = versions | {"IBVERBS_99.0": ["ibv_of_tomorrow"]}
    one = module("verbs", listed(LD_LIBRARY_PATH=verbs_stand_in(tmp_path / "later", later)))
    assert one["version"] == "libibverbs 1"  # of the file libibverbs.so.1, and no longer that of the system
    assert one["reason"].startswith("there is no RDMA device")


@pytest.mark.module("grpc")
def test_grpc_asks_a_library_of_its_file_name_for_each_function(
    measure: Runner, listing: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module("grpc", listing)
    functions = re.findall(r"^  X\((\w+)\)", (SOURCES / "grpc/grpc_library.h").read_text(), re.MULTILINE)
    *others, lacking = functions
    file = tmp_path / "lib" / file_of_library("grpc")
    compile_library(
        file, "#include <stdlib.h>\n" + "".join(f"void {one}(void) {{ abort(); }}\n" for one in others)
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(file.parent))
    done = measure("variant grpc", "variant pipe", "schedule list", "sizes 8", "budget 0.05")
    assert done.code == 3, done.said
    (error,) = done.of("error")
    assert (error["variant"], error["code"]) == ("grpc", 3)
    assert f"{file.name} has no function {lacking}; build netpipe again" in error["message"]
    assert {point["variant"] for point in done.of("point")} == {"pipe"}


# ------------------------------------------------------------------------------------------------- nothing is there


def gone(name: str) -> str:
    """A name as long as that of the library, which no library has."""
    return file_of_library(name)[:-1] + "~"


@pytest.fixture
def without_libraries(tmp_path: Path) -> Path:
    """An installation on a host that has none of the libraries which its modules were built with: each module looks
    for another file than there is.
    """
    prefix = tmp_path / "installed"
    modules = prefix / "lib/netpipe/modules"
    modules.mkdir(parents=True)
    (prefix / "bin").mkdir()
    shutil.copy(WORKER, prefix / "bin")
    shutil.copy(MODULES / "pipe.so", modules)
    for name in BOUND:
        binary, here, there = (MODULES / f"{name}.so").read_bytes(), file_of_library(name), gone(name)
        (modules / f"{name}.so").write_bytes(binary.replace(f"{here}\0".encode(), f"{there}\0".encode()))
        shutil.copy(MODULES / f"{name}.needs", modules)
    return prefix


def netpipe(prefix: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_there(prefix, [sys.executable, "-m", "netpipe", *arguments])


def measured(prefix: Path, variant: str) -> subprocess.CompletedProcess[str]:
    """By the worker alone, into run.jsonl."""
    record = prefix / "run.jsonl"
    record.unlink(missing_ok=True)
    lines = (
        "netpipe-plan 1",
        f"record {record}",
        f"variant {variant}",
        "sizes 8",
        "schedule list",
        "budget 0.05",
    )
    plan = "\n".join([*lines, "end", ""])
    return run_there(prefix, [str(prefix / "bin/netpipe-worker"), "run"], plan)


def run_there(prefix: Path, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    alone = {"NETPIPE_NATIVE": str(prefix), "NETPIPE_MODULE_PATH": "", "XDG_DATA_HOME": str(prefix)}
    return subprocess.run(
        command,
        env={**os.environ, **alone, "COLUMNS": "300"},
        cwd=prefix,
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.module("ucx", "libfabric", "verbs", "zmq", "nng", "grpc", "pvm")
def test_missing_libraries_are_named_with_the_command_that_gets_them(without_libraries: Path) -> None:
    assert BOUND, "no module was built with a library"
    modules = without_libraries / "lib/netpipe/modules"
    answer = netpipe(without_libraries, "list", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    listing = json.loads(answer.stdout)
    refused = {Path(one["path"]).stem: one["reason"] for one in listing["refused"]}
    there = {one["name"] for one in listing["modules"]}
    assert refused.keys() | there == {*BOUND, "pipe"}
    doctor = json.loads(netpipe(without_libraries, "doctor", "--no-yardstick", "--json").stdout)
    missing = {one["what"]: one["why"] for one in doctor["missing"]}
    for name in BOUND:
        run = measured(without_libraries, name)
        assert run.returncode == 3, (name, run.stderr)
        assert gone(name) in run.stderr
        if name in refused:
            assert f"module {modules / name}.so cannot be loaded: {gone(name)}: " in refused[name]
            assert refused[name].endswith(what_to_do(name))
            assert run.stderr == f"netpipe-worker: {refused[name]}\n"
            assert missing[str(modules / f"{name}.so")] == f"{refused[name]}."
        else:  # it loads its library when it is opened
            assert value(name, "libraries") in ("fabric", "grpc")
            assert "; install it (Debian, Ubuntu: apt install lib" in run.stderr
            assert "or build netpipe again if another version is installed" in run.stderr
    first = min(refused)
    run = netpipe(without_libraries, "run", first, "--sizes", "8")
    assert (run.returncode, run.stderr) == (3, f"netpipe: {refused[first]}\n")
    run = measured(without_libraries, "pipe")
    assert run.returncode == 0, run.stderr
    records = parse((without_libraries / "run.jsonl").read_text())
    assert [one["variant"] for one in records if one["type"] == "point"] == ["pipe"]
