"""A study from a notebook: evaluate a file's points into a pandas frame, with intervals and paired differences.

Run: ``python examples/study_in_python.py [REPLICATIONS]`` (some seconds)
"""

import sys
from pathlib import Path

from meshwright import studies
from meshwright.studies.summary import differences, summarise

study = studies.load(Path(__file__).with_name("sweep.yaml"))
study = study.but(replications=int(sys.argv[1]) if len(sys.argv) > 1 else 5)  # any key of the file can be changed so

frame = study.run()  # run("store.sqlite") keeps the points and goes on from there; executor="dask://…" runs elsewhere
print(frame[["cluster.devices", "workload.cv", "planner", "replication", "attainment"]].head(4).to_string())

means = summarise(frame, study)  # a row per combination and planner: NAME and NAME_half_width for every metric
rows = means.pivot(index=["workload.cv", "planner"], columns="cluster.devices", values="attainment")
print(f"\nmean attainment by devices\n{rows.round(4).to_string()}")

pairs = differences(frame, study)  # each planner against the first one on the same draws of traffic
pairs = pairs[pairs["differs"]]  # the interval of the difference excludes zero
columns = ["cluster.devices", "workload.cv", "planner", "difference", "half_width", "pairs"]
print(f"\nattainment minus {next(iter(study.planners))}'s\n{pairs[columns].round(4).to_string(index=False)}")
