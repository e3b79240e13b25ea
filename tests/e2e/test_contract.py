# SPDX-License-Identifier: Apache-2.0
"""Modules built against an older or a newer module.h measure as any other."""

from __future__ import annotations

import pytest
from conftest import TEST_MODULES, Runner


@pytest.mark.parametrize("name", ["older", "newer"])
def test_a_module_of_another_version_of_the_contract_measures(measure: Runner, name: str) -> None:
    done = measure(
        f"module-file {TEST_MODULES / f'{name}.so'}",
        f"variant {name}:second=7",
        "schedule list",
        "sizes 8,4k",
        "verify yes",
        "budget 0.2",
    )
    assert done.code == 0, done.said
    assert [point["size_bytes"] for point in done.settled()] == [8, 4096]
    (variant,) = done.of("variant")
    assert variant["ranks"][0]["settings"]["second_option"] == "7"


def test_the_counters_of_a_newer_module_are_read(measure: Runner) -> None:
    done = measure(
        f"module-file {TEST_MODULES / 'newer.so'}", "variant newer", "schedule list", "sizes 8", "budget 0.2"
    )
    (first, second) = done.of("counters")
    assert (first["values"]["rank"], second["values"]["rank"]) == ("0", "1")
