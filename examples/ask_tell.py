"""Your own optimiser drives a study: hill climbing over devices and batching for a cheap cluster that attains 99 %.

The optimiser asks for points; the session evaluates them, or finds them in the store: a second climb evaluates nothing,
and an interrupted one goes on from where it was.

Run: ``python examples/ask_tell.py [STORE]`` (some seconds)
"""

import sys
from pathlib import Path
from statistics import mean

from meshwright import studies

TARGET = 0.99
DEVICES, MAX_BATCH = range(2, 17), (1, 2, 4)

study = studies.load(Path(__file__).with_name("sweep.yaml"))


def score(session: studies.Session, devices: int, max_batch: int) -> float:
    """What to minimise: price per hour of a cluster that attains the target; far away, how much it misses."""
    values = {"cluster.devices": devices, "serving.max_batch": max_batch}
    points = [session.ask(values, "alpaserve", r) for r in range(study.replications)]
    outcomes = [outcome for _, outcome in session.evaluate(points)]
    attainment = mean(o.metrics.get("attainment", 0.0) for o in outcomes)
    price = mean(o.metrics.get("cost_per_hour", 0.0) for o in outcomes)
    print(f"{devices:3d} devices, batches up to {max_batch}: attainment {attainment:.4f}, {price:.2f} per hour")
    return price if attainment >= TARGET else 1000.0 * (2.0 - attainment)


def climb(session: studies.Session, start: tuple[int, int]) -> tuple[int, int]:
    """Go to the best neighbour for as long as there is a better one."""
    here, best = start, score(session, *start)
    while True:
        devices, batch = here
        k = MAX_BATCH.index(batch)
        around = [(devices + d, batch) for d in (-2, -1, 1, 2)]
        around += [(devices, MAX_BATCH[i]) for i in (k - 1, k + 1) if 0 <= i < len(MAX_BATCH)]
        tried = {there: score(session, *there) for there in around if there[0] in DEVICES}
        there = min(tried, key=lambda place: tried[place])
        if tried[there] >= best:
            return here
        here, best = there, tried[there]


with studies.Session.open(study, sys.argv[1] if len(sys.argv) > 1 else None) as session:
    devices, max_batch = climb(session, (14, 1))
    print(f"cheapest: {devices} devices with batches up to {max_batch} ({len(session.frame())} points evaluated)")
