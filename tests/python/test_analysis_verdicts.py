# SPDX-License-Identifier: Apache-2.0
"""Variants of one layer against each other and beside themselves, on made-up runs whose truth is known."""

from __future__ import annotations

import io
import math
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean

import msgspec
import pytest
from rich.console import Console

from netpipe.findings import examples
from netpipe.reading import Reading
from netpipe.reading.blocks.verdicts import Word, excluded, largest
from netpipe.records import PlannedVariant, Rank, Run, Visits
from netpipe.render.page.page import write
from netpipe.render.terminal.summary import print_summary
from netpipe.render.verdicts import MOST, verdict_sentence, verdict_sentences

SIZES = tuple(2**power for power in range(21))
SMALL = ":sndbuf=16k"


def made(
    factors: Mapping[str, Callable[[int], float]],
    copies: Mapping[str, str] | None = None,
    noise: float = 0.01,
    seed: int = 1,
    launches: int = 4,
) -> Run:
    """Each variant takes so many times as long as the first; the machine has another pace in each launch and block."""
    source = random.Random(seed)
    records = []
    for launch in range(launches):
        pace = math.exp(source.gauss(0, 0.2))
        for number, size in enumerate(SIZES):
            blocks = [pace * math.exp(source.gauss(0, 0.1)) for _ in range(8)]
            for variant, factor in factors.items():
                medians = [
                    (1000 + size) * one * factor(size) * math.exp(source.gauss(0, noise)) for one in blocks
                ]
                visits = Visits(
                    block=[number + 100 * place for place in range(8)],
                    at_s=[number / 100 + place for place in range(8)],
                    state=[0] * 8,
                    samples=[9] * 8,
                    median_ns=medians,
                )
                point = examples.point(variant, size, sorted(medians)[4], launch=launch)
                records.append(msgspec.structs.replace(point, visits=visits))
    run = examples.run(*records, variants=tuple(factors))
    for plan in run.plans:
        plan.variants[:] = [
            PlannedVariant(
                variant=one, module=one.partition(":")[0].partition("#")[0], copy_of=(copies or {}).get(one)
            )
            for one in factors
        ]
    return run


def alike(_: int) -> float:
    return 1.0


def step(size: int) -> float:
    return 1.31 if size >= 65536 else 1.0


def test_a_setting_that_slows_large_messages_is_found_and_nothing_else() -> None:
    (verdict,) = Reading(made({"tcp": alike, "tcp" + SMALL: step})).verdicts
    assert (verdict.variant, verdict.against) == ("tcp" + SMALL, "tcp")
    slower = verdict.of(Word.SLOWER)
    assert [one.size_bytes for one in slower] == [size for size in SIZES if size >= 65536]
    assert all(one.times.covers(1.31) for one in slower)
    assert {one.word for one in verdict.sizes if one.size_bytes < 65536} <= {Word.SAME, Word.UNDECIDED}
    sentence = verdict_sentence(verdict)
    assert sentence.startswith("tcp:sndbuf=16k against tcp: slower from 64 KiB on, most at ")
    assert " times as long; no difference above " in sentence
    assert " up to 32 KiB" in sentence


def test_the_faster_one_is_said_to_be_faster() -> None:
    (verdict,) = Reading(made({"tcp": alike, "tcp" + SMALL: lambda size: 0.5})).verdicts
    assert {one.word for one in verdict.sizes} == {Word.FASTER}
    assert "faster at all sizes, most at " in verdict_sentence(verdict)
    assert " times as fast." in verdict_sentence(verdict)
    assert largest(verdict.sizes).times.value == pytest.approx(0.5, rel=0.03)


def test_of_many_sizes_without_a_difference_none_shows_one_by_chance() -> None:
    seen = []
    for seed in range(60):
        (verdict,) = Reading(made({"tcp": alike, "tcp" + SMALL: alike}, noise=0.05, seed=seed)).verdicts
        seen.append(any(one.word in (Word.FASTER, Word.SLOWER) for one in verdict.sizes))
    assert fmean(seen) <= 0.12  # 5 % are due


def test_what_noise_hides_is_undecided_and_not_the_same() -> None:
    (verdict,) = Reading(made({"tcp": alike, "tcp" + SMALL: alike}, noise=0.5)).verdicts
    assert {one.word for one in verdict.sizes} == {Word.UNDECIDED}
    assert verdict_sentence(verdict) == "tcp:sndbuf=16k against tcp: undecided at all sizes."
    assert all(excluded(one.times) > 0.05 for one in verdict.sizes)


