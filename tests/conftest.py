# SPDX-License-Identifier: Apache-2.0
"""How pytest-xdist shares out the tests. Whatever measures (tests/e2e) runs one at a time, in one process: ranks wait
by polling, so two measurements beside each other take not twice but up to ten times as long. The other tests run beside
them, and take the time of processors that these leave; of them a file is one unit, because its tests share what was
built for them.

The tests and files that tests/slow.txt names are `slow`, unless they are marked `gate`, because the gate cannot do
without them.

With NETPIPE_TESTS_LOG=FILE, a line of JSON is appended to FILE when a test ends, after one that says how many there
are. The JUnit file is written only after the last test, so this log is what remains of a run that was killed.

With NETPIPE_TESTS_UNTIL=TIME (seconds since 1970), no test begins after that time, nor does one marked `takes(SECONDS)`
begin less than so many seconds before it. These are skipped, and their reason is TIME_IS_UP.

With NETPIPE_TESTS_BEGIN=N, the N-th file is the first of the measurements, and of the others.

`--module NAME` selects the tests of one module: those with its name in theirs or in a parameter, and those marked
`module("NAME")`. `--parameter NAME` selects those with a parameter of this name, a pattern for example. Both can be
given several times. `--brief` leaves to each file what the gate has of it and what is marked `check`; or its first
test, so that none of the files is passed over.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cells import summary

# The longest units begin first, or one process would be left with one of them at the end.
LONG = (
    "measurements",
    "test_extensions.py",
    "test_install.py",
    "test_figures.py",
)

# ip, sshd and slurmctld lie there, and the path of a login that is not root's often lacks it.
os.environ["PATH"] += ":/usr/sbin:/sbin"

# A shell without job control makes its background jobs ignore SIGINT, and all that these tests start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores

# MPI libraries that only `make test-deep` installs: a test with one as a parameter is left to it.
OTHER_LIBRARIES = {"impi", "openmpi4", "mpich4", "lam"}


SLOW = frozenset(
    line for line in (Path(__file__).parent / "slow.txt").read_text().splitlines() if not line.startswith("#")
)


def unit_of(node_id: str) -> str:
    path = Path(node_id.partition("::")[0])
    return "measurements" if path.parent.name == "e2e" else path.name


def turn_of(item: pytest.Item) -> int:
    unit = unit_of(item.nodeid)
    return LONG.index(unit) if unit in LONG else len(LONG)


def pytest_addoption(parser: pytest.Parser) -> None:
    several = {"metavar": "NAME", "action": "append", "default": []}
    parser.addoption("--module", **several, help="run only the tests of this module")
    parser.addoption("--parameter", **several, help="run only the tests with this parameter")
    parser.addoption("--brief", action="store_true", help="of each file only a few tests, but one at least")


def is_of_module(item: pytest.Item, name: str) -> bool:
    marked = {one for mark in item.iter_markers("module") for one in mark.args}
    # `_` separates words in a node id, and test_mpi.py is about mpi.
    return (
        name in marked or re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", item.nodeid) is not None
    )


def has_parameter(item: pytest.Item, name: str) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and name in re.split("[-:]", call.id)


def has(item: pytest.Item, *marks: str) -> bool:
    return any(item.get_closest_marker(mark) is not None for mark in marks)


def briefly(items: list[pytest.Item]) -> list[pytest.Item]:
    """What the gate has of each file, and what is marked `check`; else the first test that needs nothing from
    `make setup-deep`. Of a file that has none of these one test is kept to say so.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    chosen = []
    for path, tests in files.items():
        shallow = [item for item in tests if not has(item, "deep")]
        quick = [item for item in shallow if has(item, "check") or not has(item, "slow")]
        if not shallow:
            tests[0].add_marker(pytest.mark.skip(f"only `make test-deep` runs the tests of {path.name}"))
        chosen += quick or shallow[:1] or tests[:1]
    return chosen


