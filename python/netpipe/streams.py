# SPDX-License-Identifier: Apache-2.0
"""Standard streams: sentences for people, and streams that nobody has opened or that nobody reads any more. Neither is
an error: what is printed is lost, and nothing else is.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from netpipe.escapes import printable

Line = TypeVar("Line")

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


class _Outlet(io.FileIO):
    """A standard stream whose reader may go (`netpipe check | head -1`). What is printed then is lost, and the command
    goes on to its end, because its exit code says what it found.
    """

    gone = False  # the reader of standard output

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _Outlet.gone |= self.fileno() == sys.stdout.fileno()
            drop_output(self.fileno())
            return len(data)


def outlive_readers() -> None:
    """Makes standard output and standard error such streams, in a process that is the program `netpipe`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        buffer = io.BufferedWriter(_Outlet(stream.fileno(), "w", closefd=False))
        made = io.TextIOWrapper(
            buffer,
            stream.encoding,
            stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, made)


def while_read(lines: Iterable[Line]) -> Iterator[Line]:
    """These lines, as long as somebody reads what is printed; then it raises BrokenPipeError, which ends a command
    quietly.
    """
    for line in lines:
        if _Outlet.gone:
            raise BrokenPipeError
        yield line


def drop_output(number: int | None = None) -> None:
    """The reader of this stream (standard output) has gone: what is left to be printed goes to /dev/null."""
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno() if number is None else number)
        os.close(null)
