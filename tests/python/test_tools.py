# SPDX-License-Identifier: Apache-2.0
"""What `make check` selects for a change, and what the hook says of a commit message."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import affected as selection  # noqa: E402  (the folder has to be on the path first)
import commit_message  # noqa: E402
import imports  # noqa: E402
import run_tests  # noqa: E402


def affected(*changed: str) -> selection.Affected:
    return selection.affected(list(changed))


def names(*changed: str) -> set[str]:
    chosen = affected(*changed)
    return {Path(file).stem for file in (*chosen.python, *chosen.changed_tests)}


def ends(*changed: str) -> set[str]:
    return {Path(file).stem for file in affected(*changed).end_to_end}


def test_a_changed_module_selects_the_tests_that_reach_it() -> None:
    chosen = names("python/netpipe/reading/models/loggp.py")
    assert {"test_analysis_loggp", "test_cli_show", "test_rooms"} <= chosen
    assert not {"test_bench", "test_launch_variants"} & chosen


def test_everything_reaches_the_records() -> None:
    assert len(names("python/netpipe/records/kinds.py")) > len(
        names("python/netpipe/reading/models/loggp.py")
    )


def test_a_changed_test_selects_itself_and_a_changed_helper_its_users() -> None:
    chosen = names("tests/python/test_records.py")
    assert "test_records" in chosen
    assert "test_figures" not in chosen
    assert {"test_analysis_loggp", "test_figures"} <= names("tests/python/synthetic.py")


def test_a_template_belongs_to_the_modules_beside_it() -> None:
    assert "test_report" in names("python/netpipe/render/page/templates/report/legend.js")


def test_a_page_selects_the_tests_that_read_it() -> None:
    chosen = names("docs/reference/cli.md")
    assert "test_cli_shell" in chosen
    assert "test_analysis_loggp" not in chosen


def test_the_settings_of_pytest_select_everything() -> None:
    assert names("pyproject.toml") == {path.stem for path in Path(__file__).parent.glob("test_*.py")}


def test_a_changed_test_runs_whole_and_one_that_reads_it_briefly() -> None:
    chosen = affected("tests/e2e/test_hosts.py")
    assert chosen.changed_tests == ("tests/e2e/test_hosts.py",)
    assert "tests/e2e/test_zmq.py" in chosen.end_to_end, "it takes a fixture from there"
    assert "tests/e2e/test_hosts.py" not in chosen.end_to_end
    assert affected("tests/e2e/test_gone.py").changed_tests == (), "it was deleted"


TYPICAL = ("shm", "tcp")


@pytest.mark.parametrize(
    ("path", "modules", "layers"),
    [
        ("src/modules/unix/unix.cpp", ("unix",), ("unix",)),
        ("src/modules/mpi/library/mpi_family.h", ("mpi",), ("mpi",)),
        ("src/modules/shmem/module.toml", ("shmem",), ("shmem",)),
        ("src/modules/kit/libraries/over_mpi.h", ("armci", "tcgmsg"), ("armci", "tcgmsg")),
        ("src/modules/kit/services/queued.h", ("grpc", "nng", "zmq"), ("grpc", "nng", "zmq")),
        ("src/engine/watchdog.cpp", (), TYPICAL),
        ("src/catalog/options.cpp", (), TYPICAL),
        ("src/serving/serve.cpp", (), ()),
        ("src/patterns/halo.cpp", (), ()),
        ("tests/unit/plan_test.cpp", (), ()),
    ],
)
def test_a_native_change_selects_unit_tests_and_layers(
    path: str, modules: tuple[str, ...], layers: tuple[str, ...]
) -> None:
    chosen = affected(path)
    assert (chosen.native, chosen.modules, chosen.layers) == (True, modules, layers)


def test_a_header_selects_what_includes_it() -> None:
    chosen = affected("include/netpipe/module.h")
    assert set(chosen.modules) == set(run_tests.layers())
    assert {"Tcp", "EveryLayer"} <= set(chosen.suites)
    wire = affected("src/modules/kit/streams/fd_wire.h")  # of fd_io.h, which tcp includes
    assert {"tcp", "unix", "pipe"} <= set(wire.layers)
    assert not {"shm", "mpi", "null"} & set(wire.layers)
    assert "CudaMemory" in affected("src/modules/kit/gpu/cuda_memory.h").suites
    assert affected("src/engine/watchdog.h").suites == (), "modules are tested without the engine"


@pytest.mark.parametrize(
    ("path", "layers"),
    [
        ("python/netpipe/libraries/openmpi/family.h", ("mpi",)),
        ("python/netpipe/libraries/mpich/beneath.h", ("armci", "mpi", "tcgmsg")),
        ("python/netpipe/libraries/mpich/rules.py", ()),
    ],
)
def test_the_header_of_a_library_selects_the_layers_that_are_compiled_with_it(
    path: str, layers: tuple[str, ...]
) -> None:
    chosen = affected(path)
    assert (chosen.native, chosen.layers) == (False, layers)
    assert len(chosen.python) < 5 or path.endswith(".py"), "Python does not read it"


def test_a_pattern_selects_its_own_measurement() -> None:
    chosen = affected("src/patterns/collective.cpp")
    assert (chosen.patterns, chosen.layers) == (("collective",), ())
    assert "tests/e2e/test_collective.py" in chosen.end_to_end
    assert affected("src/patterns/kit/team.h").patterns == ("partitioned", "threads")
    assert (
        affected("src/patterns/kit/companion.cpp").patterns
        == affected("src/patterns/kit/companion.h").patterns
        != ()
    )
    every = {path.stem for path in (ROOT / "src" / "patterns").glob("*.cpp")}
    assert set(affected("src/engine/watchdog.cpp").patterns) == every
    assert affected("src/patterns/gone.cpp").patterns == (), "it was deleted"


def test_a_kernel_selects_its_own_verification() -> None:
    assert affected("src/apps/cg.c").kernels == ("cg",)
    assert affected("src/apps/multipartition.h").kernels == ("bt", "sp")
    assert not affected("src/apps/cg.c").native


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/profiler/messages.c", {"test_profile_command", "test_profiler_library"}),
        ("src/relay/tap.cpp", {"test_labs"}),
        ("src/serving/confine.cpp", {"test_behind_the_door", "test_strangers", "test_two_hosts"}),
        ("examples/ring.c", {"test_extension"}),
        ("tests/e2e/suspended.c", {"test_changed_machine"}),
        ("tests/e2e/shims.py", {"test_gpu_memory", "test_mpi_more"}),
        ("tests/profiler/late.c", {"test_profiler_library"}),
        ("tests/modules/lagging.c", {"test_collective", "test_in_force"}),
        ("tests/modules/bad/misbehaves.c", {"test_bad_modules"}),
        (
            "tests/install/conftest.py",
            {"test_aarch64", "test_extensions", "test_install", "test_recipes", "test_wheel"},
        ),
        ("src/modules/tcp/tcp.cpp", set()),
        ("src/sampling/sampler.cpp", set()),
    ],
)
def test_end_to_end_a_change_selects_the_tests_that_start_it(path: str, tests: set[str]) -> None:
    deep = {"test_in_guest"}  # runs other files again, elsewhere
    assert tests <= ends(path)
    assert len(ends(path) - deep) <= len(tests) + 1


def test_a_helper_of_the_tests_selects_its_users() -> None:
    assert {"test_armci", "test_shmem", "test_tcgmsg", "test_every_pattern"} <= ends(
        "tests/e2e/over_libraries.py"
    )
    assert {"test_armci", "test_mpi", "test_shmem", "test_tcgmsg"} <= ends("tests/e2e/every_pattern.py")
    libraries = ends("tests/e2e/mpi.py")
    assert {"test_mpi", "test_apps"} <= libraries
    assert not {"test_shmem", "test_udp", "test_faults"} & libraries
    assert {"test_faults", "test_udp", "test_mpi"} <= ends("tests/e2e/conftest.py")
    assert {"test_conformance", "test_mpi"} <= ends("tests/cells.py")


def test_cmake_files_select_all_layers_that_cmake_builds() -> None:
    chosen = affected("cmake/modules.cmake")
    assert set(chosen.layers) == set(run_tests.layers()) - {"armci", "mpi", "shmem", "tcgmsg"}
    assert chosen.modules == ()


def test_a_native_change_selects_only_python_tests_that_read_it() -> None:
    chosen = names("src/engine/watchdog.cpp")
    assert {"test_native", "test_rooms"} <= chosen
    assert len(chosen) < 8
    assert "test_report" not in chosen, "its 'src' is an attribute of HTML"
    assert "test_pages" in names("src/patterns/halo.cpp")


def test_a_file_names_paths_that_it_joins(tmp_path: Path) -> None:
    program = ROOT / "tests" / "python" / "test_tools.py"
    assert "tools" in imports.named_paths(program)
    text = """
ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
HERE = Path(__file__).parent
def test_a(tmp_path):
    (SRC / "apps" / name).read_text()
    (ROOT / "docs" / f"{name}.md").read_text()
    (tmp_path / "examples").mkdir()
    HERE.with_name("e2e")
    run(HERE / name, "include", "README.md", cwd=ROOT)
