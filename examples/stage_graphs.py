"""What does it gain to run a model's branches beside each other? GraphPipe and PipeDream over numbers of branches."""

from meshwright.planners.graphpipe import pipedream, plan
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator import Cluster
from meshwright.simulator.training import simulate_training

cluster = Cluster(nodes=2, devices_per_node=4, device="v100-16gb")
print("branches  depth  samples/s   chain: depth  samples/s   gain")
for branches in (2, 4, 8):
    graph = zoo_graph(f"candle-uno-{branches}")
    graph_plan, chain_plan = (search(graph, cluster, global_batch=2048) for search in (plan, pipedream))
    side, line = (simulate_training(found) for found in (graph_plan, chain_plan))
    print(
        f"{branches:>8}  {graph_plan.predicted['depth']:>5.0f}  {side.samples_per_s:>9.0f}   "
        f"{len(chain_plan.stages):>12}  {line.samples_per_s:>9.0f}   {side.samples_per_s / line.samples_per_s:>4.2f}"
    )
print(graph_plan.explain(operators="none"))
