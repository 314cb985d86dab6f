"""Training: how long one iteration takes, and how much memory it needs.

Three doors. `estimate` prices a configuration given by hand (TP, PP, DP, microbatch, …) in closed form: room
`configuration`. `simulate_training` plays a `TrainingPlan` action by action: `plan` holds the file, `policy` the
pipeline schedules, `program` the list of actions that a schedule makes, `resharding` the transfers between meshes,
`timing` what each action takes, `varying` how that varies, `reference` and `compiled` the two engines, `result` the
outcome. Begin with ``policy/orders.py``. `simulate_goodput` plays a whole run on machines that fail: room `goodput`.
"""

from .configuration.estimate import estimate, estimate_many
from .configuration.mixture.parts import Experts, Latent
from .configuration.model import TransformerShape
from .configuration.rates import CORE, FSDP_2023, MEGATRON_2022, NEMO_2024, TITAN_2024, DeviceRates, Stack
from .configuration.result import Breakdown, Estimate, Estimates, MemoryParts, TimeParts
from .configuration.settings import Settings
from .plan.file import MeshEntry, ModelEntry, OperatorEntry, SliceEntry, StageEntry, TrainingPlan, TransferEntry
from .plan.program import plan_program
from .policy.make import SCHEDULES, make_program
from .policy.turns import Turns
from .program.actions import Action, Op, Program
from .program.checks import DeadlockError, check_program
from .resharding.crossing import Gather, Message, Resharding, reshard_across
from .result.iteration import TrainingResult
from .result.memory_timeline import MemoryTimeline
from .simulate import simulate_training
from .timing import Link, Timing
from .varying.drawn import Drawn, draw_times
from .varying.iterations import IterationTimes, Repeats, simulate_iterations
from .varying.times import TrainingTimes

__all__ = [
    "CORE",
    "FSDP_2023",
    "MEGATRON_2022",
    "NEMO_2024",
    "SCHEDULES",
    "TITAN_2024",
    "Action",
    "Breakdown",
    "DeadlockError",
    "DeviceRates",
    "Drawn",
    "Estimate",
    "Estimates",
    "Experts",
    "Gather",
    "IterationTimes",
    "Latent",
    "Link",
    "MemoryParts",
    "MemoryTimeline",
    "MeshEntry",
    "Message",
    "ModelEntry",
    "Op",
    "OperatorEntry",
    "Program",
    "Repeats",
    "Resharding",
    "Settings",
    "SliceEntry",
    "Stack",
    "StageEntry",
    "TimeParts",
    "Timing",
    "TrainingPlan",
    "TrainingResult",
    "TrainingTimes",
    "TransferEntry",
    "TransformerShape",
    "Turns",
    "check_program",
    "draw_times",
    "estimate",
    "estimate_many",
    "make_program",
    "plan_program",
    "reshard_across",
    "simulate_iterations",
    "simulate_training",
]
