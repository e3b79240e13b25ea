# SPDX-License-Identifier: Apache-2.0
"""The settings file of a library that reads one: `name = value`, without quotes and without the prefix that the names
have in the environment. The family says what it is called and where it belongs (libraries.Tunables).
"""

from __future__ import annotations

from netpipe.tuning.formats import Tuned


def files(tuned: Tuned) -> dict[str, str]:
    of = tuned.tunables
    own = {
        name.removeprefix(of.prefix): v for name, v in tuned.variables.items() if name.startswith(of.prefix)
    }
    if not own or not of.settings_file:
        return {}
    where = f"# Copy it to {of.settings_place}.\n"
    return {
        of.settings_file: tuned.comment
        + where
        + "".join(f"{name} = {value}\n" for name, value in own.items())
    }
