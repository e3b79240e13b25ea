# SPDX-License-Identifier: Apache-2.0
"""tuned.toml: both variants for `netpipe run --config tuned.toml`, which measures them beside each other, where and how
they were measured here.
"""

from __future__ import annotations

import json

from netpipe.tuning.formats import Tuned


def files(tuned: Tuned) -> dict[str, str]:
    # A JSON string is a TOML basic string.
    variants = list(dict.fromkeys((tuned.start, tuned.variant)))
    lines = [f"variants = {json.dumps(variants)}"]
    for name, values in tuned.options.items():
        lines.append(f"{name} = {json.dumps(values[0] if len(values) == 1 else values)}")
    return {"tuned.toml": f"{tuned.comment}[run]\n" + "\n".join(lines) + "\n"}
