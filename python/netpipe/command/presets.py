# SPDX-License-Identifier: Apache-2.0
"""Defaults for what `netpipe run` and `netpipe.measure` are not given; docs/reference/cli.md has the same table."""

from __future__ import annotations

from collections.abc import Container

PRESETS: dict[str, dict[str, str]] = {
    "quick": {"schedule": "powers", "target": "2%", "budget": "1", "launches": "3"},
    "default": {"schedule": "adaptive", "launches": "4"},
    "thorough": {"schedule": "adaptive", "target": "0.5%", "budget": "60", "launches": "6"},
}


def preset_text(name: str) -> str:
    """--schedule powers --target 2% --budget 1"""
    return " ".join(f"--{option} {text}" for option, text in PRESETS[name].items())


def preset(name: str, given: Container[str]) -> tuple[dict[str, str], int]:
    """The settings of a plan by preset NAME, and how many launches share their budget. `given` has the names of the
    settings that are chosen elsewhere: a list of sizes and a perturbation belong to other schedules, so the preset
    leaves the schedule to the plan then.
    """
    settings = dict(PRESETS[name])
    if "sizes" in given or "perturbation" in given:
        settings.pop("schedule", None)
    return settings, int(settings.pop("launches", 1))
