# SPDX-License-Identifier: Apache-2.0
"""How the tiers run their tests (tools/run_tests.py, tests/conftest.py): what they choose, count, run again and leave
out, and what they come to together.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import affected  # noqa: E402  (the folder has to be on the path first)
import run_tests  # noqa: E402


def pytest_in(folder: Path, *options: str) -> str:
    """What pytest says of the test files of a folder under our conftest.py."""
    for name in ("conftest.py", "cells.py"):
        (folder / name).write_text((ROOT / "tests" / name).read_text())
    (folder / "slow.txt").write_text("test_some.py::test_slow\ntest_whole.py\n")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    deep\n    slow\n    gate\n    check\n")
    command = (sys.executable, "-m", "pytest", "-n0", "-p", "no:randomly", "-rs", "-v", *options)
    # this test may itself run in a tier that begins elsewhere
    environment = {key: value for key, value in os.environ.items() if key != "NETPIPE_TESTS_BEGIN"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_briefly_no_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_slow(): pass\ndef test_a(): pass\ndef test_b(): pass\n")
    (tmp_path / "test_whole.py").write_text("def test_first(): pass\ndef test_second(): pass\n")
    (tmp_path / "test_deep.py").write_text(
        "import pytest\npytestmark = pytest.mark.deep\ndef test_c(): pass\ndef test_d(): pass\n"
    )
    said = pytest_in(tmp_path, "--brief")
    ran = [line.split()[0] for line in said.splitlines() if " PASSED" in line]
    assert ran == ["test_some.py::test_a", "test_some.py::test_b", "test_whole.py::test_first"]
    assert "only `make test-deep` runs the tests of test_deep.py" in said
    assert "3 passed, 1 skipped, 3 deselected" in said


def test_parameters_and_modules_are_chosen_by_name(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('what', ['put', 'put:sync=fence', 'compute', 'tcp-put', 'get'])\n"
        "def test_it(what): pass\n"
        "def test_put(): pass\n"
    )
    said = pytest_in(tmp_path, "--parameter", "put", "--parameter", "get")
    ran = [line.split("test_it")[1].split()[0] for line in said.splitlines() if " PASSED" in line]
    assert ran == ["[put]", "[put:sync=fence]", "[tcp-put]", "[get]"]
    assert "1 passed, 5 deselected" in pytest_in(tmp_path, "--module", "tcp", "--module", "shm")


def test_the_tiers_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_tests, "RESULTS", tmp_path)

    unreached: dict[str, int] = {}

    def ended(tier: str, *failures: str, **counts: int) -> None:
        summary = {"counts": counts, "failures": failures, "unsteady": [], "unreached": unreached}
        (tmp_path / f"{tier}.json").write_text(json.dumps(summary))

    ended("test", passed=7, skipped=1)
    assert run_tests.main(["total", "test", "deep"]) == 1
    said = capsys.readouterr().out
    assert "the tier 'deep' did not run to its end" in said
    assert said.endswith("\n7 passed, 1 failed, 1 skipped\n"), "a tier that broke off has failed"
    ended("deep", passed=3, skipped=2)
    assert run_tests.main(["total", "test", "deep"]) == 0
    assert capsys.readouterr().out == "10 passed, 0 failed, 3 skipped\n"
    ended("test", "lint: ruff ended with exit code 1", passed=6, failed=1)
    assert run_tests.main(["total", "test", "deep"]) == 1
    said = capsys.readouterr().out
    assert said == "\nfailed:\n  test: lint: ruff ended with exit code 1\n9 passed, 1 failed, 2 skipped\n"
    unreached["Python"] = 40
    ended("test", passed=6)
    assert run_tests.main(["total", "test"]) == 0
    assert "\n  test: Python: 40 of its tests or commands\n6 passed, 0 " in capsys.readouterr().out


def test_a_skipped_test_says_why(tmp_path: Path) -> None:
    """ctest knows only that a test of GoogleTest was skipped; its output has the reason."""
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuite>
<testcase name="avx"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>[ RUN      ] Memcpy.avx
tests/a_test.cpp:9: Skipped
avx needs another processor
[  SKIPPED ] Memcpy.avx (0 ms)
</system-out></testcase>
<testcase name="csh"><skipped message="no csh here"/></testcase>
<testcase name="fine"><system-out>0: Skipped</system-out></testcase>
</testsuite>"""
    )
    outcome = run_tests.Outcome()
    outcome.read(report)
    assert outcome.skips == {"avx needs another processor": 1, "no csh here": 1}
    assert outcome.counts == {"skipped": 2, "passed": 1}


