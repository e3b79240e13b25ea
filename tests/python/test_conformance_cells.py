# SPDX-License-Identifier: Apache-2.0
"""What the conformance suite did not run is counted by reason, across tests and processes; and the sizes that it takes
from what a layer records.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cells import Cells, plain, summary
from sizes import AROUND, LARGE, Run, named
from thresholds import around, bytes_of, thresholds

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


def test_a_size_that_no_test_of_a_cell_runs_is_named_with_the_cell() -> None:
    run, cells = Run(), Cells()
    run.add([("tcp", "pingpong"), ("tcp", "ring")], named("0,1,9,4097,1048576"))
    run.add([("tcp", "pingpong")], named("4096") | {LARGE, AROUND})
    for cell in run.sizes:
        run.leave_out(cells, cell, "large sizes take long")
    assert cells.left_out == {"large sizes take long": ["tcp, ring: a page, 8 MiB + 3 B, around thresholds"]}


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


def test_thresholds_are_the_sizes_among_options_facts_and_protocols() -> None:
    module = {
        "name": "zmq",
        "options": [
            {"name": "eager", "unit": "bytes"},
            {"name": "inline", "unit": "bytes"},
            {"name": "spin_us", "unit": "us"},
        ],
    }
    settings = {
        "message_bytes_per_datagram": "1448",
        "inject_bytes": "0",
        "bytestream": "7",
        "protocols_tag": "egr/short from 0, egr/bcopy from 93, rndv from 8256",
    }
    records: list[dict[str, Any]] = [
        {"type": "plan", "variants": [{"options": {"eager": "4k", "inline": "-1", "spin_us": "50"}}]},
        {"type": "variant", "ranks": [{"settings": settings}]},
    ]
    assert thresholds(module, records) == {
        "eager": 4096,
        "message_bytes_per_datagram": 1448,
        "protocols_tag from 93": 93,
        "protocols_tag from 8256": 8256,
        "large messages": 65536,
    }


def test_sizes_around_thresholds_are_named_once_and_have_an_end() -> None:
    assert around({"one": 1, "two": 2, "far": 1 << 20, "too far": (1 << 20) + 1}, 1 << 20) == [
        *(0, 1, 2, 3),
        *((1 << 20) - 1, 1 << 20, (1 << 20) + 1),
    ]
    assert [bytes_of(text) for text in ("0", "12", "4k", "1M", "-1", "auto")] == [0, 12, 4096, 1 << 20, 0, 0]
