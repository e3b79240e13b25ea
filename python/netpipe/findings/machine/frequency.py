# SPDX-License-Identifier: Apache-2.0
"""What changes the speed of the processors: frequency, heat, power, sleep."""

from __future__ import annotations

from netpipe.findings import NOTE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.units import counted, time_text

NOTICEABLE_NS = 20_000  # of leaving an idle state


@machine_rule(
    "frequency-governor",
    "Frequency governor",
    WARNING,
    needs=("cpu.frequency.governor",),
    fires={"cpu.frequency.governor": "powersave"},
    silent={"cpu.frequency.governor": "performance"},
)
def governor(facts: Facts) -> Advice | None:
    """Not `performance` on every processor of the ranks."""
    chosen = facts.text("cpu.frequency.governor")
    if chosen is None or chosen == "performance":
        return None
    return Advice(
        f"The frequency governor is {chosen}: the frequency follows the load, so what often waits is measured at a "
        "lower frequency than what works all the time.",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )


@machine_rule(
    "on-battery",
    "On battery",
    WARNING,
    needs=("cpu.frequency.on_battery",),
    fires={"cpu.frequency.on_battery": True},
    silent={"cpu.frequency.on_battery": False},
)
def battery(facts: Facts) -> Advice | None:
    """No mains supply is plugged in."""
    if facts.truth("cpu.frequency.on_battery") is not True:
        return None
    return Advice("The machine runs on its battery, and firmware then limits the frequency.", "plug it in")


@machine_rule(
    "heat",
    "Heat",
    WARNING,
    needs=("cpu.frequency.throttled",),
    fires={"cpu.frequency.throttled": 3},
    silent={"cpu.frequency.throttled": 0},
)
def heat(facts: Facts) -> Advice | None:
    """The socket has slowed down since the start."""
    times = int(facts.number("cpu.frequency.throttled") or 0)
    if not times:
        return None
    return Advice(
        f"The processor has slowed down because of heat {counted(times, 'time')} since the start.",
        "look at cooling and power limits; sudo turbostat shows them",
        {"throttled": Quantity(times, "times")},
    )


@machine_rule(
    "turbo",
    "Turbo",
    NOTE,
    # Not knowing is the trouble too: a host without any sign of its frequency is reported.
    needs=("cpu.frequency",),
    fires={"cpu.frequency.boost": True},
    silent={"cpu.frequency.boost": False},
)
def turbo(facts: Facts) -> Advice | None:
    """On, or not to be seen."""
    boost, driver = facts.truth("cpu.frequency.boost"), facts.text("cpu.frequency.driver")
    if boost is True:
        intel = (driver or "").startswith("intel")
        return Advice(
            "Turbo is on: the frequency depends on the temperature and on how many cores are busy.",
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
            if intel
            else "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
        )
    if boost is not None or driver is not None:
        return None
    return Advice(
        "The frequency of the processors cannot be seen here, and neither can turbo or power saving.",
        "nothing can be done here: the machine's firmware or host decides; the yardsticks of a run show whether the "
        "speed changed",
    )


@machine_rule(
    "deep-sleep",
    "Deep sleep",
    NOTE,
    needs=("cpu.idle.deepest_exit_ns",),
    fires={"cpu.idle.deepest_exit_ns": 133_000},
    silent={"cpu.idle.deepest_exit_ns": 133_000, "cpu.idle.latency_limit_ns": 0},
)
def deep_sleep(facts: Facts) -> Advice | None:
    """An idle state takes 20 µs or more to leave, and nothing keeps processors out of it."""
    exit_ns, limit_ns = facts.number("cpu.idle.deepest_exit_ns"), facts.number("cpu.idle.latency_limit_ns")
    if exit_ns is None or exit_ns < NOTICEABLE_NS or (limit_ns is not None and limit_ns < NOTICEABLE_NS):
        return None
    return Advice(
        f"An idle processor may sleep so deeply that waking it takes {time_text(exit_ns)}: a process that blocks pays "
        "for that, one that polls does not.",
        "sudo cpupower idle-set -D 10 (undo: -E); better, measure both: wait=poll and wait=block",
        {"deepest_exit": Quantity(exit_ns, "ns")},
    )
