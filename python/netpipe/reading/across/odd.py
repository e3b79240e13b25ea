# SPDX-License-Identifier: Apache-2.0
"""Facts that are not the same on all hosts of a fleet: a kernel, a governor, a microcode or an MTU that one of them
alone has. Hosts of one cluster are meant to be alike, so these are likely causes of a slow one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from netpipe.columns import flat
from netpipe.reading.across.differences import host_facts, text_of
from netpipe.records import Run

# Of a rank and not of its host, and the name of the host.
OWN = ("pinning.", "name")
THERE, ABSENT = "there", "absent"
OF_OBJECTS = "[{"  # how lists of objects begin, in which something always changes by itself


@dataclass(frozen=True, slots=True)
class Odd:
    fact: str  # as in docs/reference/environment.md; of an interface network.NAME.FACT
    usual: str  # what most hosts have
    hosts: tuple[tuple[str, str], ...]  # each other host with what it has


def odd_facts(runs: Mapping[str, Run]) -> tuple[Odd, ...]:
    """runs: by host. What every host has for itself, such as the size of its memory to the byte, is not odd: of three
    hosts or more some must have the same.
    """
    said = {host: _of(run) for host, run in runs.items()}
    found = []
    for name in dict.fromkeys(name for facts in said.values() for name in facts):
        values = {host: facts[name] for host, facts in said.items() if name in facts}
        if THERE in values.values():  # an interface; one of few hosts is that of a container
            if 2 * len(values) <= len(said):
                continue
            values = {host: facts.get(name, ABSENT) for host, facts in said.items()}
        kinds = Counter(values.values()).most_common()
        usual, most = kinds[0]
        alone = len(kinds) > max(2, len(values) / 2) and 2 * most < len(values)
        if len(kinds) > 1 and not alone:
            others = tuple((host, value) for host, value in values.items() if value != usual)
            found.append(Odd(name, usual, others))
    return tuple(found)


def _of(run: Run) -> dict[str, str]:
    facts = {
        name: value
        for name, value in host_facts(run).items()
        if not name.startswith(OWN) and not value.startswith(OF_OBJECTS)
    }
    for one in run.environments[:1]:
        network = one.facts.get("network")
        there = network.get("interfaces") if isinstance(network, Mapping) else None
        for interface in there if isinstance(there, list) else ():
            if isinstance(interface, Mapping) and "name" in interface:
                prefix = f"network.{interface['name']}"
                facts[prefix] = THERE
                facts |= {
                    f"{prefix}.{key}": text_of(value)
                    for key, value in flat(interface).items()
                    if key != "name" and value is not None
                }
    return facts
