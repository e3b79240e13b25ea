# SPDX-License-Identifier: Apache-2.0
"""A profile as people see it: at every width the numbers are whole, and what is missing is said; and netpipe show."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from profiled import CALLS, KERNELS, ROOT, made, profile_of
from rich.console import Console

from netpipe.cli.profile import summary
from netpipe.profiles.lines import ALL_SIZES, MANY, End, Rank, write
from netpipe.profiles.missing import code_text
from netpipe.profiles.tables import Tables, tables
from netpipe.render.terminal.profile import print_profile

if TYPE_CHECKING:
    from conftest import Netpipe


def shown(found: Tables, width: int = 120) -> str:
    out = io.StringIO()
    print_profile(Console(file=out, width=width), found)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())
    return "\n".join(line.rstrip() for line in text.splitlines())


def words(found: Tables) -> str:
    return " ".join(shown(found).split())


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("kernel", KERNELS)
def test_it_fits_and_no_number_is_cut(kernel: str, width: int) -> None:
    text = shown(tables(profile_of(*[KERNELS[kernel]] * 8, hosts=4), ranks_per_host=3), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    wide = shown(tables(profile_of(*[KERNELS[kernel]] * 8, hosts=4), ranks_per_host=3), 300)
    cells = re.compile(r"\d[\d,.]* (?:%|[µmn]?s|[KMGT]?i?B)(?= |$)", re.MULTILINE)
    tables_of = re.compile(r"^message sizes.*?^time by call", re.MULTILINE | re.DOTALL)
    narrow_part, wide_part = tables_of.search(text), tables_of.search(wide)
    assert narrow_part is not None
    assert wide_part is not None
    assert cells.findall(narrow_part[0]) == cells.findall(wide_part[0])


def test_the_paragraph_says_who_ran_where_and_how_much_was_mpi() -> None:
    whole = profile_of([], [], hosts=2)
    whole.ranks[1].mpi_s = 1.5
    assert words(tables(whole)).startswith(
        "cg.B with Open MPI 5.0.11 (mpi@openmpi): 2 ranks, 1 on node0 and 1 on node1, 2026-03-01 12:00 UTC. It took "
        "2.00 s from MPI_Init to MPI_Finalize and spent 50 % of that in MPI (mean over the ranks; least 25 % on rank "
        "0, most 75 % on rank 1), in 20 calls."
    )


def test_tables_stand_for_the_rank_and_for_all() -> None:
    text = shown(tables(profile_of(KERNELS["CG"], KERNELS["LU"])))
    assert re.search(r"^rank 0 +16,113 +0 +11,856 +0 +1\.66 GiB$", text, re.MULTILINE), text
    assert re.search(r"^all 2 ranks +116,134 +0 +12,864 +0 ", text, re.MULTILINE), text
    assert re.search(r"^rank 0 +2 +27,970 +0\.00715 % ", text, re.MULTILINE), text
    alone = shown(tables(profile_of(KERNELS["CG"])))
    assert "all 1 ranks" not in alone
    assert "all ranks" not in alone


def test_the_largest_calls_have_rows_and_the_rest_one() -> None:
    names = [call.name for call in CALLS if "half" not in call.does][:15]
    rows = [made(name, 8, 100 - place, 0) for place, name in enumerate(names)]
    text = shown(tables(profile_of(rows)))
    kept = [name for name in names if re.search(rf"^{name} +\S+ µs", text, re.MULTILINE)]
    assert kept == names[:10]
    assert re.search(r"^5 other calls +440 µs ", text, re.MULTILINE), text


def test_sizes_of_one_text_are_told_apart() -> None:
    text = shown(tables(profile_of([made("Send", size, 1, 0) for size in (5600, 5601, 64)])))
    assert re.search(r"^ +64 B .*\n +5,600 B .*\n +5,601 B ", text, re.MULTILINE), text
    whole = profile_of([made("Send", 8192, 1, 0), made("Send", 4096, 1, 0), made("Send", 8192, 1, 0)])
    whole.entries[0].coarse = [1, 2, 0]
    text = shown(tables(whole))
    assert re.search(r"^ +≤ 4 KiB .*\n +8,192 B .*\n +≤ 8,192 B ", text, re.MULTILINE), text


def test_one_late_rank_is_named() -> None:
    whole = profile_of([], [], [], [], hosts=2)
    assert "imbalance" not in words(tables(whole))
    whole.ranks[2].compute_s = 2.5
    text = words(tables(whole))
    assert (
        "Rank 2 on node1 is the imbalance: it computes for 2.50 s, 43 % more than the mean of 1.75 s. With the same "
        "work on every rank the program could be faster by up to 750 ms."
    ) in text
    whole.ranks[2].compute_s = 1.55
    assert "imbalance" not in words(tables(whole))
    assert tables(whole).balance.imbalance == pytest.approx(1.55 / 1.5125 - 1)


def test_many_ranks_are_quartiles() -> None:
    whole = profile_of(*[[]] * 17)
    for one in whole.ranks:
        one.compute_s = 1.0 + one.rank
    text = shown(tables(whole))
    assert re.search(r"^17 ranks +compute +rank +in MPI +rank$", text, re.MULTILINE), text
    assert re.search(r"^least +1\.00 s +0 +500 ms +0$", text, re.MULTILINE), text
    assert re.search(r"^median +9\.00 s +500 ms$", text, re.MULTILINE), text
    assert re.search(r"^most +17\.0 s +16 +500 ms +0$", text, re.MULTILINE), text
    assert "share in MPI" in shown(tables(profile_of(*[[]] * 16)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"state": "aborted", "exit_code": 7},
            "Rank 1 called MPI_Abort with code 7: what it did until then counts.",
        ),
        ({"state": "unfinished"}, "Rank 1 never called MPI_Finalize: what it did until the end counts."),
        (
            {"events_complete": False, "events": 1000},
            "The trace of rank 1 ended early, after 1000 events; the tables have all calls.",
        ),
        (
            {"coarse_calls": 20_000},
            "in 20,000 calls the size is rounded up to a power of two, so volumes and mean sizes are upper bounds.",
        ),
        ({"untracked_buffers": 5}, "5 uses count as first ones, so buffer reuse is a lower bound."),
        (
            {"untracked_transfers": 7},
            "7 were not, so their waits have no size, and the share that was found done is of the others.",
        ),
        ({"threads": "multiple"}, "Rank 1 could call MPI from several threads at once:"),
        (
            {"problem": "a second MPI program ran in this job"},
            "Rank 1: a second MPI program ran in this job.",
        ),
    ],
)
def test_what_is_missing_is_said(change: dict[str, object], says: str) -> None:
    whole = profile_of([], [], [])
    assert "!" not in shown(tables(whole))
    for name, value in change.items():
        setattr(whole.ranks[1], name, value)
    assert f"{says}" in words(tables(whole))


def test_lost_sizes_and_peers_are_said_and_have_no_bin() -> None:
    whole = profile_of(
        [made("Send", 0, 20_000, MANY), made("Send", 4096, 2, MANY), made("Reduce", 0, 5, MANY)]
    )
    whole.entries[0].coarse = [ALL_SIZES, 2, ALL_SIZES]
    found = tables(whole)
    assert found.message_sizes.all_ranks.calls == [0, 2, 0, 0]
    assert found.collectives.all_ranks.of_calls == 20_007
    text = words(found)
    assert "Of 20,005 of these calls no size is known: they have no bin and no volume." in text
    assert "Of 20,002 messages the peer is not known: they count as none within a host." in text
    assert re.search(r" not known +\d", text)


def test_ranks_of_which_there_is_nothing_are_named_and_the_others_shown() -> None:
    whole = profile_of([made("Send", 8, 1, 1)], [], [made("Send", 8, 1, 1)])
    del whole.entries[1]
    whole.ranks[1] = Rank(rank=1, state="unfinished", problem="it left nothing behind")
    text = words(tables(whole))
    assert "! There is nothing of rank 1: it left nothing behind." in text
    assert "2 of 3 ranks" in text
    assert "MPI_Finalize:" not in text
    assert tables(whole).same_host.all_ranks.calls == 0  # where rank 1 was is not known


def test_a_profile_that_was_cut_off_is_shown_as_far_as_it_goes() -> None:
    whole = profile_of([made("Send", 8, 1, 1)], [], [], [])
    whole.end = None
    del whole.ranks[2:]
    del whole.entries[1], whole.entries[2], whole.entries[3]
    text = words(tables(whole))
    assert "! The file is incomplete: it has no last line, and ranks 2 and 3 of 4 are not in it." in text
    assert "! The calls of rank 1 are not in the file." in text
    whole.ranks[0].events = 7
    lacking = {gap.what: gap.ranks for gap in tables(whole).missing}
    assert lacking == {"cut_off": [2, 3], "no_calls": [1], "no_trace": [0]}
    assert "! The file lacks the trace of rank 0, or the end of it." in words(tables(whole))
    whole.header.ranks = 2**31 - 1  # a damaged line: what is not there is not listed one by one
    assert "2147483645 ranks of 2147483647 are not in it" in words(tables(whole)).replace(",", "")
    whole.entries.clear()
    nothing = tables(whole)
    assert nothing.rank is None
    assert nothing.message_sizes.rank is None
    assert "message sizes" not in words(nothing)


def test_a_command_that_failed_is_named() -> None:
    whole = profile_of([])
    whole.end = End(exit_code=3)
    assert "! The command ended with exit code 3." in words(tables(whole))


def test_what_took_more_than_all_of_the_time_is_said_to_be_that_of_several_threads() -> None:
    whole = profile_of([], [])
    for one in whole.ranks:
        one.mpi_s = 2.5 * one.seconds
    assert summary(whole) == "2 ranks made 20 calls of MPI, which took 250% of the time"
    whole.ranks[0].threads = "multiple"
    assert summary(whole).endswith("250% of the time, the times of all threads of a rank added up")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (15, "exit code 15, with which MPICH's launcher also tells that SIGTERM (signal 15) ended a rank"),
        (137, "exit code 137, which stands for SIGKILL (signal 9)"),
        (4, "exit code 4"),
        (255, "exit code 255"),
    ],
)
def test_an_exit_code_that_may_be_a_signal_is_named_as_one(code: int, says: str) -> None:
    assert code_text(code) == says


# ------------------------------------------------------------------------------------------------------ netpipe show


@pytest.fixture
def saved(fake: Path) -> Path:
    path = Path("profile.jsonl")
    write(profile_of(KERNELS["CG"], KERNELS["LU"]), path)
    return path


def test_show_knows_a_profile(netpipe: Netpipe, saved: Path) -> None:
    said = netpipe("show", "profile.jsonl")
    assert (said.code, said.err) == (0, "")
    assert "16,113" in said.out
    assert max(map(len, said.out.splitlines())) <= 120
    other = netpipe("show", "profile.jsonl", "--rank", "1", "--ranks-per-host", "1")
    assert "100,021" in other.out
    assert "Here 1 rank at a time count as one host" in other.out


def test_show_prints_a_profile_as_json(netpipe: Netpipe, saved: Path) -> None:
    told = json.loads(netpipe("show", "profile.jsonl", "--json", "--rank", "1").out)
    assert told == msgspec.to_builtins(tables(profile_of(KERNELS["CG"], KERNELS["LU"]), rank=1))
    assert told["message_sizes"]["rank"]["calls"] == [100021, 0, 1008, 0]
    page = (ROOT / "docs/reference/profile.md").read_text()
    undocumented = [name for name in names_in(told) if f"`{name}`" not in page]
    assert undocumented == []


def names_in(told: object) -> Iterator[str]:
    if isinstance(told, dict):
        for name, value in told.items():
            yield name
            yield from names_in(value)
    elif isinstance(told, list):
        for value in told:
            yield from names_in(value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ("profile.jsonl", "--rank", "9"),
            "profile.jsonl: there is no rank 9; the program had 2, numbered from 0",
        ),
        (("profile.jsonl", "--points"), "profile.jsonl is a profile, not a run; leave --points out"),
        (("profile.jsonl", "--variant", "tcp"), "profile.jsonl is a profile, not a run; leave --variant out"),
        (("profile.jsonl", "--pattern", "tcp"), "profile.jsonl is a profile, not a run; leave --pattern out"),
        (("run.jsonl", "profile.jsonl"), "profile.jsonl is a profile, which is shown alone"),
        (("profile.jsonl", "--ranks-per-host", "0"), "invalid value for '--ranks-per-host'"),
        (
            ("run.jsonl", "--ranks-per-host", "2"),
            "run.jsonl is a run, not a profile; leave --ranks-per-host out",
        ),
        (("run.jsonl", "--rank", "0"), "run.jsonl is a run, not a profile; leave --rank out"),
        (("run.jsonl", "--phase", "1"), "run.jsonl is a run, not a profile; leave --phase out"),
        (("torn.jsonl",), "torn.jsonl is damaged in line 2: "),
        (("run.jsonl", "--events", "9"), "run.jsonl is a run, not a profile; leave --events out"),
    ],
)
def test_what_does_not_fit_is_refused(
    netpipe: Netpipe, saved: Path, arguments: tuple[str, ...], says: str
) -> None:
    if arguments[0] == "run.jsonl":
        netpipe("run", "null", "-q")
    Path("torn.jsonl").write_bytes(saved.read_bytes().replace(b'{"type":"rank"', b'{"type":"rank",,', 1))
    said = netpipe("show", *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"netpipe: {says}")


def test_an_option_of_runs_in_the_environment_does_not_keep_a_profile_from_being_shown(
    netpipe: Netpipe, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETPIPE_SHOW_POINTS", "1")
    assert netpipe("show", "profile.jsonl").code == 0
