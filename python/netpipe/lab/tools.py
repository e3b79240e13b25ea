# SPDX-License-Identifier: Apache-2.0
"""Programs of the system that make namespaces, devices and their settings, and what they say when they cannot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from netpipe.failure import FAILED, UNAVAILABLE, Failure

LIMIT_S = 30.0  # of one of them; each takes milliseconds
# Each with the package that has it, on Debian and its derivatives.
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "taskset": "util-linux",
}


def need(*names: str) -> None:
    """Raises Failure (3) that names what is missing and the packages that have it."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        packages = " ".join(dict.fromkeys(PACKAGES[name] for name in missing))
        raise Failure(UNAVAILABLE, f"a lab needs {', '.join(missing)}; install {packages}")


def need_root() -> None:
    """Raises Failure (3)."""
    if os.geteuid() != 0:
        raise Failure(
            UNAVAILABLE,
            "a lab needs root, because only root makes network namespaces with devices; "
            "use sudo, or a container with its own network and CAP_SYS_ADMIN and CAP_NET_ADMIN",
        )


def call(words: Sequence[str], text: str | None = None) -> str:
    """Standard output. Raises Failure (4) with what it said."""
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Failure(FAILED, f"{words[0]} did not end within {LIMIT_S:.0f} s: {' '.join(words)}") from None
    except OSError as error:
        raise Failure(UNAVAILABLE, f"{words[0]} cannot be started: {error.strerror}") from None
    if done.returncode != 0:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
        raise Failure(FAILED, f"{' '.join(words)}: {said or f'exit code {done.returncode}'}")
    return done.stdout


def asked(words: Sequence[str]) -> Any:
    """The JSON that it prints. Raises Failure (4)."""
    text = call(words)
    try:
        return json.loads(text)
    except ValueError:
        raise Failure(FAILED, f"{' '.join(words)} printed no JSON: {text[:80]!r}") from None
