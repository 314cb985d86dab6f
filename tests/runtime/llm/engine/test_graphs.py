"""Decode graphs where there is no GPU: a stand-in for CUDA graphs that runs again what was captured, in its buffers.

It shows that padded batches give the same tokens and write nowhere, not that CUDA can capture them.
"""

import types
from contextlib import nullcontext

import pytest

pytest.importorskip("torch")

import torch
from meshwright.runtime.llm.engine import LLMEngine, graphs
from meshwright.runtime.llm.engine.graphs import DecodeGraphs

CONFIG = {"num_blocks": 45, "block_size": 4, "max_model_len": 128}


class FakeGraph:
    """Replays a function into the tensor that it gave first."""

    def replay(self):
        self.output.copy_(self.function())


@pytest.fixture
def no_cuda(monkeypatch):
    stream = types.SimpleNamespace(wait_stream=lambda other: None)
    fake = types.SimpleNamespace(
        graph_pool_handle=lambda: None,
        Stream=lambda: stream,
        current_stream=lambda: stream,
        stream=nullcontext,
        CUDAGraph=FakeGraph,
        graph=lambda graph, pool: nullcontext(),
    )
    names = {name: getattr(torch, name) for name in ("int64", "int32", "zeros", "full", "ones", "arange")}
    monkeypatch.setattr(graphs, "torch", types.SimpleNamespace(cuda=fake, inference_mode=torch.inference_mode, **names))
    capture = DecodeGraphs._capture

    def captured(self, size):
        found = capture(self, size)
        found.graph.output = found.logits
        found.graph.function = lambda: self.decoder.logits(found.batch, self.cache)
        return found

    monkeypatch.setattr(DecodeGraphs, "_capture", captured)


def test_padded_decodes_give_the_same_tokens(no_cuda, specs, make_requests, run_all, truth):
    spec = specs["llama"]
    requests = make_requests(spec, [(5, 12), (33, 20), (1, 9), (20, 15), (18, 30), (40, 7), (12, 25)])
    with LLMEngine(spec, "vllm-v1", CONFIG) as engine:
        runner = engine.runner
        runner.graphs = DecodeGraphs(runner.decoder, runner.cache, engine.memory, 6)
        outputs, records, _ = run_all(engine, requests)
        sizes = sorted(runner.graphs._captured)
        assert sum(len(w.preempted) for out in records for w in out.work) > 0
    assert sizes == [1, 2, 4, 6]  # 5 and 6 share the largest; 7 run without a graph
    for request in requests:
        assert outputs[request.id].outputs[0] == truth(spec, request)
