# SPDX-License-Identifier: Apache-2.0
"""Rules files of Open MPI's component `tuned`: which algorithm of which operation for which size and number of ranks.

Version 5 and older read the classic format, which takes the largest listed number of ranks that is not above the
communicator's; so the next larger number of ranks is listed too, with the library's own choice: nothing is said of what
was not measured. From 6 on the same text would mean something else, so those get JSON, where the first match wins.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netpipe.libraries.tunables import Chosen, Rules, by_operation, file_stem, steps_of

MCA = "OMPI_MCA_"
DYNAMIC = {f"{MCA}coll_tuned_use_dynamic_rules": "1"}
# HAN takes communicators of several hosts before `tuned` does (35 to 30 in 5.0.10; 0 in 4.1), and knows neither rules
# nor algorithms of `tuned`.
WITHOUT_HAN = {f"{MCA}coll_han_priority": "0"}
HAN_FROM = (5,)
FILE = f"{MCA}coll_tuned_dynamic_rules_filename"
OWN_CHOICE = 0  # of the algorithms: the library decides
VERSION_LINE = "rule-file-version-2"  # the first line,
VERSION_LINE_FROM = (5, 0, 7)  # from this version on
JSON_FROM = (6,)

# Numbers of the classic format, and whether sizes count what one rank has (1) or all of them (the number of ranks).
COLLECTIVES: Mapping[str, tuple[int, bool]] = {
    "allgather": (0, True),
    "allreduce": (2, False),
    "alltoall": (3, True),
    "bcast": (7, False),
    "gather": (9, True),
    "reduce": (11, False),
    "scatter": (15, True),
}


def needed(version: tuple[int, ...]) -> dict[str, str]:
    """The variables without which a choice of algorithms is ignored. `version`: empty where it is not known."""
    return DYNAMIC | (WITHOUT_HAN if not version or version >= HAN_FROM else {})


def rules(some: Sequence[Chosen], folder: Path) -> Rules | None:
    """None for an operation whose number is not known here."""
    if any(of.operation not in COLLECTIVES for of in some):
        return None
    version = some[0].version
    if version >= JSON_FROM:
        name, text = f"{file_stem(some)}-rules.json", _json(some)
    else:
        name, text = f"{file_stem(some)}-rules.conf", _classic(some)
    return Rules({**needed(version), FILE: str(folder / name)}, {name: text})


def boundaries(of: Chosen) -> list[tuple[int, int]]:
    """(from so many bytes on, algorithm), rising, the first from 0."""
    factor = of.ranks if COLLECTIVES[of.operation][1] else 1
    return [(start * factor, int(value or OWN_CHOICE)) for start, value in steps_of(of.by_size)]


def _classic(some: Sequence[Chosen]) -> str:
    """Comments begin with # and run to the end of the line."""
    # Version 2 of the format, which 5.0.7 brought, has a fifth number: how many requests may be open at once.
    recent = some[0].version >= VERSION_LINE_FROM
    operations = by_operation(some)
    lines = [VERSION_LINE] if recent else []
    lines.append(f"{len(operations)} # number of collectives")
    for operation, each in operations.items():
        lines += [f"{COLLECTIVES[operation][0]} # {operation}", *_by_ranks(each, recent)]
    return "\n".join(lines) + "\n"


def _by_ranks(each: Sequence[Chosen], recent: bool) -> list[str]:
    """Of one operation, by rising number of ranks: a number that is not listed has the rules of the next smaller one,
    so the library's own choice follows on each that was measured.
    """
    last = " 0" if recent else ""
    measured = {of.ranks for of in each}
    lines = [f"{len(measured | {ranks + 1 for ranks in measured})} # numbers of ranks"]
    for of in each:
        steps = boundaries(of)
        what = f"from bytes on, algorithm, fan-out, segment size{', requests' if recent else ''}"
        lines += [f"{of.ranks} # ranks", f"{len(steps)} # rules: {what}"]
        lines += [f"{start} {algorithm} 0 0{last}" for start, algorithm in steps]
        if of.ranks + 1 not in measured:
            lines += [f"{of.ranks + 1} # and more ranks, which were not measured", "1"]
            lines.append(f"0 {OWN_CHOICE} 0 0{last}")
    return lines


def _json(some: Sequence[Chosen]) -> str:
    whole = {
        "rule_file_version": 3,
        "module": "tuned",
        "collectives": {
            operation: [
                {"comm_size_min": of.ranks, "comm_size_max": of.ranks, "rules": _json_rules(of)}
                for of in each
            ]
            for operation, each in by_operation(some).items()
        },
    }
    return json.dumps(whole, indent=1) + "\n"


def _json_rules(of: Chosen) -> list[dict[str, Any]]:
    steps = boundaries(of)
    ends: list[int | str] = [start - 1 for start, _ in steps[1:]]
    return [
        {
            "msg_size_min": start,
            "msg_size_max": end,
            "alg": of.words[str(algorithm)],
            "faninout": 0,
            "seg_size": 0,
            "reqs": 0,
        }
        for (start, algorithm), end in zip(steps, [*ends, "inf"], strict=True)
        if algorithm != OWN_CHOICE
    ]
