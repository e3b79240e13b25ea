# SPDX-License-Identifier: Apache-2.0
"""What the library of a variant calls the setting that mends a finding: its file in netpipe/libraries says it."""

from __future__ import annotations

from netpipe.libraries import Family, family_of_version
from netpipe.reading import Reading


def library_of(reading: Reading, variant: str) -> Family | None:
    """By the version that the variant recorded; None for a layer of netpipe's own and for unknown libraries."""
    versions = (one.version for one in reading.run.variants if one.variant == variant and one.version)
    return next((found for version in versions if (found := family_of_version(version))), None)


def own_remedy(reading: Reading, variant: str, rule: str) -> str:
    """What the library of a variant offers against what a rule found, as a part of a sentence; empty: nothing known."""
    library = library_of(reading, variant)
    return library.remedies.get(rule, "") if library else ""
