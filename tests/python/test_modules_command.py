# SPDX-License-Identifier: Apache-2.0
"""netpipe modules: what is added, what is refused, and where it goes. tests/e2e/test_modules.py does the same with real
MPI libraries.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fake_mpi import FAMILIES, SAYS, files, listed, make_mpi, make_mpicc, needs_cc, script

from netpipe.failure import Failure
from netpipe.libraries import Family, launchers
from netpipe.libraries.adding import added, compiler, discover, layers

if TYPE_CHECKING:
    from conftest import Netpipe, Said


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


# --------------------------------------------------------------------------------------------- what is refused


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
    said = netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--into", str(mine))
    assert said.code == 0
    # The command that it ends with finds the module there.
    assert said.out.endswith(f"Measure it with: NETPIPE_MODULE_PATH={mine} netpipe run mpi@openmpi\n")
    assert files(mine) == ["mpi@openmpi.module", "mpi@openmpi.so"]
    assert listed(netpipe) == []
    monkeypatch.setenv("NETPIPE_MODULE_PATH", str(mine))
    assert [one["mpicc"] for one in listed(netpipe)] == [str(mpicc)]
    said = netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--into", str(mine))
    assert said.out.endswith("Measure it with: netpipe run mpi@openmpi\n")
    said = netpipe("modules", "add", "mpi", "--mpicc", str(mpicc), "--into", "a b", "--replace")
    assert f"NETPIPE_MODULE_PATH='{Path.cwd()}/a b:{mine}' netpipe run" in said.out


def test_a_library_module_that_is_given_as_a_file_brings_its_description(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker lists it with its description, which says what starts its processes: in no folder of modules."""
    from netpipe import native
    from netpipe.session import Request, Session

    add = ("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt")))
    assert netpipe(*add, "--into", str(tmp_path / "mine")).code == 0
    file = tmp_path / "mine" / "mpi@openmpi.module"
    listing = native.list_()
    module = {"name": "mpi@openmpi", "launched": True, "description": str(file)}
    listed_with = {**listing, "modules": [*listing["modules"], module]}
    monkeypatch.setattr(
        native, "list_", lambda files=(): listed_with if list(files) == [str(file)] else listing
    )
    monkeypatch.chdir(tmp_path)
    Session(Request(["tcp"], modules=["mine/mpi@openmpi.module"]))._launchers().check("mpi@openmpi")
    with pytest.raises(Failure, match="there is no description of mpi@openmpi"):
        Session(Request(["tcp"]))._launchers().check("mpi@openmpi")


@pytest.mark.gate
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
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from netpipe import native

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
    (modules / "verbs.so").touch()  # it was built
    for available, code, says in ((True, 2, "netpipe run verbs\n"), (False, 3, "there is no RDMA device\n")):
        one = {"name": "verbs", "summary": "s", "available": available, "reason": "there is no RDMA device"}
        monkeypatch.setattr(native, "list_", lambda *_, one=one: {"modules": [one]})
        said = netpipe("modules", "add", "verbs")
        assert (said.code, said.err) == (
            code,
            f"netpipe: verbs comes with netpipe, so there is nothing to add: {says}",
        )
    said = netpipe("modules", "add", "telepathy")
    assert (said.code, "there is no layer 'telepathy'" in said.err, "mpi" in said.err) == (2, True, True)


def test_layers_that_are_not_available_here_are_listed_with_the_reason(
    netpipe: Netpipe, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from netpipe import native

    monkeypatch.setattr(discover, "candidates", lambda *_: iter(()))
    without = "no library for MPI was added; pip install mpich, then netpipe modules add mpi --mpicc PATH"
    for command in ("modules", "list", "doctor"):  # the example is true of all layers that are added
        said = " ".join(netpipe(command, *(["--no-yardstick"] if command == "doctor" else [])).out.split())
        assert without in said
        for layer in ("shmem", "armci", "tcgmsg"):
            assert f"netpipe modules add {layer} --" in said, command
    # Where one of its compilers is here, it is named in place of a command that installs one.
    mpicc = make_mpi(tmp_path / "here")
    found = [discover.Candidate(mpicc, "PATH")]
    monkeypatch.setattr(discover, "candidates", lambda layer, *_: iter(found if layer.name == "mpi" else []))
    for command in ("modules", "list", "doctor"):
        said = netpipe(command, *(["--no-yardstick"] if command == "doctor" else [])).out
        together = "".join(said.split())  # a path may be broken at its end of a line
        assert f"nolibraryforMPIwasadded;netpipemodulesaddmpi--mpicc{mpicc}" in together, command
    listing = native.list_()
    reason = "it was not built: no header; apt install libucx-dev, then build netpipe again"
    listing["modules"].append({"name": "ucx", "summary": "s", "available": False, "reason": reason})
    listing["modules"].append({"name": "mpi@openmpi", "summary": "s", "available": False, "reason": "gone"})
    monkeypatch.setattr(native, "list_", lambda *_: listing)
    assert netpipe("modules", "add", "mpi", "--mpicc", str(make_mpi(tmp_path / "opt"))).code == 0
    table = netpipe("modules").out
    assert f"· ucx: {reason}\n" in table
    assert "gone" not in table  # an added library has its health above
    missing = json.loads(netpipe("modules", "--json").out)["missing"]
    assert {"name": "ucx", "summary": "s", "reason": reason} in missing
    assert [one["name"] for one in missing] == ["ucx", "armci", "shmem", "tcgmsg"], "mpi has a library now"


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
