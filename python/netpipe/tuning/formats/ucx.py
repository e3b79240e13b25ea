# SPDX-License-Identifier: Apache-2.0
"""ucx.conf: `UCX_NAME=value`. UCX reads it in $UCX_CONFIG_DIR, $HOME or the working directory; the environment wins."""

from __future__ import annotations

from netpipe.tuning.formats import Tuned


def files(tuned: Tuned) -> dict[str, str]:
    own = {name: value for name, value in tuned.variables.items() if name.startswith("UCX_")}
    if not own:
        return {}
    where = "# Copy it to ~/ucx.conf, or name its folder with UCX_CONFIG_DIR. UCX 1.12 and newer read it.\n"
    return {"ucx.conf": tuned.comment + where + "".join(f"{name}={value}\n" for name, value in own.items())}
