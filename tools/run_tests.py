#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of `make check`, `make test`, `make test-deep` or `make tidy`. Each step runs even if an earlier one
failed. The end lists for each step the tests that passed, failed and were skipped, and its wall-clock and CPU seconds.
With WITHIN=SECONDS in the environment the tier ends by then: what it has not reached is counted and named, and has not
failed.

    tools/run_tests.py check|test|deep|tidy
    tools/run_tests.py module NAME         the tests of one module (`make test M=NAME`)
    tools/run_tests.py total TIER...       one line for these tiers together, from their last results
    tools/run_tests.py slow REPORT...      writes tests/slow.txt from JUnit files: which tests the gate leaves out

Exit code: 0 all steps passed, 1 a step failed, 2 usage.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from affected import Affected, affected, changed_files, of_libraries

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "results"
CORES = str(os.cpu_count() or 1)
TWICE = str(2 * (os.cpu_count() or 1))  # for tests of which many wait for a deadline
CTEST_FAILED = 8  # its exit code when a test failed
FEW = 6  # failed tests of a step (the longest has 2000) that are run again: more are no accident
LIMIT_S = 9000  # of one command. The longest, the Python tests of test-deep, take 83 minutes on two cores.
KILLED = 124  # the exit code of run() for a command that took too long
TIME_IS_UP = "the time is up"  # why tests/conftest.py skips a test that would begin too late
# Of the time that is left: for tests that run then, and to run again what failed.
RESERVE, MOST_RESERVE_S = 0.1, 300
NOT_REACHED = "not reached"  # an outcome of tests, beside passed, failed and skipped
_began = time.monotonic()

UNIT_TESTS = "netpipe-unit-tests"  # the CMake target
# C++ tests for test-deep alone, by name: they move gigabytes, try inputs for many seconds, or are of a variant with
# several settings ("tcp:wait=poll,streams=3").
DEEP = 'TwoGib|fuzz|GetParam[^"]*"[^"]*,'
# Checks of clang-tidy that do not fit what is compiled over MPI. A handle gets its value in a call, and in some
# libraries it is a pointer. Wrappers and tables of calls are macros whose arguments are names and lists of parameters.
NOT_OVER_MPI = ("cppcoreguidelines-init-variables", "bugprone-multi-level-implicit-pointer-conversion",
                "misc-misplaced-const", "bugprone-macro-parentheses")  # fmt: skip
ANALYZED = 16  # in how many parts the files are that clang-tidy analyzes, one with each commit
# Python tests for test-deep alone: those that are marked so, and those that are not worth their time in the gate.
SLOW = ROOT / "tests" / "slow.txt"
SLOW_S = 0.3
QUICK = "not deep and not slow"
# thousands of simulated points: nothing but arithmetic, so sanitizers learn nothing from them
SIMULATED = "Coverage"

Command = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    name: str
    commands: tuple[Command, ...]  # {report} becomes a file for JUnit XML; the tests in it are counted
    environment: dict[str, str] = field(default_factory=dict)


# --------------------------------------------------------------------------------------------------------- commands


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


def ctest(folder: str, *options: str, none: str = "error", at_once: str = CORES) -> Command:
    return ("ctest", "--test-dir", folder, "--output-on-failure", f"--no-tests={none}", "--parallel", at_once,
            "--output-junit", "{report}", *options)  # fmt: skip


def pytest(*options: str) -> Command:
    more = shlex.split(os.environ.get("TESTS", ""))
    # tests/conftest.py says how the tests are shared out among the processes.
    return (sys.executable, "-m", "pytest", "--quiet", "--numprocesses", CORES, "--dist", "loadscope",
            "--durations", "15", "--durations-min", "1", "--junitxml={report}", *options, *more)  # fmt: skip


