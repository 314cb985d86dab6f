"""The four questions of a capacity planner, for AlpaServe and for replication alone (AlpaServe, §6.1 and Fig. 12).

Run: ``python examples/capacity.py`` (about a minute)
"""

from meshwright import planners, profiles, simulator, traces
from meshwright.planners.alpaserve import inverse

models = profiles.load("alpaserve-v100").instances({"bert-1.3b": 12})
names = list(models)
latency_s = models[names[0]].single_device_latency()
cluster = simulator.Cluster(nodes=1, devices_per_node=8)


def traffic(cv: float) -> traces.Trace:
    """Two minutes of 16 requests/s, SLO five times the latency on one device; the same streams for every CV."""
    return traces.gamma(rate=16.0, cv=cv, duration=120.0, models=names, slo=5 * latency_s, seed=0)


TRACE = traffic(4.0)
QUESTIONS = {
    "fewest devices": lambda p: inverse.fewest_devices(names, TRACE, models, high=16, planner=p),
    "highest rate (1/s)": lambda p: inverse.highest_rate(cluster, names, TRACE, models, low=2.0, high=128.0, planner=p),
    "highest CV": lambda p: inverse.highest_cv(cluster, names, traffic, models, planner=p),
    "tightest SLO scale": lambda p: inverse.tightest_slo(cluster, names, TRACE, models, planner=p),
}

for name in ("alpaserve", "selective-replication"):
    for question, ask in QUESTIONS.items():
        answer = ask(planners.planner(name))
        print(f"{name:24s} {question:24s} {answer.value:8.3g}   {answer.plan.predicted['attainment']:.2%} attained")
