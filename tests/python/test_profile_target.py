# SPDX-License-Identifier: Apache-2.0
"""How a command is put under the profiler: behind `env NAME=VALUE` too the launcher is told what its ranks need; a
program of the standard ABI gets a profiler for that; a static program and a job script are refused.
"""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe import libraries
from netpipe.failure import UNAVAILABLE, USAGE, Failure
from netpipe.profiling import target as targets
from netpipe.profiling.elf import is_static
from netpipe.profiling.run import with_variables
from netpipe.profiling.scripts import launches, launches_of_words
from netpipe.profiling.target import Target, _behind_env, understand


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("mpirun -n 2 ./app", 0),
        ("env A=1 B_2= mpirun -n 2 ./app", 3),
        ("/usr/bin/env mpirun ./app A=1", 1),
        ("env -i A=1 mpirun ./app", 0),
        ("env A=1", 0),
        ("env", 0),
        ("./env.sh A=1 mpirun", 0),
    ],
)
def test_what_env_starts_is_what_counts(words: str, place: int) -> None:
    assert _behind_env(words.split()) == place


def test_the_launcher_behind_env_gets_the_variables_of_its_ranks() -> None:
    command = ("env", "A=1", "mpirun", "-n", "2", "./app")
    build: Any = SimpleNamespace(title="Open MPI 5.0.11")
    target = Target(command, libraries.launchers()["openmpi"], None, build, "", 2)
    assert with_variables(target, {"X": "y"}) == ["env", "A=1", "mpirun", "-x", "X=y", "-n", "2", "./app"]
    alone = Target(("./app", "1"), None, None, build, "")
    assert with_variables(alone, {"X": "y"}) == ["./app", "1"]


# -------------------------------------------------------------------------------------------------------- LAM


def test_lams_ranks_get_what_mpirun_exports() -> None:
    """They have the environment of the daemons, and mpirun does not understand every value."""
    build: Any = SimpleNamespace(title="LAM/MPI 7.1.4")
    lam = libraries.launchers()["lam"]

    def command(*words: str) -> list[str]:
        target = Target(("mpirun.lam", *words), lam, None, build, "")
        return with_variables(target, {"A": "/x", "B": "two words", "C": "1,2"})[1:]

    assert command("-np", "2", "./app") == ["-x", "A=/x,B,C", "-np", "2", "./app"]
    # It reads one -x alone, and what stands behind the program is the program's.
    assert command("-ssi", "rpi", "tcp", "-x", "OWN", "C", "./app") == [
        "-ssi", "rpi", "tcp", "-x", "OWN,A=/x,B,C", "C", "./app"
    ]  # fmt: skip
    assert command("C", "./app", "-x", "1") == ["-x", "A=/x,B,C", "C", "./app", "-x", "1"]
    assert lam.passing({}) == []


def test_a_program_of_lam_is_known_by_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = tmp_path / "app"
    app.write_bytes(b"\x7fELF")
    text = "\tliblamio.so.4 => /lib/liblamio.so.4 (0x1)\n\tliblam.so.4 => /lib/liblam.so.4 (0x2)\n"
    monkeypatch.setattr(targets.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=text))
    assert targets._libmpi(app) == Path("/lib/liblam.so.4")


