# SPDX-License-Identifier: Apache-2.0
"""The speed-up of application kernels over the number of processes."""

from __future__ import annotations

from netpipe.render.drawing import kernels
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import KERNELS, figure


@figure("the time on the fewest processes over the time on more", "more", place=10, needs=(KERNELS,))
def panels(scope: Scope) -> list[Panel]:
    return kernels.speedup(scope.kernels, "Speed-up of kernels")
