# SPDX-License-Identifier: Apache-2.0
"""Which offsets of a message are slow beside none, on made-up runs, and to what a program aligns its buffers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from netpipe.findings import Finding, examples, judge
from netpipe.reading import Reading
from netpipe.records import PlannedMode, Run

Offset = tuple[int, int]  # where messages start and where they land
SIZES = (64, 4096)


def name(offset: Offset, rest: str = "") -> str:
    options = zip(("send_offset", "recv_offset"), offset, strict=True)
    words = ",".join(filter(None, [rest, *(f"{option}={value}" for option, value in options if value)]))
    return f"pingpong:{words}" if words else "pingpong"


def swept(
    *offsets: Offset,
    slow: Callable[[Offset, int], bool],
    times: float = 1.4,
    rest: tuple[str, ...] = ("",),
    blocks: bool = True,
    now_and_then: Offset | None = None,
) -> Run:
    """`rest`: other settings of the pattern, each of which is measured at these offsets. `now_and_then` is slow in half
    of the launches.
    """
    named = {name(offset, other): (offset, other) for other in rest for offset in offsets}

    def takes(offset: Offset, size: int, launch: int) -> float:
        slow_now = launch % 2 > 0 if offset == now_and_then else slow(offset, size)
        return size * (times if slow_now else 1.0)

    points = [
        msgspec.structs.replace(
            examples.visited("shm", size, takes(offset, size, launch), launch), pattern=pattern
        )
        for launch in range(4)
        for pattern, (offset, _) in named.items()
        for size in SIZES
    ]
    if not blocks:
        points = [msgspec.structs.replace(point, visits=None) for point in points]
    made = examples.run(*points, variants=("shm",))
    modes = [
        PlannedMode(
            pattern=pattern,
            name="pingpong",
            options={
                "send_offset": str(offset[0]),
                "recv_offset": str(offset[1]),
                "reuse": other or "reuse=100",
            },
        )
        for pattern, (offset, other) in named.items()
    ]
    made.plans[:] = [msgspec.structs.replace(plan, patterns=list(named), modes=modes) for plan in made.plans]
    return made


def found(made: Run) -> list[Finding]:
    return [one for one in judge(Reading(made)).findings if one.rule == "unaligned-buffers"]


def why_not(made: Run) -> str | None:
    return next((one.reason for one in judge(Reading(made)).skipped if one.rule == "unaligned-buffers"), None)


def sent_from(*values: int) -> list[Offset]:
    return [(value, 0) for value in values]


def off(boundary: int, least: int = 0) -> Callable[[Offset, int], bool]:
    return lambda offset, size: size >= least and any(value % boundary for value in offset)


@pytest.mark.parametrize("boundary", [4, 16, 64])
def test_the_boundary_that_is_enough_is_named(boundary: int) -> None:
    (one,) = found(swept(*sent_from(0, 1, 2, 4, 8, 16, 32, 64, 128), slow=off(boundary)))
    assert f"all that are no multiple of {boundary} B, at 2 sizes from 64 B to 4 KiB." in one.what
    to = max(boundary, 8)  # posix_memalign takes no less than the size of a pointer
    assert one.remedy.startswith(f"align buffers to {to} B: posix_memalign(&p, {to}, size)")
    assert one.gain is not None
    assert one.gain.value == pytest.approx(1.4)


def test_the_worst_size_is_said_with_its_offset_and_the_command_that_repeats_it() -> None:
    (one,) = found(swept(*sent_from(0, 8, 16), slow=off(16, least=4096)))
    assert (one.variant, one.pattern, one.size_bytes) == ("shm", "pingpong:send_offset=8", 4096)
    assert one.what.startswith("shm pingpong: with send_offset=8 a message of 4 KiB takes 1.40 ")
    assert one.what.endswith("Of 2 offsets 1 is slow: all that are no multiple of 16 B, at 4 KiB.")
    assert (
        one.experiment == "netpipe run shm --pattern pingpong --pattern pingpong:send_offset=8 --sizes 4096"
    )


def test_where_only_one_of_the_two_matters_it_is_named() -> None:
    offsets = [(0, 0), *((8 * n, 0) for n in (1, 2, 4)), *((0, 8 * n) for n in (1, 2, 3))]
    (one,) = found(swept(*offsets, slow=lambda offset, _: offset[1] % 16 > 0))
    assert "Of 6 offsets 2 are slow: all whose recv_offset is no multiple of 16 B, at" in one.what


def test_offsets_that_no_boundary_explains_are_listed() -> None:
    (one,) = found(swept(*sent_from(0, 8, 24, 32), slow=lambda offset, _: offset[0] == 24))
    assert "Of 3 offsets 1 is slow: send_offset=24, at 2 sizes" in one.what
    assert one.evidence["boundary"].value == 16
    assert one.remedy.startswith("align buffers to 16 B")


def test_where_every_offset_is_slow_only_a_page_boundary_is_known_to_help() -> None:
    (whole,) = found(swept(*sent_from(0, 8, 64), slow=lambda offset, _: offset[0] > 0))
    assert "All 2 offsets are slow" in whole.what
    assert "boundary" not in whole.evidence
    assert (
        whole.remedy
        == "let buffers begin at page boundaries: posix_memalign(&p, sysconf(_SC_PAGESIZE), size)"
    )
    (few,) = found(swept(*sent_from(0, 3), slow=lambda offset, _: offset[0] > 0))
    assert few.remedy.endswith("show whether less is enough")


def test_an_offset_that_may_be_slow_proves_no_boundary() -> None:
    offsets = sent_from(0, 8, 16, 24)
    (one,) = found(swept(*offsets, slow=off(16), now_and_then=(16, 0)))
    assert "boundary" not in one.evidence
    assert "Of 3 offsets 2 are slow: send_offset=8 and send_offset=24, at" in one.what
    (other,) = found(swept(*offsets, slow=off(16), now_and_then=(8, 0)))
    assert other.evidence["boundary"].value == 16
    assert "Of 3 offsets 1 is slow: send_offset=24, at" in other.what


def test_both_offsets_count() -> None:
    offsets = [(send, receive) for send in (0, 8, 16) for receive in (0, 8, 16)]
    (one,) = found(swept(*offsets, slow=off(16)))
    assert "Of 8 offsets 5 are slow: all that are no multiple of 16 B" in one.what
    (only,) = found(swept(*offsets, slow=lambda offset, _: offset == (8, 16)))
    assert "Of 8 offsets 1 is slow: send_offset=8,recv_offset=16, at 2 sizes" in only.what


@pytest.mark.parametrize("times", [1.0, 1.09])
def test_less_than_a_tenth_is_no_finding(times: float) -> None:
    made = swept(*sent_from(0, 8, 16), slow=off(16), times=times)
    assert not found(made)
    assert why_not(made) is None


def test_settings_that_differ_in_more_than_offsets_are_not_compared() -> None:
    made = swept(*sent_from(0, 8), slow=off(16), rest=("", "reuse=50"))
    assert sorted(one.pattern or "" for one in found(made)) == [
        "pingpong:reuse=50,send_offset=8",
        "pingpong:send_offset=8",
    ]


@pytest.mark.parametrize(
    "made",
    [
        swept(*sent_from(0), slow=off(16)),
        swept(*sent_from(8, 16), slow=off(16)),
        swept(*sent_from(0, 8), slow=off(16), blocks=False),
    ],
)
def test_without_offset_0_beside_others_in_the_same_blocks_it_cannot_judge(made: Run) -> None:
    assert not found(made)
    reason = why_not(made)
    assert reason is not None
    assert "send_offset=0..64:8" in reason
