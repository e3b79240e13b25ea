# SPDX-License-Identifier: Apache-2.0
"""What the library of a variant calls the setting that mends a finding: its file in netpipe/libraries says it.

A remedy names both: the setting of netpipe, by which it can be measured, and the library's own variable, by which a
program gets it: `eager=65536 (Open MPI: OMPI_MCA_btl_tcp_eager_limit=65536)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from netpipe.libraries import Family, Route, families, family_of_version
from netpipe.libraries.settings import Setting, of_ucx
from netpipe.reading import Reading


def library_of(reading: Reading, variant: str) -> Family | None:
    """By the version that the variant recorded; None for a layer of netpipe's own and for unknown libraries."""
    versions = (one.version for one in reading.run.variants if one.variant == variant and one.version)
    return next((found for version in versions if (found := family_of_version(version))), None)


def library_named(module: str) -> Family | None:
    """By what its module is called, "mpi@openmpi4": of a variant that did not start and so recorded no version."""
    layer, _, named = module.partition("@")
    fitting = [one for one in families() if named and named.startswith(one.module or one.name)]
    return next((one for one in fitting if one.layer == layer), next(iter(fitting), None))


def routes() -> list[Route]:
    """The options of libraries, besides `transport`, that say which way messages take."""
    return [one.route for one in families() if one.route]


def own_remedy(reading: Reading, variant: str, rule: str) -> str:
    """What the library of a variant offers against what a rule found, as a part of a sentence; empty: nothing known."""
    library = library_of(reading, variant)
    return library.remedies.get(rule, "") if library else ""


def variables(reading: Reading, variant: str, name: str, value: str) -> tuple[str, Mapping[str, str]]:
    """The name of a variant's library, and the environment by which a program has the setting of its module there; of
    sizes `value` is in bytes. Empty: there is no library, it has no such variable, or that is not known.
    """
    opened = next((one for one in reading.run.variants if one.variant == variant and one.version), None)
    if opened is None or opened.version is None:
        return "", {}
    one = Setting(name, value, opened.version, opened.below)
    if opened.module == "ucx":  # the layer of netpipe that calls it is no family of libraries
        return "UCX", of_ucx(one)
    library = family_of_version(opened.version)
    return (library.title, library.settings(one)) if library else ("", {})


def setting(reading: Reading, variant: str, name: str, value: str) -> str:
    """A setting as netpipe has it and, in brackets, as the library of the variant has it."""
    title, found = variables(reading, variant, name, value)
    return f"{name}={value}{f' ({title}: {assignments(found)})' if found else ''}"


def left_out(reading: Reading, variant: str, names: tuple[str, ...]) -> str:
    """What a program with the library of the variant must not set, so that these settings of its module are left
    alone: ` (Open MPI: without OMPI_MCA_btl_tcp_sndbuf)`; empty: there is no such variable.
    """
    all_found = [variables(reading, variant, name, "0") for name in names]
    own = [variable for _, found in all_found for variable in found]
    return f" ({all_found[0][0]}: without {' and '.join(own)})" if own else ""


def assignments(found: Mapping[str, str]) -> str:
    """As a shell has them."""
    return " ".join(f"{name}={value}" for name, value in found.items())
