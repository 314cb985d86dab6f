"""One-shot DNN serving: models placed on groups of devices that form pipelines (AlpaServe). `simulate` is the door.

`policy` decides (dispatch, admission, batches) and knows no clock. `reference` (SimPy) and `compiled` (numba) let time
pass. `conditions` say what really happens (`times` that vary, `outages` of groups), `forecast` draws them many times.
`tables` holds the placement as arrays, `result` the outcome, `plan` the plan file, and `queueing` the closed forms that
simulations are checked against.
"""

from .conditions import Conditions
from .forecast import Forecast, forecast
from .outages import Outages
from .policy import DISPATCH, Controller, Decision
from .policy.batching import Batching
from .policy.scaling import Scaling
from .result import SimulationResult
from .simulate import simulate
from .times import ServingTimes, draw_times

__all__ = ["DISPATCH", "Batching", "Conditions", "Controller", "Decision", "Forecast", "Outages", "Scaling",
           "ServingTimes", "draw_times", "SimulationResult", "forecast", "simulate"]  # fmt: skip
