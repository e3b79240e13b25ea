# SPDX-License-Identifier: Apache-2.0
"""environment.sh: the variables of the library, for a shell. MPICH, Intel MPI and libfabric have no other way."""

from __future__ import annotations

import shlex

from netpipe.tuning.formats import Tuned


def files(tuned: Tuned) -> dict[str, str]:
    if not tuned.variables:
        return {}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in tuned.variables.items()]
    return {"environment.sh": tuned.comment + "".join(lines)}
