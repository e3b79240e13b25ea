# SPDX-License-Identifier: Apache-2.0
"""libfabric where the memory that may be locked is limited."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from conftest import Runner
from machines import may_lock
from test_libfabric import QUICK, assert_verified, deep, facts
from test_libfabric import pytestmark as needs_libfabric

pytestmark = needs_libfabric


def test_providers_without_a_device_lock_no_memory(measure: Runner) -> None:
    plan = ("pattern pingpong", "sizes 8,300001", *QUICK)
    done = measure("variant libfabric:register=always", *plan, inside=may_lock(0))
    assert_verified(done, 2)
    assert facts(done)["registered"] == "yes"


@pytest.fixture(scope="module")
def locking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For LD_LIBRARY_PATH: memory that is registered is locked, as far as the limit allows."""
    ask = ["cc", "-print-file-name=libfabric.so.1"]
    real = subprocess.run(ask, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    if not Path(real).is_absolute():
        pytest.skip("the compiler does not say where libfabric.so.1 is")
    made = tmp_path_factory.mktemp("locking") / "libfabric.so.1"
    source = Path(__file__).with_name("locking_fabric.c")
    flags = ["-std=gnu17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{made.name}"]
    subprocess.run(
        ["cc", *flags, f'-DLIBFABRIC="{real}"', "-o", made, source, "-ldl"], check=True, timeout=60
    )
    return made.parent


@deep
@pytest.mark.parametrize(
    ("settings", "pattern"),
    [(":register=always,ep=msg", "pingpong"), (":register=always", "stream"), ("", "put")],
)
def test_a_limit_of_locked_memory_that_is_too_low_is_named(
    measure: Runner, locking: Path, monkeypatch: pytest.MonkeyPatch, settings: str, pattern: str
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(locking))
    plan = (f"variant libfabric{settings}", f"pattern {pattern}", "sizes 4097", *QUICK)
    assert_verified(measure(*plan, inside=may_lock(1024)), 1)
    done = measure(*plan, inside=may_lock(64))
    assert done.code == 4, done.said
    said = (
        r"provider \S+ cannot register \d+ bytes: .*; is the limit of locked memory \(ulimit -l\) too low\?"
    )
    assert re.search(said, done.said), done.said
    assert not done.of("point")