def clang_tidy(*left_out: str, files: tuple[str, ...] = ("src/",)) -> tuple[Command, ...]:
    """On these source files, without these checks: on those that CMake builds, and on the others."""

    def on(folder: str, *without: str) -> Command:
        checks = ",".join(f"-{check}" for check in without)
        # Only what ships: GoogleTest alone would take longer than all of it.
        which = (f"{re.escape(str(ROOT / file))}{'' if file.endswith('/') else '$'}" for file in files)
        return ("run-clang-tidy.py", "-quiet", "-p", folder, "-j", CORES, f"-checks={checks}", *which)

    others = "build/library-sources"
    return (
        on("build", *left_out),
        (sys.executable, "tools/library_sources.py", others),
        on(others, *left_out, *NOT_OVER_MPI),
    )


def one_part(of: int) -> tuple[str, ...]:
    """One in `of` of the source files that ship, and other ones with the next commit (NETPIPE_TESTS_BEGIN)."""
    files = [name for name in c_sources() if name.startswith("src/") and not name.endswith(".h")]
    return tuple(files[int(os.environ.get("NETPIPE_TESTS_BEGIN") or 0) % of :: of])


def write_slow(reports: list[str]) -> int:
    """Writes tests/slow.txt: every test that took longer than SLOW_S, of the reports of runs on a quiet machine. Lines
    of whole files, whose tests share something that takes long to build, stay as they are.
    """
    lines = SLOW.read_text().splitlines() if SLOW.is_file() else []
    slow = {line for line in lines if line.endswith(".py")}
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            place = case.get("classname", "").replace(".", "/") + ".py"
            if float(case.get("time", 0)) > SLOW_S and (ROOT / place).is_file():
                slow.add(f"{place}::{case.get('name')}")
    head = (
        f"# Tests that take longer than {SLOW_S} s, and files whose tests share what is slow to build. The gate\n"
        "# leaves them to `make test-deep`, unless marked `gate`. Written by tools/run_tests.py slow REPORT...\n"
    )
    SLOW.write_text(head + "".join(f"{one}\n" for one in sorted(slow)))
    print(f"{len(slow)} tests are slow")
    return 0


def any_case(word: str) -> str:
    """A regular expression for CTest, which has no flag that ignores case."""
    return "".join(f"[{c.upper()}{c.lower()}]" if c.isalpha() else f"[{c}]" for c in word)


# ------------------------------------------------------------------------------------------------------------ tiers


def static() -> list[Step]:
    return [
        Step("format of C and C++", (("clang-format", "--dry-run", "--Werror", *c_sources()),)),
        Step("format of Python", (("ruff", "format", "--check"),)),
        Step("lint", (("ruff", "check"),)),
        Step("types", (("mypy",),)),
    ]


def check(what: Affected) -> list[Step]:
    steps = [*static(), Step("build", build("build"))]
    if what.sources and shutil.which("run-clang-tidy.py"):  # set up for test-deep, which runs it on all files
        tidied = clang_tidy("clang-analyzer-*", files=what.sources)
        steps.append(Step("clang-tidy without its analyzer", tidied))
    if what.native:
        steps.append(Step("C++: unit tests", (ctest("build", "-L", "unit", at_once=TWICE),)))
    if what.modules or what.suites:
        chosen = "|".join([*map(any_case, what.modules), *(f"(^|/){suite}[.]" for suite in what.suites)])
        steps.append(Step("C++: module tests", (module_tests(chosen),)))
    built_by_library = tuple(layer for layer in what.layers if layer in of_libraries())
    others = tuple(layer for layer in what.layers if layer not in built_by_library)
    if others:
        steps.append(Step(f"conformance: {named(others)}", (conformance(others),)))
    if built_by_library:
        files = tuple(f"tests/e2e/test_{layer}.py" for layer in built_by_library)
        steps.append(
            Step(f"compiled and measured: {named(built_by_library)}", (pytest(*files, "-m", "check"),))
        )
    if what.patterns:
        files = tuple(f"tests/e2e/test_{name}.py" for name in ("every_pattern", "in_force"))
        chosen = parameters(what.patterns)
        # The settings of a pattern take some two seconds.
        marks = ("-m", "not deep") if len(what.patterns) == 1 else ("-m", QUICK)
        steps.append(Step(f"patterns: {named(what.patterns)}", (pytest(*files, *chosen, *marks),)))
    if what.kernels:
        words = ("tests/e2e/test_apps.py", *parameters(what.kernels), "-m", "not deep")
        steps.append(Step(f"kernels: {named(what.kernels)}", (pytest(*words),)))
    if what.python:
        steps.append(Step("Python: unit tests", (pytest(*what.python, "-m", QUICK),)))
    # Each folder has a conftest.py of its own, so each gets a pytest of its own.
    for folder in ("python", "e2e", "install"):
        here = f"tests/{folder}/"
        if changed := tuple(file for file in what.changed_tests if file.startswith(here)):
            steps.append(Step(f"changed tests: {folder}", (pytest(*changed, "-m", "not deep"),)))
        if others := tuple(file for file in what.end_to_end if file.startswith(here)):
            steps.append(Step(f"some tests of what uses it: {folder}", (pytest(*others, "--brief"),)))
    return steps


