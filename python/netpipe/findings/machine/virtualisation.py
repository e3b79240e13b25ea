# SPDX-License-Identifier: Apache-2.0
"""Guests: processors that somebody else emulates, moves or stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from netpipe.findings import SEVERE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.reading.machine.stolen import stolen
from netpipe.units import share_text

if TYPE_CHECKING:
    from netpipe.records import Run

EMULATOR = "QEMU TCG"
STOLEN = 0.01  # of the processor time


@machine_rule(
    "emulated-processor",
    "Emulated processor",
    SEVERE,
    needs=("cpu.virtual.hypervisor", "cpu.virtual.is_virtual"),
    fires={"cpu.virtual.hypervisor": EMULATOR},
    silent={"cpu.virtual.hypervisor": "KVM"},
)
def emulated(facts: Facts) -> Advice | None:
    """QEMU without hardware support."""
    if facts.text("cpu.virtual.hypervisor") != EMULATOR:
        return None
    return Advice(
        f"The processor is emulated in software ({EMULATOR}): no time measured here says anything about hardware.",
        "start the guest with -accel kvm, or measure on the host",
    )


@machine_rule(
    "virtual-machine",
    "Virtual machine",
    WARNING,
    needs=("cpu.virtual.is_virtual",),
    fires={"cpu.virtual.is_virtual": True},
    silent={"cpu.virtual.is_virtual": False},
)
def virtual_machine(facts: Facts) -> Advice | None:
    """This host is a guest."""
    if facts.truth("cpu.virtual.is_virtual") is not True:
        return None
    name = facts.text("cpu.virtual.hypervisor") or "its name is hidden"
    return Advice(
        f"The hypervisor ({name}) can move or stop the processors at any time, and with that the distance between two "
        "of them changes.",
        "compare only within one run, and watch the states of the machine in it; for absolute numbers use a bare "
        "machine or dedicated processors",
    )


def stolen_during(run: Run) -> Mapping[str | None, Mapping[str, float]]:
    """The share of the launches of which it is known, by host, and of that with the largest one."""
    found = {}
    for host, launches in stolen(run).items():
        seconds = sum(one.seconds for one in launches)
        most = max(launches, key=lambda one: one.share)
        found[host] = {
            "stolen_share": sum(one.share * one.seconds for one in launches) / seconds,
            "launches": len(launches),
            "of_launches": len({plan.launch for plan in run.plans}),
            "most": most.share,
            "most_launch": most.launch,
        }
    return found


@machine_rule(
    "stolen-time",
    "Stolen time",
    WARNING,
    needs=("cpu.virtual.steal_share",),
    fires={"cpu.virtual.steal_share": 0.05},
    silent={"cpu.virtual.steal_share": 0.001},
    of_run=stolen_during,
)
def taken(facts: Facts) -> Advice | None:
    """The host gave a hundredth or more of the processor time to others: during the run, where its launches tell."""
    since_start = facts.number("cpu.virtual.steal_share")
    during = facts.number("run.stolen_share")
    share = since_start if during is None else during
    if share is None or share < STOLEN:
        return None
    if during is None:
        why = (
            f"Since this machine started, its host gave {share_text(share)} of its processor time to others; how much "
            "of that in one run, only a run of several launches tells."
        )
    else:
        known, every = (int(facts.number(f"run.{name}") or 0) for name in ("launches", "of_launches"))
        when = "this run" if every == 1 else f"{known} of {every} launches"
        why = f"During {when}, the host gave {share_text(share)} of the processor time to others"
        if known > 1:
            most, launch = facts.number("run.most") or 0, int(facts.number("run.most_launch") or 0)
            why += f", at most {share_text(most)} in launch {launch}"
        why += "."
    return Advice(
        why,
        "ask for dedicated processors, or move to a quieter host",
        {"steal_share": Quantity(share, "1")},
    )
