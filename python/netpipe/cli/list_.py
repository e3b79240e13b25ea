# SPDX-License-Identifier: Apache-2.0
"""netpipe list: what can be measured, and with which settings. The conformance tests walk its JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.command.choices import complete_names
from netpipe.command.options import module_option
from netpipe.failure import UNAVAILABLE, USAGE, Failure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDEST_CHOICES = 18  # columns of choices in one unbroken word: more would be cut where the terminal is narrow


@click.command
@click.argument("names", nargs=-1, metavar="[MODULE|PATTERN]...", shell_complete=complete_names)
@module_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def command(names: tuple[str, ...], files: tuple[str, ...], as_json: bool) -> None:
    """Show the modules and patterns, or the options of one.

    With the name of a module: its options. With that of a pattern: its options, and what it measures besides the time.
    mpi stands for every MPI library that was added.
    """
    from netpipe import native, theory
    from netpipe.launch.discontinued import about
    from netpipe.libraries.adding import discover, layers

    listing = native.list_([str(Path(file).absolute()) for file in files])
    known = {one["name"]: one for kind in ("patterns", "modules") for one in listing[kind]}
    stands_for = libraries(names, listing)
    chosen = list(
        dict.fromkeys(one.partition(":")[0] for name in names for one in stands_for.get(name, [name]))
    )
    for name in chosen:
        if name not in known and name != theory.NAME:
            if (
                why := {Path(one["path"]).stem: one["reason"] for one in listing["refused"]}.get(name)
            ) is not None:
                raise Failure(UNAVAILABLE, why)
            if (gone := about(name)) is not None:
                raise Failure(USAGE, f"there is no module '{name}': {gone}")
            near = get_close_matches(name, (*known, theory.NAME), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
            raise Failure(USAGE, f"there is no module or pattern '{name}'; {hint}")
    listing["without_library"] = (
        [asdict(layer) for layer in layers.without_library(listing, discover.compiler_here)]
        if not chosen
        else []
    )
    if chosen:
        for kind in ("modules", "patterns"):
            listing[kind] = [one for one in listing[kind] if one["name"] in chosen]
    drawn = {"theory": theory.settings()} if theory.NAME in chosen else {}
    if as_json:
        click.echo(json.dumps({**listing, **({"stands_for": stands_for} if stands_for else {}), **drawn}))
        return
    from netpipe.render.terminal.rows import console

    out = console()
    for name, variants in stands_for.items():
        prose(out, f"{name} stands for {', '.join(variants)}")
        out.print()
    for place, name in enumerate(chosen):
        if place:
            out.print()
        one = known.get(name, {})
        if not one:
            print_theory(out)
        elif "formula" in one:
            print_pattern(out, one)
        else:
            print_module(out, one)
    if not chosen:
        print_listing(out, listing)
        return
    for kind, options, header in (
        ("modules", "variant_options", "of every module"),
        ("patterns", "pattern_options", "of every pattern"),
    ):
        if listing[kind] and listing.get(options):
            print_options(out, listing[options], header)


def libraries(names: tuple[str, ...], listing: dict[str, Any]) -> dict[str, list[str]]:
    """What a name such as mpi stands for: the variants of all libraries that were added. Raises Failure (3) when there
    are none.
    """
    from netpipe.launch.variants import expand, wants_expansion

    return {name: list(expand((name,), listing)[0]) for name in names if wants_expansion((name,))}


def prose(out: Console, text: str | Text, style: str | None = None) -> None:
    """A paragraph: wrapped at words on a terminal, one line elsewhere."""
    out.print(text, style=style, markup=False, soft_wrap=not out.is_terminal)


def print_listing(out: Console, listing: dict[str, Any]) -> None:
    from rich.text import Text

    from netpipe.render.terminal.rows import Rows

    made = Rows(("module", "name"), ("stands on", "left"), ("hosts", "right"), ("what it is", "left"))
    for module in listing["modules"]:
        words = module["summary"] if module["available"] else f"not available: {module['reason']}"
        hosts = "any" if module["crosses_hosts"] else "1"
        style = "" if module["available"] else "dim"
        made.add_row(module["name"], module["below"] or "", hosts, Text(words), style=style)
    for layer in listing["without_library"]:
        made.add_row(layer["name"], "", "any", Text(f"not available: {layer['reason']}"), style="dim")
    out.print(made)
    out.print()
    made = Rows(("pattern", "name"), ("what the processes do, and what is measured besides the time", "left"))
    for pattern in listing["patterns"]:
        made.add_row(pattern["name"], Text(pattern["summary"]))
        measures = ", ".join(measure["name"] for measure in pattern.get("measures", []))
        if measures:
            made.add_row("", Text(f"also {measures}", style="dim"))
    out.print(made)
    for refused in listing["refused"]:
        out.print()
        prose(out, f"refused: {refused['path']}: {refused['reason']}")
    out.print()
    out.print(
        "netpipe list NAME shows the options of a module or pattern. A variant is a module with settings: "
        "tcp:wait=poll,sndbuf=512k. Patterns have settings, too: window:in_flight=64. Several values make several "
        "curves: 'window:in_flight=1|4|16'."
    )


def print_pattern(out: Console, pattern: dict[str, Any]) -> None:
    from rich.text import Text

    prose(out, Text(pattern["name"], style="bold").append(f": {pattern['summary']}", style="not bold"))
    prose(out, pattern["formula"], style="dim")
    prose(out, f"after {pattern['source']}", style="dim")
    if pattern["options"]:
        print_options(out, pattern["options"])
    if pattern.get("measures"):
        from netpipe.render.terminal.rows import Rows

        out.print()
        made = Rows(("measure", "name"), ("unit", "left"), ("what it is", "left"))
        for measure in pattern["measures"]:
            unit = "ratio" if measure["unit"] == "1" else measure["unit"]
            made.add_row(measure["name"], unit, Text(measure["help"]))
        out.print(made)


def print_module(out: Console, module: dict[str, Any]) -> None:
    from rich.text import Text

    prose(out, Text(module["name"], style="bold").append(f": {module['summary']}", style="not bold"))
    words = [f"binds {module['version']}"]
    if module["below"]:
        words.append(
            f"stands on {module['below']}" + (f" and adds {module['adds']}" if module["adds"] else "")
        )
    words.append("any number of hosts" if module["crosses_hosts"] else "one host only")
    words.append(f"patterns: {' '.join(module['patterns']) or 'none'}")
    prose(out, "; ".join(words), style="dim")
    if not module["available"]:
        prose(out, f"not available: {module['reason']}")
    print_options(out, module["options"])


def print_theory(out: Console) -> None:
    from rich.text import Text

    from netpipe import theory
    from netpipe.render.terminal.rows import Rows

    prose(out, Text(theory.NAME, style="bold").append(f": {theory.SUMMARY}", style="not bold"))
    prose(out, "give it beside a module: netpipe run tcp theory:rate=10g,latency=5us", style="dim")
    out.print()
    made = Rows(("setting", "name"), ("such as", "left"), ("what it is", "left"))
    for one in theory.settings():
        made.add_row(one["name"], Text(one["example"]), Text(one["help"]))
    out.print(made)


def print_options(out: Console, options: list[dict[str, Any]], header: str = "option") -> None:
    from rich.text import Text

    from netpipe.render.terminal.rows import Rows

    if not options:
        out.print("It has no options.")
        return
    out.print()
    made = Rows((header, "name"), ("values", "left"), ("default", "left"), ("what it does", "left"))
    for option in options:
        made.add_row(option["name"], Text(values(option)), Text(option["default"]), Text(option["help"]))
    out.print(made)


def values(option: dict[str, Any]) -> str:
    """What an option takes, in words: "block|poll|hybrid", "0 to 4M", "yes or no"."""
    if option["type"] == "choice":
        whole = "|".join(option["choices"])
        return whole if len(whole) <= WIDEST_CHOICES else " | ".join(option["choices"])  # can be wrapped
    if option["type"] == "bool":
        return "yes|no"
    if option["type"] in ("int", "size"):
        from netpipe.units import size_text

        show = size_text if option["type"] == "size" else str
        least, most = option["min"], option["max"]
        unit = f" {option['unit']}" if option["unit"] and option["type"] == "int" else ""
        return f"from {show(least)}{unit}" if most >= 1 << 40 else f"{show(least)} to {show(most)}{unit}"
    return "text"