def test_the_plain_variant_is_what_the_others_are_held_against() -> None:
    run = made({"tcp:wait=poll": alike, "tcp": alike, "tcp" + SMALL: step, "shm": alike})
    found = [(one.variant, one.against) for one in Reading(run).verdicts]
    assert found == [("tcp:wait=poll", "tcp"), ("tcp" + SMALL, "tcp")]


def test_libraries_of_one_kind_are_held_against_each_other() -> None:
    (verdict,) = Reading(made({"mpi@mpich": alike, "mpi@openmpi": step})).verdicts
    assert (verdict.variant, verdict.against) == ("mpi@openmpi", "mpi@mpich")
    names = [f"mpi@{library}:transport={way}" for library in ("mpich", "openmpi") for way in ("shm", "tcp")]
    found = [(one.variant, one.against) for one in Reading(made(dict.fromkeys(names, alike))).verdicts]
    assert found == [(names[1], names[0]), (names[2], names[0]), (names[3], names[1])]


def test_variants_with_different_numbers_of_ranks_are_not_compared() -> None:
    names = [f"shm:ranks={count}{more}" for count in (2, 4) for more in ("", ",wait=block")]
    run = made(dict.fromkeys(names, alike))
    # nothing says how many ranks they had
    assert {one.against for one in Reading(run).verdicts} == {names[0]}
    for opened in run.variants:
        count = int(opened.variant.removeprefix("shm:ranks=")[0])
        opened.ranks = [Rank(rank=rank, host="node17") for rank in range(count)]
    found = [(one.variant, one.against) for one in Reading(run).verdicts]
    assert found == [(names[1], names[0]), (names[3], names[2])]


def test_many_verdicts_are_counted() -> None:
    variants = {"tcp": alike} | {f"tcp:sndbuf={number}k": alike for number in range(1, 10)}
    said = verdict_sentences(Reading(made(variants, launches=3)).verdicts)
    assert len(said) == MOST + 1
    assert said[-1] == "3 more verdicts: netpipe show --json."


def test_a_variant_beside_itself_is_a_control_and_no_rival() -> None:
    run = made({"tcp": alike, "tcp#2": alike}, copies={"tcp#2": "tcp"})
    reading = Reading(run)
    assert reading.verdicts == ()
    (floor,) = reading.beside
    assert (floor.variant, floor.sizes) == ("tcp", len(SIZES))
    assert 0 < floor.typical <= floor.most < 0.02
    assert floor.holds is not None
    assert floor.holds >= 0.8


def test_beside_itself_the_intervals_hold_1_as_often_as_they_say() -> None:
    holds = []
    for seed in range(40):
        run = made({"tcp": alike, "tcp#2": alike}, copies={"tcp#2": "tcp"}, seed=seed)
        holds += [floor.holds for floor in Reading(run).beside if floor.holds is not None]
    assert 0.92 <= fmean(holds) <= 0.98


def test_runs_without_blocks_have_no_verdict() -> None:
    run = examples.run(
        examples.point("tcp", 8, 1000.0),
        examples.point("tcp:wait=poll", 8, 500.0),
        variants=("tcp", "tcp:wait=poll"),
    )
    assert Reading(run).verdicts == ()
    assert Reading(run).beside == ()


def test_verdicts_are_on_the_page_and_in_the_summary(tmp_path: Path) -> None:
    reading = Reading(made({"tcp": alike, "tcp" + SMALL: step, "tcp#2": alike}, copies={"tcp#2": "tcp"}))
    write(reading, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "tcp:sndbuf=16k against tcp: slower from 64 KiB on, most at " in page
    out = io.StringIO()
    print_summary(Console(file=out, width=100), reading)
    assert "→ tcp:sndbuf=16k against tcp: slower from 64 KiB on, most at " in out.getvalue()
    assert re.search(
        r"^beside itself +half of the sizes within +90 % +intervals that hold 1 *$",
        out.getvalue(),
        re.MULTILINE,
    )
    assert re.search(r"^tcp +[\d.]+ % +[\d.]+ % +\d+ % *$", out.getvalue(), re.MULTILINE)
