# SPDX-License-Identifier: Apache-2.0
"""Layers of the papers on NetPIPE that went with their hardware, so that nobody looks for their modules."""

from __future__ import annotations

PAGE = "docs/modules/discontinued.md"  # says what carries the idea of each today, and has these names
NAMES = frozenset({"gm", "via", "vapi", "lapi", "tports", "elan"})


def about(name: str) -> str | None:
    """What to tell who asks for a module of this name; None where it is not one of these."""
    return f"its hardware is gone; {PAGE} says which layer carries its idea today" if name in NAMES else None