def conformance(layers: tuple[str, ...]) -> Command:
    """Of one layer its row and its settings, one at a time; of several the way that each moves a message."""
    # Patterns of many ranks take half of a minute.
    marks = ("-m", "not deep or row", "-k", "not many_ranks") if len(layers) == 1 else ("-m", QUICK)
    chosen = tuple(word for layer in layers for word in ("--module", layer))
    return pytest("tests/e2e/test_conformance.py", *chosen, *marks)


def parameters(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--parameter", name))


def module_tests(names: str) -> Command:
    return ctest("build", "-L", "module", "-R", names, "-E", DEEP, none="ignore")


def named(several: tuple[str, ...]) -> str:
    """For the name of a step."""
    return (
        ", ".join(several) if len(several) <= 3 else f"{', '.join(several[:2])} and {len(several) - 2} more"
    )


def of_module(name: str) -> list[Step]:
    layer = name.partition("@")[0]
    return [
        Step(f"C++: {layer}", (module_tests(any_case(layer)),)),
        Step(f"conformance and behaviour: {name}",
             (pytest("tests/e2e", "--module", name, "-m", "not deep or row"),)),
    ]  # fmt: skip


def layers() -> list[str]:
    return sorted(toml.parent.name for toml in (ROOT / "src" / "modules").glob("*/module.toml"))


def gate() -> list[Step]:
    return [
        *static(),
        Step("build", build("build")),
        # The ranks of a module's test spin: more of them at once only take each other's time.
        Step("C++: unit tests", (ctest("build", "-L", "unit", "-E", DEEP, at_once=TWICE),)),
        Step("C++: module tests", (ctest("build", "-L", "module", "-E", DEEP),)),
        Step("Python: unit tests, conformance, behaviour", (pytest("-m", QUICK),)),
    ]


def deep() -> list[Step]:
    asan, tsan = "build-asan", "build-tsan"
    behaviour = (*(f"tests/e2e/test_{name}.py" for name in BESIDE_SANITIZERS), "-k", "not every_library")
    return [
        Step("build", build("build")),
        Step("C++: long tests, several settings, fuzzing", (ctest("build", "-R", DEEP),)),
        # Following every path through the code takes three times as long as all other checks together: some files
        # with each commit, and all of them with `make tidy`. Of what is compiled over MPI it takes for possible what
        # cannot be (a block of 0 bytes, a negative count), so that is left to `make tidy`.
        Step("clang-tidy without its analyzer", clang_tidy("clang-analyzer-*")),
        Step(f"clang-tidy's analyzer, a {ANALYZED}th of the files", clang_tidy(files=one_part(ANALYZED))[:1]),
        Step("address, undefined: build", sanitized(asan, "address,undefined")),
        Step("address, undefined: C++ tests, fuzzing", (ctest(asan, "-E", SIMULATED),)),
        Step("address, undefined: behaviour", (pytest(*behaviour),), {"NETPIPE_NATIVE": str(ROOT / asan)}),
        Step("thread: build", sanitized(tsan, "thread", UNIT_TESTS)),
        Step("thread: unit tests", (ctest(tsan, "-L", "unit", "-E", f"{SIMULATED}|_briefly"),)),
        # Last, because it takes as long as all others together: where time is short its end is what is missing.
        Step(
            "Python: what takes long, launchers, libraries",
            (pytest("-m", "(deep or slow or every_library) and not few"),),
        ),
    ]


# The engine, its patterns with notes of their own, and what goes wrong. MPI libraries are not built for sanitizers.
BESIDE_SANITIZERS = ("collective", "faults", "jobs", "load", "synthetic", "two_hosts")


def tidy() -> list[Step]:
    return [Step("build", build("build")), Step("clang-tidy", clang_tidy())]


# -------------------------------------------------------------------------------------------------------- execution


def left_s() -> float:
    """How long the next command may take."""
    within = os.environ.get("WITHIN")
    return min(LIMIT_S, float(within) - (time.monotonic() - _began)) if within else LIMIT_S


def until() -> dict[str, str]:
    """What tells the tests when none of them is to begin any more."""
    if "WITHIN" not in os.environ:
        return {}
    left = left_s()
    return {"NETPIPE_TESTS_UNTIL": f"{time.time() + left - min(RESERVE * left, MOST_RESERVE_S):.0f}"}


def time_is_up() -> bool:
    return left_s() <= 0


def hear(how: int) -> None:
    """Holds SIGTERM back, or hears it."""
    signal.pthread_sigmask(how, {signal.SIGTERM})


def run(command: Command, environment: dict[str, str]) -> int:
    """The exit code; 124 for a command that took too long, 127 for one that cannot be started. Ends what it left."""
    print("+", shlex.join(command) if len(command) < 20 else f"{shlex.join(command[:4])} ...", flush=True)
    limit_s = left_s()
    if limit_s <= 0:
        return KILLED
    hear(signal.SIG_BLOCK)  # until it is known whom to end
    try:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=lambda: hear(signal.SIG_UNBLOCK),  # noqa: PLW1509  (there are no threads)
        )
    except OSError as error:
        hear(signal.SIG_UNBLOCK)
        print(f"{command[0]} cannot be started: {error.strerror}", flush=True)
        return 127
    try:
        hear(signal.SIG_UNBLOCK)
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"{command[0]} was still running after {limit_s:.0f} s, so it was killed", flush=True)
        return KILLED
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def lacks_googletest(command: Command) -> bool:
    """Whether this command needs GoogleTest and its build found none. CMake's FindGTest looks for the header only where
    it found no package, and caches that it failed.
    """
    if command[0] != "ctest" and UNIT_TESTS not in command:
        return False
    cache = ROOT / command[2] / "CMakeCache.txt"
    return cache.is_file() and "GTEST_INCLUDE_DIR-NOTFOUND" in cache.read_text()


