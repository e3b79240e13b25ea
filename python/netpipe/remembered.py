# SPDX-License-Identifier: Apache-2.0
"""Answers of other programs that need not be asked for twice while one thing is planned.

The runs of a suite ask the worker, the compilers and the kernels the same questions again and again. Their answers are
kept only inside `remembered`: what was installed or built since is seen by the next command, and by the next call from
a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from netpipe.failure import Failure

Answer = TypeVar("Answer")

_kept: ContextVar[dict[Hashable, Any] | None] = ContextVar("kept", default=None)


@contextmanager
def remembered() -> Iterator[None]:
    """In here `once` asks once. Inside of another one it is a part of that."""
    if _kept.get() is not None:
        yield
        return
    token = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(token)


def once(question: Hashable, ask: Callable[[], Answer]) -> Answer:
    """The answer to this question, which nobody may change; a Failure is one too, and is raised each time."""
    kept = _kept.get()
    if kept is None:
        return ask()
    if question not in kept:
        try:
            kept[question] = ask()
        except Failure as failure:
            kept[question] = failure
    answer: Any = kept[question]
    if isinstance(answer, Failure):
        raise Failure(answer.exit_code, answer.sentence)
    found: Answer = answer
    return found
