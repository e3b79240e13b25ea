# SPDX-License-Identifier: Apache-2.0
"""netpipe modules, with compilers and launchers that are shell scripts, and a worker that describes any file.
tests/e2e/test_modules.py does the same with real MPI libraries.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from netpipe.failure import Failure
from netpipe.libraries import Family, families, launchers
from netpipe.libraries.adding import add, added, compiler, discover, launcher, layers

if TYPE_CHECKING:
    from conftest import Netpipe, Said

SAYS = {
    "openmpi": "mpirun (Open MPI) 4.1.4",
    "mpich": "HYDRA build details:",
    "intel": "Intel(R) MPI Library for Linux* OS, Version 2021.19.0\nHYDRA build details:",
    "lam": "LAM was designed to be run by individual users",
    "srun": "slurm 22.05.8",
    "none": "hello",
}
FAMILIES = {one.module or one.name: one for one in families("mpi")}
MPI = Path(__file__).resolve().parents[2] / "src" / "modules" / "mpi"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def make_mpicc(path: Path, kind: str, version: str, *, compiles: str = "", shows: str = "cc -lmpi") -> Path:
    """A compiler whose module is a text: the library's name and version. `compiles` runs before that."""
    return script(
        path,
        f"""
case "$1" in
  -E) echo 'int x;'; echo '{compiler.WORD} {FAMILIES[kind].name} {version}'; exit 0 ;;
  -show) echo '{shows}'; exit 0 ;;
esac
{compiles}
while [ $# != 0 ]; do [ "$1" = -o ] && echo '{kind} {version}' >"$2"; shift; done""",
    )


def make_mpi(prefix: Path, kind: str = "openmpi", version: str = "4 1 4") -> Path:
    """A library: its mpicc, with the launcher beside it."""
    own = FAMILIES[kind].launcher
    which = own.name if own else "mpich"
    for name in launchers()[which].programs:
        script(prefix / "bin" / name, f"echo '{SAYS[which]}'")
    return make_mpicc(prefix / "bin" / ("mpicc_abi" if kind == "abi" else "mpicc"), kind, version)


