# SPDX-License-Identifier: Apache-2.0
"""Libraries that tests preload into ranks, to see or to change what a module calls."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def shim(compiler: Path | str, source: str, made: Path, *words: str) -> Path:
    """A library to preload. It is not linked with the one that it stands before, which the ranks have."""
    made_of = made.with_suffix(".o")
    flags = ("-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC")
    subprocess.run([compiler, *flags, *words, "-c", "-o", made_of, HERE / source], check=True, timeout=60)
    subprocess.run(["cc", "-shared", "-Wl,-z,lazy", "-o", made, made_of, "-ldl"], check=True, timeout=60)
    return made
