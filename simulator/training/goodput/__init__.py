"""Training on machines that fail: how much of the time is training, over days and weeks.

`machines` says what fails and what stands by, `checkpoints` what a checkpoint costs and how often it is written.
`closed_form` has Young's and Daly's formulas and the exact expectation, `simulate` plays whole runs: by `reference`, a
SimPy model that can be read, and by `compiled`. Both draw from `lives`. Begin with `reference`.
"""

from .checkpoints import Checkpoints
from .closed_form import best_interval_s, daly_s, expected, young_s
from .machines import Machines, Strike, node_mtbf_s
from .result import GoodputResult
from .simulate import simulate_goodput

__all__ = [
    "Checkpoints", "GoodputResult", "Machines", "Strike", "best_interval_s", "daly_s", "expected", "node_mtbf_s",
    "simulate_goodput", "young_s",
]  # fmt: skip