@pytest.fixture
def modules(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of added modules, of a worker that finds in any file what its text says."""
    script(
        fake,
        f"""
if [ "$1" != describe ]; then exec "{sys.executable}" -S -E "{Path(__file__).with_name("fake_worker.py")}" "$@"; fi
[ -n "$BROKEN" ] && {{ echo "netpipe-worker: libmpi.so.12 is missing" >&2; exit 3; }}
printf 'netpipe-module 1\\nname %s\\nfile %s\\nversion %s\\n' "$4" "$2" "${{VERSION:-$(cat "$2")}}"
printf 'option\\tsndbuf\\tsize\\t0\\t0\\t9\\t\\tbytes\\tyes\\thelp\\n'
printf 'summary %s\\n' "$NEEDED" """,
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    source = tmp_path / "native" / "share" / "netpipe" / "modules" / "mpi" / "mpi.c"
    header = tmp_path / "native" / "include" / "netpipe" / "module.h"
    for file in (source, header):
        file.parent.mkdir(parents=True)
        file.write_text("/* */\n")
    shutil.copy(MPI / "module.toml", source.parent)
    folder = tmp_path / "native" / "lib" / "netpipe" / "modules"
    folder.mkdir(parents=True)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def listed(netpipe: Netpipe) -> list[dict[str, Any]]:
    said = netpipe("modules", "--json")
    assert (said.code, said.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(said.out)["modules"]
    return found


# ------------------------------------------------------------------------------------------------------ adding


def test_one_is_added_listed_and_removed(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    mpicc = make_mpi(tmp_path / "opt")
    assert "No library was added" in netpipe("modules").out
    said = netpipe("modules", "add", "mpi", "--mpicc", str(mpicc))
    assert (said.code, said.err) == (0, "")
    assert "netpipe run mpi@openmpi" in said.out
    assert files(modules) == ["mpi@openmpi.module", "mpi@openmpi.so"]
    (one,) = listed(netpipe)
    assert one["name"] == "mpi@openmpi"
    assert one["version"] == "openmpi 4 1 4"
    assert one["mpicc"] == str(mpicc)
    assert (one["family"], one["launcher"]) == ("openmpi", str(tmp_path / "opt/bin/mpirun"))
    assert (one["healthy"], one["problem"], one["advice"]) == (True, None, None)
    table = netpipe("modules").out
    for words in ("✓ mpi@openmpi", str(mpicc), str(tmp_path / "opt/bin/mpirun")):
        assert words in table
    assert netpipe("modules", "remove", "openmpi").out == "removed mpi@openmpi\n"
    assert files(modules) == []


def test_its_description_is_what_the_worker_and_the_launcher_read(
    netpipe: Netpipe, modules: Path, tmp_path: Path
) -> None:
    mpicc = make_mpi(tmp_path / "opt", "impi", '"2021.19.0"')
    assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--env", "A=b=c").code == 0
    lines = (modules / "mpi@impi.module").read_text().splitlines()
    assert lines[0] == "netpipe-module 1"
    assert f"file {modules / 'mpi@impi.so'}" in lines
    assert "option\tsndbuf\tsize\t0\t0\t9\t\tbytes\tyes\thelp" in lines
    assert f"launcher intel {tmp_path}/opt/bin/mpiexec.hydra" in lines
    assert {line for line in lines if line.startswith("environment ")} == {
        f"environment I_MPI_ROOT={tmp_path / 'opt'}",
        "environment A=b=c",
    }
    assert f"compiler {mpicc}" in lines
    assert "family intel" in lines
    assert "library Intel MPI 2021.19.0" in lines
    from netpipe.libraries.starting import description

    read = description.read(modules / "mpi@impi.module")
    assert (read.family, read.launched_by, read.launcher.name) == ("intel", "intel", "mpiexec.hydra")
    assert read.environment["A"] == "b=c"


def test_names_are_the_library_then_its_version(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    made = [make_mpi(tmp_path / str(number), "openmpi", "5 0 11") for number in range(4)]
    for mpicc in [*made, *made]:  # the second time each keeps its name
        assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc)).code == 0
    named = {one["name"]: one["mpicc"] for one in listed(netpipe)}
    expected = ["mpi@openmpi", "mpi@openmpi5", "mpi@openmpi5.0.11", "mpi@openmpi5.0.11-2"]
    assert named == dict(zip(expected, map(str, made), strict=True))


def test_a_name_that_is_taken_is_not_taken_away(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    first, second = make_mpi(tmp_path / "a"), make_mpi(tmp_path / "b", "mpich", '"4.0.2"')
    arguments = ("modules", "add", "mpi", "--name", "mine", "--mpicc")
    assert netpipe(*arguments, str(first)).code == 0
    said = netpipe(*arguments, str(second))
    assert said.code == 2
    assert "netpipe modules remove mine" in said.err
    assert netpipe(*arguments, str(first)).code == 0  # its own is built again
    (tmp_path / "a/bin/mpirun").unlink()
    assert netpipe(*arguments, str(second)).code == 0  # one that does not work holds no name


@pytest.mark.parametrize("name", ["Open MPI", "", "-x", "a:b", "a,b", "../a", "a/b", "ä"])
def test_a_bad_name_is_refused(netpipe: Netpipe, modules: Path, tmp_path: Path, name: str) -> None:
    said = netpipe("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt")), f"--name={name}")
    assert said.code == 2
    assert "cannot be the name of a module" in said.err
    assert files(modules) == []


def test_the_compiler_of_path_and_its_alternatives(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Debian: mpicc -> /etc/alternatives/mpi -> mpicc.openmpi -> opal_wrapper."""
    folder = tmp_path / "usr" / "bin"
    make_mpicc(folder / "opal_wrapper", "openmpi", "4 1 4")
    script(folder / "mpirun.openmpi", f"echo '{SAYS['openmpi']}'")
    script(folder / "mpirun", f"echo '{SAYS['mpich']}'")  # the alternatives are of two minds
    (folder / "mpicc.openmpi").symlink_to("opal_wrapper")
    (tmp_path / "alternative").symlink_to(folder / "mpicc.openmpi")
    (folder / "mpicc").symlink_to("../../alternative")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert netpipe("modules", "add", "mpi", "--mpicc", "mpicc").code == 0
    (one,) = listed(netpipe)
    assert one["mpicc"] == str(folder / "mpicc.openmpi")
    assert one["launcher"] == str(folder / "mpirun.openmpi")


def test_where_the_library_is_found_goes_into_the_description(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpicc = make_mpi(tmp_path / "opt")
    make_mpicc(mpicc, "openmpi", "4 1 4", shows=f"cc -L{tmp_path}/opt/lib/sub/.. -L/usr/lib -lmpi")
    for path in ("opt/lib/sub/x", "opt/lib/libmpi.so", "compiler/libimf.so"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/compiler:{tmp_path}/nowhere")
    assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc)).code == 0
    text = (modules / "mpi@openmpi.module").read_text()
    assert f"environment LD_LIBRARY_PATH={tmp_path}/opt/lib:{tmp_path}/compiler\n" in text


# ------------------------------------------------------------------------------------------------- what is none


def refused(netpipe: Netpipe, modules: Path, mpicc: str | Path, *more: str) -> Said:
    """Nothing of it stays."""
    said = netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), *more)
    assert said.code != 0
    assert said.err.startswith("netpipe: ")
    assert said.err.count("\n") == 1
    assert files(modules) == []
    return said


