"""How many GPUs for 60 chat requests per second, cut how, and what becomes of them if the load grows by a half?"""

from meshwright.planners.vllm import DrawnTraffic, Effort, LLMDemand, SearchSpace, plan
from meshwright.profiles.llm import decoder
from meshwright.simulator import Cluster
from meshwright.simulator.llm import simulate_plan
from meshwright.traces.lengths import length_profile

chat = length_profile("sharegpt")
demand = LLMDemand(decoder("llama-3.1-8b"), DrawnTraffic(chat, rate=60.0, n=6000), ttft_s=1.0, tpot_s=0.02)

found = plan(
    Cluster(1, 8, "h100-80gb"),
    [demand],
    objective="devices",
    target=0.99,
    space=SearchSpace(tp=(1, 2, 4), pp=(1,), batched_tokens=(512, 2048)),
    effort=Effort(seeds=3),
)
for point in found.devices_front("Llama-3.1-8B"):
    print(point)

more = DrawnTraffic(chat, rate=90.0, n=6000).trace(seed=0)
result = simulate_plan(found.plan, more)
print(f"at 90/s: {result.attainment:.2%} within the limits")

found.plan.save("llm-plan.json")
