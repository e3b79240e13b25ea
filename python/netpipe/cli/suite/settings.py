# SPDX-License-Identifier: Apache-2.0
"""What a suite leaves open, because each site has another: `tcp:rails={rails}` is a variant with a place, which
`netpipe suite run --set rails=eth0+eth1` fills. `[set]` of the file says what belongs there. A run with a place that
is not filled is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from netpipe.command.config import did_you_mean
from netpipe.failure import USAGE, Failure

NAME = "[a-z][a-z0-9_]*"
PLACE = re.compile(rf"\{{({NAME})\}}")


def places(texts: Iterable[str]) -> tuple[str, ...]:
    """The names of the places in these variants, each once."""
    return tuple(dict.fromkeys(name for text in texts for name in PLACE.findall(text)))


def given(texts: Iterable[str], known: Mapping[str, str], suite: str) -> dict[str, str]:
    """The values of `--set NAME=VALUE`, by name. Raises Failure (2)."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not value:
            raise Failure(USAGE, f"--set {text} has no value; write NAME=VALUE")
        if name not in known:
            hint = did_you_mean(name, known) if known else "it leaves nothing open"
            raise Failure(USAGE, f"--set {text}: the suite {suite} has no '{name}'; {hint}")
        if name in found:
            raise Failure(USAGE, f"--set {name} is given twice; write {name}=A|B for two values")
        found[name] = value
    return found


def lacking(texts: Iterable[str], known: Mapping[str, str], values: Mapping[str, str]) -> str:
    """Why a run of these variants is left out; "": every place is filled."""
    return "; ".join(
        f"it needs --set {name}=VALUE: {known[name]}" for name in places(texts) if name not in values
    )


def filled(texts: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The variants with these values in their places."""
    return tuple(PLACE.sub(lambda place: values[place[1]], text) for text in texts)


def became(text: str, variant: str) -> bool:
    """Whether this is what a variant with places became, with any values."""
    between = PLACE.split(text)[::2]
    return re.fullmatch("[^,]+".join(map(re.escape, between)), variant) is not None
