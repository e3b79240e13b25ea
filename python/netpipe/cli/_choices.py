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


def complete_modules(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(module["name"], help=module["summary"])
        for module in _listed("modules")
        if module["name"].startswith(incomplete)
    ]


def complete_variants(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """A module, and behind its colon its options."""
    name, colon, settings = incomplete.partition(":")
    if not colon:
        return complete_modules(context, parameter, incomplete)
    before, _, last = settings.rpartition(",")
    start = f"{name}:{before}," if before else f"{name}:"
    return [
        CompletionItem(f"{start}{option['name']}=", help=option["help"])
        for module in _listed("modules")
        if module["name"] == name
        for option in module["options"]
        if option["name"].startswith(last)
    ]


def complete_patterns(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [
        CompletionItem(pattern["name"], help=pattern["summary"])
        for pattern in _listed("patterns")
        if pattern["name"].startswith(incomplete)
    ]
