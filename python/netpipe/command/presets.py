# SPDX-License-Identifier: Apache-2.0
"""Defaults for the options of `netpipe run` that are not given; docs/reference/cli.md has the same table."""

from __future__ import annotations

PRESETS: dict[str, dict[str, str]] = {
    "quick": {"schedule": "powers", "target": "2%", "budget": "1", "launches": "3"},
    "default": {"schedule": "adaptive", "launches": "4"},
    "thorough": {"schedule": "adaptive", "target": "0.5%", "budget": "60", "launches": "6"},
}


def preset_text(name: str) -> str:
    """--schedule powers --target 2% --budget 1"""
    return " ".join(f"--{option} {text}" for option, text in PRESETS[name].items())
