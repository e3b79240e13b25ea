# SPDX-License-Identifier: Apache-2.0
"""How anything here ends early: an exit code and one sentence for the user. What each code means is in README.md."""

from __future__ import annotations

DONE, GATE, USAGE, UNAVAILABLE, FAILED, UNSTABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class Failure(Exception):  # noqa: N818  (the word that the worker uses)
    """What happened, where, and what to do. The command line prints the sentence and exits with the code."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence


class NotHere(Failure):
    """What this machine lacks and another one may have, so a suite leaves it out and goes on."""
