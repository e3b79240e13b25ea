# SPDX-License-Identifier: Apache-2.0
"""Kept while callers move to netpipe.units, which findings use too."""

from netpipe.units import *  # noqa: F403
from netpipe.units import COUNT_STEPS, RATE_STEPS, SIZE_STEPS, TIME_STEPS, UNKNOWN

__all__ = ["COUNT_STEPS", "RATE_STEPS", "SIZE_STEPS", "TIME_STEPS", "UNKNOWN"]
