# SPDX-License-Identifier: Apache-2.0
"""Waiting in a phase of a trace that is too long to be judged whole: it is what the whole trace would say of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_profile_phases import in_phases
from traced import Event, traced

from netpipe.profiles.lines import ANY, NONE, Profile, write
from netpipe.profiles.trace.chosen import events, of_phase
from netpipe.profiles.trace.waiting import LATE_SENDER, Waiting, waiting
from netpipe.render.terminal.waiting import notes

if TYPE_CHECKING:
    from conftest import Netpipe

LONG = 100_000  # ns between what happens
APART = 20_000  # ns by which ranks come to it at most
SOON, LATER = 7, 8  # tags


class Program:
    """What three ranks do, with an event of theirs at each moment."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.rows: list[list[tuple[Event, int]]] = [[], [], []]  # and their tags
        self.request = 0
        self.now = 0

    def moment(self) -> int:
        return self.now + self.draw.randrange(1, APART)

    def add(self, rank: int, event: Event, tag: int = SOON) -> None:
        self.rows[rank].append((event, tag))

    def message(self, source: int, target: int, tag: int = SOON, later: int = 0) -> None:
        sent, posted = self.moment(), self.moment() + later
        self.add(source, ("Send", sent, 50, 8, target, 0), tag)
        self.add(target, ("Recv", posted, max(sent - posted, 0) + 100, 8, source, 0), tag)

    def started(self, source: int, target: int, tag: int, later: int) -> None:
        """Of a receive that names no sender; both are waited for, later."""
        self.request += 2
        sent, posted = self.moment(), self.moment()
        self.add(source, ("Isend", sent, 5, 8, target, self.request), tag)
        self.add(target, ("Irecv", posted, 5, 8, ANY, self.request + 1), tag)
        ends = self.moment() + later, self.moment() + later
        self.add(source, ("Waitall", ends[0], 60, 8, target, self.request), tag)
        self.add(target, ("Wait", ends[1], max(sent - ends[1], 0) + 60, 8, source, self.request + 1), tag)

    def awaited(self, source: int, target: int, tag: int) -> None:
        """The receive is started, and waited for a moment later, when its message is not sent yet."""
        self.request += 2
        posted, ends = self.moment(), self.moment() + LONG
        sent = ends + self.draw.randrange(1, LONG)
        self.add(target, ("Irecv", posted, 5, 8, source, self.request), tag)
        self.add(target, ("Wait", ends, sent - ends + 60, 8, source, self.request), tag)
        self.add(source, ("Send", sent, 50, 8, target, 0), tag)

    def exchange(self, one: int, other: int) -> None:
        moments = self.moment(), self.moment()
        for rank, peer, begin in ((one, other, moments[0]), (other, one, moments[1])):
            took = max(moments) - begin + 70
            self.add(rank, ("Sendrecv", begin, took, 8, peer, 0))
            self.add(rank, ("Sendrecv_recv", begin, took, 8, peer, 0))

    def collective(self, name: str, root: int) -> None:
        begins = [self.moment() for _ in self.rows]
        for rank, begin in enumerate(begins):
            self.add(rank, (name, begin, max(begins) - begin + 30, 8, root, 0))

    def whole(self) -> Profile:
        for rows in self.rows:
            rows.sort(key=lambda row: row[0][1])
        # Each rank comes to a phase when it comes to it, and two of them twice.
        bounds = [sorted(self.draw.randrange(self.now) for _ in range(4)) for _ in self.rows]
        phases = [
            [(1, 2, 3, 2, 3)[sum(event[1] >= bound for bound in bounds[rank])] for event, _ in rows]
            for rank, rows in enumerate(self.rows)
        ]
        return traced(
            *([event for event, _ in rows] for rows in self.rows),
            tags=[[tag for _, tag in rows] for rows in self.rows],
            phases=phases,
        )


def program(seed: int, many: int = 80) -> Profile:
    made = Program(seed)
    for turn in range(many):
        one, other = made.draw.sample(range(3), 2)
        match made.draw.randrange(7):
            case 0:
                made.message(one, other)
            case 1:  # it is received when others were
                made.message(one, other, tag=LATER, later=3 * LONG)
            case 2:
                made.started(one, other, tag=20 + made.draw.randrange(3), later=2 * LONG)
            case 3:
                made.exchange(one, other)
            case 4:
                made.collective("Allreduce", NONE)
            case 5:
                made.awaited(one, other, tag=30 + turn)
            case _:
                made.collective("Bcast", one)
        made.now += LONG
    return made.whole()


