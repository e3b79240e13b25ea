# SPDX-License-Identifier: Apache-2.0
"""A library between hosts that does not start or answer, where a host has several network interfaces: it may have taken
one that the other host does not reach. Users meet it with the bridge of a container system (docker0), which has one
address on all hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from netpipe.findings import WARNING, Finding, Quantity, examples, rule
from netpipe.findings.curves import ENV, variables_added, with_setting
from netpipe.findings.experiments import words
from netpipe.findings.library import assignments, library_named, library_of
from netpipe.libraries import Family
from netpipe.libraries.settings import INTERFACE, NCCL_INTERFACE, OFI, TCP, UCX, Setting, of_ucx
from netpipe.reading import Reading
from netpipe.records import Environment, Error, PlannedVariant, Run, Variant
from netpipe.units import counted, listed

FAILED = 4  # the code of an error of what was measured, not of what is missing here
# What the worker says of a library at its deadline (opening.cpp, visit.cpp, launched_workers.cpp, nccl.cpp), and
# libraries of a peer that they do not reach. "a rank did not return in time" is of netpipe itself, on a busy machine.
SILENCE = re.compile(
    r"the module did not return|ncclCommInitRank did not return|did not complete within|processes joined within"
    r"|timed? ?out|unreachable|no route|unable to (?:reach|connect)|cannot (?:be )?reach|could not connect"
    r"|connect(?:ion)? (?:\S+ )?(?:failed|refused)",
    re.IGNORECASE,
)
# Of the module ucx: none of these devices, each with its transport, leads to the other rank (ucx.cpp).
NO_WAY = re.compile(r"no way from rank \d+ to rank \d+ over ([^()]*)")
LOOPBACK = "lo"
DOWN, BRIDGE = "down", "bridge"
RDMA = "RDMA device"  # in place of a driver
MODULE_NCCL, MODULE_UCX = "nccl", "ucx"
DEVICES, TRANSPORTS, SET, ALL = "devices", "tls", "set", "all"  # options of the module ucx, and a value
AN_INTERFACE = (
    "A library takes interfaces that are up, also one that the other host does not reach, such as the bridge of a "
    "container system (docker0), which has the same address on every host."
)
A_DEVICE = (
    "netpipe leaves UCX of the TCP devices only the interface by which the ranks met, and all devices that are not "
    "TCP's: UCX may take one that is not in the network of the other host."
)


@dataclass(frozen=True, slots=True)
class Chooser:
    """What chose the interface of a variant that failed: a library, or a layer of netpipe that leaves it the choice."""

    said: str  # the setting that names the interface; empty: it is not known
    told: bool  # the run has named it
    remedied: str | None  # the variant with that setting; None: its module has no option for it
    own: str = ""  # what the library has to say besides
    cause: str = AN_INTERFACE


@rule("unreachable-interface", "An interface that may not reach the other host")
def judge(reading: Reading) -> Iterator[Finding]:
    """Fires where a library did not start or answer between hosts, was not told which interface to take, and a host
    recorded several. One finding for each variant. netpipe's own layers take the interface by which the ranks met. Two
    of them leave a choice to their library: nccl always, and ucx where a host has an RDMA device, or where it was
    given other devices, as by a variable of the user's environment.
    """
    planned = {one.variant: one for plan in reading.run.plans for one in plan.variants}
    opened = {one.variant: one for one in reading.run.variants}
    argv = reading.run.header.argv if reading.run.header else []
    failed: dict[str, Error] = {}
    for error in reading.run.errors:
        if error.variant in planned and (
            (error.code == FAILED and SILENCE.search(error.message)) or NO_WAY.search(error.message)
        ):
            failed.setdefault(error.variant or "", error)
    for name, error in failed.items():
        of, at = planned[name], opened.get(name)
        several = _several(reading, of.module)
        if not several or not _between_hosts(at, argv):
            continue
        device, known = _device(reading, several)
        chooser = _chooser(reading, of, at, device, error.message)
        if chooser is None or chooser.told:
            continue
        host, names = next(iter(several.items()))
        such = device if known else f"such as {device}"
        told = f": {chooser.said}" if chooser.said else ", by the library's own setting"
        yield Finding(
            severity=WARNING,
            variant=name,
            pattern=error.pattern,
            size_bytes=error.size_bytes,
            host=host,
            what=f"{name} did not start or answer between hosts, and {host} has {counted(len(names), 'interface')}: "
            f"{listed(names)}. The run did not tell it which one to take.",
            evidence={"interfaces": Quantity(len(names), "interfaces")},
            certainty="Possible, and not shown: the record has the failure and the interfaces, but not which of them "
            "the library took. If that is the cause, the experiment does not fail.",
            cause=chooser.cause,
            remedy=f"name the interface that reaches the other host, {such}{told}"
            f"{f'; {chooser.own}' if chooser.own else ''}",
            experiment=_experiment(reading, chooser, error, argv),
        )


def _several(reading: Reading, module: str) -> Mapping[str | None, Mapping[str, str]]:
    """The hosts on which there is a choice, with what there is to choose among."""
    found = {
        one.host: interfaces(one) | (_rdma_devices(one) if module == MODULE_UCX else {})
        for one in reading.run.environments
    }
    return {host: names for host, names in found.items() if len(names) > 1}


def _chooser(
    reading: Reading, of: PlannedVariant, at: Variant | None, device: str, said_failing: str
) -> Chooser | None:
    """None: it takes the interface by which the ranks met, or one that is not known here."""
    if of.module == MODULE_NCCL:
        said = f"{NCCL_INTERFACE}={device} in the environment of every rank (NCCL)"
        return Chooser(said, False, None)
    if of.module == MODULE_UCX:
        transports, devices = of.options.get(TRANSPORTS, ""), of.options.get(DEVICES, "")
        given = len(_devices_given(said_failing)) > 1
        if not given and not any(_rdma_devices(one) for one in reading.run.environments):
            return None
        if transports and "tcp" not in transports and ALL not in transports:
            return None  # it would not take the interface that is named here
        own = assignments(of_ucx(Setting(INTERFACE, device, "", None)))
        told = devices not in ("", ALL) or "NET_DEVICES" in of.options.get(SET, "")
        remedied = with_setting(of.variant, DEVICES, device)
        cause = AN_INTERFACE if given else A_DEVICE
        return Chooser(f"{DEVICES}={device} (UCX: {own})", told, remedied, cause=cause)
    library = library_of(reading, of.variant) or library_named(of.module)
    if "@" not in of.module or library is None or library.simulates:
        return None
    variables = _variables(library, of, at, device)
    env = of.options.get(ENV)
    return Chooser(
        f"{assignments(variables)} ({library.title})" if variables else "",
        any(variable in (env or "") for variable in variables),
        variables_added(of.variant, env, variables) if variables and env is not None else None,
        library.remedies.get("unreachable-interface", ""),
    )


def interfaces(one: Environment) -> dict[str, str]:
    """Those of a host over which a library may send, with their drivers: loopback is none of them. A bridge without
    ports is down for the kernel, and has an address all the same.
    """
    network = one.facts.get("network")
    found = network.get("interfaces") if isinstance(network, dict) else None
    return {
        str(each["name"]): str(each.get("driver"))
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and each.get("name") not in (None, LOOPBACK)
        if each.get("state") != DOWN or each.get("driver") == BRIDGE
    }


def _devices_given(message: str) -> frozenset[str]:
    """The devices that UCX was given, as far as the module's message names them: tcp/eth0, rc_mlx5/mlx5_0:1."""
    found = NO_WAY.search(message)
    named = found[1].split(", ") if found else []
    return frozenset(one.partition("/")[2].strip() for one in named) - {"", LOOPBACK}


