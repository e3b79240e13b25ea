# SPDX-License-Identifier: Apache-2.0
"""Tests that run in an emulated guest (tests/guest), where the kernel has what that of this machine lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT

IN_GUEST = "NETPIPE_IN_GUEST" in os.environ
GUEST = ROOT / "tests/guest/guest.py"
LIMIT_S = 2400


def run_in_guest(words: tuple[str, ...], folder: Path) -> tuple[Counter[str], set[str]]:
    """Boots a guest and runs these tests there: how many ran of each file ("test_verbs"), and why others were skipped.
    What one of them says that fails is the message here.
    """
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt install {package}")
    report = f"{folder}/report.xml"
    script = '"$@"; code=$?; cp /tmp/report.xml /share/report.xml; exit $code'
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "--junitxml=/tmp/report.xml",
    ]
    done = subprocess.run(
        [
            *(sys.executable, GUEST, "--limit", str(LIMIT_S), "--keep", f"report.xml={report}", "--"),
            *("sh", "-c", script, "sh", *tests, *words),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S + 200,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    reasons = {one.get("message") or "" for case in cases for one in case.iter("skipped")}
    ran = (case for case in cases if case.find("skipped") is None)
    return Counter(case.get("classname", "").rpartition(".")[2] for case in ran), reasons
