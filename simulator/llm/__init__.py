"""Token-by-token LLM serving: paged KV memory, iteration-level schedulers, workloads, and the engine that runs them."""

from .decoding.genealogy import Genealogy
from .decoding.speculative import Speculative
from .drive import drive
from .fleet.faults import Fault, Faults
from .fleet.pools import Pools
from .fleet.scaling import Autoscaling
from .interval_math import Interval
from .intervals import replicated
from .own_policy import register_policy
from .plan import Deployment, LLMPlan, LLMWorkload, ServedModel
from .plan_result import LLMPlanResult
from .plan_simulate import simulate_plan
from .policies import POLICIES, Policy
from .request import LLMRequest
from .result import LLMResult
from .sarathi import SarathiScheduler
from .shared import SharedEngine, simulate_shared
from .simulate import simulate_llm
from .swapping import SwapCost
from .vllm02 import Vllm02Scheduler
from .vllm_v1 import V1Scheduler, V1Step
from .workload import LLMTrace
from .workload_draw import conversations, draw, renewal_times
from .workload_files import read_azure_llm, read_lengths, read_mooncake

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
