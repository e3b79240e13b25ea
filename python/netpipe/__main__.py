# SPDX-License-Identifier: Apache-2.0
"""`python -m netpipe` is `netpipe`."""

from __future__ import annotations

from netpipe.cli import main

if __name__ == "__main__":
    main()
