# SPDX-License-Identifier: Apache-2.0
"""Launches are numbered from 0, and counted in words that nobody takes for such a number."""

from __future__ import annotations

import pytest

from netpipe.units import launch_text


@pytest.mark.parametrize(
    ("place", "launches", "text"),
    [
        (1, 1, "1st of 1 launch"),
        (2, 4, "2nd of 4 launches"),
        (3, 12, "3rd of 12 launches"),
        (11, 12, "11th of 12 launches"),
        (113, 120, "113th of 120 launches"),
        (121, 130, "121st of 130 launches"),
    ],
)
def test_the_place_of_a_launch_is_a_word(place: int, launches: int, text: str) -> None:
    assert launch_text(place, launches) == text
