# SPDX-License-Identifier: Apache-2.0
"""Phases of MPI_Pcontrol and communicators: what was called in each, in tables, JSON and on the page."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import MISSING
from profiled import made, profile_of
from rich.console import Console
from test_report import in_a_browser
from traced import traced

from netpipe.profiles.communicators import CommunicatorUse
from netpipe.profiles.figures import COLLECTIVES, RECEIVES, SENDS, figures
from netpipe.profiles.lines import ALL_SIZES, Communicator, Profile, write
from netpipe.profiles.phases import PhaseUse, Used, several
from netpipe.profiles.tables import NotThere, Tables, tables
from netpipe.profiles.trace.waiting import PhaseWaiting
from netpipe.render.drawing.profiles import MOST_ROWS
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import get
from netpipe.render.page.profile import answers, page
from netpipe.render.page.profile_figures import bars
from netpipe.render.terminal.profile import print_profile
from pages import Page

if TYPE_CHECKING:
    from conftest import Netpipe

WORLD = Communicator(communicator=0, size=2, members=[0, 1], made_by="MPI_COMM_WORLD")
SELVES = [
    Communicator(communicator=1 + rank, size=1, members=[rank], made_by="MPI_COMM_SELF") for rank in (0, 1)
]
ROWS = Communicator(communicator=3, size=2, members=[1, 0], made_by="MPI_Comm_split")


def in_phases(*phases: int) -> Profile:
    """Two ranks. Rank 0 sends 10, 20, ... messages of 8 B in these phases and takes part in 5 collectives of 100 B over
    ROWS in the first one; rank 1 receives. A call takes 1 µs, and a rank 2 s.
    """
    sends = [made("Send", 8, 10 * (1 + at), 1) for at in range(len(phases))]
    receives = [made("Recv", 8, 10 * (1 + at), 0) for at in range(len(phases))]
    whole = profile_of(*([*rows, made("Allreduce", 100, 5)] for rows in (sends, receives)))
    for of in whole.entries.values():
        of.phase = [*phases, phases[0]]
        of.communicator = [*(0 for _ in phases), 3]
    whole.communicators = {one.communicator: one for one in (WORLD, *SELVES, ROWS)}
    return whole


def shown(found: Tables, width: int = 120) -> str:
    out = io.StringIO()
    print_profile(Console(file=out, width=width), found)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    return "\n".join(line.rstrip() for line in text.splitlines())


# ------------------------------------------------------------------------------------------------------------ numbers


def test_each_phase_has_its_calls_time_messages_and_bytes() -> None:
    found = tables(in_phases(1, 7), rank=1).phases
    first = Used(calls=15, time_ns=15_000, share=15e-6 / 2, messages=10, collectives=5, bytes=580)
    both = Used(calls=30, time_ns=30_000, share=30e-6 / 4, messages=20, collectives=10, bytes=1160)
    assert found[0] == PhaseUse(1, first, both)
    assert (found[1].phase, found[1].all_ranks.calls, found[1].all_ranks.bytes) == (7, 40, 320)


def test_a_phase_in_which_the_rank_calls_nothing_is_there() -> None:
    whole = in_phases(1, 7)
    whole.entries[0].phase = [1, 1, 1]
    assert [(one.phase, one.rank is None) for one in tables(whole).phases] == [(1, False), (7, True)]


def test_both_halves_of_a_sendrecv_are_messages_and_one_call() -> None:
    rows = [made("Sendrecv", 8, 4, 0), made("Sendrecv_recv", 8, 4, 0)]
    (one,) = tables(profile_of(rows)).phases
    assert (one.all_ranks.calls, one.all_ranks.messages, one.all_ranks.bytes) == (4, 8, 64)


def test_calls_whose_phase_was_not_kept_come_last_and_are_said() -> None:
    whole = in_phases(2, 7)
    whole.entries[0].phase[1] = 0
    whole.entries[0].coarse[1] = ALL_SIZES - 1
    found = tables(whole)
    assert [one.phase for one in found.phases] == [2, 7, None]
    assert "the phase of 20 calls is not known." in " ".join(shown(found).split())
    assert re.search(r"^not known +20\.0 µs ", shown(found), re.MULTILINE)
    alone = in_phases(1, 1)
    alone.entries[0].phase[1] = 0
    assert not several(tables(alone).phases)
    assert "phase" not in shown(tables(alone)), "all that is known is of one phase"


def test_the_tables_can_be_of_one_phase() -> None:
    found = tables(in_phases(1, 7), phase=7)
    assert found.message_sizes.all_ranks.calls == [40, 0, 0, 0]
    assert {one.call for one in found.time_by_call} == {"Recv", "Send"}
    assert found.collectives.all_ranks.calls == 0
    assert [one.messages + one.collectives for one in found.communicators] == [40, 0, 0, 0]
    assert (found.buffer_reuse, found.balance.ranks, found.balance.imbalance) == (None, [], None)
    assert found.facts == tables(in_phases(1, 7)).facts, "who ran is not of a phase"
    assert len(found.phases) == 2


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        ((1, 1), "the program has one phase, because it never called MPI_Pcontrol"),
        ((4, 4), "all calls are in phase 4"),
        ((1, 7), "there are calls in phases 1, 7"),
        (tuple(range(10, 20)), "there are calls in phases 10, 11, 12, 13, 14, 15, 16, 17, ..."),
    ],
)
def test_a_phase_that_there_is_not_is_refused_with_those_that_there_are(
    phases: tuple[int, ...], why: str
) -> None:
    with pytest.raises(NotThere, match=re.escape(f"there are no calls in phase 3; {why}")):
        tables(in_phases(*phases), phase=3)


def test_waiting_is_known_by_phase() -> None:
    events = [("Send", 3000, 50, 8, 1, 0), ("Send", 9000, 50, 8, 1, 0)]
    whole = traced(
        events, [("Recv", 1000, 2500, 8, 0, 0), ("Recv", 8000, 1200, 8, 0, 0)], phases=[[1, 2], [1, 2]]
    )
    found = tables(whole).waiting
    assert found.phases == [
        PhaseWaiting(phase=1, calls=2, time_ns=2550, waiting_ns=2000),
        PhaseWaiting(phase=2, calls=2, time_ns=1250, waiting_ns=1000),
    ]
    whole.entries[0] = in_phases(1, 2).entries[0]
    second = tables(whole, phase=2).waiting
    assert [(one.rank, one.mpi_ns, one.waiting_ns) for one in second.ranks] == [(0, 50, 0), (1, 1200, 1000)]
    assert [one.waiting_ns for one in second.pairs] == [1000]
    assert second.phases == found.phases


def test_messages_are_matched_across_phases() -> None:
    """A message that is sent in one phase and received in the next is waited for in the next."""
    whole = traced([("Send", 3000, 50, 8, 1, 0)], [("Recv", 1000, 2500, 8, 0, 0)], phases=[[1], [2]])
    assert [(one.phase, one.waiting_ns) for one in tables(whole).waiting.phases] == [(1, 0), (2, 2000)]


def test_each_communicator_has_its_messages_collectives_and_bytes() -> None:
    assert tables(in_phases(1, 7)).communicators == [
        CommunicatorUse(0, "MPI_COMM_WORLD", 2, 60, 0, 480),
        CommunicatorUse(1, "MPI_COMM_SELF", 1, 0, 0, 0),
        CommunicatorUse(2, "MPI_COMM_SELF", 1, 0, 0, 0),
        CommunicatorUse(3, "MPI_Comm_split", 2, 0, 10, 1000),
    ]


def test_waits_are_of_no_communicator_and_one_that_is_not_described_has_no_size() -> None:
    whole = profile_of([made("Waitall", 8, 5), made("Send", 8, 2, 0)])
    whole.entries[0].communicator = [0, 5]
    assert tables(whole).communicators == [CommunicatorUse(5, "", 0, 2, 0, 16)]


# ------------------------------------------------------------------------------------------------------- as it is shown


def test_the_table_by_phase_is_there_where_there_are_several() -> None:
    text = shown(tables(in_phases(1, 7)))
    assert re.search(
        r"^phase +rank 0 +share +all ranks +share +calls +messages +collectives +volume$", text, re.MULTILINE
    ), text
    assert re.search(r"^ +7 +20\.0 µs +0\.0 % +40\.0 µs +0\.0 % +40 +40 +0 +320 B$", text, re.MULTILINE), text
    assert "phase" not in shown(tables(in_phases(1, 1)))
    alone = shown(tables(profile_of([made("Send", 8, 1, 0)])))
    assert "phase" not in alone


def test_waiting_stands_beside_the_phases_where_there_is_a_trace() -> None:
    whole = traced([("Send", 3000, 50, 8, 1, 0)], [("Recv", 1000, 2500, 8, 0, 0)], phases=[[1], [1]])
    whole.entries = in_phases(1, 7).entries
    text = shown(tables(whole))
    assert re.search(r" volume +waits +of time$", text, re.MULTILINE), text
    assert re.search(r"^ +1 .* 1\.13 KiB +2\.00 µs +78 %$", text, re.MULTILINE), text
    assert re.search(r"^ +7 .* 320 B +– +–$", text, re.MULTILINE), "the trace has nothing of phase 7"


def test_of_many_phases_those_with_most_time_have_rows_in_their_order() -> None:
    text = shown(tables(in_phases(*range(20, 0, -1))))
    kept = [
        int(number) for number in re.findall(r"^ +(\d+) +\S+ [µm]s +\S+ % +\S+ [µm]s ", text, re.MULTILINE)
    ]
    assert kept == list(range(1, 11))
    assert re.search(r"^10 others ", text, re.MULTILINE), text


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_and_no_number_is_cut(width: int) -> None:
    whole = in_phases(1, 1_000_000_007)
    whole.communicators[3] = Communicator(
        communicator=3, size=2, made_by="MPI_Dist_graph_crea"
    )  # 19 bytes are kept
    text = shown(tables(whole), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


def test_with_one_phase_chosen_it_is_said_and_what_is_not_known_of_it_is_left_out() -> None:
    text = shown(tables(in_phases(1, 7), phase=7))
    assert "The tables are of phase 7 alone, which has 57 % of the time in MPI." in " ".join(text.split())
    assert not re.search(r"^(buffer reuse|phase|rank +computes)", text, re.MULTILINE), text


def test_communicators_of_one_origin_and_size_share_a_row() -> None:
    whole = in_phases(1, 7)
    whole.communicators[4] = Communicator(communicator=4, size=2, members=[0, 1], made_by="MPI_Comm_split")
    text = shown(tables(whole))
    assert re.search(r"^MPI_Comm_split +2 +2 +1 +0 +10 +1000 B$", text, re.MULTILINE), text
    assert "MPI_COMM_SELF" not in text
    whole = in_phases(1, 7)
    del whole.communicators[3]
    for of in whole.entries.values():
        of.communicator = [0 for _ in of.call]
    assert "communicators" not in shown(tables(whole)), "everything is in MPI_COMM_WORLD"


def test_the_page_draws_phases_and_names_the_one_with_most_time() -> None:
    whole = in_phases(1, 7)
    assert "Phase 7 has most of the time in MPI: 57 %." in list(answers(tables(whole)))
    text = page(whole)
    assert 'id="by-phase"' in text
    read = Page(text).text
    assert "7 20.0 µs 0.0 % 20 20 0 160 B 40.0 µs 0.0 % 40 40 0 320 B –" in read
    assert "3 MPI_Comm_split 2 1, 0 0 10 1000 B" in read
    alone = page(in_phases(1, 1))
    assert 'id="by-phase"' not in alone
    assert "Phase" not in "".join(answers(tables(in_phases(1, 1))))


def test_phases_are_drawn_by_kind_of_call_and_the_longest_fills_the_bar() -> None:
    whole = in_phases(1, 7)
    first, second = figures(whole).phases
    assert [round(1e6 * first.by_kind_s[kind]) for kind in (SENDS, RECEIVES, COLLECTIVES)] == [10, 10, 10]
    assert [round(1e6 * second.by_kind_s[kind]) for kind in (SENDS, RECEIVES, COLLECTIVES)] == [20, 20, 0]
    (panel,) = get("by_phase").panels(Scope((), profiles=(whole,)))
    drawn = bars(panel.views)
    assert [sum(float(segment.percent) for segment in row[1]) for row in drawn.rows] == [75.0, 100.0]
    many = in_phases(*range(1, MOST_ROWS + 6))
    (panel,) = get("by_phase").panels(Scope((), profiles=(many,)))
    drawn = bars(panel.views)
    assert [row[0] for row in drawn.rows] == [str(phase) for phase in range(6, MOST_ROWS + 6)]
    assert f"The {MOST_ROWS} of {MOST_ROWS + 5} phases with most of it." in Page(page(many)).text


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_phases_are_drawn_and_the_page_does_not_scroll_sideways(
    width: int, tmp_path: Path
) -> None:
    whole = in_phases(1, 1_000_000_007)
    found = in_a_browser(page(whole).replace("<details>", "<details open>"), width, tmp_path)
    assert found["scroll"] <= found["client"]
    assert found["wide"] == 0
    # Calls, ranks and their parts, sizes twice, two matrices, phases.
    assert found["bars"] == 3 + 2 * 4 + 2 * 3 + 2 + (3 + 2)


# ---------------------------------------------------------------------------------------------------------- the command


def test_show_takes_a_phase(netpipe: Netpipe, tmp_path: Path) -> None:
    path = tmp_path / "profile.jsonl"
    write(in_phases(1, 7), path)
    assert "The tables are of phase 7 alone" in netpipe("show", str(path), "--phase", "7").out
    told = json.loads(netpipe("show", str(path), "--phase", "7", "--json").out)
    assert (told["phase"], told["buffer_reuse"]) == (7, None)
    assert told["message_sizes"]["all_ranks"]["calls"] == [40, 0, 0, 0]
    assert [one["phase"] for one in json.loads(netpipe("show", str(path), "--json").out)["phases"]] == [1, 7]
    said = netpipe("show", str(path), "--phase", "3")
    assert (said.code, said.out) == (2, "")
    assert "there are no calls in phase 3; there are calls in phases 1, 7; choose another --phase" in said.err
