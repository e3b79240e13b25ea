# SPDX-License-Identifier: Apache-2.0
"""Runs a program under the profiler: finds out which MPI it uses and what launches it, and gathers what its ranks
leave behind.
"""

from netpipe.profiling.left import rescue
from netpipe.profiling.run import Request, notes, profile

__all__ = ["Request", "notes", "profile", "rescue"]