# ------------------------------------------------------------------------------------------------- the standard ABI


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with both compilers, of which nothing was added. A compiler is of the kind that its name says."""
    for folder, names in (
        ("bin", ("mpicc", "mpicc_abi", "mpiexec")),
        ("lib", ("libmpi.so.12", "libmpi_abi.so.1")),
    ):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text("#!/bin/sh\n")
            (tmp_path / folder / name).chmod(0o755)
    families = {one.name: one for one in libraries.families("mpi")}

    def built(path: Path) -> Any:
        family = families["abi" if path.name == "mpicc_abi" else "mpich"]
        return SimpleNamespace(title=str(path), library=SimpleNamespace(family=family))

    monkeypatch.setattr(targets.programs, "builder_of", built)
    monkeypatch.setattr(targets.programs, "builder", lambda one: built(one.compiler))
    monkeypatch.setattr(targets, "_folders", lambda _: [tmp_path / "lib"])
    monkeypatch.setattr(targets.added, "all_", lambda **_: [])
    return tmp_path


def linked(monkeypatch: pytest.MonkeyPatch, **libraries_of: Path) -> None:
    """By the name of the file: what ldd would say of it."""
    monkeypatch.setattr(targets, "_libmpi", lambda path: libraries_of.get(path.name.partition(".")[0]))


@pytest.mark.parametrize(
    ("library", "compiler"), [("libmpi_abi.so.1", "mpicc_abi"), ("libmpi.so.12", "mpicc")]
)
def test_a_program_gets_a_profiler_for_the_interface_that_it_is_linked_with(
    prefix: Path, monkeypatch: pytest.MonkeyPatch, library: str, compiler: str
) -> None:
    (prefix / "app").write_text("")
    (prefix / "app").chmod(0o755)
    linked(monkeypatch, app=prefix / "lib" / library)
    found = understand([str(prefix / "bin/mpiexec"), "-n", "2", str(prefix / "app")])
    assert (Path(found.build.title), found.module) == (prefix / "bin" / compiler, "")


def test_srun_starts_programs_of_libraries_that_speak_with_slurm(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes its environment on by itself."""
    srun = prefix / "bin/srun"
    srun.write_text("#!/bin/sh\necho slurm-wlm 23.11.4\n")
    (prefix / "app").write_text("")
    for path in (srun, prefix / "app"):
        path.chmod(0o755)
    linked(monkeypatch, app=prefix / "lib/libmpi.so.12")
    command = [str(srun), "--mpi=pmi2", "-n", "2", str(prefix / "app")]
    found = understand(command)
    assert found.launcher is libraries.launchers()["srun"]
    assert (found.program, found.build.title) == (prefix / "app", str(prefix / "bin/mpicc"))
    assert with_variables(found, {"LD_PRELOAD": "/x"}) == command


def test_without_its_compiler_the_abi_is_what_to_add(prefix: Path) -> None:
    (prefix / "bin/mpicc_abi").unlink()
    with pytest.raises(Failure, match="netpipe modules add mpi --abi --mpicc PATH/mpicc_abi") as failed:
        targets._builder_near(prefix / "lib/libmpi_abi.so.1", prefix / "bin/mpiexec")
    assert failed.value.exit_code == UNAVAILABLE


