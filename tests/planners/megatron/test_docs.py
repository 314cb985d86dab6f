"""docs/configuration-search.md states what the search finds, and its commands run."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from meshwright.planners.megatron import search
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TransformerShape

PAGE = (Path(__file__).parents[3] / "docs" / "configuration-search.md").read_text("utf-8")
GPT3 = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
CLUSTER = Cluster(8, 8, "a100-80gb")


def test_counts():
    kinds = [
        replace(CORE, name=f"{f}{d}{p}{s}", flash=f, overlap_data=d, overlap_pipeline=p, scatter_gather=s)
        for f, d, p, s in product((True, False), repeat=4)
    ]
    for begins, stacks in (("| everything, one software", CORE), ("| everything, 16 kinds of software", kinds)):
        r = search(GPT3, CLUSTER, 64, stack=stacks, top=1)
        said = (r.combinations, r.evaluated + r.repeats, r.evaluated, r.fit)
        row = next(line for line in PAGE.splitlines() if line.startswith(begins))
        assert [int(cell.replace(",", "")) for cell in row.strip("|").split("|")[1:5]] == list(said)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(("word", "stack"), [("CORE", CORE), ("MEGATRON_2022", MEGATRON_2022)])
def test_the_fastest(dtype, word, stack):
    best = search(GPT3, CLUSTER, 64, dtype=dtype, stack=stack, top=1).best[0]
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {dtype}, `{word}`"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == [
        str(best), f"{best.seconds:.2f}", f"{best.peak_bytes / 2**30:.1f} GiB", f"{100 * best.mfu:.1f} %",
    ]  # fmt: skip
