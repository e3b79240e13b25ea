# SPDX-License-Identifier: Apache-2.0
"""What another library or network would make of an application: the calls of a profile's trace (calls), replayed
(replay) with the costs that a run has measured (costs), what comes out of it (predict), and how that depends on the
network (sensitivity). Everything here is pure, except that `launches` reads the profiles.
"""

from netpipe.prediction.costs import Costs, Factors, costs
from netpipe.prediction.launches import own_variant, processors, read_launches
from netpipe.prediction.predict import Prediction, predict
from netpipe.prediction.sensitivity import Sensitivities, Sensitivity, sensitivities

__all__ = [
    "Costs",
    "Factors",
    "Prediction",
    "Sensitivities",
    "Sensitivity",
    "costs",
    "own_variant",
    "predict",
    "processors",
    "read_launches",
    "sensitivities",
]
