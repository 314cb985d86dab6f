"""Token-by-token LLM serving: paged KV memory, iteration-level schedulers, workloads, and the engine that runs them."""

from .decoding.genealogy import Genealogy
from .decoding.speculative import Speculative
from .drive import drive
from .fleet.faults import Fault, Faults
from .fleet.pools import Pools
from .fleet.scaling import Autoscaling
from .memory.swapping import SwapCost
from .options import SimulateOptions
from .plan.file import Deployment, LLMPlan, LLMWorkload, ServedModel
from .plan.result import LLMPlanResult
from .plan.simulate import simulate_plan
from .policy.catalogue import POLICIES, Policy
from .policy.own import register_policy
from .policy.request import LLMRequest
from .policy.sarathi import SarathiScheduler
from .policy.vllm02 import Vllm02Scheduler
from .policy.vllm_v1 import V1Scheduler, V1Step
from .result.columns import LLMResult
from .result.interval_math import Interval
from .result.intervals import replicated
from .shared import SharedEngine, simulate_shared
from .simulate import simulate_llm
from .workload.draw import conversations, draw, renewal_times
from .workload.files import read_azure_llm, read_lengths, read_mooncake
from .workload.requests import LLMTrace

__all__ = [
    "POLICIES",
    "Autoscaling",
    "Deployment",
    "Fault",
    "Faults",
    "Genealogy",
    "Interval",
    "LLMPlan",
    "LLMPlanResult",
    "LLMRequest",
    "LLMResult",
    "LLMTrace",
    "LLMWorkload",
    "Policy",
    "Pools",
    "SarathiScheduler",
    "ServedModel",
    "SharedEngine",
    "SimulateOptions",
    "Speculative",
    "SwapCost",
    "V1Scheduler",
    "V1Step",
    "Vllm02Scheduler",
    "conversations",
    "draw",
    "drive",
    "read_azure_llm",
    "read_lengths",
    "read_mooncake",
    "register_policy",
    "renewal_times",
    "replicated",
    "simulate_llm",
    "simulate_plan",
    "simulate_shared",
]
