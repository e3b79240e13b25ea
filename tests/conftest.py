# SPDX-License-Identifier: Apache-2.0
"""How the tests are shared out among processes (pytest-xdist): a file is one unit, for the builds, daemons, ports and
libraries that its tests share, but for long files whose tests share nothing. Long units come first, or one process
would be left with one at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

# Each test of these is a unit of its own.
SPREAD = {
    "test_collective.py",
    "test_conformance.py",
    "test_load.py",
    "test_many_ranks.py",
    "test_mpi.py",
    "test_mpi_one_sided.py",
    "test_one_sided.py",
}
# Longest first.
LONG = (
    "test_mpi_launchers.py",
    "test_install.py",
    "test_mpi_links.py",
    "test_smpi.py",
    "test_jobs.py",
    "test_faults.py",
)


def unit_of(node_id: str) -> str:
    file = node_id.partition("::")[0]
    return node_id if Path(file).name in SPREAD else file


def turn_of(item: pytest.Item) -> int:
    """Files, the longest ahead of the others, and then the single tests, which fill what is left."""
    name = item.path.name
    return LONG.index(name) if name in LONG else len(LONG) + (name in SPREAD)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=turn_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByUnit(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    config.option.loadscopereorder = False  # not by the number of tests
    return ByUnit(config, log)
