"""GPT-3 1.3B in eight stages: a pipeline fed with samples, with equal slices of tokens, and with the best slices."""

from meshwright.planners.terapipe import TeraPipeOptions, plan
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.training import simulate_training

graph = zoo_graph("gpt3-1.3b")
node = Cluster(nodes=1, devices_per_node=8, device="v100-16gb")

for slicing in ("none", "uniform", "dp"):
    options = TeraPipeOptions(pipe=8, op=1, slicing=slicing, granularity=32)
    made = plan(graph, node, global_batch=8, options=options)
    result = simulate_training(made)
    said = "; ".join(f"{e.count} x {e.samples} sequences in {list(e.tokens)}" for e in made.slices)
    print(f"{slicing:<8} {result.seconds:.4f} s an iteration, devices idle {result.bubble:.0%}: {said}")

print(made.explain(operators="none"))
