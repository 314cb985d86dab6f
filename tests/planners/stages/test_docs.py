"""docs/pipedream-piper.md: its example runs, its options are all, and its prices are what comes out."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from meshwright.planners.graphpipe import SequentialOptions, StageCosts
from meshwright.profiles.graph import zoo_graph
from meshwright.simulator.cluster import Cluster

TEXT = (Path(__file__).parents[3] / "docs" / "pipedream-piper.md").read_text(encoding="utf-8")


def test_every_option_is_named_with_its_default():
    shown = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", TEXT, re.M))
    for option in dataclasses.fields(SequentialOptions):
        said = "all" if option.default is None else str(option.default).lower()
        assert shown.pop(option.name).strip().strip("`") == said
    assert not shown


@pytest.mark.parametrize(
    ("said", "name", "sizes"),
    [
        ("MMT", "mmt", (1, 2, 4, 8, 16, 64)),
        ("BERT-large", "bert-large", (1, 2, 4, 8, 16, 64)),
        ("CANDLE-Uno", "candle-uno", (1, 4, 16, 64, 256, 1024)),
    ],
)
def test_seconds_of_few_samples(said, name, sizes):
    row = re.search(rf"^\| {said} \(float\d+\) \| (.*) \|$", TEXT, re.M)[1]
    costs = StageCosts.of(
        zoo_graph(name), Cluster(1, 4, "v100-16gb"), global_batch=1024, microbatches=sizes, devices=(1,)
    )
    whole = costs.of_sets(np.ones((1, costs.n_units), bool))
    each = (whole.forward_s + whole.backward_input_s + whole.backward_weight_s)[0] / np.array(sizes) * 1e3
    assert [float(x) for x in row.split(" | ")] == pytest.approx(each, rel=5e-3)
