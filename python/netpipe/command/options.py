# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, declared once, and what the names stand for that a user gives with them."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from netpipe.command.choices import Completer, complete_measured
from netpipe.failure import USAGE, Failure

if TYPE_CHECKING:
    from collections.abc import Iterable

Decorated = TypeVar("Decorated", bound=Callable[..., Any] | click.Command)

runs_argument = click.argument("runs", metavar="[RUN]...", nargs=-1, type=click.Path(path_type=Path))


def variants_of(complete: Completer) -> Callable[[Decorated], Decorated]:
    """--variant, whose values are completed so."""
    return click.option(
        "--variant",
        "variants",
        multiple=True,
        metavar="VARIANT",
        shell_complete=complete,
        help="Only this variant, or all variants of this module; may be repeated.",
    )


def patterns_of(complete: Completer) -> Callable[[Decorated], Decorated]:
    """--pattern, whose values are completed so."""
    return click.option(
        "--pattern",
        "patterns",
        multiple=True,
        metavar="NAME",
        shell_complete=complete,
        help="Only this pattern; may be repeated.",
    )


variant_option = variants_of(complete_measured("variant"))
pattern_option = patterns_of(complete_measured("pattern"))
own_option = click.option(
    "--own",
    metavar="VARIANT",
    shell_complete=complete_measured("variant"),
    help="The variant of the runs that the profile was taken over  [default: the profile's library without settings]",
)
module_option = click.option(
    "--module",
    "files",
    multiple=True,
    metavar="FILE",
    help="Also load this module, from outside the installation; may be repeated.",
)


def refuse(names: tuple[str, ...], why: str) -> None:
    """Raises Failure (2) for one of these parameters on the command line."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if option.name in names and given:
            raise Failure(USAGE, f"{why}; leave {option.opts[0]} out")


def matching(
    variants: tuple[str, ...], patterns: tuple[str, ...], there: Iterable[tuple[str, str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names as the run has them. `there` is (variant, pattern) of what it has; the pattern of a variant without
    points is "". A name that is not there stands for all that begin with it and go on with settings: `tcp` for
    tcp:wait=poll, `mpi` for mpi@openmpi, `overlap` for overlap:computes=one. Raises Failure (2) for a name without a
    match.
    """
    pairs = list(there)
    found = []
    for what, asked, known in (
        ("variant", variants, list(dict.fromkeys(variant for variant, _ in pairs))),
        ("pattern", patterns, list(dict.fromkeys(pattern for _, pattern in pairs if pattern))),
    ):
        full: list[str] = []
        for name in asked:
            some = [one for one in known if one == name] or [
                one for one in known if one.startswith((f"{name}:", f"{name}@"))
            ]
            if not some:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"it has {', '.join(known) or 'none'}"
                raise Failure(USAGE, f"the run has no points of {what} '{name}'; {hint}")
            full += some
        found.append(tuple(dict.fromkeys(full)))
    return found[0], found[1]