def test_what_fails_is_run_again_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_tests, "RESULTS", tmp_path)
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    (tmp_path / "test_some.py").write_text(
        "from pathlib import Path\n"
        "def test_fine(): pass\n"
        "def test_once():\n"
        "    seen = Path('seen').exists()\n"
        "    Path('seen').touch()\n"
        "    assert seen\n"
        "def test_always(): assert False\n"
    )
    step = run_tests.Step("some", (run_tests.pytest("-p", "no:randomly", "test_some.py"),))
    assert run_tests.run_tier("check", [step]) == 1
    said = capsys.readouterr().out
    assert "unsteady (failed, and passed when run again):\n  some: test_some test_once\n" in said
    assert "failed:\n  some: test_some test_always: assert False\n" in said
    assert "\n2 passed, 1 failed, 0 skipped in " in said


def test_what_fails_under_ctest_is_run_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_tests, "RESULTS", tmp_path)
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\n"
        "project(some LANGUAGES NONE)\n"
        "enable_testing()\n"
        "add_test(NAME fine COMMAND cmake -E true)\n"
        "add_test(NAME once COMMAND sh -c [[test -e seen || { touch seen; false; }]])\n"
        "add_test(NAME always COMMAND cmake -E false)\n"
    )
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build"], check=True, capture_output=True)
    assert run_tests.run_tier("check", [run_tests.Step("some", (run_tests.ctest("build"),))]) == 1
    said = capsys.readouterr().out
    assert "unsteady (failed, and passed when run again):\n  some: once once\n" in said
    assert "failed:\n  some: always always: " in said
    assert "\n2 passed, 1 failed, 0 skipped in " in said


def test_a_module_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main(["module", "tpc"]) == 2
    said = capsys.readouterr().err
    assert f"there is no module 'tpc' in src/modules; there are {', '.join(run_tests.layers())}" in said
    assert "tcp" in run_tests.layers()


def test_every_slow_test_is_there() -> None:
    for line in run_tests.SLOW.read_text().splitlines():
        if not line.startswith("#"):
            place, _, name = line.partition("::")
            assert not name or f"def {name.partition('[')[0]}(" in (ROOT / place).read_text(), line
            assert (ROOT / place).is_file(), line


def test_what_takes_long_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuite><testcase classname="tests.python.test_tools" name="test_a[1]" time="0.9"/>'
        '<testcase classname="tests.python.test_tools" name="test_b" time="0.1"/>'
        '<testcase classname="tests.python.test_gone" name="test_c" time="9"/></testsuite>'
    )
    (tmp_path / "slow.txt").write_text("# old\ntests/e2e/test_whole.py\ntests/python/test_tools.py::test_b\n")
    monkeypatch.setattr(run_tests, "SLOW", tmp_path / "slow.txt")
    assert run_tests.main(["slow", str(report)]) == 0
    lines = (tmp_path / "slow.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "tests/e2e/test_whole.py",
        "tests/python/test_tools.py::test_a[1]",
    ]


