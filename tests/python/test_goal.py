# SPDX-License-Identifier: Apache-2.0
"""A profile as a GOAL schedule: a reader of its own checks that the schedule is well formed, and that it ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Netpipe
from profiled import profile_of
from traced import Event, traced

from netpipe.profiles import Profile, write
from netpipe.profiles.lines import Communicator
from netpipe.profiles.trace.calls import calls
from netpipe.render.export.goal import ROOTED, ROUNDS, SMALL, schedule

LARGE = 1 << 20
OPERATION = re.compile(r"l(\d+): (?:calc (\d+)|(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+))")


@dataclass
class Operation:
    """What a label stands for."""

    rank: int
    kind: str  # calc, send, recv
    number: int  # nanoseconds, or bytes
    peer: int = -1
    tag: int = -1
    after: set[int] = field(default_factory=set)  # labels of its rank


Schedule = list[dict[int, Operation]]  # by rank and label


def parsed(lines: Iterable[str]) -> Schedule:
    """Every line is one of GOAL, and a label is defined once, before it is used."""
    text = list(lines)
    assert all(line.endswith("\n") for line in text)
    first, *rest = [line.strip() for line in text if line.strip()]
    ranks: Schedule = []
    inside = False
    for line in rest:
        if not inside:
            assert line == f"rank {len(ranks)} {{"
            ranks.append({})
            inside = True
        elif line == "}":
            inside = False
        elif found := re.fullmatch(r"l(\d+) requires l(\d+)", line):
            later, earlier = int(found[1]), int(found[2])
            assert {later, earlier} <= ranks[-1].keys()
            assert earlier not in ranks[-1][later].after, "said twice"
            ranks[-1][later].after.add(earlier)
        else:
            made = OPERATION.fullmatch(line)
            assert made is not None, line
            label = int(made[1])
            assert label not in ranks[-1]
            here = len(ranks) - 1
            ranks[-1][label] = (
                Operation(here, "calc", int(made[2]))
                if made[3] is None
                else Operation(here, made[3], int(made[4]), int(made[5]), int(made[6]))
            )
    assert not inside
    assert first == f"num_ranks {len(ranks)}"
    return ranks


def checked(lines: Iterable[str]) -> Schedule:
    """And every send has its receive, no two messages have one tag between two ranks, and a replay ends."""
    ranks = parsed(lines)
    operations = [one for some in ranks for one in some.values()]
    sends = Counter((one.rank, one.peer, one.tag, one.number) for one in operations if one.kind == "send")
    receives = Counter((one.peer, one.rank, one.tag, one.number) for one in operations if one.kind == "recv")
    assert sends == receives
    assert set(sends.values()) <= {1}
    assert len({key[:3] for key in sends}) == len(sends)
    assert all(one.peer != one.rank and one.number > 0 for one in operations if one.kind != "calc")
    ends = replayed(ranks)
    assert len(ends) == len(operations), "the schedule waits for itself"
    return ranks


def replayed(ranks: Schedule) -> dict[tuple[int, int], int]:
    """When each operation ends, if messages cost nothing: those that can end at all."""
    ends: dict[tuple[int, int], int] = {}
    sent: dict[tuple[int, int, int], int] = {}
    waits: dict[tuple[int, int, int], tuple[int, int]] = {}  # a message -> the receive that waits for it
    missing = {
        (rank, label): len(one.after) for rank, some in enumerate(ranks) for label, one in some.items()
    }
    later: dict[tuple[int, int], list[int]] = {}
    for rank, some in enumerate(ranks):
        for label, one in some.items():
            for earlier in one.after:
                later.setdefault((rank, earlier), []).append(label)
    ready = [key for key, count in missing.items() if count == 0]
    while ready:
        rank, label = key = ready.pop()
        one = ranks[rank][label]
        begin = max((ends[rank, earlier] for earlier in one.after), default=0)
        message = (rank, one.peer, one.tag) if one.kind == "send" else (one.peer, rank, one.tag)
        if one.kind == "recv" and message not in sent:
            waits[message] = key
            continue
        if one.kind == "send":
            sent[message] = begin
            if message in waits:
                ready.append(waits.pop(message))
        ends[key] = begin + one.number if one.kind == "calc" else max(begin, sent[message])
        for other in later.get(key, ()):
            missing[rank, other] -= 1
            if missing[rank, other] == 0:
                ready.append((rank, other))
    return ends


def of(profile: Profile) -> Schedule:
    return checked(schedule(calls(profile), profile))


def length(ranks: Schedule) -> int:
    return max(replayed(ranks).values())


def texts(ranks: Schedule, rank: int) -> list[str]:
    return [
        f"calc {one.number}" if one.kind == "calc" else f"{one.kind} {one.number} {one.peer}"
        for one in ranks[rank].values()
    ]


def test_the_reader_refuses_what_is_not_well_formed() -> None:
    for lines in (
        ["num_ranks 1\n", "rank 0 {\n", "l1: calc x\n", "}\n"],
        ["num_ranks 1\n", "rank 0 {\n", "l2 requires l1\n", "}\n"],
        ["num_ranks 2\n", "rank 0 {\n", "l1: send 1b to 1 tag 0\n", "}\n", "rank 1 {\n", "}\n"],
        ["num_ranks 1\n", "rank 0 {\n", "l1: calc 1\n", "l1 requires l1\n", "}\n"],
    ):
        with pytest.raises(AssertionError):
            checked(lines)


def test_blocking_calls_are_a_chain() -> None:
    found = of(
        traced(
            [("Send", 100, 50, 8, 1, 0), ("Recv", 250, 50, 16, 1, 0)],
            [("Recv", 0, 160, 8, 0, 0), ("Send", 200, 60, 16, 0, 0)],
        )
    )
    assert texts(found, 0) == ["calc 100", "send 8 1", "calc 100", "recv 16 1"]
    assert texts(found, 1) == ["calc 0", "recv 8 0", "calc 40", "send 16 0"]
    assert [one.after for one in found[0].values()] == [set(), {1}, {2}, {3}]
    assert length(found) == 200


def test_only_the_wait_comes_after_what_was_started() -> None:
    events: Sequence[Event] = [
        ("Irecv", 0, 10, 8, 1, 1),
        ("Isend", 10, 10, LARGE, 1, 2),
        ("Waitall", 1020, 10, 8, 1, 1),
        ("Waitall", 1020, 10, LARGE, 1, 2),
        ("Barrier", 1030, 10, 0, -2, 0),
    ]
    other: Sequence[Event] = [
        ("Irecv", 0, 10, LARGE, 0, 1),
        ("Isend", 10, 10, 8, 0, 2),
        ("Waitall", 30, 2000, LARGE, 0, 1),
        ("Waitall", 30, 2000, 8, 0, 2),
        ("Barrier", 2030, 10, 0, -2, 0),
    ]
    found = of(traced(events, other))
    rank = found[0]
    (receive,) = (label for label, one in rank.items() if one.kind == "recv" and one.number == 8)
    (send,) = (label for label, one in rank.items() if one.kind == "send" and one.number == LARGE)
    (compute,) = (label for label, one in rank.items() if one.number == 1000)
    assert not rank[compute].after & {receive, send}
    after_both = [one for one in rank.values() if {receive, send} <= one.after]
    assert [one.kind for one in after_both] == ["calc"]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("size", [0, 8, 3 * SMALL])
@pytest.mark.parametrize("name", ROUNDS)
def test_every_collective_becomes_messages(name: str, size: int, ranks: int) -> None:
    """Members in an order of their own, and another root than the first."""
    root = ranks - 1 if name in ROOTED else -2
    profile = traced(*([(name, 100 * rank, 5000, size, root, 0)] for rank in range(ranks)))
    profile.communicators[0] = Communicator(
        communicator=0, size=ranks, members=list(reversed(range(ranks))), made_by="MPI_Comm_split"
    )
    found = of(profile)
    assert any(one.kind == "send" for some in found for one in some.values()) == (ranks > 1)


@pytest.mark.parametrize("name", ["Barrier", "Allreduce", "Allgather", "Alltoall"])
@pytest.mark.parametrize("late", range(5))
def test_all_come_after_the_last(name: str, late: int) -> None:
    """Whoever is late, no rank computes on before that one has come."""
    events = [
        [(name, 90_000 if rank == late else 0, 10, 8, -2, 0), ("Send", 100_010, 5, 8, -2, 0)]
        for rank in range(5)
    ]
    found = of(traced(*events))
    ends = replayed(found)
    for rank, some in enumerate(found):
        assert ends[rank, max(some)] >= 90_000


def test_uneven_parts_have_the_size_of_who_gives_them() -> None:
    found = of(traced(*([("Gatherv", 0, 10, size, 0, 0)] for size in (5, 7, 11))))
    assert texts(found, 0) == ["calc 0", "recv 7 1", "recv 11 2"]
    assert texts(found, 2) == ["calc 0", "send 11 0"]


def test_what_has_no_other_half_is_a_calculation() -> None:
    found = of(
        traced([("Recv", 0, 500, 8, 1, 0), ("Comm_dup", 600, 70, 0, -2, 0)], [("Barrier", 0, 40, 0, -2, 0)])
    )
    assert texts(found, 0) == ["calc 0", "calc 500", "calc 100", "calc 70"]
    assert texts(found, 1) == ["calc 0", "calc 40"]


def test_a_message_to_oneself_is_left_out() -> None:
    found = of(
        traced(
            [("Irecv", 0, 5, 8, 0, 1), ("Send", 10, 5, 8, 0, 0), ("Wait", 20, 5, 8, 0, 1)],
        )
    )
    assert all(one.kind == "calc" for one in found[0].values())


def test_a_rank_of_which_there_is_nothing_has_a_place() -> None:
    profile = traced([("Send", 0, 5, 8, -2, 0)])
    profile.header.ranks = 3
    assert [len(some) for some in of(profile)] == [2, 1, 1]


# ---------------------------------------------------------------------------------------------------- netpipe export


@pytest.fixture
def saved(fake: Path) -> Path:
    path = Path("profile.jsonl")
    write(traced([("Send", 100, 50, 8, 1, 0)], [("Recv", 0, 160, 8, 0, 0)]), path)
    write(profile_of([], []), Path("traceless.jsonl"))
    return path


def test_export_writes_a_profile_as_goal(netpipe: Netpipe, saved: Path) -> None:
    printed = netpipe("export", str(saved))
    assert (printed.code, printed.err) == (0, "")
    checked(printed.out.splitlines(keepends=True))
    assert netpipe("export", str(saved), "--format", "goal", "-o", "app.goal").code == 0
    assert Path("app.goal").read_text() == printed.out
    assert sorted(path.name for path in Path().glob("app*")) == ["app.goal"]


def test_of_long_traces_the_first_part_is_written_and_the_rest_is_counted(
    netpipe: Netpipe, saved: Path
) -> None:
    many = 40
    send = [("Send", 100 * place, 50, 8, 1, 0) for place in range(many)]
    receive = [("Recv", 100 * place, 60, 8, 0, 0) for place in range(many)]
    write(traced(send, receive), saved)
    whole = netpipe("export", str(saved))
    assert whole.err == ""
    part = netpipe("export", str(saved), "--events", "20")
    assert part.code == 0
    assert re.search(r"the schedule is of the first (19|20|21|22) of 80 events in the traces", part.err)
    messages = [
        sum(
            one.kind == "send"
            for rank in checked(said.out.splitlines(keepends=True))
            for one in rank.values()
        )
        for said in (whole, part)
    ]
    assert messages[0] == many
    assert 8 <= messages[1] <= 11


def test_half_calls_are_said(netpipe: Netpipe, saved: Path) -> None:
    profile = traced([("Recv", 0, 500, 8, 1, 0)], [])
    profile.ranks[0].events_complete = False
    write(profile, saved)
    assert "the trace ends early (rank 0), and so does the schedule" in netpipe("export", str(saved)).err
    profile.ranks[0].events_complete = True
    write(profile, saved)
    assert "1 call has no other half in the trace" in netpipe("export", str(saved)).err


def test_what_a_profile_lacks_of_its_ranks_is_said(netpipe: Netpipe, saved: Path) -> None:
    """A file that was cut off in the trace of rank 1, whose rank 2 had been killed."""
    send, receive = ("Send", 0, 5, 8, 1, 0), ("Recv", 0, 9, 8, 0, 0)
    profile = traced([send], [receive], [send])
    for rank in profile.ranks:
        rank.events = 1
    profile.ranks[2].state = "unfinished"
    write(profile, saved)
    lines = saved.read_text().splitlines(keepends=True)
    at = next(place for place, line in enumerate(lines) if '"type":"trace","rank":1' in line)
    saved.write_text("".join(lines[:at]) + lines[at][: len(lines[at]) // 2])
    said = netpipe("export", str(saved))
    assert said.code == 0
    assert len(parsed(said.out.splitlines(keepends=True))) == 3
    for text in (
        "the file is incomplete: it has no last line",
        "rank 2 never called MPI_Finalize: what it did until the end counts",
        "the file lacks the trace of ranks 1 and 2, or the end of it",
    ):
        assert f"netpipe: {saved}: {text}\n" in said.err
    saved.write_text("".join(lines[: at - 1]))
    said = netpipe("export", str(saved))
    assert said.code == 2
    assert f"{saved}: the profile is incomplete: it ends before its trace" in said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("profile.jsonl", "--format", "csv"), "profile.jsonl is a profile, which is exported as goal, not as csv"),
        (("profile.jsonl", "-o", "x.parquet"), "profile.jsonl is a profile, which is exported as goal, not as parq"),
        (("profile.jsonl", "--pattern", "x"), "profile.jsonl is a profile, not a run; leave --pattern out"),
        (("profile.jsonl", "--table", "cells"), "profile.jsonl is a profile, not a run; leave --table out"),
        (("profile.jsonl", "-o", "traceless.jsonl"), "traceless.jsonl is a profile and is not overwritten"),
        (("profile.jsonl", "-o", "run.jsonl"), "run.jsonl is a run and is not overwritten"),
        (("run.jsonl", "--format", "goal"), "run.jsonl is not a profile; only what netpipe profile writes is "),
        (("run.jsonl", "--events", "5"), "run.jsonl is a run, and --events is of profiles; leave it out"),
        (("run.jsonl", "-o", "x.goal"), "run.jsonl is not a profile; only what netpipe profile writes is "),
        (("traceless.jsonl",), "traceless.jsonl: the profile has no trace"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    netpipe: Netpipe, saved: Path, arguments: tuple[str, ...], says: str
) -> None:
    if "run.jsonl" in arguments:
        netpipe("run", "null", "-q")
    said = netpipe("export", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"netpipe: {says}")
    assert not list(Path().glob("x.*"))
