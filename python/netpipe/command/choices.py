# SPDX-License-Identifier: Apache-2.0
"""Words for the shell to complete: what the worker lists, and what a run file has. Without these there are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from netpipe.failure import Failure


class OneOf(click.Choice):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A name out of many: a wrong one gets the nearest of them, and not the whole list."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from difflib import get_close_matches

        if value not in self.choices and (near := get_close_matches(str(value), self.choices, n=1)):
            self.fail(f"there is no '{value}'; did you mean '{near[0]}'?", param, ctx)
        return super().convert(value, param, ctx)


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


def _layer(module: Mapping[str, Any]) -> str:
    """What stands for this module and all others of its layer: mpi for mpi@openmpi; "" without such a name."""
    layer, at, _ = module["name"].partition("@")
    return layer if at else ""


def _with_settings(kind: str, incomplete: str) -> list[CompletionItem]:
    """A name; after its colon its options, and after an equals sign the values of a choice."""
    name, colon, settings = incomplete.partition(":")
    if not colon:
        return _names((kind,), incomplete)
    named = [one for one in _listed(kind) if name in (one["name"], _layer(one))]
    options = list({option["name"]: option for one in named for option in one.get("options", ())}.values())
    if named:
        options += _listed("pattern_options" if kind == "patterns" else "variant_options")
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
    layers = dict.fromkeys(filter(None, map(_layer, _listed("modules"))))
    return [
        *(
            CompletionItem(layer, help=f"every {layer} library that was added")
            for layer in layers
            if layer.startswith(incomplete)
        ),
        *_with_settings("modules", incomplete),
    ]


def complete_measured_now(
    context: click.Context, of: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Variants of a command that measures, for which `all` is one too."""
    every = CompletionItem("all", help="every layer that is available")
    return [*([every] if "all".startswith(incomplete) else []), *complete_variants(context, of, incomplete)]


def complete_launchers(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from netpipe.libraries import choices

    return [CompletionItem(name) for name in choices() if name.startswith(incomplete)]


def complete_patterns(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _with_settings("patterns", incomplete)


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_measured(what: str) -> Completer:
    """Completes the `variant`s or `pattern`s of the run files that are named earlier on the line."""

    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # The value of the option is still missing, so click gave up and left the arguments before it unparsed.
        named = context.args or context.params.get("runs") or context.params.get("run") or "run.jsonl"
        paths = [named] if isinstance(named, (str, Path)) else named
        found = dict.fromkeys(name for path in paths for name in _measured(Path(path), what))
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]

    return complete


def _measured(path: Path, what: str) -> list[str]:
    """From the plan at the start of the file; an imported run has no plan, so its points are read."""
    from netpipe.records import NotARun, Plan, Point, Sample, read

    found: dict[str, None] = {}
    planned = False
    try:
        for record in read(path):
            if isinstance(record, Plan):
                planned = True
                names = [one.variant for one in record.variants] if what == "variant" else record.patterns
                found.update(dict.fromkeys(names))
            elif isinstance(record, (Point, Sample)):
                if planned:
                    break
                found[getattr(record, what)] = None
    except (OSError, NotARun):
        return []
    return list(found)
