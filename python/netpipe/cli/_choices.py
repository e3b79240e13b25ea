# SPDX-License-Identifier: Apache-2.0
"""Words for the shell to complete, from what the worker lists. Where there is no worker there are none."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from netpipe.failure import Failure


def _listed(what: str) -> list[dict[str, Any]]:
    from netpipe import native

    try:
        found: list[dict[str, Any]] = native.list_()[what]
    except (Failure, KeyError):
        return []
    return found


def _names(kinds: tuple[str, ...], incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(one["name"], help=one["summary"])
        for kind in kinds
        for one in _listed(kind)
        if one["name"].startswith(incomplete)
    ]


def _with_settings(kind: str, incomplete: str) -> list[CompletionItem]:
    """A name, and behind its colon its options."""
    name, colon, settings = incomplete.partition(":")
    if not colon:
        return _names((kind,), incomplete)
    before, _, last = settings.rpartition(",")
    start = f"{name}:{before}," if before else f"{name}:"
    return [
        CompletionItem(f"{start}{option['name']}=", help=option["help"])
        for one in _listed(kind)
        if one["name"] == name
        for option in one.get("options", ())
        if option["name"].startswith(last)
    ]


def complete_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _names(("modules", "patterns"), incomplete)


def complete_variants(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _with_settings("modules", incomplete)


def complete_patterns(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _with_settings("patterns", incomplete)
