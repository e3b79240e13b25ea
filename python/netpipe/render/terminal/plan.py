# SPDX-License-Identifier: Apache-2.0
"""A plan as a person reads it before it is measured: every setting that it comes to, defaults included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netpipe.render.terminal.summary import Rows
from netpipe.render.units import percent_text, size_text, span_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rich.console import Console

    from netpipe.records import Plan


def print_plan(out: Console, plan: Plan, answer: Mapping[str, Any], launches: int) -> None:
    """`answer` is what `netpipe-worker plan` said, `plan` its part that stands in the run file too."""
    left_out = {(c["variant"], c["pattern"]): c["reason"] for c in answer.get("curves", []) if c["reason"]}
    made = Rows(("variant", "name"), ("pattern", "left"), ("points", "right"), ("settings", "left"))
    for planned in plan.variants:
        settings = " ".join(f"{name}={value}" for name, value in planned.options.items())
        for pattern in plan.patterns:
            reason = left_out.get((planned.variant, pattern))
            points = "none" if reason else str(len(plan.sizes))
            made.add_row(planned.variant, pattern, points, f"skipped: {reason}" if reason else settings)
    out.print(made)
    out.print()
    for name, value in _settings(plan, answer, launches):
        out.print(f"{name:<10}{value}", soft_wrap=True)


def _settings(plan: Plan, answer: Mapping[str, Any], launches: int) -> list[tuple[str, str]]:
    lines = []
    if plan.sizes:
        kind = f", {plan.schedule.kind}" if plan.schedule else ""
        span = f"{size_text(plan.sizes[0])} to {size_text(plan.sizes[-1])}"
        lines.append(("sizes", f"{len(plan.sizes)}, {span}{kind}"))
    if plan.buffers is not None:
        offsets = f"offsets {plan.buffers.send_offset_bytes} and {plan.buffers.recv_offset_bytes} bytes"
        lines.append(
            ("buffers", f"{plan.buffers.policy}, {offsets}, {size_text(answer.get('memory_bytes'))} in all")
        )
    lines.append(
        ("target", f"± {percent_text(plan.target)} of the median at {percent_text(plan.confidence)}")
    )
    lines.append(("verify", "every byte" if plan.verify else "no"))
    pinned = " ".join("-" if cpu is None else str(cpu) for cpu in plan.pin or [])
    lines.append(("pin", pinned or "to sensible processors"))
    seconds = answer.get("expected_s")
    if seconds is not None:
        several = f", in {launches} launches" if launches > 1 else ""
        lines.append(
            (
                "time",
                f"at most {span_text(seconds * launches)}{several}; less where the target is reached sooner",
            )
        )
    return lines