def _rdma_devices(one: Environment) -> dict[str, str]:
    network = one.facts.get("network")
    found = network.get("rdma_devices") if isinstance(network, dict) else None
    return {
        str(each["name"]): RDMA
        for each in (found if isinstance(found, list) else ())
        if isinstance(each, dict) and each.get("name") is not None
    }


def _between_hosts(opened: Variant | None, argv: Sequence[str]) -> bool:
    """By the ranks; by the command line where they did not come so far."""
    if opened is not None and opened.ranks:
        return len({rank.host for rank in opened.ranks}) > 1
    given = words.in_common(argv, {"hosts"})
    return (
        len(
            {host.partition(":")[0] for host in given[-1].removeprefix("--hosts=").split(",")}
            if given
            else ()
        )
        > 1
    )


def _device(reading: Reading, several: Mapping[str | None, Mapping[str, str]]) -> tuple[str, bool]:
    """The interface that a layer of netpipe's own was measured over between these hosts, and True; else one that is no
    bridge.
    """
    measured = {curve.variant for curve in reading.curves}
    for one in reading.run.variants:
        if one.variant in measured and len({rank.host for rank in one.ranks}) > 1:
            names = {rank.settings.get(INTERFACE, "") for rank in one.ranks}
            if len(names) == 1 and "" not in names:
                return names.pop(), True
    first = next(iter(several.values()))
    return next((name for name, driver in first.items() if driver != BRIDGE), next(iter(first))), False


def _variables(library: Family, of: PlannedVariant, opened: Variant | None, device: str) -> Mapping[str, str]:
    """The library's own variables that name the interface, for what carries its messages, as far as that is known."""
    below, version = (opened.below, opened.version) if opened is not None else (None, None)
    if below is None:
        asked = of.options.get("transport", "").partition("_")[0]
        below = {"tcp": TCP, "ucx": UCX, "ofi": OFI}.get(asked)
    return library.settings(Setting(INTERFACE, device, version or library.title, below))


def _experiment(reading: Reading, chooser: Chooser, error: Error, argv: Sequence[str]) -> str | None:
    """The variant with the setting alone, at the size where it failed, else at the smallest."""
    if chooser.remedied is None:
        return None
    sizes = [size for plan in reading.run.plans for size in plan.sizes]
    size = error.size_bytes if error.size_bytes is not None else min(sizes, default=8)
    patterns = [pattern for plan in reading.run.plans for pattern in plan.patterns]
    return words.alone(chooser.remedied, error.pattern or next(iter(patterns), "pingpong"), size, argv)


def _run(names: Sequence[str]) -> Run:
    facts = {"network": {"interfaces": [{"name": name, "driver": "x", "state": "up"} for name in names]}}
    made = examples.run(
        Environment(host="node17", facts=facts),
        examples.point("tcp", 8, 1000.0),
        Error(variant="mpi@openmpi", code=FAILED, message="1 of 2 processes joined within 45 s"),
    )
    for plan in made.plans:
        plan.variants.append(PlannedVariant(variant="mpi@openmpi", module="mpi@openmpi", options={ENV: ""}))
    assert made.header is not None
    made.header.argv = ["run", "tcp", "mpi@openmpi", "--hosts", "node17,node18"]
    return made


def fires() -> Run:
    return _run(("lo", "eth0", "docker0"))


def silent() -> Run:
    return _run(("lo", "eth0"))
