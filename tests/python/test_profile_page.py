# SPDX-License-Identifier: Apache-2.0
"""The page of a profile: it stands alone, says the answer first, and shows whatever the file holds as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from profiled import CALLS, KERNELS, Made, made, profile_of

from netpipe.profiles.figures import COLLECTIVES, OTHERS, RECEIVES, SENDS, WAITS, figures, kind_of
from netpipe.profiles.lines import ALL_SIZES, ANY, MANY, Call, Profile, Rank, write
from netpipe.profiles.tables import tables
from netpipe.profiles.trace.waiting import RankWaiting, Waiting
from netpipe.render.drawing.picture import NothingToDraw, Stacks
from netpipe.render.drawing.profiles import MOST_ROWS, Strength
from netpipe.render.figures.by_rank import MOST_COLUMNS, of_ranks
from netpipe.render.figures.waiting import of_ranks as of_waiting
from netpipe.render.page.profile import answers, page
from netpipe.render.page.profile_figures import LEVELS, bars, level
from pages import HOSTILE, Page

if TYPE_CHECKING:
    from conftest import Netpipe

LARGEST_BYTES = 2_000_000


def of(profile: Profile) -> Page:
    return Page(page(profile))


def each_to_each(ranks: int) -> list[list[Made]]:
    return [
        [made("Isend", 1 << (8 + (here + peer) % 12), 1 + here, peer) for peer in range(ranks)]
        for here in range(ranks)
    ]


def figure(text: str, name: str) -> str:
    """The part of the page that is this figure."""
    begin = text.index(f'id="{name}"')
    return text[begin : text.index("</figure>", begin)]


# ---------------------------------------------------------------------------------------------------------- content


def test_the_page_asks_nothing_of_any_network_and_has_no_scripts() -> None:
    text = page(profile_of(KERNELS["CG"], KERNELS["LU"]))
    read = Page(text)
    policy = next(
        a["content"] for tag, a in read.elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "http" not in text.replace("http-equiv", "")
    assert "url(" not in text
    assert read.count("script") == 0


def test_the_answer_comes_first() -> None:
    whole = profile_of(KERNELS["LU"], KERNELS["LU"], hosts=2)
    whole.ranks[1].compute_s = 2.5
    text = of(whole).text
    said = (
        "It took 2.00 s from MPI_Init to MPI_Finalize",
        "MPI takes 25 % of the time.",
        "The call that takes most is Send: 101 ms of all ranks together, 2.5 % of their time, in 101,008 calls.",
        "Rank 1 on node1 is the imbalance: it computes for 2.50 s, 25 % more than the mean of 2.00 s.",
        "Nothing is missing: the profile has all calls of all ranks.",
        "Where the time goes",
        "What is sent",
        "The tables of Liu et al. 2003",
        "Every number",
    )
    places = [text.index(one) for one in said]
    assert places == sorted(places)


def test_ranks_that_compute_equally_long_are_no_imbalance() -> None:
    text = of(profile_of(KERNELS["CG"], KERNELS["CG"])).text
    assert "The ranks compute equally long: the longest exceeds the mean by 0.0 %." in text
    assert "imbalance" not in text


def test_what_is_missing_stands_above_the_figures() -> None:
    whole = profile_of([made("Send", 8, 1, 1)], [], [made("Send", 8, 1, 1)])
    del whole.entries[1]
    whole.ranks[1] = Rank(rank=1, problem="it left nothing behind")
    whole.end = None
    text = of(whole).text
    assert "Nothing is missing" not in text
    for said in (
        "The file is incomplete: it has no last line.",
        "There is nothing of rank 1: it left nothing behind.",
    ):
        assert text.index(said) < text.index("Where the time goes")
    assert "2 of 3 ranks" in text


def test_tables_and_facts_are_on_the_page() -> None:
    text = of(profile_of(KERNELS["CG"], KERNELS["LU"])).text
    assert "rank 0 16,113 0 11,856 0 1.66 GiB" in text  # table 1
    assert "rank 0 2 27,970 0.00715 %" in text  # table 5
    assert "Irecv 150,000 B 5.93 ms" in text  # time by size
    for fact in ("/opt/npb/cg.B", "Open MPI 5.0.11", "mpi@openmpi", "2 ranks on 1 host", "exit code 0"):
        assert fact in text


def test_a_long_table_says_what_it_leaves_out() -> None:
    text = of(profile_of([made("Send", size, 1, 0) for size in range(1100)])).text
    assert "These are the first 1000 of 1100 rows; netpipe show --json has all." in text


# ---------------------------------------------------------------------------------------------------------- figures


def test_sizes_are_powers_of_two_by_kind_of_call_without_gaps() -> None:
    rows = [
        made("Send", 0, 3, 0),
        made("Send", 5, 2, 0),
        made("Irecv", 8, 7, ANY),
        made("Bcast", 33, 1, 0),
        made("Wait", 8, 7),  # what it completed was counted when it started
        made("Barrier", 0, 4),
        made("Put", 64, 1, 0),
        made("Send", 1 << 63, 1, 0),
    ]
    found = figures(profile_of(rows)).sizes
    assert [one.most_bytes for one in found] == [0, *(1 << power for power in range(3, 64))]
    assert (found[0].calls, found[0].bytes) == ((3, 0, 0), (0, 0, 0))
    assert (found[1].calls, found[1].bytes) == ((2, 7, 0), (10, 56, 0))
    assert found[2].calls == (0, 0, 0)
    assert found[4].calls == (1, 0, 1)
    assert sum(map(sum, (one.calls for one in found))) == 15
    counted = tables(profile_of(rows)).message_sizes.all_ranks
    assert sum(counted.calls) == 15, "the same calls as in table 1"


def test_sizes_that_are_lost_are_in_no_bar() -> None:
    whole = profile_of([made("Send", 0, 5, MANY), made("Send", 64, 2, 0)])
    whole.entries[0].coarse = [ALL_SIZES, 0]
    found = figures(whole)
    assert [(one.most_bytes, one.calls) for one in found.sizes] == [(64, (2, 0, 0))]
    assert found.matrix.without_peer == 5
    assert "Of 5 messages it is not known to whom they went." in of(whole).text


def test_messages_are_in_the_row_of_their_sender_once() -> None:
    found = figures(
        profile_of(
            [made("Isend", 100, 3, 1), made("Irecv", 999, 3, 1)],
            [made("Sendrecv", 10, 1, 2), made("Sendrecv_recv", 10, 1, 0)],
            [made("Get", 7, 2, 0), made("Put", 5, 1, 0)],
        )
    ).matrix
    assert found.calls == [[0, 3, 2], [0, 0, 1], [1, 0, 0]], "MPI_Get takes from rank 0"
    assert found.bytes == [[0, 300, 14], [0, 0, 10], [5, 0, 0]]


@pytest.mark.parametrize(("ranks", "each", "bins"), [(64, 1, 64), (65, 2, 33), (256, 4, 64)])
def test_many_ranks_are_put_together(ranks: int, each: int, bins: int) -> None:
    found = figures(profile_of(*[[made("Send", 10, 1, ranks - 1)]] * ranks)).matrix
    assert (found.ranks_per_bin, len(found.calls)) == (each, bins)
    assert sum(row[-1] for row in found.calls) == ranks
    text = of(profile_of(*[[made("Send", 10, 1, ranks - 1)]] * ranks)).text
    assert (f"hold {each} consecutive ranks" in text) == (each > 1)


def test_a_matrix_of_few_ranks_holds_its_numbers() -> None:
    text = page(profile_of([made("Send", 1536, 2, 1)], [made("Send", 1536, 20_000, 0)]))
    assert "<title>rank 0 to rank 1: 2 messages, 3.00 KiB</title>" in text
    assert ">20,000</text>" in text
    assert ">29.3 MiB</text>" in text
    assert ">20,000</text>" not in page(profile_of(*[[made("Send", 8, 20_000, 0)]] * 7))


def test_levels_of_colour_rise_with_the_value() -> None:
    assert [level(value, Strength(10, 100)) for value in (10, 55, 100)] == [1, 6, LEVELS]
    assert [level(value, Strength(1, 10**6)) for value in (1, 10**3, 10**6)] == [1, 6, LEVELS]
    assert level(5, Strength(5, 5)) == LEVELS


def test_each_call_is_of_one_kind() -> None:
    kinds = {call.name: kind_of(call.does) for call in CALLS}
    assert [kinds[name] for name in ("Isend", "Sendrecv_recv", "Iallreduce", "Waitall", "Comm_split")] == [
        SENDS,
        RECEIVES,
        COLLECTIVES,
        WAITS,
        OTHERS,
    ]


def test_the_time_of_a_rank_is_whole() -> None:
    (found,) = figures(profile_of([made("Send", 8, 1000, 0), made("Comm_dup", 0, 1)])).ranks
    assert sum(found.by_kind_s) == pytest.approx(found.mpi_s) == 0.5
    assert found.by_kind_s[SENDS] == pytest.approx(1e-3)
    text = figure(page(profile_of([made("Send", 8, 1000, 0)])), "by-rank")
    assert [float(width) for width in re.findall(r"width:([\d.]+)%", text)] == [75.0, 0.05, 24.95]
    assert "1.50 s" in text
    assert "25 %" in text


def waited(ranks: int) -> Waiting:
    several = [
        RankWaiting(rank=rank, mpi_ns=1000, waiting_ns=10 * rank, late_sender_ns=10 * rank, waited_for_ns=5)
        for rank in range(ranks)
    ]
    return Waiting(hosts=1, ranks=several)


def test_waiting_is_in_the_answer_and_drawn() -> None:
    found = msgspec.structs.replace(tables(profile_of([], [], [])), waiting=waited(3))
    said = "1.0 % of the time in MPI is waiting for other ranks; the rest is transfer."
    assert said in list(answers(found))
    drawn = bars(of_waiting(found.waiting).views)
    assert [[segment.percent for segment in row[1]] for row in drawn.rows] == [
        ["100.00"],
        ["1.00", "99.00"],
        ["2.00", "98.00"],
    ]
    assert drawn.legend == (("c4", "for late senders"), ("rest", "transfer"))


def test_of_many_ranks_those_that_wait_longest_are_drawn() -> None:
    panel = of_waiting(waited(MOST_ROWS + 5))
    assert [row[0] for row in bars(panel.views).rows] == [str(rank) for rank in range(5, MOST_ROWS + 5)]
    assert panel.note == "The 32 of 37 ranks that wait longest."
    for waiting, why in (
        (waited(1), "nobody to wait for"),
        (Waiting(problem="it is damaged"), "it is damaged"),
    ):
        with pytest.raises(NothingToDraw, match=why):
            of_waiting(waiting)


def test_without_a_trace_the_page_says_that_waiting_is_not_known() -> None:
    text = of(profile_of([], [])).text
    assert "profile the program again without --no-trace." in text
    assert "Waiting for other ranks, in MPI" not in text


def test_very_many_ranks_stand_side_by_side() -> None:
    whole = profile_of(*[[made("Send", 8, 1, 0)]] * (MOST_ROWS + 1))
    ranks = figures(whole).ranks
    drawn = figure(page(whole), "by-rank")
    assert 'viewBox="0 0 33 100"' in drawn
    assert re.findall(r"<span>(?:rank )?(\d+)</span>", drawn)[1:] == ["0", "8", "16", "24", "32"]
    (few,) = of_ranks(ranks[:-1]).views
    assert isinstance(few, Stacks)
    assert not few.upright
    many = of_ranks([ranks[0]] * (MOST_COLUMNS + 1))
    assert many.note == "A column is the mean of 2 consecutive ranks."
    (view,) = many.views
    assert isinstance(view, Stacks)
    assert (view.upright, len(view.rows)) == (True, MOST_COLUMNS // 2 + 1)
    assert view.rows[0].values == pytest.approx(view.rows[-1].values)


def test_calls_that_are_many_are_summed() -> None:
    names = [call.name for call in CALLS if "half" not in call.does][:15]
    rows = [made(name, 8, 100 - place, 0) for place, name in enumerate(names)]
    text = figure(page(profile_of(rows)), "by-call")
    assert text.count('class="track"') == 11
    assert "5 others" in text
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", text)]
    assert max(widths) == 100, "the others together took longer than any of them"


# ------------------------------------------------------------------------------------- what profiles can be like


def test_one_rank_without_any_message_is_a_page() -> None:
    text = of(profile_of([])).text
    assert "MPI takes 25 % of the time." in text
    assert (
        "No call moved data. No messages from rank to rank are known; what collectives move has no receiver."
        in text
    )
    assert "No call took any time." in text
    assert "all ranks together" not in text


def test_collectives_alone_have_sizes_and_no_matrix() -> None:
    text = of(profile_of(KERNELS["FT"], KERNELS["FT"])).text
    assert "Calls and bytes by message size" in text
    assert "No messages from rank to rank are known; " in text
    assert "Bytes from rank to rank" not in text


def test_messages_of_no_bytes_have_one_matrix() -> None:
    text = of(profile_of([made("Send", 0, 5, 1)], [])).text
    assert "Messages from rank to rank" in text
    assert "Bytes from rank to rank" not in text


def test_a_profile_of_nothing_is_a_page_that_says_so() -> None:
    whole = profile_of([], [])
    whole.ranks, whole.entries, whole.end = [], {}, None
    text = of(whole).text
    assert "The file is incomplete: it has no last line, and no rank is in it." in text
    assert "Where the time goes" not in text


def test_numbers_out_of_range_are_drawn() -> None:
    whole = profile_of([made("Send", (1 << 64) - 1, (1 << 64) - 1, (1 << 31) - 1), made("Send", 8, 1, 0)])
    whole.entries[0].call.append(10**6)
    for name in ("bytes", "peer", "communicator", "phase", "coarse", "calls", "time_ns", "most_ns"):
        getattr(whole.entries[0], name).append(1)
    whole.entries[0].waited.append(0)
    whole.entries[0].found_done.append(0)
    assert "unknown" in of(whole).text


def test_names_are_text() -> None:
    calls = [Call(name=HOSTILE, does=call.does) if call.name == "Send" else call for call in CALLS]
    whole = profile_of([made("Send", 8, 1, 0)], [made("Send", 8, 1, 0)], hosts=2, calls=calls)
    header = whole.header
    header.library = header.module = header.host = header.started = header.netpipe = HOSTILE
    header.profile = HOSTILE
    header.command = [HOSTILE, "\x1b[31m"]
    for one in whole.ranks:
        one.host, one.program = f"{HOSTILE}{one.rank}", f"/opt/{HOSTILE}"
        one.problem = one.threads = one.state = HOSTILE
    text = page(whole, title=HOSTILE, source=Path(f"{HOSTILE.replace('/', '')}.jsonl"))
    read = Page(text)
    assert read.count("img") == 0
    assert read.count("script") == 0
    assert not [name for _, attributes in read.elements for name in attributes if name.startswith("on")]
    assert "<img src=x onerror=alert(1)>" in read.text
    assert "{{7*7}}" in read.text
    assert "\x1b" not in text


@pytest.mark.parametrize("ranks", [64, 256])
def test_the_page_of_many_ranks_can_be_mailed(ranks: int) -> None:
    whole = profile_of(*each_to_each(ranks), hosts=ranks // 4)
    assert len(page(whole).encode()) < LARGEST_BYTES


# ---------------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "cg.jsonl"
    write(profile_of(KERNELS["CG"], KERNELS["LU"]), path)
    return path


def test_report_knows_a_profile(netpipe: Netpipe, saved: Path) -> None:
    said = netpipe("report", str(saved))
    assert (said.code, said.out) == (0, "")
    text = saved.with_suffix(".html").read_text()
    assert text.startswith("<!doctype html>")
    assert "cg.jsonl" in text
    assert netpipe("report", str(saved), "--title", "Mine", "-o", str(saved.with_name("a.html"))).code == 0
    assert "<h1>Mine</h1>" in saved.with_name("a.html").read_text()


def test_what_a_profile_is_not_for_is_a_sentence(netpipe: Netpipe, saved: Path) -> None:
    kept = saved.read_bytes()
    for words, says in (
        (("report", saved, saved), "name a run with their curves too"),
        (("report", saved, "-o", saved), "is a profile and is not overwritten; choose another name"),
        (("plot", saved, "--size", "8"), "is a profile, not a run; leave --size out"),
        (("plot", saved, "--variant", "tcp"), "is a profile, not a run; leave --variant out"),
        (("plot", saved, saved), "a figure shows one profile; name one"),
        (
            ("plot", saved, "--figure", "latency"),
            f"is drawn from runs, and {saved} is a profile; choose one of by_call",
        ),
        (("plot", saved, "--figure", "by_phase"), "cannot draw by_phase: the program has one phase"),
        (("plot", saved, "--figure", "messages", "--format", "terminal"), "has no form for a terminal"),
    ):
        said = netpipe(*map(str, words))
        assert said.code == 2
        assert says in said.err
    assert saved.read_bytes() == kept


@pytest.mark.parametrize("command", ["report", "show", "predict"])
def test_a_damaged_profile_is_a_sentence(netpipe: Netpipe, saved: Path, command: str) -> None:
    saved.write_bytes(saved.read_bytes() + b'{"type":"entries","rank":0,"call":[-1]}\n')
    said = netpipe(command, str(saved))
    assert said.code == 2
    assert f"{saved} is damaged in line 7: call has a value out of range" in said.err
    assert not saved.with_suffix(".html").exists()
