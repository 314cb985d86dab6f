"""The OpenAI-compatible endpoint, called as clients call it: over HTTP, streaming and not, many at once."""

import asyncio
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("torch")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import httpx
from meshwright.errors import InputError, RunError
from meshwright.profiles.llm.decoder import DecoderSpec
from meshwright.runtime.llm.engine import LLMEngine, Sampling
from meshwright.runtime.llm.engine.endpoint.server import serve_http
from meshwright.runtime.llm.engine.endpoint.tokenizer import ByteTokenizer
from meshwright.runtime.web import Limits
from meshwright.simulator.llm import LLMRequest

SPEC = DecoderSpec(
    "test-server", layers=2, hidden=64, heads=8, ffn=96, vocab=300, kv_heads=2, head_dim=8, max_positions=4096
)
CONFIG = {"num_blocks": 600, "block_size": 8, "max_model_len": 4096}


def serving(policy, config, **how):
    """A server in a thread; its URL, and its engine."""
    engine = LLMEngine(SPEC, policy, config)
    stop, urls, begun = threading.Event(), [], threading.Event()

    def ready(url):
        urls.append(url)
        begun.set()

    def run():
        try:
            serve_http(engine, port=0, ready=ready, stop=stop, **how)
        except RunError as error:
            urls.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(30)
    return urls, engine, stop, thread


@pytest.fixture(scope="module")
def served():
    (url,), engine, stop, thread = serving("vllm-v1", CONFIG)
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client, engine
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def expected():
    """Texts that the engine gives by itself."""

    def texts(prompt, output, sampling):
        engine = LLMEngine(SPEC, "vllm-v1", CONFIG)
        engine.add(LLMRequest("one", len(prompt), output), prompt, sampling)
        while True:
            out = engine.step()
            if out.finished:
                return "".join(ByteTokenizer(SPEC.vocab).decode(t) for t in out.finished[0].outputs[0])

    return texts


def events(text):
    lines = [line for line in text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line[6:]) for line in lines[:-1]]


def test_models_and_health(served):
    client, _ = served
    assert client.get("/health").status_code == 200
    (model,) = client.get("/v1/models").json()["data"]
    assert (model["id"], model["max_model_len"]) == ("test-server", 4096)


def test_a_whole_answer(served, expected):
    client, _ = served
    body = {"model": "test-server", "prompt": "Hello, world", "max_tokens": 9, "temperature": 0, "ignore_eos": True}
    said = client.post("/v1/completions", json=body).json()
    assert said["object"] == "text_completion"
    (choice,) = said["choices"]
    assert choice["text"] == expected(list(b"Hello, world"), 9, Sampling())
    assert choice["finish_reason"] == "length"
    assert said["usage"] == {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}
    # Token ids of the same text give the same.
    again = client.post("/v1/completions", json=body | {"prompt": list(b"Hello, world")}).json()
    assert again["choices"][0]["text"] == choice["text"]


