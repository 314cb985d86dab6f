"""Token-by-token LLM serving: schedulers, paged KV memory, workloads, and the engines that simulate them.

`simulate_llm` is the door; `drive` runs a scheduler step by step without a clock. The rooms: `policy` (which requests
run in the next iteration, and which engine gets a request), `memory` (KV blocks), `decoding` (beams, speculation),
`workload` (what arrives), `reference` and `compiled` (two engines with the same answers), `fleet` (pools, faults,
autoscaling), `shared` (engines that share devices), `plan` and `result`. To see how a scheduler works, begin with
``policy/vllm_v1/``.
"""

from typing import TYPE_CHECKING

from ...later import later
from .drive import drive

if TYPE_CHECKING:
    from .decoding.genealogy import Genealogy
    from .decoding.speculative import Speculative
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
    from .workload.files import read_azure_llm, read_lengths, read_mooncake, read_requests
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
    "read_requests",
    "register_policy",
    "renewal_times",
    "replicated",
    "simulate_llm",
    "simulate_plan",
    "simulate_shared",
]

_ORIGINS = {
    "Genealogy": "decoding.genealogy",
    "Speculative": "decoding.speculative",
    **dict.fromkeys(("Fault", "Faults"), "fleet.faults"),
    "Pools": "fleet.pools",
    "Autoscaling": "fleet.scaling",
    "SwapCost": "memory.swapping",
    "SimulateOptions": "options",
    **dict.fromkeys(("Deployment", "LLMPlan", "LLMWorkload", "ServedModel"), "plan.file"),
    "LLMPlanResult": "plan.result",
    "simulate_plan": "plan.simulate",
    **dict.fromkeys(("POLICIES", "Policy"), "policy.catalogue"),
    "register_policy": "policy.own",
    "LLMRequest": "policy.request",
    "SarathiScheduler": "policy.sarathi",
    "Vllm02Scheduler": "policy.vllm02",
    **dict.fromkeys(("V1Scheduler", "V1Step"), "policy.vllm_v1"),
    "LLMResult": "result.columns",
    "Interval": "result.interval_math",
    "replicated": "result.intervals",
    **dict.fromkeys(("SharedEngine", "simulate_shared"), "shared"),
    "simulate_llm": "simulate",
    **dict.fromkeys(("conversations", "draw", "renewal_times"), "workload.draw"),
    **dict.fromkeys(("read_azure_llm", "read_lengths", "read_mooncake", "read_requests"), "workload.files"),
    "LLMTrace": "workload.requests",
}
"""To simulate needs neither the engines that share devices, nor the reference and SimPy, nor what reads files."""
__getattr__, __dir__ = later(__name__, _ORIGINS)
