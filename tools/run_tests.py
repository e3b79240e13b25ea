#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of `make check`, `make tidy` or `make test`, each to its end whether or not one before it failed. The
end says what each came to: tests passed, failed and skipped, and the seconds it took.

Exit code: 0 when every step passed, 1 when one failed, 2 for a group that there is not.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "results"
CORES = str(os.cpu_count() or 1)
LIMIT_S = 900  # of one command; none comes near it unless it hangs

UNIT_TESTS = "netpipe-unit-tests"  # the CMake target

Command = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    name: str
    groups: str
    commands: tuple[Command, ...]  # {report} becomes a file for JUnit XML; the tests in it are counted
    environment: dict[str, str] = field(default_factory=dict)


def c_sources() -> Command:
    folders = ("include", "src", "tests", "examples", "bench")
    return tuple(
        str(path.relative_to(ROOT))
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".c", ".cpp", ".h"}
    )


def build(folder: str, *options: str, target: str = "all") -> tuple[Command, ...]:
    configure = ("cmake", "-S", ".", "-B", folder, "-G", "Ninja", "-DNETPIPE_TESTS=ON", *options)
    return (configure, ("cmake", "--build", folder, "--target", target))


def sanitized(folder: str, sanitizers: str, target: str = "all") -> tuple[Command, ...]:
    # -Og and line tables alone compile twice as fast as -O1 -g, and reports name the same lines.
    flags = [f"-DCMAKE_{language}_FLAGS_DEBUG=-Og -g1" for language in ("C", "CXX")]
    return build(
        folder, f"-DNETPIPE_SANITIZE={sanitizers}", "-DCMAKE_BUILD_TYPE=Debug", *flags, target=target
    )


def ctest(folder: str, *options: str) -> Command:
    return ("ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "--parallel", CORES,
            "--output-junit", "{report}", *options)  # fmt: skip


def pytest(*options: str) -> Command:
    more = shlex.split(os.environ.get("TESTS", ""))
    # How they are shared out is said in tests/conftest.py.
    return (sys.executable, "-m", "pytest", "--quiet", "--numprocesses", CORES, "--dist", "loadscope",
            "--junitxml={report}", *options, *more)  # fmt: skip


def clang_tidy(*options: str) -> Command:
    # Of the compilation database of build/ what ships: GoogleTest alone would take longer than all of it.
    chosen = f"{ROOT}/src/"
    return ("run-clang-tidy.py", "-quiet", "-p", "build", "-j", CORES, *options, chosen)


def steps() -> tuple[Step, ...]:
    asan, tsan = "build-asan", "build-tsan"
    native = {"NETPIPE_NATIVE": str(ROOT / asan)}
    pure = ("--exclude-regex", "Coverage")  # thousands of simulated points: long, and nothing but arithmetic
    return (
        Step("format of C and C++", "check all", (("clang-format", "--dry-run", "--Werror", *c_sources()),)),
        Step("format of Python", "check all", (("ruff", "format", "--check"),)),
        Step("lint", "check all", (("ruff", "check"),)),
        Step("types", "check all", (("mypy",),)),
        Step("build", "check tidy all", build("build")),
        Step("C++: unit tests", "check", (ctest("build", "--label-regex", "unit"),)),
        Step("C++: unit and module tests", "all", (ctest("build", "--label-exclude", "fuzz"),)),
        Step("Python: unit tests", "check", (pytest("tests/python", "-m", "not slow"),)),
        Step("Python: all tests", "all", (pytest(),)),
        # Following every path through the code takes three times as long as all other checks together.
        Step("clang-tidy without its analyzer", "all", (clang_tidy("-checks=-clang-analyzer-*"),)),
        Step("clang-tidy", "tidy", (clang_tidy(),)),
        Step("address, undefined: build", "all", sanitized(asan, "address,undefined")),
        Step("address, undefined: C++ tests, fuzzing", "all", (ctest(asan, *pure),)),
        Step(
            "address, undefined: end to end",
            "all",
            (
                pytest(
                    *(f"tests/e2e/test_{name}.py" for name in BESIDE_SANITIZERS),
                    "-m",
                    "not slow",
                    "-k",
                    "not every_library",
                ),
            ),
            native,
        ),
        Step("thread: build", "all", sanitized(tsan, "thread", UNIT_TESTS)),
        Step("thread: unit tests", "all", (ctest(tsan, "--label-regex", "unit", *pure),)),
    )


