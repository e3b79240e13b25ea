# SPDX-License-Identifier: Apache-2.0
"""Parameters of libraries that their modules have no option for. Which are known to matter, the family says
(libraries/NAME), with values to try where the library does not say its present one. What a library does not know is
left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from pathlib import Path

from netpipe.libraries.tunables import Parameter
from netpipe.tuning.library import Library
from netpipe.tuning.library.transports import offered
from netpipe.tuning.search.space import COARSE, Knob
from netpipe.tuning.search.variants import Start

CONGESTION = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def parameters(library: Library, operations: Collection[str] = ()) -> tuple[Knob, ...]:
    """What can be tried of a library. `operations`: the collectives that are measured between hosts."""
    table = [one for one in library.tunables.parameters if one.matters(library.version, operations)]
    known = library.ask([one.variable for one in table])
    found = []
    for one in table:
        answer = known.get(one.variable)
        if answer is None:
            continue
        fit = tuple(str(value) for value in _values(one, answer["value"]) if one.least <= value <= one.most)
        transports = tuple(one.transports.split("|"))
        found.append(Knob(one.variable, fit, "int", one.least, one.most, answer["help"], transports))
    return tuple(found)


def _values(parameter: Parameter, present: str) -> Sequence[int]:
    """Around the present value, or those of the family where the library does not say what it is."""
    if not present.lstrip("-").isdigit():
        return parameter.values
    now = int(present)
    return [value for factor in COARSE if (value := round(now * factor)) != now]


def texts_here(start: Start) -> dict[str, tuple[str, ...]]:
    """What this machine, and the library of the layer, offer for options that are texts, by the name of the option."""
    found = offered(start.module, start.settings)
    with contextlib.suppress(OSError):
        found["congestion"] = tuple(CONGESTION.read_text(encoding="ascii").split())
    return found
