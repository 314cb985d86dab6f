"""The engine's greedy tokens are those of a plain fp64 forward pass without cache, whatever the scheduler does."""

import pytest

pytest.importorskip("torch")

from meshwright.runtime.llm.engine import LLMEngine, Sampling
from meshwright.simulator.llm import drive

SHAPES = [(5, 12), (33, 20), (1, 9), (70, 15), (18, 30), (40, 7), (12, 25), (64, 3)]
V1 = {"num_blocks": 200, "block_size": 4, "max_model_len": 128}
PAPER = {"num_gpu_blocks": 200, "block_size": 4, "max_model_len": 128}


def check(engine, requests, truth, outputs, sampling=None):
    for request in requests:
        found = outputs[request.id]
        for index in range(request.best_of):
            how = {} if sampling is None else {"sampling": sampling[request.id]}
            assert found.outputs[index] == truth(engine.spec, request, index=index, **how), (request.id, index)


@pytest.mark.parametrize("shape", ["llama", "opt"])
@pytest.mark.parametrize(
    ("policy", "config"),
    [
        ("vllm-v1", V1),
        ("vllm-v1", V1 | {"block_size": 16, "num_blocks": 60}),
        ("vllm-v1", V1 | {"max_num_batched_tokens": 11}),  # prompts in pieces beside decodes
        ("vllm-v1", V1 | {"num_blocks": 45, "max_num_batched_tokens": 32}),  # preemption by recomputation
        ("vllm-v1", V1 | {"num_blocks": 45, "async_scheduling": True}),
        (
            "vllm-v1",
            V1 | {"enable_chunked_prefill": False, "enable_prefix_caching": False, "block_size": 1, "num_blocks": 400},
        ),
        ("sarathi", {"num_gpu_blocks": 33, "block_size": 4, "max_model_len": 128, "chunk_size": 24}),
        ("vllm-0.2", PAPER),
        ("vllm-0.2", PAPER | {"num_gpu_blocks": 42}),  # recomputes
        ("vllm-0.2", PAPER | {"num_gpu_blocks": 42, "num_cpu_blocks": 100, "preemption_mode": "swap"}),
        ("vllm-0.2", PAPER | {"block_size": 32, "num_gpu_blocks": 30}),
    ],
)
def test_tokens_are_those_of_the_plain_model(specs, shape, policy, config, make_requests, run_all, truth):
    spec = specs[shape]
    requests = make_requests(spec, SHAPES, shared=10)
    with LLMEngine(spec, policy, config) as engine:
        outputs, records, streamed = run_all(engine, requests, arrive=[0, 0, 1, 2, 2, 5, 9, 9])
    check(engine, requests, truth, outputs)
    assert {(r, 0): list(f.outputs[0]) for r, f in outputs.items()} == streamed
    preempted = sum(len(w.preempted) for out in records for w in out.work)
    tight = config.get("num_blocks") == 45 or config.get("num_gpu_blocks") in (33, 42)
    assert (preempted > 0) == tight


def test_prefix_hits_change_no_token(specs, make_requests, run_all, truth):
    spec = specs["llama"]
    requests = make_requests(spec, [(50, 8), (50, 8), (60, 8), (41, 8), (90, 8)], shared=40)
    with LLMEngine(spec, "vllm-v1", V1) as engine:
        outputs, records, _ = run_all(engine, requests, arrive=[0, 3, 3, 30, 31])
    cached = {r: n for out in records for w in out.work for r, n in w.cached.items()}
    assert cached == {"r0": 0, "r1": 40, "r2": 40, "r3": 40, "r4": 40}
    check(engine, requests, truth, outputs)


def test_an_answer_is_a_prefix_of_the_next_turn(specs, make_requests, run_all, truth):
    spec = specs["llama"]
    (first,) = make_requests(spec, [(21, 19)])
    with LLMEngine(spec, "vllm-v1", V1) as engine:
        outputs, _, _ = run_all(engine, [first])
        said = first.tokens + outputs["r0"].outputs[0]
        (second,) = make_requests(spec, [(46, 5)], seed=1)
        second = type(second)("next", 46, 5, tokens=said + second.tokens[40:])
        outputs, records, _ = run_all(engine, [second])
    # 39 of the 40 tokens said have keys and values: nine whole blocks of 4.
    assert records[0].work[0].cached == {"next": 36}
    check(engine, [second], truth, outputs)


@pytest.mark.parametrize("blocks", [200, 34])
def test_samples_of_a_prompt_share_blocks_until_they_write(specs, blocks, make_requests, run_all, truth):
    spec = specs["llama"]
    requests = make_requests(spec, [(10, 14, 3), (17, 20, 2), (8, 11), (23, 16, 4)])
    sampling = {r.id: Sampling(temperature=0.8) for r in requests}
    with LLMEngine(spec, "vllm-0.2", PAPER | {"num_gpu_blocks": blocks, "num_cpu_blocks": 60}) as engine:
        outputs, records, streamed = run_all(engine, requests, sampling=sampling)
    check(engine, requests, truth, outputs, sampling)
    work = [w for out in records for w in out.work]
    assert sum(w.copies for w in work) > 0
    assert (sum(w.swap_out for w in work) > 0) == (blocks == 34)
    assert sum(w.swap_in for w in work) == sum(w.swap_out for w in work)
    for request in requests:
        assert len(set(outputs[request.id].outputs)) == request.best_of  # they differ
        for index in range(request.best_of):
            assert tuple(streamed[request.id, index]) == outputs[request.id].outputs[index]


