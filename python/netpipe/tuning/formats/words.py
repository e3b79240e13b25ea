# SPDX-License-Identifier: Apache-2.0
"""command.txt: the command lines, of netpipe and of the library's launcher."""

from __future__ import annotations

import shlex

from netpipe.libraries import families
from netpipe.tuning.formats import Tuned


def files(tuned: Tuned) -> dict[str, str]:
    return {"command.txt": "\n".join((*commands(tuned), ""))}


def commands(tuned: Tuned) -> tuple[str, ...]:
    more = [
        word for name, values in tuned.options.items() for value in values for word in (f"--{name}", value)
    ]
    variants = dict.fromkeys((tuned.start, tuned.variant))
    found = [shlex.join(["netpipe", "run", *variants, *more])]
    family = next((one for one in families() if one.name == tuned.family), None)
    if family is not None and family.launcher is not None and tuned.variables:
        words = family.launcher.passing(tuned.variables)
        program = family.launcher.programs[0]
        (ranks,) = tuned.options.get("ranks", ("2",))
        most = ranks.rpartition(",")[2]  # they rise
        found.append(shlex.join([program, family.launcher.ranks_option, most, *words, "PROGRAM"]))
    return tuple(found)
