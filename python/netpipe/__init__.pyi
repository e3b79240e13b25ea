# SPDX-License-Identifier: Apache-2.0
"""Types of what __init__.py loads on first use."""

from netpipe.notebook import compare as compare
from netpipe.notebook import findings as findings
from netpipe.notebook import load as load
from netpipe.notebook import measure as measure
from netpipe.notebook import plot as plot
from netpipe.records import NotARun as NotARun
from netpipe.records import Run as Run
from netpipe.records import read as read

def version() -> str: ...
