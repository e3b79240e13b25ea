# SPDX-License-Identifier: Apache-2.0
"""Questions to a library in a process of its own: it may look for devices, start threads or crash."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

ANSWER_S = 20.0


def answer(module: str, words: list[str], environment: Mapping[str, str]) -> Any:
    """The JSON that `python -m MODULE WORD...` prints; None where it prints none within ANSWER_S seconds."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            env=environment,
            capture_output=True,
            timeout=ANSWER_S,
            check=False,
            start_new_session=True,
        )
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
