# SPDX-License-Identifier: Apache-2.0
"""The sizes at which a layer changes how it moves a message, from what a run recorded of a variant. Faults hide right
below, at and right above them.
"""

from __future__ import annotations

import re
from typing import Any

# What no run records. zmq: larger messages have a connection of their own (kit/services/service_meeting.h). grpc:
# HTTP/2 cuts a message into frames of this size where the peers agree on no other (RFC 9113, section 4.2).
UNRECORDED = {"zmq": {"large messages": 65536}, "grpc": {"HTTP/2 frame": 16384}}
FACTORS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def bytes_of(text: str) -> int:
    """Of the text of an option or a fact, such as 4k; 0 where it is no size (auto, -1)."""
    found = re.fullmatch(r"(\d+)([kMG]?)", text)
    return int(found[1]) * FACTORS[found[2]] if found else 0


def thresholds(module: dict[str, Any], records: list[dict[str, Any]]) -> dict[str, int]:
    """Bytes by name, none of them 0: the options and facts that are numbers of bytes, and where UCX says that another
    protocol begins. `module` is what `netpipe-worker list` says of it, `records` those of a run of one variant.
    """
    (plan,) = (one for one in records if one["type"] == "plan")
    (opened,) = (one for one in records if one["type"] == "variant")
    (variant,) = plan["variants"]
    settings = opened["ranks"][0]["settings"]
    sized = [option["name"] for option in module["options"] if option["unit"] == "bytes"]
    found = {name: bytes_of(variant["options"][name]) for name in sized}
    found |= {name: bytes_of(said) for name, said in settings.items() if "bytes" in name.split("_")}
    for name, said in settings.items():
        if name.startswith("protocols_"):
            found |= {f"{name} from {begin}": int(begin) for begin in re.findall(r" from (\d+)", said)}
    found["max_inline_bytes"] = (opened.get("promises") or {}).get("max_inline_bytes", 0)
    found |= UNRECORDED.get(module["name"], {})
    return {name: size for name, size in found.items() if size > 0}


def around(found: dict[str, int], most: int) -> list[int]:
    """Each of these sizes up to `most`, one byte less and one more, in their order and each once."""
    return sorted({size + more for size in found.values() if size <= most for more in (-1, 0, 1)})
