"""A model small enough to be compared, token by token, with a forward pass over the whole text in fp64."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from meshwright.profiles.llm.decoder import DecoderSpec
from meshwright.simulator.llm import LLMRequest

LLAMA = DecoderSpec(
    "test-llama", layers=3, hidden=64, heads=8, ffn=96, vocab=97, kv_heads=2, head_dim=8, max_positions=256
)
OPT = DecoderSpec(
    "test-opt", layers=3, hidden=64, heads=4, ffn=128, vocab=101, kv_heads=4, head_dim=16, gated=False, tied=True,
    biases=True, max_positions=256, learned_positions=True,
)  # fmt: skip
SPECS = {"llama": LLAMA, "opt": OPT}


def requests_of(spec, shapes, *, shared=0, seed=0, **more):
    """Requests of (prompt, output) or (prompt, output, best_of) whose prompts begin with `shared` common tokens."""
    rng = np.random.default_rng(seed)
    common = rng.integers(spec.vocab, size=shared).tolist()
    found = []
    for number, (prompt, output, *best) in enumerate(shapes):
        own = rng.integers(spec.vocab, size=max(0, prompt - shared)).tolist()
        tokens = tuple((common + own)[:prompt])
        found.append(LLMRequest(f"r{number}", prompt, output, best_of=best[0] if best else 1, tokens=tokens, **more))
    return found


def run_engine(engine, requests, arrive=None, sampling=None):
    """Step until all is done; outputs by id, and a record of every decision as `drive` gives it."""
    waiting = [(0 if arrive is None else arrive[k], r) for k, r in enumerate(requests)]
    outputs, records, streamed, step = {}, [], {}, 0
    while waiting or engine.busy:
        while waiting and waiting[0][0] <= step:
            request = waiting.pop(0)[1]
            engine.add(request, None, **({} if sampling is None else {"sampling": sampling[request.id]}))
        out = engine.step()
        records.append(out)
        for e in out.emitted:
            streamed.setdefault((e.request, e.index), []).append(e.token)
        for f in out.finished:
            outputs[f.request] = f
        step += 1
        assert step < 5000
    return outputs, records, streamed


@pytest.fixture(scope="session")
def truth():
    """Tokens of one sequence of a request by a plain fp64 forward pass over the whole text; remembered."""
    pytest.importorskip("torch")
    from meshwright.runtime.llm.engine.plain import generate_plain, widened
    from meshwright.runtime.llm.engine.sampling import GREEDY
    from meshwright.runtime.llm.engine.weights import draw_weights

    weights, known = {}, {}

    def tokens(spec, request, sampling=GREEDY, index=0, seed=0):
        key = (spec.name, seed)
        if key not in weights:
            weights[key] = widened(draw_weights(spec, seed=seed))
        what = (key, request.tokens, request.output, sampling, index if not sampling.greedy else 0, request.id)
        if what not in known:
            known[what] = tuple(
                generate_plain(
                    weights[key], request.tokens, request.output, sampling, name=request.id, index=index, seed=seed
                )
            )
        return known[what]

    return tokens


@pytest.fixture
def make_requests():
    """See `requests_of`."""
    return requests_of


@pytest.fixture
def run_all():
    """See `run_engine`."""
    return run_engine


@pytest.fixture
def specs():
    """Small shapes by name."""
    return SPECS


@pytest.fixture
def resized():
    """A shape with other fields."""
    return dataclasses.replace
