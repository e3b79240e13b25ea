# SPDX-License-Identifier: Apache-2.0
"""What another library or network would make of an application: the calls of a profile's trace (calls), replayed
(replay) with the costs that a run has measured (costs), and what comes out of it (predict). Everything here is pure.
"""

from netpipe.prediction.costs import Costs, Factors, costs
from netpipe.prediction.predict import Prediction, predict

__all__ = ["Costs", "Factors", "Prediction", "costs", "predict"]
