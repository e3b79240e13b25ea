# SPDX-License-Identifier: Apache-2.0
"""The program `netpipe`, which is also `python -m netpipe`."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The entry point. An interrupt in the tenths of a second that loading takes ends it as one does later."""
    try:
        from netpipe.cli import main as command
    except KeyboardInterrupt:
        print("netpipe: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
