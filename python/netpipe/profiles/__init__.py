# SPDX-License-Identifier: Apache-2.0
"""What an application's processes sent each other, as `netpipe profile` records it: the file (lines), what the
profiler's library leaves behind (part, gathered into a file by merge), and what is read off it (tables, waiting).
"""

from netpipe.profiles.lines import (
    SCHEMA,
    Communicator,
    Entries,
    NotAProfile,
    Profile,
    Rank,
    Trace,
    read,
    write,
)

__all__ = [
    "SCHEMA",
    "Communicator",
    "Entries",
    "NotAProfile",
    "Profile",
    "Rank",
    "Trace",
    "read",
    "write",
]
