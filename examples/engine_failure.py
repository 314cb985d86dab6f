"""What does an engine's death cost, and does an autoscaler make up for it?

Three engines of an H100 with Llama-3.1-8B; one dies at 20 s, is repaired after 30 s and loads its model for 20 s. Its
requests begin anew elsewhere, or go on with the tokens that they had, or an autoscaler starts a fourth engine.

Run: ``python examples/engine_failure.py`` (less than a minute)
"""

from meshwright.profiles import device
from meshwright.profiles.llm import decoder, iteration_cost, kv_capacity
from meshwright.simulator.llm import Autoscaling, Fault, Faults, SimulateOptions, draw, simulate_llm

GPU, MODEL = device("h100-80gb"), decoder("Llama-3.1-8B")
COST = iteration_cost(MODEL, GPU)
CONFIG = {
    "num_blocks": kv_capacity(MODEL, GPU.memory_bytes).num_blocks,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 64,
    "max_model_len": 8192,
}
TRACE = draw([1000, 2000], [100, 200], 1200, rate=20.0, seed=0)
DEATH = (Fault(engine=0, at_s=20.0, repair_s=30.0),)
RULE = Autoscaling(3, 4, target=40.0, interval_s=5.0, start_s=20.0, patience=6)

CASES = {
    "no death": SimulateOptions(),
    "tokens lost": SimulateOptions(faults=Faults(DEATH, load_s=20.0)),
    "tokens kept": SimulateOptions(faults=Faults(DEATH, load_s=20.0, tokens="keep")),
    "and autoscaled": SimulateOptions(faults=Faults(DEATH, load_s=20.0, tokens="keep"), scaling=RULE),
}
for name, options in CASES.items():
    result = simulate_llm(TRACE, config=CONFIG, cost=COST, engines=3, router="least_outstanding", options=options)
    line = f"{name:15s} TTFT p50 {result.ttft(50):6.3f} s, p99 {result.ttft(99):6.3f} s; "
    line += f"{result.attainment(ttft=1.0):.1%} within 1 s"
    if result.fleet is not None:
        said = result.fleet.summary()
        line += f"; {said['retries']:.0f} retries, {said['lost_tokens']:.0f} tokens lost, "
        line += f"{said['engine_seconds']:.0f} engine-seconds"
    print(line)
