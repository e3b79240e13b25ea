# SPDX-License-Identifier: Apache-2.0
"""What the conformance suite did not run is counted by reason, across tests and processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cells import Cells, plain, summary

pytest_plugins = ("pytester",)


def test_the_same_reason_is_counted_together_whatever_the_module() -> None:
    for module in ("tcp", "mpi@openmpi"):
        assert plain(f"module {module} has no put, which pattern put needs") == (
            "the module has no put, which the pattern needs"
        )
    assert plain("pattern cast:by=sends needs 4 ranks, module shm has 2") == (
        "the pattern needs 4 ranks, the module has 2"
    )
    assert plain("pattern cast needs cast, which module udp lacks; by=sends needs neither") == (
        "the pattern needs cast, which the module lacks; by=sends needs neither"
    )


def test_the_summary_counts_cells_of_all_tests_by_reason() -> None:
    properties: list[tuple[str, object]] = [("other", "1")]
    for variant in ("tcp", "shm"):
        cells = Cells()
        cells.ran(f"{variant}, pingpong")
        cells.leave_out(f"{variant}, put", f"module {variant} has no put, which pattern put needs")
        if variant == "tcp":
            cells.leave_out("tcp, pingpong, 0 B", "this layer has no empty messages")
        test: Any = SimpleNamespace(user_properties=properties)
        cells.record(test)
    assert list(summary(properties)) == [
        "2 cells of module and pattern ran; 3 times a cell, some sizes of it, or its verification was left out:",
        "     2  the module has no put, which the pattern needs",
        "     1  this layer has no empty messages",
    ]
    assert list(summary([("other", "1")])) == []


def test_the_end_of_the_tests_names_what_was_left_out(pytester: pytest.Pytester) -> None:
    """Also of a test that failed, and of those in other processes."""
    tests = Path(__file__).resolve().parents[1]
    for name in ("cells.py", "conftest.py", "slow.txt"):
        (pytester.path / name).write_text((tests / name).read_text())
    pytester.makepyfile(
        """
        import pytest
        from cells import Cells

        @pytest.mark.parametrize("passes", [True, False])
        def test_a_cell(request, passes):
            cells = Cells()
            cells.leave_out("shm, halo", "pattern halo needs 4 ranks, there are 2")
            cells.record(request.node)
            assert passes
        """
    )
    said = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "-n", "2", "--junitxml=said.xml", "-W", "error"
    )
    said.stdout.fnmatch_lines(["*conformance*", "     2  the pattern needs 4 ranks, there are 2"])
    assert (pytester.path / "said.xml").read_text().count('name="cells"') == 2