def test_a_profiler_for_the_abi_fits_every_library_that_has_it(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intel MPI has the ABI and no compiler for it: the module of another library has one."""
    (prefix / "bin/mpicc_abi").rename(prefix / "mpicc_abi")
    (prefix / "app").write_text("")
    (prefix / "app").chmod(0o755)
    other = SimpleNamespace(
        name="mpi@mpich-abi", file=Path("mpich.so"), compiler=prefix / "mpicc_abi", launcher=None
    )
    monkeypatch.setattr(targets.added, "all_", lambda **_: [other])
    linked(monkeypatch, app=prefix / "lib/libmpi_abi.so.1", mpich=Path("/mpich/lib/libmpi_abi.so.1"))
    found = understand([str(prefix / "bin/mpiexec"), str(prefix / "app")])
    assert (found.build.title, found.module) == (str(prefix / "mpicc_abi"), ""), (
        "the module is of another library"
    )
    linked(monkeypatch, app=prefix / "lib/libmpi.so.12", mpich=Path("/mpich/lib/libmpi_abi.so.1"))
    assert understand([str(prefix / "bin/mpiexec"), str(prefix / "app")]).build.title.endswith("/bin/mpicc")


def test_of_two_modules_that_find_the_library_it_is_that_of_the_launcher(
    prefix: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By LD_LIBRARY_PATH a module may find a library that it was not built for. Where no launcher tells, it is the one
    that was added with this library.
    """
    (prefix / "app").write_text("")
    (prefix / "app").chmod(0o755)
    library, compiler = prefix / "lib/libmpi.so.12", prefix / "bin/mpicc"
    lines = SimpleNamespace(loaded=[])
    both = [
        SimpleNamespace(
            name=f"mpi@{name}",
            file=Path(f"{name}.so"),
            compiler=compiler,
            launcher=("mpich", path),
            lines=lines,
        )
        for name, path in (("intel", prefix / "other/mpiexec"), ("mpich", prefix / "bin/mpiexec"))
    ]
    monkeypatch.setattr(targets.added, "all_", lambda **_: both)
    linked(monkeypatch, app=library, intel=library, mpich=library)
    assert understand([str(prefix / "bin/mpiexec"), str(prefix / "app")]).module == "mpi@mpich"
    assert understand([str(prefix / "app")]).module == "mpi@intel"
    both[1].lines = SimpleNamespace(loaded=[library])
    assert understand([str(prefix / "app")]).module == "mpi@mpich"


# --------------------------------------------------------------------------------------------------- static programs

NEEDED, FLAGS = 1, 0x6FFFFFFB  # DT_NEEDED, DT_FLAGS_1
NOW, PIE = 0x1, 0x08000000  # DF_1_NOW, DF_1_PIE
EXEC, DYN = 2, 3
INTERP, DYNAMIC, LOAD = 3, 2, 1


def elf(
    kind: int, segments: tuple[int, ...], flags: int | None = None, wide: bool = True, order: str = "<"
) -> bytes:
    """An ELF file with these program headers, and a dynamic section with these flags."""
    word = "Q" if wide else "I"
    ident = bytes([0x7F, *b"ELF", 2 if wide else 1, 1 if order == "<" else 2, 1]).ljust(16, b"\0")
    size, each = (64, 56) if wide else (52, 32)
    dynamic = size + each * len(segments)
    entries = [(NEEDED, 1)] + ([(FLAGS, flags)] if flags is not None else []) + [(0, 0)]
    table = b"".join(struct.pack(f"{order}2{word}", *one) for one in entries)
    head = struct.pack(
        f"{order}HHI3{word}I6H", kind, 62, 1, 0, size, 0, 0, size, each, len(segments), 64, 0, 0
    )
    rows = b"".join(
        struct.pack(f"{order}2I6Q", one, 0, dynamic, 0, 0, len(table), len(table), 8)
        if wide
        else struct.pack(f"{order}8I", one, dynamic, 0, 0, len(table), len(table), 0, 4)
        for one in segments
    )
    return ident + head + rows + table


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_program_without_a_loader_is_static_wherever_it_is_put(
    tmp_path: Path, wide: bool, order: str
) -> None:
    path = tmp_path / "app"
    for kind, segments, flags, expected in (
        (EXEC, (LOAD,), None, True),
        (EXEC, (LOAD, DYNAMIC, INTERP), None, False),
        (DYN, (LOAD, DYNAMIC), NOW | PIE, True),
        (DYN, (INTERP, LOAD, DYNAMIC), PIE, False),
        (DYN, (LOAD, DYNAMIC), NOW, False),  # a shared library
        (DYN, (LOAD, DYNAMIC), None, False),
        (DYN, (LOAD,), None, False),
        (1, (), None, False),  # an object
    ):
        path.write_bytes(elf(kind, segments, flags, wide, order))
        assert is_static(path) == expected, (kind, segments, flags)
    whole = elf(DYN, (LOAD, DYNAMIC), PIE, wide, order)
    for length in range(0, len(whole) - (32 if wide else 16), 7):  # cut off before the flags
        path.write_bytes(whole[:length])
        assert not is_static(path)
    path.write_bytes(elf(EXEC, (LOAD,))[:20])
    assert not is_static(path)
    path.write_text("#!/bin/sh\n")
    assert not is_static(path)


def test_a_static_pie_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(elf(DYN, (LOAD, DYNAMIC), PIE) + b"MPI_COMM_WORLD")
    path.chmod(0o755)
    with pytest.raises(Failure, match="is linked statically, so nothing can be put under it") as failed:
        targets._program([str(path)])
    assert failed.value.exit_code == USAGE
    path.write_bytes(elf(DYN, (LOAD, DYNAMIC), NOW) + b"MPI_COMM_WORLD")
    assert targets._program([str(path)]) == (path, None)


# ---------------------------------------------------------------------------------------------------------- scripts

JOB = """#!/bin/bash
#SBATCH -N 2
# mpirun -n 2 ./not-this
module load openmpi
mpirun -n 4 ./first
echo "mpirun is done"
if OMP_NUM_THREADS=1 /opt/mpi/bin/mpiexec.hydra -n 2 ./second; then (srun ./third); fi
netpipe profile -- mpirun -n 4 ./profiled
"""


def test_a_script_that_starts_launchers_is_told_where_to_put_the_profiler(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(JOB)
    script.chmod(0o755)
    for command in ([str(script)], ["bash", str(script)], ["env", "A=1", str(script)]):
        with pytest.raises(Failure) as failed:
            understand(command)
        assert failed.value.exit_code == USAGE
        assert failed.value.sentence == (
            f"{script} is a script that starts launchers itself (lines 5, 7), and a profile is of one program; profile "
            "each inside the script, with an output of its own: netpipe profile -o profile-1.jsonl -- "
            "mpirun -n 4 ./first"
        )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            JOB,
            [
                (5, "mpirun -n 4 ./first"),
                (7, "/opt/mpi/bin/mpiexec.hydra -n 2 ./second; then (srun ./third); fi"),
            ],
        ),
        ("cd run && mpirun -n 2 ./a\n", [(1, "mpirun -n 2 ./a")]),
        ("time srun ./a", [(1, "srun ./a")]),
        ("which mpirun\nmpirun\nMPIRUN=mpirun\n", []),
        ("\0mpirun -n 2 ./a\n", []),
        ("", []),
    ],
)
def test_the_launchers_of_a_script_are_found(tmp_path: Path, text: str, lines: list[tuple[int, str]]) -> None:
    script = tmp_path / "job.sh"
    script.write_text(text)
    assert launches(script) == lines
    assert launches(tmp_path / "no-such-file") == []


