# SPDX-License-Identifier: Apache-2.0
"""The formats of runs, which are exported and imported, and those of profiles, which are exported."""

from __future__ import annotations

FORMATS = ("npout3", "npout5", "csv", "parquet", "json")
OF_ENDING = {".csv": "csv", ".parquet": "parquet", ".json": "json"}
OSU = "osu"  # exported by curve; imported by netpipe.peers
IMB = "imb"  # exported by variant; the same
GOAL = "goal"  # the only one of profiles
TABLES = ("points", "sizes", "cells", "counters")  # of export
