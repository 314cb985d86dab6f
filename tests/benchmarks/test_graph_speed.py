"""Loading, growing and looking at the zoo's largest graphs, beside parsing the same file as plain JSON."""

from __future__ import annotations

import gzip
import json
import time

import pytest
from meshwright.profiles.graph import from_json, graph_cut, leaders, repeats, zoo_graph
from meshwright.profiles.graph.zoo import DATA


def best(run, rounds=5):
    found = []
    for _ in range(rounds):
        start = time.process_time()
        answer = run()
        found.append(time.process_time() - start)
    return min(found), answer


@pytest.mark.parametrize("name", ["gpt3-39b", "gshard-moe-70b", "wide-resnet-13b"])
def test_graphs(name, capsys):
    text = gzip.decompress((DATA / f"{name}.json.gz").read_bytes()).decode()
    bare, _ = best(lambda: json.loads(text))
    loaded, graph = best(lambda: from_json(text))
    grown, _ = best(lambda: graph.with_batch(8))
    followed, _ = best(lambda: leaders(graph))
    repeated, _ = best(lambda: repeats(graph))
    cut, _ = best(lambda: [graph_cut(graph, i) for i in range(len(graph.operators))])
    assert graph == zoo_graph(name)
    with capsys.disabled():
        times = {"load": loaded, "with_batch": grown, "leaders": followed, "repeats": repeated, "all cuts": cut}
        ratios = ", ".join(f"{what} {seconds / bare:.1f} x" for what, seconds in times.items())
        print(f"\n{name}: {len(graph.operators)} operators; JSON {1e3 * bare:.1f} ms; {ratios}")