def takes_another_library(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    values = call.params.values() if call is not None else ()
    return any(isinstance(value, str) and value in OTHER_LIBRARIES for value in values)


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if takes_another_library(item):
            item.add_marker(pytest.mark.deep)
        if (
            not SLOW.isdisjoint((item.nodeid, item.nodeid.partition("::")[0]))
            and item.get_closest_marker("gate") is None
        ):
            item.add_marker(pytest.mark.slow)
    modules, parameters = config.getoption("--module"), config.getoption("--parameter")
    chosen = [
        item
        for item in items
        if (not modules or any(is_of_module(item, name) for name in modules))
        and (not parameters or any(has_parameter(item, name) for name in parameters))
    ]
    if config.getoption("--brief"):
        chosen = briefly(chosen)
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen
    items.sort(key=turn_of)
    if begin := os.environ.get("NETPIPE_TESTS_BEGIN"):
        begin_at(items, int(begin))


def begin_at(items: list[pytest.Item], number: int) -> None:
    """Measurements first, but both they and the others begin at another file: where time may not suffice for all, it is
    not always the same ones that are not reached.
    """
    files: dict[bool, list[str]] = {False: [], True: []}  # by whether they run beside measurements

    def place(item: pytest.Item) -> tuple[bool, str]:
        return unit_of(item.nodeid) != "measurements", item.nodeid.partition("::")[0]

    for beside, name in dict.fromkeys(map(place, items)):
        files[beside].append(name)

    def turn(item: pytest.Item) -> tuple[bool, int]:
        beside, name = place(item)
        return beside, (files[beside].index(name) - number) % len(files[beside])

    items.sort(key=turn)


# Taken out of the environment, so that only pytest-xdist's controller, which gets all reports, writes the log.
LOG = os.environ.pop("NETPIPE_TESTS_LOG", "")
_seconds: dict[str, float] = {}  # by test: setup, call and teardown so far
_said: dict[str, tuple[str, str]] = {}  # by test that failed or was skipped: which, and why


def _log(line: dict[str, Any]) -> None:
    with Path(LOG).open("a") as log:
        log.write(json.dumps(line) + "\n")


def pytest_collection_finish(session: pytest.Session) -> None:
    if LOG and session.items:  # the controller of pytest-xdist collects nothing itself
        _log({"collected": len(session.items)})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    if LOG:
        _log({"collected": len(ids)})  # the same of every process


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not LOG:
        return
    test = report.nodeid
    _seconds[test] = _seconds.get(test, 0.0) + report.duration
    if report.outcome != "passed":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        if report.failed and (crash := getattr(report.longrepr, "reprcrash", None)) is not None:
            reason = crash.message
        _said[test] = (report.outcome, reason.removeprefix("Skipped: ").strip().partition("\n")[0])
    if report.when == "teardown":
        outcome, said = _said.pop(test, ("passed", ""))
        line = {"test": test, "outcome": outcome, "seconds": round(_seconds.pop(test), 3), "said": said}
        _log(line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the conformance suite did not run (tests/cells.py), of the reports of all processes."""
    reports = (one for some in terminalreporter.stats.values() for one in some)
    lines = list(
        summary(
            property_
            for report in reports
            if getattr(report, "when", "") == "call"
            for property_ in report.user_properties
        )
    )
    if lines:
        terminalreporter.section("conformance")
        for line in lines:
            terminalreporter.write_line(line)


TIME_IS_UP = "the time is up"
UNTIL = float(os.environ.get("NETPIPE_TESTS_UNTIL", "inf"))

ASIDE = 15  # how nice a test is that runs beside measurements


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    takes = item.get_closest_marker("takes")
    if time.time() + (takes.args[0] if takes else 0) > UNTIL:
        pytest.skip(TIME_IS_UP)
    # Ranks that wait by polling lose far more time to a program beside them than that program takes.
    beside = "PYTEST_XDIST_WORKER" in os.environ and unit_of(item.nodeid) != "measurements"
    if beside and os.getpriority(os.PRIO_PROCESS, 0) < ASIDE:
        os.setpriority(os.PRIO_PROCESS, 0, ASIDE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # keep our order rather than sort by the number of tests
    return ByUnit(config, log)
