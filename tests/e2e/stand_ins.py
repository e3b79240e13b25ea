# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for NVIDIA's libraries (tests/modules/cuda), and whether this machine has the real ones."""

from __future__ import annotations

from typing import Any

from test_conformance import ALL_MODULES


def built(name: str) -> dict[str, Any] | None:
    """What the listing says of a module without a stand-in; None where it is not built here."""
    # A module that was not built is listed, too, with what it lacks and without options.
    return next((one for one in ALL_MODULES if one["name"] == name and one["options"]), None)


def usable(name: str) -> bool:
    found = built(name)
    return found is not None and found.get("reason") is None
