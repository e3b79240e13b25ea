# SPDX-License-Identifier: Apache-2.0
"""Standard streams: sentences for people, and streams that nobody has opened or that nobody reads any more. Neither is
an error: what is printed is lost, and nothing else is.
"""

from __future__ import annotations

import contextlib
import os
import sys

from netpipe.escapes import printable

LONGEST_SENTENCE = 10_000  # characters; a name or a value in it may be as long as a file


def say(sentence: str) -> None:
    """Prints a sentence for people. Nobody may be left to read it, which changes no exit code."""
    if len(sentence) > LONGEST_SENTENCE:
        sentence = f"{sentence[:LONGEST_SENTENCE]} ..."
    with contextlib.suppress(OSError):
        print(f"netpipe: {printable(sentence)}", file=sys.stderr, flush=True)  # noqa: T201


def open_closed() -> None:
    """A standard stream that is closed (`netpipe show >&-`) becomes /dev/null. Else the next file that is opened gets
    its number, and everything printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def drop_output() -> None:
    """The reader of standard output has gone (`netpipe list | head`): what is left to be printed goes to /dev/null."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
