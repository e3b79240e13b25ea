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
        found: list[dict[str, Any]] = native.list_().get(what, [])
    except Failure:
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
    """A name, behind its colon its options, and behind their equals signs the values that they can choose from."""
    name, colon, settings = incomplete.partition(":")
    if not colon:
        return _names((kind,), incomplete)
    named = [one for one in _listed(kind) if one["name"] == name]
    options = [option for one in named for option in one.get("options", ())]
    if named and kind == "patterns":
        options += _listed("pattern_options")
    before, comma, last = settings.rpartition(",")
    start = f"{name}:{before}{comma}"
    key, equals, values = last.partition("=")
    if not equals:
        return [
            CompletionItem(f"{start}{option['name']}=", help=option["help"])
            for option in options
            if option["name"].startswith(last)
        ]
    chosen, between, begun = values.rpartition("|")
    return [
        CompletionItem(f"{start}{key}={chosen}{between}{value}")
        for option in options
        if option["name"] == key
        for value in (("yes", "no") if option["type"] == "bool" else option["choices"])
        if value.startswith(begun) and value not in chosen.split("|")
    ]


def complete_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _names(("modules", "patterns"), incomplete)


def complete_variants(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _with_settings("modules", incomplete)


def complete_patterns(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _with_settings("patterns", incomplete)
