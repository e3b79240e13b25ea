# SPDX-License-Identifier: Apache-2.0
"""What is checked of every table of a suite file. Each raises Failure (2) with its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netpipe.command.config import did_you_mean
from netpipe.failure import USAGE, Failure


def check_keys(where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise Failure(USAGE, f"{where} has an unknown key '{key}'; {did_you_mean(key, known)}")


def text(where: str, table: Mapping[str, Any], key: str) -> str:
    said = table.get(key)
    if not isinstance(said, str) or not said.strip():
        raise Failure(USAGE, f"{where} {key} {'is missing' if key not in table else 'must be a text'}")
    return said.strip()
