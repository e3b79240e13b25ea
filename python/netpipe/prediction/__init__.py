# SPDX-License-Identifier: Apache-2.0
"""What another library or network would make of an application: the calls of a profile's trace (calls), replayed
(replay) with the costs that a run has measured (costs), what comes out of it (predict) by call and size (shares), how
near that is to what was measured then (held), how it depends on the network (sensitivity), what nobody can know or had
to be guessed (unknown), and which curves the runs lack (lacking). Everything here is pure, except that `launches` reads
the profiles and `runs` the runs.
"""

from netpipe.prediction.costs import Costs, Factors, costs
from netpipe.prediction.held import Held, held
from netpipe.prediction.launches import UnknownVariant, named, own_variant, processors, read_launches
from netpipe.prediction.predict import Prediction, predict
from netpipe.prediction.runs import one_run, read_runs
from netpipe.prediction.sensitivity import Sensitivities, Sensitivity, sensitivities

__all__ = [
    "Costs",
    "Factors",
    "Held",
    "Prediction",
    "Sensitivities",
    "Sensitivity",
    "UnknownVariant",
    "costs",
    "held",
    "named",
    "one_run",
    "own_variant",
    "predict",
    "processors",
    "read_launches",
    "read_runs",
    "sensitivities",
]
