# SPDX-License-Identifier: Apache-2.0
"""Latency and rate by pieces, on made-up curves whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from repeated import SIZES, made, same
from synthetic import LAYERS, run

from netpipe.cli import plot, show
from netpipe.failure import Failure
from netpipe.reading import Reading
from netpipe.reading.estimate import Reals
from netpipe.reading.models.pieces import MOST_SIZES, Break, Fit, Piece, fit, pieces_of
from netpipe.records import Run, encode
from netpipe.render.drawing.picture import Picture
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import get
from netpipe.render.page.page import page

HALVES = np.unique(np.round(2 ** np.arange(0, 23.01, 0.5)).astype(np.int64))  # two sizes an octave


def noisy(truth: Reals, noise: float, seed: int) -> Reals:
    return truth * np.exp(np.random.default_rng(seed).normal(0, noise, len(truth)))


def pieces(times: Reals, noise: float) -> tuple[tuple[Piece, ...], tuple[Break, ...]]:
    return pieces_of(HALVES, times, noise * times)


def test_a_straight_curve_has_one_piece_in_at_least_19_of_20_noisy_runs() -> None:
    whole = broken = 0
    for seed in range(60):
        source = np.random.default_rng(seed)
        truth = 10 ** source.uniform(1.5, 4.5) + HALVES * 10 ** source.uniform(-1.5, 0.5)
        for noise in (0.005, 0.02, 0.05):
            times = noisy(truth, noise, seed)
            for known in (noise, 0.0):
                whole += 1
                broken += len(pieces(times, known)[1]) > 0
    assert broken <= 0.05 * whole


def test_a_step_is_found_between_its_sizes_and_is_as_high_as_it_is() -> None:
    found = 0
    for seed in range(40):
        truth = 1000 + HALVES * 0.1 + np.where(HALVES > 8192, 900.0, 0.0)
        (*_,), breaks = pieces(noisy(truth, 0.01, seed), 0.01)
        hits = [one for one in breaks if one.from_bytes <= 8192 < one.to_bytes]
        found += len(breaks) == 1 and len(hits) == 1 and hits[0].times == pytest.approx(1.45, rel=0.1)
    assert found >= 38


def test_a_change_of_the_rate_is_found_and_both_rates_are_told() -> None:
    found = 0
    for seed in range(40):
        truth = 500 + np.minimum(HALVES, 65536) * 0.02 + np.maximum(HALVES - 65536, 0) * 0.1
        made_up, breaks = pieces(noisy(truth, 0.01, seed), 0.01)
        rates = [1e9 / one.bytes_per_s.value if one.bytes_per_s else math.nan for one in made_up]
        near = any(one.from_bytes <= 65536 * 1.5 and one.to_bytes >= 65536 / 1.5 for one in breaks)
        found += (
            near and rates[0] == pytest.approx(0.02, rel=0.05) and rates[-1] == pytest.approx(0.1, rel=0.05)
        )
    assert found >= 38


def test_intervals_hold_the_truth() -> None:
    held = 0
    for seed in range(100):
        (one,), _ = pieces(noisy(2000 + HALVES * 0.25, 0.02, seed), 0.02)
        held += one.fixed_ns.covers(2000)
        held += one.ns_per_byte is not None and one.ns_per_byte.covers(0.25)
    assert held >= 180


def test_a_located_step_is_a_break_however_small_it_is() -> None:
    times = 1000 + HALVES * 0.1
    at = (int(HALVES[20]), int(HALVES[21]))
    found, (one,) = pieces_of(HALVES, times, 0.01 * times, {at})
    assert (one.below_bytes, one.above_bytes) == (one.from_bytes, one.to_bytes) == at
    assert one.located
    assert [piece.sizes for piece in found] == [21, len(HALVES) - 21]


def test_a_time_that_does_not_grow_has_no_rate() -> None:
    (one,), _ = pieces(noisy(np.full(len(HALVES), 1000.0), 0.01, 3), 0.01)
    assert one.bytes_per_s is None
    assert one.fixed_ns.covers(1000)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(1, 1 << 40), st.floats(1e-3, 1e15), st.floats(0, 0.3)), min_size=1, max_size=24
    )
)
def test_pieces_share_the_sizes_among_them(points: list[tuple[int, float, float]]) -> None:
    by_size = {size: (time, share) for size, time, share in points}
    size = np.array(sorted(by_size))
    time = np.array([by_size[one][0] for one in size.tolist()])
    own = time * np.array([by_size[one][1] for one in size.tolist()])
    found, breaks = pieces_of(size, time, own)
    assert sum(piece.sizes for piece in found) == len(size)
    assert (found[0].from_bytes, found[-1].to_bytes) == (size[0], size[-1])
    assert len(breaks) == len(found) - 1
    for piece, one, following in zip(found, breaks, found[1:], strict=False):
        assert (piece.to_bytes, following.from_bytes) == (one.below_bytes, one.above_bytes)
        assert one.from_bytes <= one.below_bytes < one.above_bytes <= one.to_bytes
    for piece in found:
        assert piece.fixed_ns.low <= piece.fixed_ns.value <= piece.fixed_ns.high
        assert math.isfinite(piece.misfit)
        assert piece.bytes_per_s is None or piece.bytes_per_s.low > 0


# ------------------------------------------------------------------------------------------ of a run


def stepping() -> Run:
    return made({"tcp": lambda size: 1.6 if size >= 1 << 14 else 1.0, "shm": same}, 1)


def test_each_curve_of_a_run_has_a_fit() -> None:
    fits = {one.variant: one for one in Reading(stepping()).fits}
    assert [len(one.pieces) for one in fits.values()] == [2, 1]
    (begins,) = fits["tcp"].breaks
    assert (begins.below_bytes, begins.above_bytes) == (1 << 12, 1 << 14)


def test_a_curve_of_one_size_has_none_and_one_of_very_many_is_thinned() -> None:
    assert Reading(run(LAYERS[2:3], [8])).fits == ()
    reading = Reading(run(LAYERS[3:4], list(range(1, 1200, 3))))
    found = fit(reading.curves[0])
    assert isinstance(found, Fit)
    assert sum(piece.sizes for piece in found.pieces) == MOST_SIZES


def test_show_the_page_and_the_figure_have_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    whole = stepping()
    path.write_bytes(
        b"".join(encode(one) for one in (whole.header, *whole.body(), whole.end) if one is not None)
    )

    def said(*words: str) -> str:
        return CliRunner().invoke(show.command, [str(path), *words], catch_exceptions=False).output

    text = said("--fit", "--variant", "tcp")
    assert f"{SIZES[0]} B to 4 KiB" in text
    assert "begins" in text
    fits = json.loads(said("--json", "--fit"))["fits"]
    assert [len(one["breaks"]) for one in fits] == [1, 0]
    assert "fits" not in json.loads(said("--json"))
    assert "Latency and rate of every curve by pieces" in page(Reading(whole))
    (panel,) = get("throughput").panels(Scope((Reading(whole),), ("tcp",), fitted=True))
    (view,) = panel.views
    assert isinstance(view, Picture)
    assert [(line.label, line.joined) for line in view.lines] == [("tcp", False), ("", True), ("", True)]
    with pytest.raises(Failure, match="--fit has no effect on the figure loss"):
        plot.check("loss", (), (), "auto", True)