# The engine, its patterns with notes of their own, and what goes wrong. MPI libraries are not built for sanitizers.
BESIDE_SANITIZERS = ("collective", "faults", "jobs", "load", "synthetic", "two_hosts")


def run(command: Command, environment: dict[str, str]) -> int:
    """The exit code; 124 for a command that took too long and was ended. Nothing that it started stays."""
    print("+", shlex.join(command) if len(command) < 20 else f"{shlex.join(command[:4])} ...", flush=True)
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True
        )
    except OSError as error:
        print(f"{command[0]} cannot be started: {error.strerror}", flush=True)
        return 127
    try:
        return process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"{command[0]} was still running after {LIMIT_S} s and is ended", flush=True)
        return 124
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def lacks_googletest(command: Command) -> bool:
    """Is this a command that needs GoogleTest, of a build that has not found it? CMake's FindGTest looks for the header
    only where it has found no package, and caches that it failed.
    """
    if command[0] != "ctest" and UNIT_TESTS not in command:
        return False
    cache = ROOT / command[2] / "CMakeCache.txt"
    return cache.is_file() and "GTEST_INCLUDE_DIR-NOTFOUND" in cache.read_text()


@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)  # tests by what became of them
    failures: list[str] = field(default_factory=list)  # a line each

    def read(self, report: Path) -> None:
        for case in ElementTree.parse(report).iter("testcase"):
            bad = next((child for child in case if child.tag in {"failure", "error"}), None)
            if bad is not None:
                said = (bad.get("message") or bad.text or "").strip().partition("\n")[0]
                self.failures.append(f"{case.get('classname')} {case.get('name')}: {said}")
            skipped = case.find("skipped") is not None
            self.counts["failed" if bad is not None else "skipped" if skipped else "passed"] += 1


def run_step(step: Step, number: int) -> Outcome:
    """A step without tests, or one that broke off, counts as one."""
    report = RESULTS / f"{number:02}.xml"
    outcome = Outcome()
    for command in step.commands:
        if lacks_googletest(command):
            print(
                "skipped: GoogleTest is not installed (Debian, Ubuntu: apt install libgtest-dev)", flush=True
            )
            return Outcome(Counter(skipped=1))
        report.unlink(missing_ok=True)
        code = run(tuple(word.replace("{report}", str(report)) for word in command), step.environment)
        if report.is_file():
            outcome.read(report)
        if code != 0:
            if not outcome.failures:
                outcome.counts["failed"] += 1
                outcome.failures.append(f"{command[0]} ended with exit code {code}")
            return outcome
    return outcome if outcome.counts else Outcome(Counter(passed=1))


def main(arguments: list[str]) -> int:
    chosen = [step for step in steps() if arguments and arguments[0] in step.groups.split()]
    if not chosen:
        print("usage: tools/run_tests.py check|tidy|all", file=sys.stderr)
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    lines: list[str] = []
    failures: list[str] = []
    total: Counter[str] = Counter()
    for number, step in enumerate(chosen):
        print(f"\n=== {step.name}", flush=True)
        start = time.monotonic()
        outcome = run_step(step, number)
        total += outcome.counts
        failures += [f"{step.name}: {failure}" for failure in outcome.failures]
        numbers = "".join(f"{outcome.counts[kind]:9}" for kind in ("passed", "failed", "skipped"))
        lines.append(f"{step.name:42}{numbers}{time.monotonic() - start:9.1f}")
    print(f"\n{'':42}{'passed':>9}{'failed':>9}{'skipped':>9}{'seconds':>9}")
    print("\n".join(lines))
    if failures:  # once more, where they are looked for
        print("\nfailed:", *failures, sep="\n  ")
    summary = ", ".join(f"{total[kind]} {kind}" for kind in ("passed", "failed", "skipped"))
    print(f"\n{summary} in {time.monotonic() - began:.1f}s", flush=True)
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