@pytest.mark.parametrize(
    ("mpicc", "words"),
    [
        ("/bin/true", "is not a compiler for MPI"),
        ("/nowhere/mpicc", "/nowhere/mpicc does not exist"),
        ("no-such-mpicc", "no-such-mpicc does not exist"),
        ("/", "is not a program"),
        (__file__, "is not a program"),
    ],
)
def test_a_path_that_is_no_compiler(netpipe: Netpipe, modules: Path, mpicc: str, words: str) -> None:
    said = refused(netpipe, modules, mpicc)
    assert said.code == 2
    assert words in said.err


@needs_cc
def test_a_compiler_without_mpi(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    said = refused(netpipe, modules, script(tmp_path / "mpicc", f'exec cc -nostdinc -I {tmp_path} "$@"'))
    assert said.code == 2
    assert "finds no mpi.h" in said.err


def test_a_compiler_that_does_not_work(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    said = refused(netpipe, modules, script(tmp_path / "mpicc", "echo 'mpicc: icx: not found' >&2; exit 127"))
    assert said.code == 3
    assert "icx: not found" in said.err


def test_a_compiler_that_cannot_be_started(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    mpicc = script(tmp_path / "mpicc", "")
    mpicc.write_text("#!/nowhere/python\n")
    said = refused(netpipe, modules, mpicc)
    assert said.code == 3
    assert "cannot start" in said.err


def test_a_compiler_that_hangs(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "LIMIT_S", 0.2)
    said = refused(netpipe, modules, script(tmp_path / "mpicc", "sleep 60 & echo $! >$0.child; wait"))
    assert said.code == 3
    assert "still running after 0.2 s" in said.err
    child = Path("/proc", (tmp_path / "mpicc.child").read_text().strip(), "cmdline")
    assert not child.is_file() or b"sleep" not in child.read_bytes()  # what it started has gone with it


def test_a_library_without_a_launcher(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    mpicc = make_mpicc(tmp_path / "mpicc", "openmpi", "4 1 4")
    said = refused(netpipe, modules, mpicc)
    assert said.code == 3
    assert "--mpiexec" in said.err


@pytest.mark.parametrize(
    ("kind", "launcher", "code"),
    [
        ("openmpi", "mpich", 2),
        ("mpich", "openmpi", 2),
        ("lam", "srun", 2),
        ("mpich", "lam", 2),
        ("mpich", "intel", 0),
        ("openmpi", "srun", 0),
        ("impi", "srun", 0),
        ("mpi", "mpich", 0),
        ("mpi", "none", 2),
    ],
)
def test_the_launcher_must_be_of_the_same_family(
    netpipe: Netpipe, modules: Path, tmp_path: Path, kind: str, launcher: str, code: int
) -> None:
    mpicc = make_mpicc(tmp_path / "mpicc", kind, "4 1 4")
    path = script(tmp_path / "start", f"echo '{SAYS[launcher]}'")
    said = netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--mpiexec", str(path))
    assert said.code == code, said.err
    if code == 0:
        assert listed(netpipe)[0]["launcher"] == str(path)
    else:
        assert files(modules) == []


def test_a_launcher_that_is_not_there(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    said = refused(netpipe, modules, make_mpi(tmp_path / "opt"), "--mpiexec", "/nowhere/mpirun")
    assert said.code == 2


@pytest.mark.parametrize("setting", ["A", "=b", "A=b\nc"])
def test_a_setting_that_is_none(netpipe: Netpipe, modules: Path, tmp_path: Path, setting: str) -> None:
    assert refused(netpipe, modules, make_mpi(tmp_path / "opt"), "--env", setting).code == 2


def test_a_failed_add_leaves_what_was_there(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpicc = make_mpi(tmp_path / "opt")
    arguments = ("modules", "add", "mpi", "--mpicc", str(mpicc))
    assert netpipe(*arguments).code == 0
    before = {name: (modules / name).read_bytes() for name in files(modules)}
    make_mpicc(mpicc, "openmpi", "4 1 5", compiles="echo 'mpi.c:7: error: no such type' >&2; exit 1")
    said = netpipe(*arguments)
    assert (said.code, "mpi.c:7: error: no such type" in said.err) == (3, True)
    make_mpicc(mpicc, "openmpi", "4 1 5")
    monkeypatch.setenv("BROKEN", "1")
    said = netpipe(*arguments)
    assert (said.code, "libmpi.so.12 is missing" in said.err) == (3, True)
    assert {name: (modules / name).read_bytes() for name in files(modules)} == before


def test_a_folder_that_cannot_be_written(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    into = tmp_path / "file" / "modules"
    said = netpipe("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt")), "--into", str(into))
    assert said.code == 4
    assert str(into) in said.err


def test_without_the_source(netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: Any) -> None:
    shutil.rmtree(tmp_path / "native" / "share")
    monkeypatch.setattr(layers, "__file__", str(tmp_path / "a/b/c/d/layers.py"))  # not in a checkout
    said = refused(netpipe, modules, make_mpi(tmp_path / "opt"))
    assert "there is no layer 'mpi'" in said.err


# --------------------------------------------------------------------------------------------------- where it goes


def test_an_installation_that_is_not_ours(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = added.os.access
    monkeypatch.setattr(
        added.os, "access", lambda path, mode: "native/lib" not in str(path) and access(path, mode)
    )
    assert netpipe("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt"))).code == 0
    assert files(modules) == []
    assert files(tmp_path / "data" / "netpipe" / "modules") == ["mpi@openmpi.module", "mpi@openmpi.so"]
    assert [one["name"] for one in listed(netpipe)] == ["mpi@openmpi"]


def test_into_a_folder_of_ones_choice(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpicc = make_mpi(tmp_path / "opt")
    mine = tmp_path / "mine"
    assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--into", str(mine)).code == 0
    assert files(mine) == ["mpi@openmpi.module", "mpi@openmpi.so"]
    assert listed(netpipe) == []
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(mine))
    assert [one["mpicc"] for one in listed(netpipe)] == [str(mpicc)]


def test_a_module_hides_one_in_another_folder_only_where_that_is_said(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpicc, other = make_mpi(tmp_path / "opt"), make_mpi(tmp_path / "other")
    assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc)).code == 0
    into = ("--into", str(tmp_path / "mine"))
    assert netpipe("modules", "add", "mpi", "--mpicc", str(other), *into).code == 0
    assert files(tmp_path / "mine") == ["mpi@openmpi4.module", "mpi@openmpi4.so"]  # by default none is hidden
    hiding = ("modules", "add", "mpi", "--mpicc", str(other), "--name", "openmpi", *into)
    said = netpipe(*hiding)
    assert said.code == 2
    assert f"openmpi already names openmpi 4 1 4 in {modules}" in said.err
    assert "--replace" in said.err
    assert "mpi@openmpi.so" not in files(tmp_path / "mine")
    assert netpipe(*hiding, "--replace").code == 0
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(tmp_path / "mine"))
    named = {one["name"]: one["mpicc"] for one in listed(netpipe)}
    assert named["mpi@openmpi"] == str(other)  # like the worker, the first that is found
    same = ("modules", "add", "mpi", "--mpicc", str(mpicc), "--name", "mine")
    assert netpipe(*same).code == 0
    assert netpipe(*same, "--into", str(tmp_path / "copy")).code == 0  # a copy of itself hides nothing


# ------------------------------------------------------------------------------------------------- which layers


def test_a_layer_that_is_built_with_netpipe_is_not_added(
    netpipe: Netpipe, modules: Path, tmp_path: Path
) -> None:
    (modules / "tcp.so").touch()
    said = netpipe("modules", "add", "tcp")
    assert (said.code, "tcp comes with netpipe" in said.err) == (2, True)
    (modules / "ucx.absent").write_text(
        "netpipe-absent 1\nname ucx\nsummary s\nreason it was not built: no header; apt install libucx-dev, then x\n"
    )
    said = netpipe("modules", "add", "ucx")
    assert (said.code, "apt install libucx-dev" in said.err) == (3, True)
    source = tmp_path / "native/share/netpipe/modules/verbs/module.toml"
    source.parent.mkdir()
    source.write_text('summary = "s"\nbuild = "here"\n[needs]\nget = "apt install libibverbs-dev"\n')
    said = netpipe("modules", "add", "verbs")
    assert (said.code, "apt install libibverbs-dev, then build netpipe again" in said.err) == (3, True)
    said = netpipe("modules", "add", "telepathy")
    assert (said.code, "there is no layer 'telepathy'" in said.err, "mpi" in said.err) == (2, True, True)


def test_another_layer_is_a_folder_and_a_family(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its module.toml names the options; its family recognises the library. No code changes."""
    folder = tmp_path / "native/share/netpipe/modules/shmem"
    folder.mkdir()
    (folder / "shmem.c").write_text("/* */\n")
    (folder / "module.toml").write_text(
        'summary = "s"\nbuild = "library"\n[library]\ntitle = "SHMEM"\nsource = "shmem.c"\n'
        'header = "shmem.h"\ncompiler = "oshcc"\nlauncher = "oshrun"\nflags = "-lextra -pthread"\n'
    )
    kind = type(
        "Oshrun", (launchers()["openmpi"],), {"name": "osh", "says": "OSHRUN", "programs": ("oshrun",)}
    )
    mine = Family(
        "ompi-shmem", "Open SHMEM", (), layer="shmem", module="osh", launcher=kind, compilers=("oshcc",)
    )
    from netpipe import libraries

    monkeypatch.setitem(libraries._families, mine.name, mine)
    monkeypatch.setitem(libraries._launchers, kind.name, kind)
    monkeypatch.setitem(FAMILIES, "osh", mine)
    oshcc = make_mpicc(tmp_path / "bin/oshcc", "osh", "1 5", compiles='echo "$@" >"$0.call"')
    script(tmp_path / "bin/oshrun", "echo OSHRUN")
    assert "--oshcc PATH" in netpipe("modules", "add", "shmem", "--help").out
    assert "--abi" not in netpipe("modules", "add", "shmem", "--help").out
    assert "shmem" in netpipe("modules", "add", "--help").out
    said = netpipe("modules", "add", "shmem", "--oshcc", str(oshcc))
    assert said.code == 0, said.err
    assert files(modules) == ["shmem@osh.module", "shmem@osh.so"]
    assert (tmp_path / "bin/oshcc.call").read_text().split()[-2:] == ["-lextra", "-pthread"]
    (one,) = listed(netpipe)
    assert (one["family"], one["launcher"], one["healthy"]) == (
        "ompi-shmem",
        str(tmp_path / "bin/oshrun"),
        True,
    )
    assert netpipe("modules", "remove", "shmem@osh").code == 0


# ---------------------------------------------------------------------------------------------------------- the ABI


def test_the_abi_is_asked_for_where_it_is(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    abi, plain = make_mpi(tmp_path / "abi", "abi", "1 0"), make_mpi(tmp_path / "plain", "mpich", '"5.0.2"')
    assert "add --abi" in refused(netpipe, modules, abi).err
    assert "name an mpicc_abi" in refused(netpipe, modules, plain, "--abi").err
    assert "--library is for --abi" in refused(netpipe, modules, plain, "--library", "/tmp").err
    assert "no libmpi_abi.so" in refused(netpipe, modules, abi, "--abi", "--library", str(tmp_path)).err


def test_one_build_finds_the_library_that_is_named(netpipe: Netpipe, modules: Path, tmp_path: Path) -> None:
    """The real compiler is called without the folders that its wrapper names for the loader."""
    mpicc = make_mpi(tmp_path / "mpich", "abi", "1 0")
    real = script(
        tmp_path / "real",
        'echo "$@" >>"$0.calls"\nwhile [ $# != 0 ]; do [ "$1" = -o ] && echo x >"$2"; shift; done',
    )
    make_mpicc(
        mpicc,
        "abi",
        "1 0",
        shows=f"{real} -L/m -Wl,-rpath -Wl,/m -Wl,-rpath,/m -Xlinker -rpath -Xlinker /m -lmpi_abi",
    )
    (tmp_path / "impi/lib").mkdir(parents=True)
    (tmp_path / "impi/lib/libmpi_abi.so.1").touch()
    start = script(tmp_path / "impi/bin/mpiexec", f"echo '{SAYS['intel']}'")
    arguments = ("modules", "add", "mpi", "--abi", "--mpicc", str(mpicc))
    assert netpipe(*arguments).code == 0
    library = ("--library", str(tmp_path / "impi/lib"), "--mpiexec", str(start))
    assert netpipe(*arguments, *library).code == 0
    assert [(one["name"], one["family"]) for one in listed(netpipe)] == [
        ("mpi@impi-abi", "abi"),
        ("mpi@mpich-abi", "abi"),
    ]
    text = (modules / "mpi@impi-abi.module").read_text()
    assert f"environment LD_LIBRARY_PATH={tmp_path}/impi/lib\n" in text
    assert f"environment I_MPI_ROOT={tmp_path}/impi\n" in text
    for call in (tmp_path / "real.calls").read_text().splitlines():
        assert call.endswith("mpi.c -L/m -lmpi_abi")
        assert "rpath" not in call


# ------------------------------------------------------------------------------------------------------- health


@pytest.fixture
def healthy(netpipe: Netpipe, modules: Path, tmp_path: Path) -> Path:
    """The prefix of a library whose module has been added."""
    assert netpipe("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt"))).code == 0
    return tmp_path / "opt"


def ill(netpipe: Netpipe) -> str:
    (one,) = listed(netpipe)
    assert one["healthy"] is False
    said = netpipe("modules")
    assert said.code == 0
    assert f"✗ {one['name']}" in said.out
    assert one["problem"] in said.out
    sentence: str = one["problem"]
    return sentence


def test_a_library_that_was_removed(netpipe: Netpipe, healthy: Path) -> None:
    shutil.rmtree(healthy)
    assert "mpirun does not exist any more" in ill(netpipe)


def test_a_module_without_its_file(netpipe: Netpipe, healthy: Path, modules: Path) -> None:
    (modules / "mpi@openmpi.so").unlink()
    assert "mpi@openmpi.so does not exist any more" in ill(netpipe)


def test_a_library_that_cannot_be_loaded(netpipe: Netpipe, healthy: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("BROKEN", "1")
    assert "libmpi.so.12 is missing" in ill(netpipe)


def test_a_library_of_another_version(netpipe: Netpipe, healthy: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("VERSION", "openmpi 9")
    assert "was openmpi 4 1 4 when it was added and is now openmpi 9" in ill(netpipe)


def test_headers_of_another_version(netpipe: Netpipe, healthy: Path) -> None:
    make_mpicc(healthy / "bin" / "mpicc", "openmpi", "4 1 6")
    (one,) = listed(netpipe)
    assert one["healthy"] is True
    assert "now compiles for Open MPI 4.1.6" in one["advice"]
    assert "! mpi@openmpi" in netpipe("modules").out


def test_a_new_source(netpipe: Netpipe, healthy: Path, tmp_path: Path) -> None:
    (tmp_path / "native/share/netpipe/modules/mpi/mpi.c").write_text("/* better */\n")
    (one,) = listed(netpipe)
    assert one["healthy"] is True
    assert f"netpipe modules add mpi --mpicc {healthy}/bin/mpicc --name openmpi" in one["advice"]
    assert netpipe("modules", "add", "mpi", "--mpicc", str(healthy / "bin/mpicc")).code == 0
    assert listed(netpipe)[0]["advice"] is None


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "netpipe-module 2\nname x\n", "netpipe-module 1\nname x\n", "\xff\xfe"]
)
def test_a_description_that_is_none(netpipe: Netpipe, healthy: Path, modules: Path, text: str) -> None:
    (modules / "mpi@openmpi.module").write_bytes(text.encode("latin-1"))
    assert "mpi@openmpi.module" in ill(netpipe)
    assert netpipe("modules", "remove", "openmpi").code == 0
    assert files(modules) == []


def test_the_recorded_environment_is_the_one_it_is_looked_at_in(
    netpipe: Netpipe, modules: Path, tmp_path: Path
) -> None:
    mpicc = make_mpi(tmp_path / "opt")
    assert netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--env", "NEEDED=yes").code == 0
    assert "summary yes" in (modules / "mpi@openmpi.module").read_text()
    one = added.one("openmpi")
    assert "summary yes" in added.describe(one.file, one.name, {"NEEDED": "yes"})
    assert added.problem(one) is None


def test_a_name_that_was_not_added(netpipe: Netpipe, healthy: Path, modules: Path) -> None:
    said = netpipe("modules", "remove", "openmpi", "opnmpi")
    assert said.code == 2
    assert "did you mean 'openmpi'?" in said.err
    assert files(modules) != []  # all or nothing
    assert netpipe("modules", "--json", "remove", "openmpi").code == 2


def test_names_are_completed(healthy: Path) -> None:
    from netpipe.cli.modules import complete_added

    assert [item.value for item in complete_added("op")] == ["openmpi"]
    assert complete_added("x") == []


# ------------------------------------------------------------------------------------------- what a compiler is


@needs_cc
@pytest.mark.parametrize(
    ("macros", "title"),
    [
        (
            {"OMPI_MAJOR_VERSION": "4", "OMPI_MINOR_VERSION": "1", "OMPI_RELEASE_VERSION": "4"},
            "Open MPI 4.1.4",
        ),
        ({"MPICH_VERSION": '"4.0.2"'}, "MPICH 4.0.2"),
        ({"MPICH_VERSION": '"3.4a2"', "I_MPI_VERSION": '"2021.19.0"'}, "Intel MPI 2021.19.0"),
        ({"MPICH_VERSION": '"3.4"', "MVAPICH2_VERSION": '"2.3.7"'}, "MVAPICH 2.3.7"),
        (
            {"LAM_MPI": "1", "LAM_MAJOR_VERSION": "7", "LAM_MINOR_VERSION": "1", "LAM_RELEASE_VERSION": "4"},
            "LAM/MPI 7.1.4",
        ),
        ({"MPI_ABI_VERSION": "1", "MPI_ABI_SUBVERSION": "0", "MPI_VERSION": "5"}, "MPI standard ABI 1.0"),
        ({"MPI_VERSION": "3", "MPI_SUBVERSION": "1"}, "an unknown implementation of MPI 3.1"),
    ],
)
def test_the_header_says_whose_it_is(tmp_path: Path, macros: dict[str, str], title: str) -> None:
    (tmp_path / "mpi.h").write_text("".join(f"#define {name} {value}\n" for name, value in macros.items()))
    mpicc = script(tmp_path / "mpicc", f'exec cc -I "{tmp_path}" "$@"')
    assert compiler.identify(layers.one("mpi"), mpicc).title == title


@needs_cc
def test_a_simulators_version_is_in_another_header_that_the_compiler_takes_for_the_systems(
    tmp_path: Path,
) -> None:
    (tmp_path / "simgrid").mkdir()
    (tmp_path / "mpi.h").write_text("#define SMPI_H\n#define MPI_VERSION 3\n")
    (tmp_path / "simgrid" / "version.h").write_text(
        "#define SIMGRID_VERSION_MAJOR 3\n#define SIMGRID_VERSION_MINOR 32\n"
    )
    smpicc = script(tmp_path / "smpicc", f'exec cc -isystem "{tmp_path}" "$@"')
    library = compiler.identify(layers.one("mpi"), smpicc)
    assert (library.title, library.family.name) == ("SimGrid 3.32", "smpi")
    smpirun = script(tmp_path / "smpirun", "echo 'SimGrid version 3.32'")
    assert launcher.find(layers.one("mpi"), library, None) == launcher.Found("smpi", smpirun)


@needs_cc
def test_a_header_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "mpi.h").write_text("int not_that_mpi;\n")
    with pytest.raises(Failure, match="is not a compiler for MPI"):
        compiler.identify(layers.one("mpi"), script(tmp_path / "mpicc", f'exec cc -I "{tmp_path}" "$@"'))


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "mpicc").symlink_to("mpicc.a")
    (tmp_path / "mpicc.a").symlink_to("mpicc")
    assert compiler.settle(tmp_path / "mpicc").parent == tmp_path
    with pytest.raises(Failure, match="does not exist"):
        compiler.identify(layers.one("mpi"), tmp_path / "mpicc")


def test_folders_for_the_loader_are_left_out_in_every_spelling() -> None:
    words = ["cc", "-L/m", "-Wl,-rpath", "-Wl,/m", "-Wl,--enable-new-dtags", "-lmpi", "-Wl,-rpath=/n", "-Xlinker",
             "--enable-new-dtags", "-Xlinker", "-rpath", "-Xlinker", "/n", "-Wl,-rpath,/o"]  # fmt: skip
    assert add.without_rpath(words) == [
        "cc", "-L/m", "-Wl,--enable-new-dtags", "-lmpi", "-Wl,--enable-new-dtags"
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------ finding


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any MPI; the folder of the project in it."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "MODULEPATH", "SPACK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(discover.sys, "prefix", str(tmp_path / "python"))
    monkeypatch.setattr(discover, "usual_places", lambda: iter(()))
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def found(project: Path, there: tuple[added.Added, ...] = ()) -> list[tuple[str, str]]:
    return [(str(one.compiler), one.where) for one in discover.find(there, project)]


def test_there_is_none(nowhere: Path) -> None:
    assert found(nowhere) == []


def test_on_path_each_once_by_its_own_name(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    folder = make_mpi(tmp_path / "usr").parent
    (folder / "mpicc").rename(folder / "mpicc.openmpi")
    (folder / "mpicc").symlink_to("mpicc.openmpi")
    make_mpicc(folder / "mpicc.mpich", "mpich", '"4.0.2"')
    script(folder / "mpicc_abi", "")
    (folder / "mpicc.txt").touch()
    (tmp_path / "bin").symlink_to(folder)
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path / 'bin'}:/nowhere")
    assert found(nowhere) == [
        (str(folder / "mpicc.openmpi"), "PATH"),
        (str(folder / "mpicc.mpich"), "PATH"),
    ]


def test_in_virtual_environments(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    places = [
        tmp_path / "python",
        tmp_path / "python/mpi/mpich",
        tmp_path / "active",
        nowhere / ".venv/mpi/openmpi",
    ]
    for place in places:
        make_mpi(place)
    (nowhere / ".venv/pyvenv.cfg").touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    assert found(nowhere) == [(f"{place}/bin/mpicc", f"virtual environment {place}") for place in places]


def test_in_environment_modules(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    tcl, lua, joined, other = (make_mpi(tmp_path / name) for name in ("tcl", "lua", "joined", "other"))
    (tmp_path / "modulefiles/openmpi").mkdir(parents=True)
    (tmp_path / "modulefiles/openmpi/5.0").write_text(
        f"#%Module\nset base {{{tmp_path}}}\nset root $base/tcl\n"
        'prepend-path PATH "${root}/bin"\nprepend-path PATH $env(X)/bin\n'
    )
    (tmp_path / "modulefiles/mpich.lua").write_text(f'prepend_path("PATH", "{lua.parent}")\n')
    (tmp_path / "modulefiles/joined.lua").write_text(
        f'local base = "{tmp_path}/joined"\n'
        'prepend_path("PATH", pathJoin(base, "bin"))\nprepend_path("PATH", unknown)\n'
    )
    (tmp_path / "modulefiles/gcc").write_text(
        f"prepend-path MANPATH {other.parent}\nprepend-path PATH /nowhere\n"
    )
    monkeypatch.setenv("MODULEPATH", f"{tmp_path / 'modulefiles'}:/nowhere")
    assert sorted(found(nowhere)) == [
        (str(joined), "environment module joined"),
        (str(lua), "environment module mpich"),
        (str(tcl), "environment module openmpi/5.0"),
    ]


def test_in_spack_trees(nowhere: Path, tmp_path: Path, monkeypatch: Any) -> None:
    old = make_mpi(tmp_path / "home/spack/opt/spack/linux-x/gcc-12/mpich-5-abc")
    new = make_mpi(tmp_path / "tree/opt/spack/linux/openmpi-5-def")
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "tree"))
    assert found(nowhere) == [(str(new), "spack, openmpi-5-def"), (str(old), "spack, mpich-5-abc")]


def test_one_that_does_not_work_is_found_with_its_reason(
    nowhere: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    script(tmp_path / "bin/mpicc", "echo 'mpicc: error: no compiler' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (one,) = discover.find([], nowhere)
    assert one.title == ""
    assert one.problem is not None
    assert "no compiler" in one.problem


def test_the_doctor_says_which_command_adds_each(
    netpipe: Netpipe, modules: Path, nowhere: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    said = netpipe("doctor", "--no-yardstick")
    assert "No MPI library was found" in said.out
    mpicc = make_mpi(tmp_path / "opt")
    monkeypatch.setenv("PATH", f"{mpicc.parent}:/usr/bin:/bin")
    monkeypatch.setattr(
        discover, "compilers", lambda folder, _: iter([mpicc] if folder == mpicc.parent else [])
    )
    monkeypatch.setenv("COLUMNS", "300")
    command = f"netpipe modules add mpi --mpicc {mpicc}"
    said = netpipe("doctor", "--no-yardstick")
    assert f"→ {command}\n" in "\n".join(line.rstrip() for line in said.out.splitlines()) + "\n"
    assert netpipe(*command.split()[1:]).code == 0
    assert "✓ Open MPI 4.1.4 is mpi@openmpi" in netpipe("doctor", "--no-yardstick").out
    answer = json.loads(netpipe("doctor", "--no-yardstick", "--json").out)
    assert ("mpi@openmpi", str(mpicc)) in {(one["module"], one["mpicc"]) for one in answer["mpi"]}
    monkeypatch.setenv("BROKEN", "1")
    assert "mpi@openmpi: libmpi.so.12 is missing" in netpipe("doctor", "--no-yardstick").out
