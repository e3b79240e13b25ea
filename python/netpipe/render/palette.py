# SPDX-License-Identifier: Apache-2.0
"""The colours of curves, the same in figures and report.

Those of M. Okabe and K. Ito, "Color Universal Design" (2008), which people with any of the common colour
blindnesses tell apart, without the yellow that a white page swallows; on a dark page the dark ones are
lighter. Text in the colour of its curve is darker than the curve, so that it can be read.
"""

from __future__ import annotations

LIGHT = ("#0072b2", "#d55e00", "#009e73", "#b5578d", "#e69f00", "#56b4e9", "#3a3a3a")
LIGHT_TEXT = ("#005a8f", "#a94a00", "#00724f", "#8f3f6e", "#8f6300", "#1f6f9f", "#3a3a3a")
DARK = ("#4aa3df", "#f08a3c", "#2fc296", "#e08fc0", "#f0b93a", "#9ad4f7", "#d0d0d0")
# (on, off, ...) in multiples of the line's width; the first is a whole line.
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (4.5, 1.8),
    (1.2, 1.5),
    (6, 1.6, 1.2, 1.6),
    (9, 2),
    (3, 1.2, 1.2, 1.2, 1.2, 1.2),
)


def style(color: int, dash: int) -> tuple[int, int]:
    """Places in the palette and in DASHES. With more variants than colours the colours come again, with the
    next dash.
    """
    return color % len(LIGHT), (dash + color // len(LIGHT)) % len(DASHES)
