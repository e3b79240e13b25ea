# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of a line of a run file, made of the records."""

from __future__ import annotations

from typing import Any

import msgspec

from netpipe.records import SCHEMA, AnyRecord


def schema() -> dict[str, Any]:
    """The JSON Schema of one line. schema.json is this, committed; a test holds the two together."""
    whole = msgspec.json.schema(AnyRecord)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a netpipe run file, schema {SCHEMA}",
    } | whole


def schema_text() -> str:
    return msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode() + "\n"
