# SPDX-License-Identifier: Apache-2.0
"""A plan as a person reads it before it is measured: every setting, defaults included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.render.terminal.rows import Rows
from netpipe.units import percent_text, size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rich.console import Console

    from netpipe.records import Plan

PLACED = {"auto": "chosen automatically", "none": "not pinned"}  # all others are two processors


def print_plan(out: Console, plan: Plan, answer: Mapping[str, Any], launches: int) -> None:
    """`answer` is what `netpipe-worker plan` returned, and what starts the processes where; `plan` is the part of it
    that a run file has too.
    """
    from rich.text import Text

    curves = {(curve["variant"], curve["pattern"]): curve for curve in answer.get("curves", [])}
    with_ranks = any("ranks" in curve for curve in curves.values())
    made = Rows(
        ("variant", "name"),
        ("pattern", "name"),
        *([("ranks", "right")] if with_ranks else []),
        ("points", "right"),
        ("", "left"),
    )
    for planned in plan.variants:
        for pattern in plan.patterns:
            curve = curves.get((planned.variant, pattern), {})
            reason = curve.get("reason")
            ranks = [str(curve.get("ranks", ""))] if with_ranks else []
            points = "none" if reason else str(curve.get("points", len(plan.sizes)))
            made.add_row(
                planned.variant, pattern, *ranks, points, Text(f"skipped: {reason}" if reason else "")
            )
    out.print(made)
    out.print()
    made = Rows(("variant", "name"), ("settings", "left"))
    for planned in plan.variants:
        settings = " ".join(f"{name}={value}" for name, value in planned.options.items())
        made.add_row(planned.variant, Text(settings or "none"))
    out.print(made)
    out.print()
    for name, value in _settings(plan, answer, launches):
        out.print(f"{name:<10}{value}", soft_wrap=True)


def _settings(plan: Plan, answer: Mapping[str, Any], launches: int) -> list[tuple[str, str]]:
    lines = []
    if plan.sizes:
        kind = f", {plan.schedule.kind}" if plan.schedule else ""
        span = f"{size_text(plan.sizes[0])} to {size_text(plan.sizes[-1])}"
        several = f"{len(plan.sizes)}, {span}" if len(plan.sizes) > 1 else size_text(plan.sizes[0])
        lines.append(("sizes", f"{several}{kind}"))
    if plan.buffers is not None:
        offsets = f"offsets {plan.buffers.send_offset_bytes} and {plan.buffers.recv_offset_bytes} bytes"
        memory = size_text(answer.get("memory_bytes"))
        lines.append(("buffers", f"{plan.buffers.policy}, {offsets}, {memory} for all ranks"))
    lines.append(
        (
            "target",
            f"± {percent_text(plan.target)} of the median at {percent_text(plan.confidence)} confidence",
        )
    )
    lines.append(("verify", "every byte" if plan.verify else "no"))
    pinned = " ".join("-" if cpu is None else str(cpu) for cpu in plan.pin or [])
    lines.append(("pin", pinned or PLACED.get(plan.placement or "auto", f"two processors: {plan.placement}")))
    if hosts := answer.get("hosts"):
        lines.append(("hosts", f"{', '.join(hosts)}; started by {' and '.join(answer['started_by'])}"))
    seconds = answer.get("expected_s")
    if seconds:  # none where the worker cannot tell, 0 where all is skipped
        several = f" in {launches} launches" if launches > 1 else ""
        lines.append(
            ("time", f"about {span_text(seconds * launches)} of measuring{several}, and starting the ranks;")
        )
        lines.append(("", "less where the target is reached sooner, more for the first visits of slow sizes"))
    return lines
