# SPDX-License-Identifier: Apache-2.0
"""The words of a recorded command line, and those that an experiment takes over from them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence

from netpipe.findings.experiments import Confirm

# Options of `netpipe run` that an experiment has too: where and how processes run, and how often all is started.
KEPT_VALUES = frozenset(
    {
        *(
            "hosts",
            "launcher",
            "launcher-args",
            "remote-shell",
            "host",
            "port",
            "bind",
            "token-file",
            "ranks",
            "pin",
        ),
        *("module", "config", "preset", "launches", "buffers", "send-offset", "recv-offset", "timeout"),
    }
)
KEPT_FLAGS = frozenset({"verify"})
# Those of the run alone: what is measured, how long, and what becomes of it.
LEFT_VALUES = frozenset(
    {
        *("pattern", "schedule", "sizes", "start", "end", "perturbation", "target", "budget", "seed"),
        *("continue", "output", "report"),
    }
)
LEFT_FLAGS = frozenset({"aa", "dry-run", "strict", "quiet", "json"})
LETTERS = {"o": "output", "q": "quiet"}

Part = tuple[str, list[str]]  # the name of an option, "" for a variant, and its words


def recorded(argv: Sequence[str]) -> list[str] | None:
    """The words after `netpipe run`; None, if another command wrote the run."""
    words = list(argv[1:] if argv[:1] == ["netpipe"] else argv)
    return words[1:] if words[:1] == ["run"] else None


def parts(words: Sequence[str]) -> Iterator[Part]:
    """Takes the words after `netpipe run` apart. A value that belongs to an option is with it. An option that is not
    known has no value.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (("", [one]) for one in rest)
            return
        if not word.startswith("-") or word == "-":
            yield "", [word]
            continue
        name, wants = _long(word) if word.startswith("--") else _short(word)
        yield name, [word, rest.pop(0)] if wants and rest else [word]


def _long(word: str) -> tuple[str, bool]:
    """The name of an option, and whether its value is the next word."""
    name, equals, _ = word[2:].partition("=")
    return name, name in KEPT_VALUES | LEFT_VALUES and not equals


def _short(word: str) -> tuple[str, bool]:
    """The same for -q, -o FILE, -oFILE and -qo FILE."""
    if "o" in word:
        return LETTERS["o"], word.endswith("o") and word.index("o") == len(word) - 1
    return LETTERS.get(word[1], word[1:]), False


def without(words: Sequence[str], names: Collection[str]) -> list[str]:
    """The words without these options."""
    return [word for name, own in parts(words) if not name or name not in names for word in own]


def kept(argv: Sequence[str]) -> list[str]:
    """The options that an experiment has in common with the run of this command line."""
    return in_common(argv, KEPT_VALUES | KEPT_FLAGS)


def in_common(argv: Sequence[str], names: Collection[str]) -> list[str]:
    """Those of these options that the run has, with their values."""
    found = []
    for name, own in parts(recorded(argv) or []):
        # --ranks 2,4 is in the names of the variants: mpi:ranks=4.
        several = name == "ranks" and "," in own[-1]
        if name in names and not several:
            found += own
    return found


def words(confirm: Confirm) -> list[str]:
    """The words after `netpipe run` that run an experiment."""
    return [confirm.variant, confirm.remedied, *_at(confirm.pattern, confirm.sizes), *confirm.options]


def alone(variant: str, pattern: str, size_bytes: int, argv: Sequence[str]) -> str:
    """The command that measures one variant at one size, as the run of this command line was measured."""
    return shlex.join(["netpipe", "run", variant, *_at(pattern, [size_bytes]), *kept(argv)])


def side_by_side(variant: str, patterns: Sequence[str], size_bytes: int, argv: Sequence[str]) -> str:
    """The command that measures one variant under several patterns at one size, as the run of this command line was."""
    named = [word for pattern in patterns for word in ("--pattern", pattern)]
    return shlex.join(["netpipe", "run", variant, *named, "--sizes", str(size_bytes), *kept(argv)])


def _at(pattern: str, sizes: Sequence[int]) -> list[str]:
    named = [] if pattern == "pingpong" else ["--pattern", pattern]
    return [*named, "--sizes", ",".join(map(str, sizes))]


def command(confirm: Confirm) -> str:
    """The command that runs an experiment."""
    return shlex.join(["netpipe", "run", *words(confirm)])
