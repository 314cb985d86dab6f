"""Which ratio of prefill to decode engines serves the most requests within its limits? And would one pool do?

Four H100s, one Llama-3.1-8B on each; TTFT within 500 ms and TPOT within 12 ms; the transfer of keys and values over
400 Gb/s per engine. The same requests for every ratio (common random numbers).

Run: ``python examples/pool_ratio.py`` (less than a minute)
"""

from meshwright.profiles import LinkSpec, device
from meshwright.profiles.llm import decoder, iteration_cost, kv_capacity
from meshwright.simulator.llm import Pools, SimulateOptions, draw, simulate_llm

GPU, MODEL, ENGINES = device("h100-80gb"), decoder("Llama-3.1-8B"), 4
LIMITS = {"ttft": 0.5, "tpot": 0.012}
COST = iteration_cost(MODEL, GPU)
CONFIG = {
    "num_blocks": kv_capacity(MODEL, GPU.memory_bytes).num_blocks,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 256,
    "max_model_len": 8192,
    "enable_prefix_caching": False,
}
LINK = LinkSpec(50e9, 20e-6)

for name, prompts, outputs in (("summaries", [2000, 4000], [100, 200]), ("chat", [200, 400], [300, 500])):
    rate = 18.0 if name == "summaries" else 30.0
    trace = draw(prompts, outputs, 500, rate=rate, seed=0)
    print(f"{name}, {rate:g} requests/s")
    together = simulate_llm(trace, config=CONFIG, cost=COST, engines=ENGINES, router="least_outstanding")
    print(f"  together  {together.interval('goodput', **LIMITS)} requests/s within {LIMITS}")
    for prefill in range(1, ENGINES):
        pools = Pools(prefill, ENGINES - prefill, LINK)
        result = simulate_llm(
            trace, config=CONFIG, cost=COST, options=SimulateOptions(pools=pools), router="least_outstanding"
        )
        fleet = result.fleet
        print(
            f"  {prefill}:{ENGINES - prefill}       {result.interval('goodput', **LIMITS)}   "
            f"busy {fleet.utilization('prefill'):.0%} : {fleet.utilization('decode'):.0%}   "
            f"transfer {1e3 * fleet.summary()['transfer_p50']:.1f} ms"
        )
