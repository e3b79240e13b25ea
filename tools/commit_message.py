# SPDX-License-Identifier: Apache-2.0
"""Checks the message of a commit: a subject of at most 72 characters, an empty line, a body (CONTRIBUTING.md). git
calls it as its commit-msg hook, which `pre-commit install` sets up (.pre-commit-config.yaml).

    python tools/commit_message.py FILE      exits with 0, or with 1 and a sentence for each fault
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

LONGEST_SUBJECT = 72  # characters
# What `git commit --verbose` shows below this line is no part of the message.
SCISSORS = re.compile(r"# -+ >8 -+")
TRAILER = re.compile(r"[A-Z][a-z]+(-[a-z]+)+: ")  # Signed-off-by: somebody
SQUASHED = ("fixup! ", "squash! ", "amend! ")  # git rebase --autosquash makes these part of another commit


def faults(message: str) -> list[str]:
    """What is wrong with the message, a sentence each. Empty: nothing, or git itself will refuse it."""
    kept: list[str] = []
    for line in message.splitlines():
        if SCISSORS.fullmatch(line):
            break
        if not line.startswith("#"):
            kept.append(line.rstrip())
    subject, *rest = "\n".join(kept).strip().split("\n")
    if not subject or subject.startswith(SQUASHED):
        return []
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; write at most {LONGEST_SUBJECT}")
    if rest and rest[0]:
        found.append("the second line is not empty; leave it empty, and begin the body in the third")
    if not any(line and not TRAILER.match(line) for line in rest):
        found.append(
            "there is no body; say why the change is needed, what was measured and what was rejected"
        )
    return found


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python tools/commit_message.py FILE", file=sys.stderr)
        return 2
    found = faults(Path(arguments[0]).read_text(encoding="utf-8"))
    for sentence in found:
        print(f"commit message: {sentence}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
