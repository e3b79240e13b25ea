# SPDX-License-Identifier: Apache-2.0
"""The file that a figure is written to."""

from __future__ import annotations

from pathlib import Path

from netpipe.failure import USAGE, Failure

FORMATS = (
    "svg",
    "png",
    "pdf",
)  # of render.drawing.paper.draw, which is slow to load; a test holds them together


def format_of(output: Path | None, hint: str = "") -> str:
    """By the ending; svg without one. Raises Failure (2) for another ending."""
    if output is None or not output.suffix:
        return "svg"
    ending = output.suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise Failure(USAGE, f"the ending of {output} is not .svg, .png or .pdf; use one of these{hint}")
    return ending
