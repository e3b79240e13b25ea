# SPDX-License-Identifier: Apache-2.0
"""Scripts that start launchers themselves, as job scripts do. Nothing is put under their programs from outside: a
profile is of one program, and each launcher has its own way to give its processes an environment.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from netpipe.units import counted

LARGEST = 1 << 20  # bytes that are read
LAUNCHER_NAME = re.compile(r"(mpirun|mpiexec|orterun|prun|prterun|srun)([._-].*)?")
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# Words of a shell behind which a command begins.
BEFORE = {"&&", "||", "|", ";", "!", "(", "{", "then", "do", "else", "time", "exec", "env", "if", "while"}
SHELL = re.compile(r"(ba|da|z|k|a)?sh")
COMMAND_OPTION = re.compile(r"-[a-z]*c")  # -c, -lc, -ec
SEPARATORS = re.compile(r"&&|\|\||[;&|\n]")
LONGEST = 60  # characters of a command in a sentence


def launches(path: Path) -> list[tuple[int, str]]:
    """The lines of a shell script in which a launcher starts a program: the number of each, from 1, and its command.
    Empty for a file that is not text or cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST)
    except OSError:
        return []
    if b"\0" in text:
        return []
    lines = enumerate(text.decode(errors="replace").splitlines(), 1)
    return [(number, command) for number, line in lines for command in _launch(line.split())]


def launches_of_words(command: Sequence[str]) -> tuple[str, list[str]]:
    """What a shell is given as text (sh -c "mpirun ..."), and the commands in it that start a program by a launcher."""
    for at, word in enumerate(command[:-1]):
        if not SHELL.fullmatch(Path(word).name):
            continue
        options = itertools.takewhile(lambda one: one.startswith("-"), command[at + 1 :])
        for place, option in enumerate(options, at + 2):
            if COMMAND_OPTION.fullmatch(option) and place < len(command):
                pieces = SEPARATORS.split(command[place])
                return f"{word} {option}", [one for text in pieces for one in _launch(text.split())]
    return "", []


def _launch(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        if word.startswith("#"):
            return
        begins = at == 0 or words[at - 1] in BEFORE or words[at - 1].endswith((";", "&"))
        if begins and ASSIGNMENT.match(word):
            yield from _launch(words[at + 1 :])
            return
        if begins and at + 1 < len(words) and LAUNCHER_NAME.fullmatch(word.lstrip("(").rpartition("/")[2]):
            yield " ".join([word.lstrip("("), *words[at + 1 :]])
            return


def sentence(path: Path, found: Sequence[tuple[int, str]]) -> str:
    """What to do instead."""
    lines = [str(number) for number, _ in found]
    some = lines if len(lines) <= 4 else [*lines[:3], "..."]
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(some)}"
    return (
        f"{path} is a script that starts launchers itself ({where}), and a profile is of one program; profile each "
        f"inside the script, with an output of its own: {_remedy(found[0][1])}"
    )


def sentence_of_words(shell: str, found: Sequence[str]) -> str:
    """The same of what a shell is given as text. `shell`: sh -c"""
    each = "it" if len(found) == 1 else "each of them"
    return (
        f"{shell} starts {counted(len(found), 'launcher')} itself, and a profile is of one program; profile {each} "
        f"without {shell}, with an output of its own: {_remedy(found[0])}"
    )


def _remedy(command: str) -> str:
    short = command if len(command) <= LONGEST else f"{command[:LONGEST]}..."
    return f"netpipe profile -o profile-1.jsonl -- {short}"
