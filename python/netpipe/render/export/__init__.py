# SPDX-License-Identifier: Apache-2.0
"""The formats that are exported and imported."""

from __future__ import annotations

FORMATS = ("npout3", "npout5", "csv", "parquet", "json")
OF_ENDING = {".csv": "csv", ".parquet": "parquet", ".json": "json"}
TABLES = ("points", "cells")  # of export