"""
    found = imports.paths_in(ast.parse(text), program)
    assert found == {"src/apps", "docs", "tests/e2e", "README.md"}


@pytest.mark.parametrize(
    ("path", "step", "words"),
    [
        ("src/modules/unix/unix.cpp", "conformance: unix", "--module unix -m not deep or row"),
        ("src/engine/watchdog.cpp", "conformance: shm, tcp", "--module shm --module tcp -m not deep and not slow"),
        ("src/modules/mpi/mpi.c", "compiled and measured: mpi", "tests/e2e/test_mpi.py -m check"),
        ("src/modules/armci/armci.c", "compiled and measured: armci", "tests/e2e/test_armci.py -m check"),
        ("src/patterns/halo.cpp", "patterns: halo", "test_in_force.py --parameter halo -m not deep"),
        ("src/apps/cg.c", "kernels: cg", "tests/e2e/test_apps.py --parameter cg -m not deep"),
        ("src/relay/tap.cpp", "some tests of what uses it: e2e", "tests/e2e/test_labs.py --brief"),
        ("tests/e2e/test_pipe.py", "changed tests: e2e", "tests/e2e/test_pipe.py -m not deep"),
        ("tests/modules/udp_module_test.cpp", "C++: module tests",
         "-R (^|/)EveryUdpVariant[.]|(^|/)Udp[.]|(^|/)UdpLoss[.]|(^|/)UdpRequests[.]"),
    ],
)  # fmt: skip
def test_a_check_runs_what_was_selected(path: str, step: str, words: str) -> None:
    steps = {one.name: one for one in run_tests.check(affected(path))}
    (command,) = steps[step].commands
    assert words in " ".join(command)


def test_the_tests_of_a_module_have_its_row_of_conformance() -> None:
    steps = {one.name: one for one in run_tests.of_module("armci")}
    (command,) = steps["conformance and behaviour: armci"].commands
    assert command[-3:] == ("armci", "-m", "not deep or row")


def test_without_a_change_the_quick_core_runs() -> None:
    chosen = names()
    assert {"test_records", "test_rooms"} <= chosen
    assert not {"test_cli_run", "test_figures", "test_report"} & chosen
    assert selection.affected([]).native


def test_outside_a_git_checkout_everything_runs() -> None:
    assert len(selection.affected(None).python) == len(list(Path(__file__).parent.glob("test_*.py")))


# -------------------------------------------------------------------------------------------------- commit messages


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("Name the slow host\n\nUsers read it first.\n", []),
        (f"{'a' * 72}\n\nWhy.\n", []),
        (f"{'a' * 73}\n\nWhy.\n", ["the subject has 73 characters; write at most 72"]),
        ("é" * 72 + "\n\nWhy.\n", []),
        ("Name the slow host\n", ["there is no body"]),
        ("Name the slow host\n\nSigned-off-by: A <a@b>\n", ["there is no body"]),
        ("Name the slow host\n\n# Please enter the commit message\n", ["there is no body"]),
        (
            f"Name it\n\n# {'-' * 24} >8 {'-' * 24}\n# Do not modify the line above.\ndiff --git a/x b/x\n",
            ["there is no body"],
        ),
        ("Name the slow host\nUsers read it first.\n", ["the second line is not empty"]),
        ("fixup! Name the slow host\n", []),
        ("", []),
    ],
)
def test_a_commit_message_has_a_short_subject_and_a_body(message: str, says: list[str]) -> None:
    found = commit_message.faults(message)
    assert len(found) == len(says)
    assert all(sentence.startswith(begin) for sentence, begin in zip(found, says, strict=True))


def test_the_hook_refuses_a_commit_without_a_body(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git")
    named = [
        git,
        "-C",
        str(tmp_path),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "core.hooksPath=hooks",
    ]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*named, *arguments], capture_output=True, text=True, check=False)

    assert run("init", "-q").returncode == 0
    hook = tmp_path / "hooks" / "commit-msg"
    hook.parent.mkdir()
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tools/commit_message.py" "$1"\n')
    hook.chmod(0o755)
    refused = run("commit", "-q", "--allow-empty", "-m", "Begin")
    assert refused.returncode != 0
    assert "commit message: there is no body; say why" in refused.stderr
    made = run("commit", "-q", "--allow-empty", "-m", "Begin", "-m", "Because all else needs it.")
    assert made.returncode == 0, made.stderr
    assert run("log", "--format=%s").stdout == "Begin\n"


def test_pre_commit_is_told_of_the_hook() -> None:
    settings = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    hook = settings.partition("- id: commit-message\n")[2].partition("- id:")[0]
    assert "entry: .venv/bin/python tools/commit_message.py\n" in hook
    assert "stages: [commit-msg]\n" in hook
    assert "default_install_hook_types: [pre-commit, commit-msg]\n" in settings
