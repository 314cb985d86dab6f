"""Training: configurations given by hand (`estimate`); plans and their programs (`simulate_training`)."""

from .estimate import estimate, estimate_many
from .memory_timeline import MemoryTimeline
from .model import TransformerShape
from .plan import MeshEntry, ModelEntry, OperatorEntry, SliceEntry, StageEntry, TrainingPlan, TransferEntry
from .plan_program import plan_program
from .program import Action, Op, Program
from .program_checks import DeadlockError, check_program
from .rates import CORE, MEGATRON_2022, DeviceRates, Stack
from .resharding import Gather, Message, Resharding, reshard_across
from .result import Breakdown, Estimate, Estimates, MemoryParts, TimeParts
from .run_result import TrainingResult
from .schedules import SCHEDULES, make_program
from .simulate import simulate_training
from .timing import Link, Timing

__all__ = [
    "CORE",
    "MEGATRON_2022",
    "SCHEDULES",
    "Action",
    "Breakdown",
    "DeadlockError",
    "DeviceRates",
    "Estimate",
    "Estimates",
    "Gather",
    "Link",
    "MemoryParts",
    "MemoryTimeline",
    "MeshEntry",
    "Message",
    "ModelEntry",
    "Op",
    "OperatorEntry",
    "Program",
    "Resharding",
    "SliceEntry",
    "Stack",
    "StageEntry",
    "TimeParts",
    "Timing",
    "TrainingPlan",
    "TrainingResult",
    "TransferEntry",
    "TransformerShape",
    "check_program",
    "estimate",
    "estimate_many",
    "make_program",
    "plan_program",
    "reshard_across",
    "simulate_training",
]
