# SPDX-License-Identifier: Apache-2.0
"""Guests: processors that somebody else emulates, moves or stops."""

from __future__ import annotations

from netpipe.findings import SEVERE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.units import share_text

EMULATOR = "QEMU TCG"
STOLEN = 0.01  # of the processor time since the start


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


@machine_rule(
    "stolen-time",
    "Stolen time",
    WARNING,
    needs=("cpu.virtual.steal_share",),
    fires={"cpu.virtual.steal_share": 0.05},
    silent={"cpu.virtual.steal_share": 0.001},
)
def stolen(facts: Facts) -> Advice | None:
    """The host gave a hundredth or more of the processor time to others."""
    share = facts.number("cpu.virtual.steal_share")
    if share is None or share < STOLEN:
        return None
    return Advice(
        f"Since this machine started, its host gave {share_text(share)} of its processor time to others.",
        "ask for dedicated processors, or move to a quieter host",
        {"steal_share": Quantity(share, "1")},
    )
