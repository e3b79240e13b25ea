# SPDX-License-Identifier: Apache-2.0
"""Results of application kernels: their file (lines), and what is read off it (table). Who runs them is
netpipe.applications.
"""

from netpipe.kernels.lines import Applications, Cell, NotApplications, Result, read

__all__ = ["Applications", "Cell", "NotApplications", "Result", "read"]
