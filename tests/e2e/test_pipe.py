# SPDX-License-Identifier: Apache-2.0
"""pipe with the pages of messages lent to it (vmsplice)."""

from __future__ import annotations

import pytest
from conftest import Outcome, Runner
from test_tcp_tls import settings, verified

pytestmark = pytest.mark.module("pipe")
QUICK = ("schedule list", "verify yes", "budget 0.05", "timeout 20")


def lent(done: Outcome, size: int) -> int:
    return sum(int(one["counters"].get("vmsplice_sends", 0)) for one in done.of("sample", size_bytes=size))


@pytest.mark.parametrize("more", ["", ",wait=poll", ",wait=hybrid,capacity=1M"])
def test_every_byte_arrives_by_every_pattern(measure: Runner, more: str) -> None:
    patterns = ("pingpong", "stream", "bidirectional", "window", "burst")
    done = measure(
        f"variant pipe:send=vmsplice{more}",
        *(f"pattern {one}" for one in patterns),
        "sizes 1,16383,16384,65537,1000001",
        *QUICK,
    )
    verified(done)
    assert len(done.of("point")) == 5 * len(patterns)
    for rank in settings(done):
        assert (rank["send"], rank["vmsplice_min_bytes"]) == ("vmsplice", "16384")
    assert lent(done, 16383) == 0
    assert lent(done, 16384) > 0


def test_four_ranks_and_the_smallest_message_that_is_lent(measure: Runner) -> None:
    done = measure(
        "variant pipe:send=vmsplice,vmsplice_min=8",
        "ranks 4",
        "pattern ring",
        "pattern window",
        "sizes 1,8,40001",
        *QUICK,
    )
    verified(done)
    assert lent(done, 1) == 0
    assert lent(done, 8) > 0


def test_a_copy_says_so(measure: Runner) -> None:
    done = verified(measure("variant pipe", "sizes 16384", *QUICK))
    assert [rank["send"] for rank in settings(done)] == ["copy", "copy"]
    assert all("vmsplice_sends" not in one["counters"] for one in done.of("sample"))


def test_messages_in_new_pages_are_not_lent(measure: Runner) -> None:
    done = measure("variant pipe:send=vmsplice", "sizes 8,16384", "buffers fresh", *QUICK)
    (skipped,) = done.of("skipped")
    assert skipped["size_bytes"] == 16384
    assert "send=vmsplice needs messages that stay as they are" in skipped["reason"]
    assert not done.of("point", size_bytes=16384)


def test_a_setting_that_would_not_be_in_force_is_refused(measure: Runner) -> None:
    done = measure("variant pipe:vmsplice_min=1k", "sizes 8", *QUICK)
    assert done.code == 2
    assert "cannot take vmsplice_min=1k with send=copy: every message is copied" in done.said
