# SPDX-License-Identifier: Apache-2.0
"""tuned.toml: both variants for `netpipe run --config tuned.toml`, which measures them beside each other."""

from __future__ import annotations

import json

from netpipe.tuning.formats import Tuned


def files(tuned: Tuned) -> dict[str, str]:
    # A JSON string is a TOML basic string.
    variants = list(dict.fromkeys((tuned.start, tuned.variant)))
    lines = [f"variants = {json.dumps(variants)}"]
    if tuned.pattern:
        lines.append(f"pattern = {json.dumps([tuned.pattern])}")
    for name, value in (("ranks", tuned.ranks), ("pin", tuned.pin)):
        if value:
            lines.append(f"{name} = {json.dumps(value)}")
    return {"tuned.toml": f"{tuned.comment}[run]\n" + "\n".join(lines) + "\n"}
