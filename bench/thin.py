# SPDX-License-Identifier: Apache-2.0
"""Labelled runs, small enough to keep beside the tests: the verdicts of the rules must stay what they were.

    python bench/thin.py DIR

DIR has the runs of `bench/of_findings.py --keep DIR`. Of each in the table below, tests/kept gets the first launches,
of each size so many blocks (of each all curves), the sizes within the bounds and the curves that are named. Left out
are samples, histograms, all yardsticks but the first of a launch, names of hosts, addresses and paths.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labelled.cases import BBR, CASES, ON_DISK, TCP, tcp
from labelled.score import settings
from of_findings import file_of

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "tests/kept"
Record = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """What is kept of a run."""

    variants: tuple[str, ...] = ()  # none: all
    sizes: tuple[int, int] = (0, 1 << 40)  # bytes, both included
    launches: int = 2
    blocks: int = 8
    patterns: tuple[str, ...] = ()  # none: all


OPENMPI_TCP = "mpi@openmpi:transport=tcp,eager="
KEPT = {
    "buffers": Kept((TCP, tcp("sndbuf=4k"), tcp("rcvbuf=8k")), (64_000, 1 << 20), 3, 6),
    "buffers-noise": Kept((TCP, tcp("sndbuf=8k")), (64_000, 1 << 20), 3, 6),
    "buffers-alone": Kept(),
    "receive-window": Kept(),
    "clamped-buffers": Kept(blocks=3),
    "nagle": Kept((TCP, tcp("nodelay=no")), patterns=("pingpong", "window")),
    "congestion": Kept((TCP, BBR), blocks=5),
    "sleeps": Kept(("unix", "unix:wait=poll", "tcp", TCP), (8, 8), 4),
    "lost": Kept(),
    "odd-sizes": Kept(("memcpy", "memcpy:routine=word4"), (100, 330), 3, 5),
    "copies": Kept(("shm", "shm:copy=cma", "shm:copy=pipeline")),
    "eager-mpi@openmpi-tcp": Kept((OPENMPI_TCP + "4k", OPENMPI_TCP + "160k"), (2000, 8300)),
    "refused-copies": Kept(),
    "refused-fresh": Kept(),
    "late-switch": Kept(("shm", "shm:eager=256k"), (190_000, 400_000), 4, 6),
    "datagrams": Kept(("udp:wait=poll,payload=16000", "udp:wait=poll,payload=1472"), (1300, 1800)),
    "transport": Kept(("mpi@openmpi", "mpi@openmpi:env=OMPI_MCA_pml=ob1;OMPI_MCA_btl=^sm")),
    "daemons": Kept(blocks=4),
    "overlap": Kept(blocks=5),
    "backing-file": Kept(("mpi@openmpi:transport=shm", ON_DISK), blocks=3),
    "lamd": Kept(blocks=4),
    "full-shm": Kept(),
    "link-100m": Kept(),
    "link-delayed": Kept(),
    "link-lossy": Kept(launches=4, blocks=6),
    "link-timer": Kept(("tcp",), (8, 1024), blocks=5),
}

LEFT_OUT = ("sample", "counters")
OF_POINTS = (
    *("type", "launch", "variant", "pattern", "size_bytes", "state", "samples", "ops", "median_ns", "low_ns"),
    *("high_ns", "half_width", "bytes_per_s", "p90_ns", "converged", "stop", "counters", "measures", "cells"),
    "visits",
)
# The facts that rules about curves and about the labelled hosts read.
OF_HOSTS = {
    "limits": (
        *("process_vm_readv", "ptrace_scope", "may_trace_others", "container", "dev_shm_total_bytes"),
        *("dev_shm_free_bytes", "allowed_cpu_count"),
    ),
    "network": ("interfaces",),
    "pinning": ("count", "unpinned", "sharing_cpu"),
}
OF_PLACES = ("shared_mappings", "shared_mapping_on_disk")  # settings whose text names hosts and paths
OF_ADDRESSES = ("local", "peer")  # settings


def thin(records: Iterable[Record], kept: Kept) -> Iterator[Record]:
    """The records that are kept, in their order. Raises KeyError if one lacks what every such record has."""
    wanted = {settings(variant) for variant in kept.variants}

    def is_wanted(variant: str | None) -> bool:
        return not wanted or variant is None or settings(variant) in wanted

    first, last = kept.sizes
    judged: set[int] = set()  # launches with a yardstick
    left = [
        one
        for one in records
        if one["type"] not in LEFT_OUT
        and one.get("launch", 0) < (1 if one["type"] == "environment" else kept.launches)
        and is_wanted(one.get("variant"))
        and (not kept.patterns or one.get("pattern", kept.patterns[0]) in kept.patterns)
        and (one["type"] != "point" or first <= one["size_bytes"] <= last)
        and (one["type"] != "yardstick" or _first(one, judged))
    ]
    chosen = _blocks(left, kept.blocks)
    hosts: dict[str, str] = {}
    for one in left:
        if one["type"] == "run":
            one = {**one, "argv": _words(one["argv"])}
        if one["type"] == "plan":
            one = {**one, "variants": [each for each in one["variants"] if is_wanted(each["variant"])]}
        if one["type"] == "environment":
            facts = one["facts"]
            groups = {group: {name: facts[group].get(name) for name in OF_HOSTS[group]} for group in OF_HOSTS}
            one = {**one, "facts": groups}
        if one["type"] == "variant":
            one = {**one, "ranks": [_rank(rank, hosts) for rank in one["ranks"]]}
        if one["type"] == "point":
            one = _point(one, chosen)
        if one.get("host"):
            one = {**one, "host": hosts.setdefault(one["host"], f"host{len(hosts)}")}
        yield _rounded(one)


def _first(one: Record, launches: set[int]) -> bool:
    """Whether it is the first of its launch, which is added."""
    known = one["launch"] in launches
    launches.add(one["launch"])
    return not known


def _blocks(left: Iterable[Record], most: int) -> dict[tuple[int, int], set[int]]:
    """Of each launch and size the blocks that are kept, spread over all of them."""
    found: dict[tuple[int, int], set[int]] = defaultdict(set)
    for one in left:
        if one["type"] == "point" and one.get("visits"):
            found[one["launch"], one["size_bytes"]] |= set(one["visits"]["block"])
    spread = {}
    for where, blocks in found.items():
        ordered = sorted(blocks)
        step = max(1, -(-len(ordered) // most))
        spread[where] = set(ordered[::step])
    return spread


def _point(one: Record, chosen: dict[tuple[int, int], set[int]]) -> Record:
    kept = {name: one[name] for name in OF_POINTS if one.get(name) not in (None, [], {})}
    visits = kept.get("visits")
    if visits:
        blocks = chosen[one["launch"], one["size_bytes"]]
        places = [place for place, block in enumerate(visits["block"]) if block in blocks]
        kept["visits"] = {name: [values[place] for place in places] for name, values in visits.items()}
    if "counters" in kept:
        kept["counters"] = {name: count for name, count in kept["counters"].items() if count}
    return kept


def _rank(rank: Record, hosts: dict[str, str]) -> Record:
    own = {
        name: ("/disk/segment" if name == OF_PLACES[1] and value else "segment")
        if name in OF_PLACES
        else value
        for name, value in rank["settings"].items()
        if name not in OF_ADDRESSES
    }
    host = hosts.setdefault(rank["host"], f"host{len(hosts)}") if rank.get("host") else None
    return {**rank, "host": host, "settings": own}


def _words(argv: list[str]) -> list[str]:
    """The command without its output file and hosts."""
    kept = list(argv)
    for option in ("-o", "--hosts"):
        if option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    return kept


def _rounded(value: Any) -> Any:
    """Times to five digits: rules ask for percents."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder
    OUTPUT.mkdir(exist_ok=True)
    for case in (case for case in CASES if case.name in KEPT):
        with file_of(folder, case).open(encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines if not line.startswith('{"type":"sample"')]
        text = "".join(
            f"{json.dumps(one, separators=(',', ':'))}\n" for one in thin(records, KEPT[case.name])
        )
        path = file_of(OUTPUT, case)
        path.write_text(text, encoding="utf-8")
        print(f"{path.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
