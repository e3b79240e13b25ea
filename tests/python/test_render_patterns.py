# SPDX-License-Identifier: Apache-2.0
"""What the summary on a terminal says of patterns: sizes that were left out, measures, ranks and pairs."""

from __future__ import annotations

import io

import pytest
from synthetic import LAYERS, run

from netpipe.records import Run, Skipped
from netpipe.render.terminal import console, print_summary

SIZES = [8, 1024, 65536, 1 << 20]


def summary(made: Run, monkeypatch: pytest.MonkeyPatch, columns: int = 120) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    print_summary(console(stream), made)
    return stream.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


# --------------------------------------------------------------------------------------------- what is missing


def skipped(
    *sizes: int | None, pattern: str = "collective", reason: str = "no multiple of 8 bytes"
) -> list[Skipped]:
    return [Skipped(variant="shm", pattern=pattern, size_bytes=size, reason=reason) for size in sizes]


@pytest.mark.parametrize(
    ("skips", "sentence"),
    [
        (skipped(12), "Skipped 12 B of shm collective: no multiple of 8 bytes."),
        (
            skipped(12, 4099, 12),
            "Skipped 2 sizes from 12 B to 4 KiB+3 of shm collective: no multiple of 8 bytes.",
        ),
        (skipped(None, reason="needs gather"), "Skipped shm collective: needs gather."),
        (
            skipped(12) + skipped(12, pattern="scan") + skipped(20, pattern="gather"),
            (
                "Skipped 12 B of shm collective and shm scan: no multiple of 8 bytes. "
                "· Skipped 20 B of shm gather: no multiple of 8 bytes."
            ),
        ),
    ],
)
def test_what_was_left_out_is_said_with_the_sizes(
    skips: list[Skipped], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run(LAYERS[2:4], SIZES)
    made.skipped += skips
    assert sentence in one_line(summary(made, monkeypatch))
