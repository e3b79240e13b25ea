# SPDX-License-Identifier: Apache-2.0
"""Two ranks by how near their processors are: they are where the record says, or the host has no such two."""

from __future__ import annotations

import pytest
from conftest import Runner

POINT = ("schedule list", "sizes 8", "budget 0.1")


@pytest.mark.parametrize("place", ["smt", "cache", "socket", "sockets"])
def test_the_ranks_are_where_the_plan_says_or_it_is_refused_with_what_there_is(
    measure: Runner, place: str
) -> None:
    done = measure("variant shm", f"pin {place}", *POINT)
    if done.code == 3:
        assert f"pin {place}: there are no two" in done.said
        assert "this process may use" in done.said
        assert not done.of("point")
        return
    assert done.code == 0, done.said
    (plan,) = done.of("plan")
    (variant,) = done.of("variant")
    assert plan["placement"] == place
    assert len(set(plan["pin"])) == 2
    assert [rank["cpu"] for rank in variant["ranks"]] == plan["pin"]


def test_the_default_says_so(measure: Runner) -> None:
    done = measure("variant shm", *POINT)
    assert done.of("plan")[0]["placement"] == "auto"
    done = measure("variant shm", "pin 0,0", *POINT)
    assert done.of("plan")[0]["placement"] == "0,0"
