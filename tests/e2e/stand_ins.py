# SPDX-License-Identifier: Apache-2.0
"""The stand-ins for NVIDIA's libraries (tests/modules/cuda), and whether this machine has the real ones."""

from __future__ import annotations

import os
from typing import Any

import pytest
from conftest import TEST_MODULES
from test_conformance import ALL_MODULES

STAND_INS = TEST_MODULES / "stand-ins"


def built(name: str) -> dict[str, Any] | None:
    """What the listing says of a module without a stand-in; None where it is not built here."""
    return next((one for one in ALL_MODULES if one["name"] == name), None)


def usable(name: str) -> bool:
    found = built(name)
    return found is not None and found.get("reason") is None


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stand-ins, with two devices, in place of the driver and of NCCL."""
    assert (STAND_INS / "libcuda.so.1").exists(), "the stand-in is not built: cmake --build build"
    before = os.environ.get("LD_LIBRARY_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{STAND_INS}:{before}" if before else str(STAND_INS))
    return monkeypatch