def told(found: Waiting) -> tuple[object, ...]:
    return found.ranks, found.kinds, found.calls, found.pairs, found.events, found.of_events, found.unmatched


@pytest.mark.parametrize("seed", range(12))
def test_a_phase_alone_is_judged_as_in_the_whole_trace(seed: int) -> None:
    made = program(seed)
    for phase in (1, 2, 3):
        whole = waiting(made, phase=phase)
        assert whole.events == whole.of_events < events(made)
        alone = waiting(made, whole.events, phase)
        assert told(alone) == told(whole)
        assert alone.phases == [one for one in whole.phases if one.phase == phase]
        assert not any(note.startswith("Waiting is judged on") for note in notes(alone))


def test_such_programs_wait_in_every_phase_and_for_others() -> None:
    made = program(1)
    for phase in (1, 2, 3):
        assert waiting(made, phase=phase).waiting_ns > 0
        rows = of_phase(made, phase, events(made))
        assert any(one.beside is not None and one.beside.any() for one in rows.values())
        assert not all(one.at.all() for one in rows.values() if not isinstance(one.at, slice))


def late(turns: int) -> Profile:
    """Three phases of as many messages, each of which is late in the last one."""
    begins = [1000 * turn for turn in range(3 * turns)]
    phases = [1 + turn // turns for turn in range(3 * turns)]
    return traced(
        [
            ("Send", begin + 500 * (phase == 3), 10, 8, 1, 0)
            for begin, phase in zip(begins, phases, strict=True)
        ],
        [("Recv", begin, 600, 8, 0, 0) for begin in begins],
        phases=[phases, phases],
    )


def test_a_phase_that_begins_late_is_judged() -> None:
    found = waiting(late(100), most_events=200, phase=3)
    assert (found.events, found.of_events, found.waiting_ns) == (200, 200, 100 * 500)
    assert [(one.kind, one.calls) for one in found.kinds if one.calls] == [(LATE_SENDER, 100)]
    rows = of_phase(late(100), 3, 200).values()
    assert sum(one.at.sum() for one in rows if not isinstance(one.at, slice)) == 200, "no other phase is read"


def test_of_a_long_phase_the_first_part_is_judged() -> None:
    found = waiting(late(100), most_events=50, phase=3)
    assert (found.phase, found.events, found.of_events, found.waiting_ns) == (3, 50, 200, 25 * 500)
    (note,) = notes(found)
    assert note == (
        "Waiting is judged on the first 25 % of the trace of phase 3, 50 of 200 events; netpipe show --events N judges "
        "more."
    )


def test_a_message_that_crosses_into_the_phase_takes_no_other_ones_place() -> None:
    """Three are sent in phase 1 and received in phase 2, and each that is sent in phase 2 comes late."""
    sends = [("Send", 10 * turn, 5, 8, 1, 0) for turn in range(3)]
    sends += [("Send", 1000 * turn + 500, 5, 8, 1, 0) for turn in range(4, 8)]
    receives = [("Recv", 1000 * turn, 600, 8, 0, 0) for turn in range(1, 8)]
    made = traced(sends, receives, phases=[[1, 1, 1, 2, 2, 2, 2], [2] * 7])
    found = waiting(made, most_events=11, phase=2)
    assert (found.waiting_ns, found.unmatched) == (4 * 500, 0)
    assert found.events == 11


def test_more_events_can_be_asked_for(netpipe: Netpipe, tmp_path: Path) -> None:
    made = late(10)
    made.entries = in_phases(1, 2, 3).entries
    path = str(tmp_path / "profile.jsonl")
    write(made, Path(path))

    def judged(*words: str) -> tuple[int, int]:
        found = json.loads(netpipe("show", path, "--json", *words).out)["waiting"]
        return found["events"], found["of_events"]

    assert judged() == (60, 60)
    assert judged("--events", "30") == (30, 60)
    assert judged("--events", "10", "--phase", "3") == (10, 20)
    assert judged("--events", "20", "--phase", "3") == (20, 20)
    said = netpipe("show", path, "--events", "30").out
    assert (
        "judged on the first 50 % of the trace, 30 of 60 events; netpipe show --events N judges more."
        in " ".join(said.split())
    )
