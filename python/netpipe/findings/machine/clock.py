# SPDX-License-Identifier: Apache-2.0
"""Clock sources that are expensive or imprecise to read."""

from __future__ import annotations

from netpipe.findings import NOTE, SEVERE
from netpipe.findings.machine import Advice, Facts, machine_rule

# Read from a device or through a hypercall, so that each reading is a system call (kernel, vdso/clocksource.h).
IN_THE_KERNEL = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen")
TO_TSC = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"


def _has_tsc(facts: Facts) -> bool:
    return "tsc" in facts.texts("clock.sources")


@machine_rule(
    "slow-clock",
    "Slow clock source",
    SEVERE,
    needs=("clock.source",),
    fires={"clock.source": "acpi_pm"},
    silent={"clock.source": "tsc"},
)
def slow_clock(facts: Facts) -> Advice | None:
    """Each reading of the clock is a system call."""
    source = facts.text("clock.source")
    if source not in IN_THE_KERNEL:
        return None
    return Advice(
        f"The clock source is {source}: reading it is a system call that takes about a microsecond or steps coarsely, "
        "so short operations cannot be timed one by one.",
        TO_TSC
        if _has_tsc(facts)
        else "look for the reason with: dmesg | grep -i tsc; if the counter is sound, boot with tsc=reliable",
    )


@machine_rule(
    "guest-clock",
    "Guest clock",
    NOTE,
    needs=("clock.source",),
    fires={"clock.source": "kvm-clock"},
    silent={"clock.source": "tsc"},
)
def guest_clock(facts: Facts) -> Advice | None:
    """The clock source is kvm-clock."""
    if facts.text("clock.source") != "kvm-clock":
        return None
    return Advice(
        "The clock source is kvm-clock: a reading costs more than one of the bare tsc, and the host corrects its rate.",
        TO_TSC
        if _has_tsc(facts)
        else "nothing in the guest; the host decides whether it offers an invariant tsc",
    )
