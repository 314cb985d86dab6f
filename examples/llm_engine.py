"""A tiny language model served for real on this machine: a workload through the engine, then its HTTP endpoint.

The scheduler and the block manager are the simulator's own; weights are random. Needs torch, and for the endpoint
FastAPI and uvicorn: ``pip install -e '.[torch,serve]'`` in the clone.

Run: ``python examples/llm_engine.py`` (some seconds)
"""

import json
import threading
import urllib.request

from meshwright.runtime.llm.engine import LLMEngine, StepLog, serve_trace
from meshwright.runtime.llm.engine.endpoint.server import serve_http
from meshwright.simulator.llm import LLMTrace

CONFIG = {"num_blocks": 200, "max_model_len": 512, "max_num_batched_tokens": 128}


def measure() -> None:
    """Twelve requests, ten a second: latencies, and where the time of a step went."""
    trace = LLMTrace([0.1 * k for k in range(12)], [20 + 10 * k for k in range(12)], [30 - k for k in range(12)])
    log = StepLog()
    with LLMEngine("tiny-llama", "vllm-v1", CONFIG) as engine:
        result = serve_trace(engine, trace, log=log)
    print(result)
    print("one step, ms:", {part: round(1e3 * seconds, 3) for part, seconds in log.means().items()})


def ask(url: str) -> str:
    """Stream a completion, a token at a time."""
    body = {"model": "tiny-llama", "prompt": "Once upon a time", "max_tokens": 20, "temperature": 0, "stream": True}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    text = ""
    with urllib.request.urlopen(request, timeout=60) as answer:
        for line in answer:
            said = line.decode().removeprefix("data: ").strip()
            if said and said != "[DONE]":
                text += json.loads(said)["choices"][0]["text"]
    return text


def serve() -> None:
    """The endpoint in a thread, asked as any OpenAI client asks."""
    engine, stop, listening, urls = LLMEngine("tiny-llama", "vllm-v1", CONFIG), threading.Event(), threading.Event(), []

    def ready(url: str) -> None:
        urls.append(url)
        listening.set()

    server = threading.Thread(target=serve_http, args=(engine,), kwargs={"port": 0, "ready": ready, "stop": stop})
    server.start()
    listening.wait()
    print("tiny-llama says:", ask(urls[0]))
    stop.set()
    server.join()


if __name__ == "__main__":
    measure()
    serve()