@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)  # tests by passed, failed, skipped
    failures: dict[str, str] = field(default_factory=dict)  # test -> its first line
    # tests that failed, and passed when they were run again
    unsteady: list[str] = field(default_factory=list)
    skips: Counter[str] = field(default_factory=Counter)  # reasons

    def read_lines(self, log: Path) -> int:
        """The results of a pytest that was killed, from its log (tests/conftest.py); how many tests it left out."""
        collected = 0
        for line in log.read_text().splitlines():
            with contextlib.suppress(ValueError):  # the last line may be incomplete
                test = json.loads(line)
                if "collected" in test:
                    collected = test["collected"]
                    continue
                if test["said"] == TIME_IS_UP:
                    continue
                self.counts[test["outcome"]] += 1
                if test["outcome"] == "failed":
                    self.failures[test["test"]] = test["said"]
                elif test["outcome"] == "skipped":
                    self.skips[test["said"]] += 1
        return max(collected - sum(self.counts.values()), 1)

    def read(self, report: Path) -> None:
        for case in ElementTree.parse(report).iter("testcase"):
            bad = next((child for child in case if child.tag in {"failure", "error"}), None)
            if bad is not None:
                said = (bad.get("message") or bad.text or "").strip().partition("\n")[0]
                self.failures[f"{case.get('classname')} {case.get('name')}"] = said
            skipped = case.find("skipped")
            if bad is None and skipped is not None:
                if (why := _why(case, skipped)) == TIME_IS_UP:
                    self.counts[NOT_REACHED] += 1
                    continue
                self.skips[why] += 1
            self.counts["failed" if bad is not None else "skipped" if skipped is not None else "passed"] += 1


