# SPDX-License-Identifier: Apache-2.0
"""Other work on the host, and limits on how much processor time there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from netpipe.findings import SEVERE, WARNING, Quantity
from netpipe.findings.machine import Advice, Facts, machine_rule
from netpipe.findings.machine.placement import ranks
from netpipe.units import counted

if TYPE_CHECKING:
    from netpipe.records import Run

LOADED = 0.5  # of the processors


@machine_rule(
    "processor-quota",
    "Processor quota",
    SEVERE,
    needs=("limits.cgroup.cpu_quota",),
    fires={"limits.cgroup.cpu_quota": 2.0, "pinning.count": 2},
    silent={"limits.cgroup.cpu_quota": 2.5, "pinning.count": 2},
)
def quota(facts: Facts) -> Advice | None:
    """The control group's quota is not above the number of ranks: netpipe itself is in the group too."""
    allowed = facts.number("limits.cgroup.cpu_quota")
    wanted = ranks(facts) or 1
    if allowed is None or allowed > wanted:
        return None
    throttled = int(facts.number("limits.cgroup.throttled") or 0)
    times = f" ({counted(throttled, 'time')} so far)" if throttled else ""
    return Advice(
        f"The control group may use the time of {allowed:.2f} processors for {counted(wanted, 'rank')} and netpipe "
        f"itself; beyond that it is stopped for up to 100 ms{times}.",
        "raise the limit (docker --cpus, the pod's resources.limits.cpu, systemd CPUQuota=)",
        {"quota": Quantity(allowed, "processors"), "throttled": Quantity(throttled, "times")},
    )


def _too_much(facts: Facts) -> bool:
    average, processors = facts.number("load.average_1"), facts.number("cpu.logical")
    if average is None or not processors or average <= LOADED * processors:
        return False
    # The average decays slowly: with nobody else at work now, it remembers our own last measurement.
    return facts.number("load.other_busy_processes") != 0


def worst_load(run: Run) -> Mapping[str | None, Mapping[str, float]]:
    """The largest load average of those launches before which others were at work, by host."""
    found: dict[str | None, dict[str, float]] = {}
    for environment in run.environments:
        facts = Facts(environment.facts)
        if _too_much(facts):
            average = facts.number("load.average_1") or 0.0
            so_far = found.setdefault(environment.host, {"worst": 0.0})
            so_far["worst"] = max(so_far["worst"], average)
    return found


@machine_rule(
    "load",
    "Load",
    SEVERE,
    needs=("load.average_1",),
    fires={"load.average_1": 6.0, "cpu.logical": 8, "load.other_busy_processes": 3},
    silent={"load.average_1": 4.0, "cpu.logical": 8, "load.other_busy_processes": 3},
    of_run=worst_load,
)
def loaded(facts: Facts) -> Advice | None:
    """The load average of a minute is above half the processors, and others want to run now too."""
    worst, processors = facts.number("run.worst"), facts.number("cpu.logical")
    average = facts.number("load.average_1")
    if not _too_much(facts) or average is None or processors is None:
        return None
    said = f"is {average:.1f}"
    if worst is not None and worst > average:
        average, said = worst, f"reached {worst:.1f}"
    return Advice(
        f"The load average of the last minute {said} on {counted(int(processors), 'processor')}: other work "
        "takes time and cache from what is measured.",
        "list what runs with: top -o %CPU; wait until it has ended, or use a machine of your own",
        {"load_average": Quantity(average, "tasks"), "processors": Quantity(processors, "processors")},
    )


@machine_rule(
    "busy-processes",
    "Other busy processes",
    WARNING,
    needs=("load.other_busy_processes",),
    fires={"load.other_busy_processes": 1},
    silent={"load.other_busy_processes": 0},
)
def busy(facts: Facts) -> Advice | None:
    """A process outside netpipe's process group wants to run at this moment."""
    others = int(facts.number("load.other_busy_processes") or 0)
    if not others:
        return None
    want = "wants" if others == 1 else "want"
    return Advice(
        f"{counted(others, 'other process', 'other processes')} {want} to run at this moment.",
        "list them with: ps -eo stat,pid,comm | grep ^R; stop those that are not needed",
        {"busy": Quantity(others, "processes")},
    )