def test_several_prompts_and_choices(served, expected):
    client, _ = served
    prompts = ["one", "another one"]
    body = {"prompt": prompts, "max_tokens": 6, "n": 2, "temperature": 0.9, "seed": 5, "ignore_eos": True}
    said = client.post("/v1/completions", json=body).json()
    assert [c["index"] for c in said["choices"]] == [0, 1, 2, 3]
    for place, choice in enumerate(said["choices"]):
        how = Sampling(temperature=0.9, seed=5 + place % 2)
        assert choice["text"] == expected(list(prompts[place // 2].encode()), 6, how)
    assert said["usage"] == {"prompt_tokens": 14, "completion_tokens": 24, "total_tokens": 38}
    ids = client.post("/v1/completions", json=body | {"prompt": [list(p.encode()) for p in prompts]}).json()
    assert [c["text"] for c in ids["choices"]] == [c["text"] for c in said["choices"]]


def test_a_stream_is_the_answer_in_pieces(served):
    client, _ = served
    body = {"prompt": "stream", "max_tokens": 11, "temperature": 0, "ignore_eos": True}
    whole = client.post("/v1/completions", json=body).json()
    answer = client.post("/v1/completions", json=body | {"stream": True, "stream_options": {"include_usage": True}})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *pieces, last = events(answer.text)
    assert len(pieces) == 11
    assert "".join(p["choices"][0]["text"] for p in pieces) == whole["choices"][0]["text"]
    assert [p["choices"][0]["finish_reason"] for p in pieces] == [None] * 10 + ["length"]
    assert all("usage" not in p for p in pieces)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 11)
    assert len({p["id"] for p in [*pieces, last]}) == 1


def test_a_stop_token_is_a_reason(served):
    client, _ = served
    body = {"prompt": [1, 2, 3], "max_tokens": 200, "temperature": 0}
    engine = LLMEngine(SPEC, "vllm-v1", CONFIG)
    engine.add(LLMRequest("one", 3, 200), [1, 2, 3])
    tokens = []
    while engine.busy:
        tokens += [e.token for e in engine.step().emitted]
    stop = next(t for t in tokens if t < 256)
    said = client.post("/v1/completions", json=body | {"stop_token_ids": [stop]}).json()
    assert said["choices"][0]["finish_reason"] == "stop"
    assert said["usage"]["completion_tokens"] == tokens.index(stop) + 1


def test_many_streams_at_once(served):
    client, engine = served
    bodies = [
        {"prompt": "x" * (k + 1), "max_tokens": 5 + k, "temperature": 0, "ignore_eos": True, "stream": True}
        for k in range(24)
    ]

    def call(body):
        return events(httpx.post(f"{client.base_url}/v1/completions", json=body, timeout=60).text)

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(call, bodies))
    for body, pieces in zip(bodies, answers, strict=True):
        alone = client.post("/v1/completions", json=body | {"stream": False}).json()["choices"][0]["text"]
        assert "".join(p["choices"][0]["text"] for p in pieces) == alone
    assert engine.scheduler.pool.free_blocks == CONFIG["num_blocks"] - 1


def metric(client, name):
    return float(re.search(rf"^vllm:{name}{{[^}}]*}} (\S+)$", client.get("/metrics").text, re.M)[1])


@pytest.mark.parametrize("stream", [True, False])
def test_who_goes_away_frees_the_blocks(served, stream):
    client, engine = served
    before = metric(client, "generation_tokens_total")

    async def leave():
        body = {"prompt": "long", "max_tokens": 4000, "ignore_eos": True, "stream": stream}
        async with httpx.AsyncClient(base_url=str(client.base_url), timeout=60) as other:
            if stream:
                async with other.stream("POST", "/v1/completions", json=body) as answer:
                    async for _ in answer.aiter_lines():
                        break
            else:
                call = asyncio.ensure_future(other.post("/v1/completions", json=body))
                await asyncio.sleep(0.3)
                call.cancel()

    asyncio.run(leave())
    deadline = time.monotonic() + 20
    while metric(client, "num_requests_running") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert metric(client, "num_requests_running") == 0
    assert metric(client, "kv_cache_usage_perc") == 0
    assert engine.scheduler.pool.free_blocks == CONFIG["num_blocks"] - 1
    assert metric(client, "generation_tokens_total") - before < 4000


def test_gauges_are_zero_when_the_last_request_has_finished(served):
    """It ends in a step of its own, after which the engine waits: what the step before said must not stay."""
    client, engine = served
    for _ in range(5):
        client.post("/v1/completions", json={"prompt": "gauge " * 20, "max_tokens": 20, "n": 4, "ignore_eos": True})
        deadline = time.monotonic() + 20
        while any(gauges := [metric(client, f"num_requests_{what}") for what in ("running", "waiting")]):
            assert time.monotonic() < deadline, gauges
        assert metric(client, "kv_cache_usage_perc") == 0
    assert engine.scheduler.pool.free_blocks == CONFIG["num_blocks"] - 1


def test_nothing_is_made_of_what_is_too_long(served, monkeypatch):
    """A text of more characters than the model takes tokens is refused before it is made into tokens."""
    client, _ = served

    def encode(self, text):
        assert len(text) < 4096
        return list(text.encode())

    monkeypatch.setattr(ByteTokenizer, "encode", encode)
    for prompt in ("x" * 4096, "x" * 3_000_000, ["a", "é" * 3_000_000]):
        answer = client.post("/v1/completions", json={"prompt": prompt})
        assert answer.status_code in (400, 413)
        assert len(answer.text) < 1000
    assert client.post("/v1/completions", json={"prompt": "x" * 20_000_000}).status_code == 413
    answer = client.post("/v1/completions", json={"prompt": ["a"] * 3000})
    assert "prompts times n <= 2048 (got 3000 times 1)" in answer.json()["error"]["message"]
    assert client.get("/health").status_code == 200


def test_streams_hear_that_the_grace_is_over():
    (url,), engine, stop, thread = serving("vllm-v1", CONFIG, limits=Limits(grace_s=0.2))
    body = {"prompt": "long", "max_tokens": 4000, "ignore_eos": True}
    with httpx.stream("POST", f"{url}/v1/completions", json=body | {"stream": True}, timeout=60) as answer:
        text = ""
        for piece in answer.iter_text():
            if not text:
                stop.set()
            text += piece
    assert events(text)[-1]["error"]["message"] == "the server is shutting down"
    thread.join(30)
    assert not thread.is_alive()
    assert engine.scheduler.pool.free_blocks == CONFIG["num_blocks"] - 1


def test_metrics_count(served):
    client, _ = served
    names = ("prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total")
    before = [metric(client, name) for name in names]
    client.post("/v1/completions", json={"prompt": "count me", "max_tokens": 7, "ignore_eos": True})
    assert [metric(client, name) - b for name, b in zip(names, before, strict=True)] == [8, 7, 8]
    text = client.get("/metrics").text
    assert 'vllm:request_success_total{engine="0",model_name="test-server",finished_reason="length"}' in text
    count = re.search(r"^vllm:time_to_first_token_seconds_count{.*} (\d+)$", text, re.M)
    last = re.search(r'^vllm:time_to_first_token_seconds_bucket{.*le="\+Inf"} (\d+)$', text, re.M)
    assert int(count[1]) == int(last[1]) > 0


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"model": "gpt-9"}, 404, "`gpt-9` does not exist"),
        ({"prompt": None}, 400, "prompt: expected a string"),
        ({"prompt": ""}, 400, "at least one token"),
        ({"prompt": "\ud800"}, 400, "expected JSON"),
        ({"model": "\ud800"}, 400, "expected JSON"),
        ({"temperature": 10**400}, 400, "temperature: expected"),
        ({"prompt": [1, "a"]}, 400, "strings only, or token ids only"),
        ({"prompt": [300]}, 400, "token ids in [0, 300)"),
        ({"max_tokens": 0}, 400, "max_tokens: expected an integer >= 1"),
        ({"max_tokens": "many"}, 400, "max_tokens"),
        ({"max_tokens": 4095}, 400, "longer than max_model_len 4096"),
        ({"prompt": [1] * 4096}, 400, "leaves no room for an output"),
        ({"n": 0}, 400, "n: expected an integer"),
        ({"temperature": -1}, 400, "temperature: expected a number from 0 to 2"),
        ({"top_p": 0}, 400, "top_p"),
        ({"stream": 1}, 400, "stream: expected true or false"),
        ({"stream_options": {"include_usage": True}}, 400, "only with stream"),
        ({"echo": True}, 400, "echo: this engine does not do it"),
        ({"logprobs": 3}, 400, "logprobs"),
        ({"logprobs": 0}, 400, "logprobs"),
        ({"best_of": True}, 400, "best_of"),
        ({"stop_token_ids": 0}, 400, "stop_token_ids"),
        ({"stop_token_ids": {}}, 400, "stop_token_ids"),
        ({"response_format": {"type": "json_object"}}, 400, "response_format: this engine does not do it"),
        ({"guided_choice": ["a", "b"]}, 400, "guided_choice: this engine does not do it"),
        ({"top_k": 5}, 400, "top_k: this engine does not do it"),
    ],
)
def test_errors_are_openai_errors(served, change, status, words):
    client, _ = served
    body = json.dumps({"prompt": "Hi", "max_tokens": 3} | change)  # in ASCII: half a pair travels
    answer = client.post("/v1/completions", content=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert words in error["message"]
    assert error["code"] == status
    assert set(error) == {"message", "type", "param", "code"}


def test_what_is_no_json_or_nowhere(served):
    client, _ = served
    assert client.post("/v1/completions", content=b"{").status_code == 400
    assert client.post("/v1/completions", json=[1]).status_code == 400
    assert client.get("/v1/nothing").json()["error"]["code"] == 404
    other = client.get("/v1/completions")
    assert other.json()["error"]["code"] == 405
    assert other.headers["allow"] == "POST"
    assert client.get("/health/", headers={"Host": "elsewhere"}, follow_redirects=False).status_code == 404


def test_groups_of_the_papers_vllm(expected):
    (url,), engine, stop, thread = serving("vllm-0.2", {"num_gpu_blocks": 100, "num_cpu_blocks": 100, "block_size": 8})
    body = {"prompt": "samples", "max_tokens": 12, "n": 3, "ignore_eos": True, "stream": True}
    pieces = events(httpx.post(f"{url}/v1/completions", json=body, timeout=60).text)
    counts = [sum(p["choices"][0]["index"] == k for p in pieces) for k in range(3)]
    assert counts == [12, 12, 12]
    assert engine.scheduler.memory.gpu.free_blocks == 100
    with pytest.raises(InputError, match="cannot listen"):
        serve_http(engine, port=int(url.rpartition(":")[2]))
    stop.set()
    thread.join(30)


def test_an_engine_that_fails_says_so(monkeypatch):
    said, engine, stop, thread = serving("vllm-v1", CONFIG)
    (url,) = said

    def fail():
        raise RunError("engine: a device went away")

    monkeypatch.setattr(engine, "step", fail)
    answer = httpx.post(f"{url}/v1/completions", json={"prompt": "Hi"}, timeout=60)
    assert answer.status_code == 503
    assert "a device went away" in answer.json()["error"]["message"]
    assert httpx.get(f"{url}/health").status_code == 503
    assert httpx.post(f"{url}/v1/completions", json={"prompt": "Hi"}).status_code == 503
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert str(said[1]) == "serve: the engine stopped: engine: a device went away"


def test_without_fastapi_the_command_is_said(monkeypatch):
    from meshwright.runtime.llm.engine.endpoint import server

    monkeypatch.setattr(server, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install -e '\.\[serve\]'"):
        server.check_installed()
