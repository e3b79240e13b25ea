# SPDX-License-Identifier: Apache-2.0
"""The times of application kernels over the number of processes."""

from __future__ import annotations

from netpipe.render.drawing import kernels
from netpipe.render.drawing.picture import Panel
from netpipe.render.drawing.scope import Scope
from netpipe.render.figures import KERNELS, figure


@figure("the time of each kernel over the number of processes", "more", place=20, needs=(KERNELS,))
def panels(scope: Scope) -> list[Panel]:
    return kernels.times(scope.kernels, "Times of kernels")
