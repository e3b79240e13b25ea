# SPDX-License-Identifier: Apache-2.0
"""Builds that are slow by intention: of the worker, and of the kernel."""

from __future__ import annotations

from netpipe.findings import SEVERE
from netpipe.findings.machine import Advice, Facts, machine_rule


@machine_rule(
    "slow-build",
    "Slow build of the worker",
    SEVERE,
    needs=("software.optimised", "software.sanitizers"),
    fires={"software.optimised": False},
    silent={"software.optimised": True, "software.sanitizers": []},
)
def slow_build(facts: Facts) -> Advice | None:
    """Built with a sanitizer or without optimisation."""
    if sanitizers := facts.texts("software.sanitizers"):
        return Advice(
            f"The worker was built with the {', '.join(sanitizers)} sanitizer, which multiplies the cost of every "
            "memory access.",
            "cmake -B build -DCMAKE_BUILD_TYPE=Release -DNETPIPE_SANITIZE=",
        )
    if facts.truth("software.optimised") is False:
        return Advice(
            "The worker was built without optimisation, so its own cost is part of every number.",
            "cmake -B build -DCMAKE_BUILD_TYPE=Release",
        )
    return None


@machine_rule(
    "debug-kernel",
    "Debug kernel",
    SEVERE,
    needs=("kernel.debug_features",),
    fires={"kernel.debug_features": ["KASAN"]},
    silent={"kernel.debug_features": []},
)
def debug_kernel(facts: Facts) -> Advice | None:
    """The kernel has features for finding its own faults."""
    features = facts.texts("kernel.debug_features")
    if not features:
        return None
    return Advice(
        f"This is a debug kernel ({', '.join(features)}): its locks and its memory cost many times the usual.",
        "boot the distribution's ordinary kernel",
    )