def test_a_run_that_was_killed_keeps_the_results_so_far(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import os, signal, pytest\n"
        "def test_passes(): pass\n"
        "def test_fails(): assert 1 == 2, 'one is not two'\n"
        "def test_skips(): pytest.skip('no card here')\n"
        "def test_ends_it_all(): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for name in ("conftest.py", "cells.py"):
        (tmp_path / name).write_text((run_tests.ROOT / "tests" / name).read_text())
    (tmp_path / "slow.txt").touch()
    command = (sys.executable, "-m", "pytest", "-q", "-n0", str(tmp_path), "--junitxml={report}")

    outcome = run_tests.run_step(run_tests.Step("cut off", (command,)), tmp_path / "some.xml")

    assert outcome.counts == {"passed": 1, "failed": 2, "skipped": 1}
    assert outcome.skips == {"no card here": 1}
    assert any("one is not two" in said for said in outcome.failures.values())
    assert outcome.failures[sys.executable] == "ended with exit code -9 before its last test"
    assert any(test.endswith("test_fails") for test in outcome.failures)


def run_within(limit_s: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The command of a step that runs the tests of this folder as ours are run."""
    for name in ("conftest.py", "cells.py"):
        (folder / name).write_text((run_tests.ROOT / "tests" / name).read_text())
    (folder / "slow.txt").touch()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = takes\n")
    monkeypatch.setattr(run_tests, "RESULTS", folder)
    monkeypatch.setattr(run_tests, "_began", time.monotonic())
    monkeypatch.setenv("WITHIN", str(limit_s))
    words = ("-m", "pytest", "-q", "--numprocesses", "0", "-p", "no:randomly", str(folder))
    return (sys.executable, *words, "--junitxml={report}")


def test_before_the_time_is_up_no_test_begins_that_takes_longer_and_what_failed_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "from pathlib import Path\n"
        "TRIED = Path(__file__).with_name('tried')\n"
        "def test_fails_once():\n"
        "    tried = TRIED.exists()\n"
        "    TRIED.touch()\n"
        "    assert tried\n"
        "@pytest.mark.takes(40)\n"
        "def test_takes_long(): pass\n"
        "@pytest.mark.takes(400)\n"
        "def test_takes_too_long(): assert False\n"
    )
    tests = run_within(60, tmp_path, monkeypatch)
    assert run_tests.run_tier("check", [run_tests.Step("tests", (tests,))]) == 0
    said = capsys.readouterr().out
    assert "  tests: 1 of its tests or commands\n" in said
    assert "unsteady (failed, and passed when run again):\n  tests: " in said
    assert "\n2 passed, 0 failed, 0 skipped in " in said


def test_what_is_not_reached_in_time_is_counted_and_has_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_some.py").write_text(
        "import time\n"
        "def test_passes(): pass\n"
        "def test_takes_long(): time.sleep(600)\n"
        "def test_comes_behind(): pass\n"
    )
    tests = run_within(8, tmp_path, monkeypatch)
    steps = [run_tests.Step("tests", (tests,)), run_tests.Step("late", (("true",),))]
    assert run_tests.run_tier("check", steps) == 0
    said = capsys.readouterr().out
    assert "not reached, because the time was up:" in said
    assert "  tests: 2 of its tests or commands\n" in said
    assert "  late: 1 of its tests or commands\n" in said
    assert "\n1 passed, 0 failed, 0 skipped in " in said
    assert json.loads((tmp_path / "check.json").read_text())["unreached"] == {"tests": 2, "late": 1}


@pytest.mark.parametrize(
    ("begin", "order"), [(None, "abcxyz"), ("0", "abcxyz"), ("1", "bcayzx"), ("5", "cabzxy")]
)
def test_the_tests_begin_at_another_file_and_measurements_are_first(
    tmp_path: Path, begin: str | None, order: str
) -> None:
    for name in "xyz":
        (tmp_path / f"test_{name}.py").write_text("def test_it(): pass\n")
    (tmp_path / "e2e").mkdir()
    for name in "abc":
        (tmp_path / "e2e" / f"test_{name}.py").write_text("def test_it(): pass\n")
    for name in ("conftest.py", "cells.py"):
        (tmp_path / name).write_text((run_tests.ROOT / "tests" / name).read_text())
    (tmp_path / "slow.txt").touch()
    log = tmp_path / "log"
    environment = {key: value for key, value in os.environ.items() if key != "NETPIPE_TESTS_BEGIN"}
    environment["NETPIPE_TESTS_LOG"] = str(log)
    if begin is not None:
        environment["NETPIPE_TESTS_BEGIN"] = begin
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        tmp_path,
    ]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=60)
    ran = [json.loads(line) for line in log.read_text().splitlines()]
    assert "".join(line["test"].partition(".py")[0][-1] for line in ran if "test" in line) == order


def test_each_file_is_analyzed_with_one_of_so_many_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for commit in range(100, 100 + run_tests.ANALYZED):
        monkeypatch.setenv("NETPIPE_TESTS_BEGIN", str(commit))
        parts.append(run_tests.one_part(run_tests.ANALYZED))
    everything = [name for part in parts for name in part]
    assert len(everything) == len(set(everything))
    assert {str(ROOT / name) for name in everything} == {
        str(path) for path in (ROOT / "src").rglob("*") if path.suffix in {".c", ".cpp"}
    }
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    (step,) = [one for one in run_tests.deep() if "analyzer, " in one.name]
    ((*_, last),) = step.commands
    assert re.fullmatch(last, str(ROOT / parts[-1][-1]))


def test_a_check_has_clang_tidy_for_changed_sources_and_for_a_user_of_changed_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, header = "src/catalog/description.cpp", "src/catalog/description.h"
    assert affected.sources_of([source, "src/no/such.cpp", "tests/unit/plan_test.cpp"]) == (source,)
    (user,) = affected.sources_of([header])
    assert user.endswith(".cpp")
    assert header in affected.cpp_parts()[user]

    def tidied() -> list[str]:
        steps = run_tests.check(affected.Affected(sources=(source,)))
        return [word for step in steps if "tidy" in step.name for word in step.commands[0]]

    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert re.fullmatch(tidied()[-1], str(ROOT / source))
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert not tidied()


def test_a_tier_that_is_told_to_end_takes_its_tests_along(tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(run_tests.ROOT / 'tools')!r}); import run_tests\n"
        "run_tests.end_when_told(); run_tests.run(('sh', '-c', 'echo $$ > pid; exec sleep 60'), {})\n"
    ).replace("pid;", f"{tmp_path}/pid;")
    process = subprocess.Popen([sys.executable, "-c", program])
    pid = tmp_path / "pid"
    deadline = time.monotonic() + 20
    while not (pid.is_file() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    assert process.wait(20) == 143
    status = Path(f"/proc/{int(pid.read_text())}/status")
    while status.is_file() and "State:\tZ" not in status.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not status.is_file() or "State:\tZ" in status.read_text()
