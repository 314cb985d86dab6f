"""docs/graphpipe.md: it names every option and prediction, and its table is what comes out."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from pathlib import Path

from meshwright.planners.graphpipe import GraphPipeOptions, plan
from meshwright.profiles.graph import zoo_graph
from meshwright.profiles.hardware import LinkSpec, device
from meshwright.simulator.cluster import Cluster

PAGE = Path(__file__).parents[3] / "docs" / "graphpipe.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_option_and_schedule_is_named():
    assert [f.name for f in dataclasses.fields(GraphPipeOptions) if f"`{f.name}`" not in TEXT] == []
    for f in dataclasses.fields(GraphPipeOptions):
        shown = re.search(rf"\| `{f.name}` \| ([^|]*) \|", TEXT)
        assert shown is not None
        if f.default is not None and not isinstance(f.default, tuple):
            assert shown[1].strip("`").strip('"') == str(f.default).lower()


def test_the_case_study_is_what_comes_out():
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| ([\d.]+) \| (\d+) % \|$", TEXT, re.M)
    assert len(rows) == 4
    spec = replace(device("v100-16gb"), name="v100-summit", inter_node=LinkSpec(12.5e9, 5e-6))
    graph, cluster = zoo_graph("case-study-3-7-4"), Cluster(2, 4, spec)
    for b, chain, ours, gain in rows:
        options = {"devices": (1,), "microbatches": (int(b),)}
        seconds = [
            plan(graph, cluster, global_batch=64, options=options | {"topology": how}).predicted["seconds"]
            for how in ("chain", "graph")
        ]
        assert [f"{s:.4f}" for s in seconds] == [chain, ours]
        assert f"{100 * (seconds[0] / seconds[1] - 1):.0f}" == gain
