# SPDX-License-Identifier: Apache-2.0
"""When something happened, in words."""

from __future__ import annotations

from netpipe.reading import Reading
from netpipe.units import span_text


def moment(reading: Reading, launch: int, at_s: float | None) -> str:
    """ "12 s into launch 2", or into the run, where that is the only launch."""
    into = f"launch {launch}" if len(reading.run.plans) > 1 else "the run"
    return f"{span_text(at_s)} into {into}" if at_s is not None else f"in {into}"