def plain_beams(weights, request, width):
    """Beam search from the definition, over whole texts."""
    import torch
    from meshwright.runtime.llm.engine.plain import plain_logits

    beams = [(0.0, list(request.tokens))]
    for _ in range(request.output):
        found = []
        for score, text in beams:
            chances = torch.log_softmax(plain_logits(weights, text)[-1], -1)
            found += [(score + float(c), [*text, token]) for token, c in enumerate(chances)]
        beams = sorted(found, key=lambda b: -b[0])[:width]
    return tuple(tuple(text[request.prompt :]) for _, text in beams)


@pytest.mark.parametrize("blocks", [200, 30])
def test_beams_are_those_of_a_search_over_whole_texts(specs, blocks, make_requests, run_all):
    from meshwright.runtime.llm.engine.plain import widened
    from meshwright.runtime.llm.engine.weights import draw_weights

    spec = specs["opt"]
    requests = make_requests(spec, [(9, 9, 3), (14, 12, 4), (21, 7, 2), (5, 16, 4)], beam=True)
    with LLMEngine(spec, "vllm-0.2", PAPER | {"num_gpu_blocks": blocks, "num_cpu_blocks": 60}) as engine:
        outputs, records, _ = run_all(engine, requests)
        assert engine.scheduler.memory.gpu.free_blocks == blocks
    weights = widened(draw_weights(spec))
    for request in requests:
        assert outputs[request.id].outputs == plain_beams(weights, request, request.best_of)
    work = [w for out in records for w in out.work]
    assert sum(w.copies for w in work) > 0
    assert (sum(w.swap_out for w in work) > 0) == (blocks == 30)


@pytest.mark.parametrize(
    ("policy", "config"),
    [
        ("vllm-v1", V1 | {"num_blocks": 45, "max_num_batched_tokens": 32}),
        ("vllm-v1", V1 | {"num_blocks": 45, "policy": "priority"}),
        ("vllm-0.2", PAPER | {"num_gpu_blocks": 42}),
    ],
)
def test_decisions_are_those_of_drive(specs, policy, config, make_requests, run_all):
    spec = specs["llama"]
    arrive = [0, 0, 1, 2, 2, 5, 9, 9]
    requests = make_requests(spec, SHAPES, shared=10)
    asked = [
        {"id": r.id, "arrive_step": at, "prompt": r.prompt, "output": r.output, "tokens": r.tokens, "priority": k % 3}
        for k, (at, r) in enumerate(zip(arrive, requests, strict=True))
    ]
    requests = [type(r)(r.id, r.prompt, r.output, priority=k % 3, tokens=r.tokens) for k, r in enumerate(requests)]
    expected = drive(policy, config, asked)
    with LLMEngine(spec, policy, config) as engine:
        schedule, seen = engine.scheduler.schedule, []

        def spy():
            step = schedule()
            if policy == "vllm-v1":
                seen.append(
                    {
                        "scheduled": {r.request.id: n for r, n in step.scheduled.items()},
                        "preempted": [r.request.id for r in step.preempted],
                        "free_blocks": engine.scheduler.pool.free_blocks,
                        "new_computed": {r.request.id: step.cached[r] for r in step.new},
                    }
                )
            else:
                seen.append(
                    {
                        "kind": step.kind,
                        "scheduled": [g.request.id for g in step.scheduled],
                        "copies": len(step.copies),
                        "free_gpu": engine.scheduler.memory.gpu.free_blocks,
                    }
                )
            return step

        engine.scheduler.schedule = spy
        _, records, _ = run_all(engine, requests, arrive=arrive)
    assert [{k: e[k] for k in seen[0]} for e in expected] == seen
    assert [e["finished"] for e in expected] == [[f.request for f in out.finished] for out in records]


def test_a_stop_token_ends_an_output(specs, make_requests, run_all, truth):
    spec = specs["llama"]
    requests = make_requests(spec, [(12, 40), (20, 40)])
    whole = truth(spec, requests[0])
    stop = whole[10]
    sampling = {r.id: Sampling(stop=frozenset({stop})) for r in requests}
    for policy, config in (("vllm-v1", V1), ("vllm-v1", V1 | {"async_scheduling": True}), ("vllm-0.2", PAPER)):
        with LLMEngine(spec, policy, config) as engine:
            outputs, _, streamed = run_all(engine, requests, sampling=sampling)
        check(engine, requests, truth, outputs, sampling)
        first = outputs["r0"]
        assert first.reasons == ("stop",)
        assert first.outputs[0] == whole[: whole.index(stop) + 1]
        assert tuple(streamed["r0", 0]) == first.outputs[0]


def test_seeded_samples_depend_on_nothing_else(specs, make_requests, run_all, truth):
    spec = specs["llama"]
    requests = make_requests(spec, SHAPES)
    sampling = {r.id: Sampling(temperature=1.3, top_p=0.9, seed=k) for k, r in enumerate(requests)}
    for config in (V1, V1 | {"num_blocks": 45, "max_num_batched_tokens": 13}):
        with LLMEngine(spec, "vllm-v1", config) as engine:
            outputs, _, _ = run_all(engine, requests, sampling=sampling)
        check(engine, requests, truth, outputs, sampling)