@pytest.mark.parametrize(
    ("words", "many"),
    [
        (["sh", "-c", "mpiexec -n 2 ./a; mpiexec -n 2 ./b"], "sh -c starts 2 launchers"),
        (["bash", "-e", "-lc", "cd run && mpiexec -n 2 ./a"], "bash -lc starts 1 launcher"),
        (
            ["env", "A=1", "/bin/sh", "-c", "B=2 mpiexec -n 2 ./a\n  srun ./b"],
            "/bin/sh -c starts 2 launchers",
        ),
    ],
)
def test_a_text_for_a_shell_that_starts_launchers_is_refused_as_a_script_is(
    words: list[str], many: str
) -> None:
    with pytest.raises(Failure) as failed:
        understand(words)
    assert failed.value.exit_code == USAGE
    assert failed.value.sentence.startswith(f"{many} itself, and a profile is of one program; profile ")
    assert failed.value.sentence.endswith("netpipe profile -o profile-1.jsonl -- mpiexec -n 2 ./a")


@pytest.mark.parametrize("words", ["sh -c ./app", "sh", "sh -c", "sh -x mpirun", "echo -c mpirun"])
def test_a_shell_that_starts_no_launcher_is_none_of_these(words: str) -> None:
    assert launches_of_words(words.split()) in (("", []), ("sh -c", []))


def test_a_script_without_a_launcher_is_asked_for_one(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n./app\n")
    script.chmod(0o755)
    with pytest.raises(Failure, match="is not linked with an MPI library, and is no launcher of one"):
        understand([str(script)])
