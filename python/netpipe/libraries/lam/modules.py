# SPDX-License-Identifier: Apache-2.0
"""LAM's modules for collectives (lamssi_coll(7)): one for all operations and sizes, chosen by an SSI parameter.

laminfo says which there are, and never what an environment changes. LAM itself ends a job whose module it does not know
or cannot use there ("No SSI coll modules said that they were available to run"), so a job that was measured had it. Its
other parameters for collectives, coll_crossover and coll_reduce_crossover, cannot be read back and are not searched.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLLECTIVES = "LAM_MPI_SSI_coll"
ANSWER_S = 20.0
_MODULE = re.compile(r"^ssi:coll:(\w+):version:", re.MULTILINE)


def ask(programs: Path, names: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The modules of this installation."""
    if COLLECTIVES not in names:
        return {}
    try:
        done = subprocess.run(
            [str(programs / "laminfo"), "-parsable"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    modules = list(dict.fromkeys(_MODULE.findall(done.stdout)))
    return {COLLECTIVES: {"value": "", "help": "collective modules", "choices": modules}} if modules else {}


def read_back(
    programs: Path,
    library: Path | None,  # noqa: ARG001
    variables: Mapping[str, str],
    environment: Mapping[str, str],
) -> dict[str, tuple[str, str]]:
    """A module that laminfo names is in force in every job that ran."""
    module = variables.get(COLLECTIVES)
    if module is None:
        return {}
    known = ask(programs, [COLLECTIVES], environment).get(COLLECTIVES, {}).get("choices", ())
    if not known:
        return {}
    if module in known:
        return {COLLECTIVES: ("LAM's choice", f"{module}, without which LAM would have ended the job")}
    return {COLLECTIVES: ("unknown to the library",) * 2}
