"""AlpaServe §3.1: two models on two devices, one model per device against both models cut in two.

Run: ``python examples/two_models.py``
"""

from meshwright import simulator, traces
from meshwright.profiles import ModelProfile, ParallelConfig

LATENCY_S = 0.4
WHOLE, HALVES = ParallelConfig(1, 1), ParallelConfig(1, 2)

models = ["a", "b"]
profiles = {
    name: ModelProfile.from_stages(name, {WHOLE: {1: [LATENCY_S]}, HALVES: {1: [LATENCY_S / 2, LATENCY_S / 2]}})
    for name in models
}
simple = simulator.Placement([simulator.Group(WHOLE, ["a"]), simulator.Group(WHOLE, ["b"])])
pipeline = simulator.Placement([simulator.Group(HALVES, models)])

for title, cv, split in [
    ("Poisson, equal rates", 1.0, [0.5, 0.5]),
    ("Gamma, CV 3", 3.0, [0.5, 0.5]),
    ("Poisson, 20 % and 80 %", 1.0, [0.2, 0.8]),
]:
    trace = traces.gamma(rate=3.0, cv=cv, duration=20_000.0, models=models, split=split, seed=0)
    means = [
        simulator.simulate(placement, trace, profiles, admission=False).mean_latency for placement in (simple, pipeline)
    ]
    print(f"{title:24s} simple {means[0]:6.3f} s   pipeline {means[1]:6.3f} s   {means[0] / means[1]:4.2f}x")
