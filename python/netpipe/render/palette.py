# SPDX-License-Identifier: Apache-2.0
"""The colours of curves, the same in figures and report, and in every run: a module has its hue. What shares a hue is
told apart by dashes and, where these are used up, by a darker and a lighter shade.

The first seven are those of M. Okabe and K. Ito, "Color Universal Design" (2008), without the yellow that a white page
swallows. The others were chosen to be as far as possible from these for people without red or green cones too (the
matrices of Machado, Oliveira and Fernandes 2009, distances in CIELAB; a test computes them). On a dark page the dark
ones are lighter. Text in the colour of its curve is darker than the curve, so that it can be read.
"""

from __future__ import annotations

import zlib

_LIGHT = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#b5578d",
    "#e69f00",
    "#56b4e9",
    "#3a3a3a",
    "#332288",
    "#882200",
    "#99bb66",
)
_LIGHT_TEXT = (
    "#005a8f",
    "#a94a00",
    "#00724f",
    "#8f3f6e",
    "#8f6300",
    "#1f6f9f",
    "#3a3a3a",
    "#332288",
    "#882200",
    "#55732b",
)
_DARK = (
    "#4aa3df",
    "#f08a3c",
    "#2fc296",
    "#e08fc0",
    "#f0b93a",
    "#9ad4f7",
    "#d0d0d0",
    "#8f7dff",
    "#b5532d",
    "#c5dc9a",
)
HUES = len(_LIGHT)
# What is often measured together has hues far apart; the others share theirs with what rarely stands beside them.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, INDIGO, RUST, OLIVE = range(HUES)
OF_MODULES = {
    "memcpy": BLACK,
    "null": BLACK,
    "shm": GREEN,
    "cma": ORANGE,
    "pipe": PURPLE,
    "unix": SKY,
    "tcp": BLUE,
    "udp": ORANGE,
    "sctp": RUST,
    "zmq": INDIGO,
    "nng": PURPLE,
    "grpc": OLIVE,
    "mpi": VERMILION,
    "ucx": INDIGO,
    "libfabric": RUST,
    "verbs": PURPLE,
    "shmem": OLIVE,
    "pvm": INDIGO,
    "tcgmsg": OLIVE,
    "armci": RUST,
    "cuda": OLIVE,
    "nccl": INDIGO,
}
_OTHERS = (INDIGO, RUST, OLIVE)  # of modules outside the tree
_SHADES = ((0, 0.0), (0, 0.4), (255, 0.45))  # towards which level, and how far
# (on, off, ...) in multiples of the line's width; the first is a whole line.
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (4.5, 1.8),
    (1.2, 1.5),
    (6, 1.6, 1.2, 1.6),
    (9, 2),
    (3, 1.2, 1.2, 1.2, 1.2, 1.2),
)


def _mixed(color: str, level: int, share: float) -> str:
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (level - part) * share):02x}" for part in parts)


# Each hue in each shade: the hues themselves first.
LIGHT, DARK = (
    tuple(_mixed(color, level, share) for level, share in _SHADES for color in hues)
    for hues in (_LIGHT, _DARK)
)
LIGHT_TEXT = _LIGHT_TEXT * len(_SHADES)


def hue_of(module: str) -> int:
    """The place of the module's hue: a fixed one, or one that its name alone decides."""
    known = OF_MODULES.get(module)
    return _OTHERS[zlib.crc32(module.encode()) % len(_OTHERS)] if known is None else known


def style(color: int, dash: int) -> tuple[int, int]:
    """Places in the palettes and in DASHES. Colours beyond the hues are the hues again, with the next dash; dashes
    beyond the last one are the first again, in the next shade.
    """
    look = dash + color // HUES
    shade = look // len(DASHES) % len(_SHADES)
    return color % HUES + HUES * shade, look % len(DASHES)
