# SPDX-License-Identifier: Apache-2.0
"""What `netpipe suite run --continue` must know of the earlier time: `suite.json` in the output folder. It says which
suite at which size was measured, where, and by which netpipe. What differs is refused: the figures of one folder must
be of one suite on one machine.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from netpipe.cli.suite.parts import Suite
from netpipe.failure import USAGE, Failure

FILE = "suite.json"
SCHEMA = 1
# What must be the same, and how it is called in the sentence.
SAME = {
    "suite": "the suite",
    "digest": "the suite file (SHA-256)",
    "size": "--size",
    "site": "--hosts, --launcher, --remote-shell and --set",
    "host": "the host",
    "netpipe": "netpipe",
    "kernel": "the kernel",
    "processors": "the processors",
}
# Of runs that are measured apart from each other, each where there is room for it.
ITS_OWN = {"site": "of each run", "host": "of each run", "processors": "of each run"}
OF_MEASURING = ("site", "host", "kernel", "processors")


def here(suite: Suite, site: dict[str, Any], *, apart: bool = False) -> dict[str, Any]:
    """What is so now. `apart`: each run may be measured on a host of its own."""
    from netpipe import version

    own = ITS_OWN if apart else {}
    return {
        "schema": SCHEMA,
        "suite": suite.name,
        "digest": suite.digest,
        "size": suite.size,
        "site": site,
        "host": socket.gethostname(),
        "netpipe": version(),
        "kernel": os.uname().release,
        "processors": sorted(os.sched_getaffinity(0)),
        **own,
    }


def write(folder: Path, said: dict[str, Any]) -> None:
    """The file appears whole or not at all. Raises OSError."""
    part = folder / f"{FILE}.{socket.gethostname()}.{os.getpid()}.part"
    try:
        part.write_text(json.dumps(said, indent=1) + "\n")
        part.replace(folder / FILE)
    finally:
        part.unlink(missing_ok=True)


def check(folder: Path, now: dict[str, Any], *, measuring: bool = True) -> None:
    """Raises Failure (2) where there is nothing to continue, or something differs. Without `measuring` it does not
    matter where the runs were measured.
    """
    path = folder / FILE
    try:
        then = json.loads(path.read_text())
    except FileNotFoundError:
        raise Failure(
            USAGE, f"{folder} has no {FILE}, so there is nothing to continue; leave --continue out"
        ) from None
    except (OSError, ValueError) as error:
        raise Failure(USAGE, f"{path} cannot be read: {error}; measure anew, with another --output") from None
    if not isinstance(then, dict) or then.get("schema") != SCHEMA:
        raise Failure(USAGE, f"{path} is of another version of netpipe; measure anew, with another --output")
    for key, name in SAME.items():
        if not measuring and key in OF_MEASURING:
            continue
        if then.get(key) != now[key]:
            raise Failure(
                USAGE,
                f"{folder} cannot be continued: {name} was {_text(then.get(key))}, and is now {_text(now[key])}; "
                "measure anew, with another --output",
            )


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "not given"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text