def _why(case: ElementTree.Element, skipped: ElementTree.Element) -> str:
    """Why a test was skipped. Of a test of GoogleTest, ctest knows that it was, and the test's output says why."""
    said = re.search(r": Skipped\n(.+)", case.findtext("system-out") or "")
    return said[1] if said else skipped.get("message") or f"{case.get('name')}"


def run_step(step: Step, report: Path) -> Outcome:
    """A step without tests, or one that broke off, counts as one test."""
    outcome = Outcome()
    for command in step.commands:
        if lacks_googletest(command):
            reason = "GoogleTest is not installed (Debian, Ubuntu: apt install libgtest-dev)"
            print(f"skipped: {reason}", flush=True)
            return Outcome(Counter(skipped=1), skips=Counter({reason: 1}))
        log = report.with_suffix(".jsonl")
        report.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        environment = {**step.environment, **until(), "NETPIPE_TESTS_LOG": str(log)}
        code = run(tuple(word.replace("{report}", str(report)) for word in command), environment)
        if report.is_file():
            outcome.read(report)
        elif log.is_file():  # it was killed: count what ran, and that the rest did not
            unreached = outcome.read_lines(log)
            if code == KILLED and time_is_up():
                outcome.counts[NOT_REACHED] += unreached
            else:
                outcome.counts["failed"] += 1
                outcome.failures[command[0]] = f"ended with exit code {code} before its last test"
            return outcome
        if code in (1, CTEST_FAILED) and 0 < len(outcome.failures) <= FEW and (alone := again(command)):
            code = run_again(alone, step, report, outcome)
        # of what this machine and module have
        nothing_to_run = command[1:3] == ("-m", "pytest") and code == 5
        if code == KILLED and time_is_up():
            outcome.counts[NOT_REACHED] += 1
            return outcome
        if code != 0 and not nothing_to_run:
            if not outcome.failures:
                outcome.counts["failed"] += 1
                outcome.failures[command[0]] = f"ended with exit code {code}"
            return outcome
    return outcome if outcome.counts else Outcome(Counter(passed=1))


def again(command: Command) -> Command | None:
    """The command that runs what failed in this one, one test after the other; None: it cannot."""
    words = list(command)
    if command[0] == "ctest":
        words[words.index("--parallel") + 1] = "1"
        return (*words, "--rerun-failed")
    if command[1:3] == ("-m", "pytest"):
        words[words.index("--numprocesses") + 1] = "0"
        return (*words, "--last-failed", "--last-failed-no-failures", "none")
    return None


def run_again(alone: Command, step: Step, report: Path, outcome: Outcome) -> int:
    """Runs the tests that failed once more, one after the other: on a shared machine a measurement may have met a
    neighbour. What passes now has not failed, and is named as unsteady: it is to be mended all the same.
    """
    print(f"\n{len(outcome.failures)} failed; they are run again, alone", flush=True)
    report = report.with_suffix(".again.xml")  # the first stays: it has the times of all tests
    report.unlink(missing_ok=True)
    code = run(tuple(word.replace("{report}", str(report)) for word in alone), step.environment)
    second = Outcome()
    if report.is_file():
        second.read(report)
    if code not in (0, 1, CTEST_FAILED) or sum(second.counts.values()) != len(outcome.failures):
        return 1  # it did not run what was to be run again
    outcome.unsteady = sorted(set(outcome.failures) - set(second.failures))
    outcome.failures = second.failures
    outcome.counts["failed"] -= len(outcome.unsteady)
    outcome.counts["passed"] += len(outcome.unsteady)
    return code


def processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_tier(name: str, steps: list[Step]) -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    summary = RESULTS / f"{name}.json"
    summary.unlink(missing_ok=True)
    began = time.monotonic()
    lines: list[str] = []
    failures: list[str] = []
    unsteady: list[str] = []
    skips: Counter[str] = Counter()
    unreached: dict[str, int] = {}
    total: Counter[str] = Counter()
    for number, step in enumerate(steps):
        print(f"\n=== {step.name}", flush=True)
        start, used = time.monotonic(), processor_s()
        outcome = run_step(step, RESULTS / f"{name}-{number:02}.xml")
        total += outcome.counts
        skips += outcome.skips
        failures += [f"{step.name}: {test}: {said}" for test, said in outcome.failures.items()]
        unsteady += [f"{step.name}: {test}" for test in outcome.unsteady]
        numbers = "".join(f"{outcome.counts[kind]:9}" for kind in ("passed", "failed", "skipped"))
        if outcome.counts[NOT_REACHED]:
            unreached[step.name] = outcome.counts[NOT_REACHED]
        lines.append(f"{step.name:46}{numbers}{time.monotonic() - start:9.1f}{processor_s() - used:9.1f}")
    print(f"\n{'':46}{'passed':>9}{'failed':>9}{'skipped':>9}{'seconds':>9}{'cpu s':>9}")
    print("\n".join(lines))
    if skips:
        print("\nskipped:", *(f"{count} × {reason}" for reason, count in skips.most_common()), sep="\n  ")
    print_failures(failures, unsteady, unreached)  # again, where people look for them
    written = {"counts": total, "failures": failures, "unsteady": unsteady, "unreached": unreached}
    summary.write_text(json.dumps(written))
    print(f"\n{in_words(total)} in {time.monotonic() - began:.1f}s", flush=True)
    return 1 if total["failed"] else 0


def print_failures(failures: list[str], unsteady: list[str], unreached: dict[str, int]) -> None:
    if unreached:
        many = (f"{step}: {count} of its tests or commands" for step, count in unreached.items())
        print("\nnot reached, because the time was up:", *many, sep="\n  ")
    if unsteady:
        print("\nunsteady (failed, and passed when run again):", *unsteady, sep="\n  ")
    if failures:
        print("\nfailed:", *failures, sep="\n  ")


def in_words(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped"))


def print_total(tiers: list[str]) -> int:
    """The failures of these tiers and their sum: whoever sees only the end of a long log sees what failed. A tier that
    left no result broke off before its end, and counts as a failed test.
    """
    total: Counter[str] = Counter()
    failures: list[str] = []
    unsteady: list[str] = []
    unreached: dict[str, int] = {}
    for tier in tiers:
        path = RESULTS / f"{tier}.json"
        if path.is_file():
            summary = json.loads(path.read_text())
            total += Counter(summary["counts"])
            failures += [f"{tier}: {failure}" for failure in summary["failures"]]
            unsteady += [f"{tier}: {test}" for test in summary["unsteady"]]
            unreached |= {f"{tier}: {step}": count for step, count in summary["unreached"].items()}
        else:
            failures.append(f"the tier '{tier}' did not run to its end; see above")
            total["failed"] += 1
    print_failures(failures, unsteady, unreached)
    print(in_words(total), flush=True)
    return 1 if total["failed"] else 0


TIERS = {"check": lambda: check(affected(changed_files())), "test": gate, "deep": deep, "tidy": tidy}


def end_when_told() -> None:
    """SIGTERM, as of timeout(1), ends the command that is running too, which has a session of its own."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def main(arguments: list[str]) -> int:
    end_when_told()
    match arguments:
        case ["total", *tiers] if tiers and set(tiers) <= set(TIERS):
            return print_total(tiers)
        case ["module", name] if name.partition("@")[0] not in layers():
            print(
                f"there is no module '{name}' in src/modules; there are {', '.join(layers())}",
                file=sys.stderr,
            )
            return 2
        case ["module", name]:
            return run_tier("module", [Step("build", build("build")), *of_module(name)])
        case ["slow", *reports] if reports:
            return write_slow(reports)
        case [tier] if tier in TIERS:
            return run_tier(tier, TIERS[tier]())
    print(
        "usage: tools/run_tests.py check|test|deep|tidy, module NAME, total TIER... or slow REPORT...",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
