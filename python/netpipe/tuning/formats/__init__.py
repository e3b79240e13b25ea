# SPDX-License-Identifier: Apache-2.0
"""The settings that were found, in the formats of those who read them. A format is one file in this folder: a function
`files(tuned)` that returns what it writes by file name, nothing where it does not apply. Each is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field

from netpipe.libraries.tunables import Tunables
from netpipe.tuning.search.variants import Changes


@dataclass(frozen=True)
class Tuned:
    """A gain that was confirmed, with all that makes it up."""

    start: str  # the variant before,
    variant: str  # and with the settings
    changes: Changes
    gain: str  # a sentence: goal, factor, interval
    family: str = ""  # of the library; "": the layer is netpipe's own
    tunables: Tunables = field(default_factory=Tunables)
    # environment of the library, as it was in force
    variables: Mapping[str, str] = field(default_factory=dict)
    # How it was measured: options of `netpipe run` without their dashes, several values of one that may be repeated.
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def comment(self) -> str:
        return f"# netpipe tune: {self.gain}\n# before: {self.start}\n# after:  {self.variant}\n"


def files(tuned: Tuned) -> dict[str, str]:
    """Every file, by name."""
    found: dict[str, str] = {}
    for module in pkgutil.iter_modules(__path__):
        found |= importlib.import_module(f"{__name__}.{module.name}").files(tuned)
    return found
