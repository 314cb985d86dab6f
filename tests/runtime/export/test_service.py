"""The service that exports start: the router's decisions, and a group over two nodes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from meshwright.errors import InputError
from meshwright.runtime.export import export
from meshwright.runtime.listening import Listening
from meshwright.runtime.service.http import Refusal, application, infer_path, read_tokens
from meshwright.runtime.service.layout import held_models, positions
from meshwright.runtime.service.router import Router, main
from meshwright.runtime.web import WebServer
from meshwright.simulator import Group, ParallelConfig, Plan

ONE = ParallelConfig(1, 1)


@contextmanager
def backend(infer: Callable[[str, bytes], bytes], models: list[str], token: str | None = None) -> Iterator[str]:
    """A stand-in of a group; its URL."""

    async def answer(model: str, body: bytes) -> bytes:
        return await asyncio.to_thread(infer, model, body)

    server = WebServer(application(models, answer), Listening(token=token))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.url
    finally:
        server.drain()
        thread.join(30)
        assert not thread.is_alive()


def infer(router: Router) -> bytes:
    """One request for model m, with an empty body."""
    return asyncio.run(router.infer("m", b""))


def with_slo(plan: Plan, slo_s: float, **serving: Any) -> Plan:
    models = tuple(m.model_copy(update={"slo_s": slo_s}) for m in plan.models)
    return plan.model_copy(update={"models": models, "serving": plan.serving.model_copy(update=serving)})


def test_router_sends_to_the_shortest_queue(make_plan: Callable[..., Plan]) -> None:
    """Two groups hold the model; while the first works, the second gets the next request."""
    plan = make_plan([Group(ONE, ["m"]), Group(ONE, ["m"])])
    release, working = threading.Event(), threading.Event()

    def slow(model: str, body: bytes) -> bytes:
        working.set()
        release.wait(20)
        return b'"slow"'

    with backend(slow, ["m"]) as first, backend(lambda model, body: b'"quick"', ["m"]) as second:
        router = Router(plan, [first, second])

        async def both() -> tuple[bytes, bytes]:
            waiting = asyncio.ensure_future(router.infer("m", b""))
            assert await asyncio.to_thread(working.wait, 10)
            quick = await router.infer("m", b"")
            release.set()
            return await waiting, quick

        assert asyncio.run(both()) == (b'"slow"', b'"quick"')
        assert infer(router) == b'"slow"', "both idle again: the lowest index"


def test_router_rejects_what_cannot_finish_in_time(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan([Group(ONE, ["m"])])  # 1 ms by its profile
    with backend(lambda model, body: b"1", ["m"]) as url:
        assert infer(Router(with_slo(plan, 0.5), [url])) == b"1"
        with pytest.raises(Refusal, match=r"rejected: would finish 0\.001 s after arrival, SLO 0\.0005 s") as caught:
            infer(Router(with_slo(plan, 0.0005), [url]))
        assert caught.value.status == 503
        assert infer(Router(with_slo(plan, 0.0005, admission=False), [url])) == b"1"


def test_router_says_which_group_is_gone_and_forgets_the_request(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan([Group(ONE, ["m"])])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    router = Router(plan, [f"http://127.0.0.1:{port}"])
    for _ in range(2):
        with pytest.raises(Refusal, match=r"group 0 at 127\.0\.0\.1") as caught:
            infer(router)
        assert caught.value.status == 502
    assert router._policy.outstanding == [0]


def test_router_passes_a_refusal_on(make_plan: Callable[..., Plan]) -> None:
    def refuse(model: str, body: bytes) -> bytes:
        raise Refusal(400, "bad tokens")

    with backend(refuse, ["m"]) as url, pytest.raises(Refusal, match="bad tokens") as caught:
        infer(Router(make_plan([Group(ONE, ["m"])]), [url]))
    assert caught.value.status == 400


def test_router_and_groups_know_each_other_by_the_token(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan([Group(ONE, ["m"])])
    with backend(lambda model, body: b"1", ["m"], token="secret") as url:
        assert infer(Router(plan, [url], token="secret")) == b"1"
        for wrong in (None, "other"):
            with pytest.raises(Refusal, match="refuses this router's token") as caught:
                infer(Router(plan, [url], token=wrong))
            assert caught.value.status == 502


URLS = (
    [],
    ["http://a:1", "http://b:1"],
    ["file:///etc/passwd"],
    ["a:1"],
    ["http://a:99999999"],
    ["http://[::"],
)


@pytest.mark.parametrize("urls", URLS)
def test_router_bad_backends(urls: list[str], make_plan: Callable[..., Plan]) -> None:
    with pytest.raises(InputError, match="backends: expected"):
        Router(make_plan([Group(ONE, ["m"])]), urls)


def test_router_program_refuses_in_one_line(
    make_plan: Callable[..., Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plan([Group(ONE, ["m"])]).save(tmp_path / "plan.json")
    (tmp_path / "router.json").write_text("[]")
    with pytest.raises(SystemExit) as caught:
        main(["--plan", str(tmp_path / "plan.json"), "--config", str(tmp_path / "router.json")])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert re.fullmatch(r"meshwright router: .*router\.json: expected .*\n", said), said


def test_names_with_odd_characters_travel_in_the_path(hostile: tuple[str, ...]) -> None:
    with backend(lambda model, body: json.dumps(model).encode(), list(hostile)) as url:
        for name in hostile:
            with urllib.request.urlopen(urllib.request.Request(url + infer_path(name), b""), timeout=10) as answer:
                assert json.loads(answer.read()) == name


def test_http_refuses_wrong_paths_and_sizes() -> None:
    with backend(lambda model, body: b"{}", ["m"]) as url:
        for path in ("/", "/v2/models/x/infer", "/v2/models/m", "/../../etc/passwd"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(urllib.request.Request(url + path, b"{}"), timeout=10)
            assert caught.value.code == 404
        request = urllib.request.Request(url + infer_path("m"), b"{}", {"Content-Length": str(2**40)})
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert caught.value.code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"inputs": []}',
        b'{"inputs": [{"shape": [1], "datatype": "INT64", "data": [1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "FP32", "data": [1, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [1, 64]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [1, "x"]}]}',
        b'{"inputs": [{"shape": [0, 2], "datatype": "INT64", "data": []}]}',
        b'{"inputs": [{"shape": [5, 2], "datatype": "INT64", "data": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}]}',
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"inputs": [{"shape": [1e999, 2], "datatype": "INT64", "data": [1, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [1e999, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [1.5, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [NaN, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [true, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": ["1", 1]}]}',
        b'{"inputs": [{"shape": [true, 2], "datatype": "INT64", "data": [1, 1]}]}',
        b'{"inputs": [{"shape": 2, "datatype": "INT64", "data": [1, 1]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64", "data": [[[1, 1]]]}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "INT64"}]}',
        b'{"inputs": [{"shape": [1, 2], "datatype": "\\ud800", "data": [1, 1]}]}',
        b'{"inputs": {"0": 1}}',
        b'{"inputs": [1]}',
        b"null",
    ],
)
def test_bad_requests_are_status_400(body: bytes) -> None:
    with pytest.raises(Refusal, match="expected") as caught:
        read_tokens(body, 2, 64, 4)
    assert caught.value.status == 400


def test_good_requests_flat_and_nested() -> None:
    for data in ("[1, 2, 3, 4]", "[[1, 2], [3, 4]]"):
        body = f'{{"inputs": [{{"shape": [2, 2], "datatype": "INT64", "data": {data}}}]}}'.encode()
        assert read_tokens(body, 2, 64, 4) == [[1, 2], [3, 4]]


def test_ranks_follow_nodes_and_positions_follow_stages(make_plan: Callable[..., Plan]) -> None:
    plan = make_plan([Group(ParallelConfig(1, 4), ["m"], (5, 1, 6, 2))], nodes=2)
    assert positions(plan, plan.groups[0]) == [0, 2, 1, 3]  # node 1 first: it holds position 0
    with pytest.raises(InputError, match="the plan has groups 0 … 0"):
        held_models(plan, 1)


def test_group_over_two_nodes_computes_what_the_whole_model_does(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    """Both nodes' scripts on this machine, each with a loopback address of its own; stage 0 is on the second node."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from meshwright.kernels.specs import SPECS
    from meshwright.kernels.transformer import build_stage

    if sys.platform != "linux":
        pytest.skip("needs 127.0.0.2")
    plan = make_plan([Group(ParallelConfig(1, 2), ["m"], (1, 0))], nodes=2, devices_per_node=1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        base = 20000 + probe.getsockname()[1] % 10000
    export(plan, "torchrun", tmp_path / "x", hosts=("127.0.0.1", "127.0.0.2"), port=base)
    processes, logs = [], []
    try:
        for node, address in enumerate(("127.0.0.1", "127.0.0.2")):
            environment = {**os.environ, "PYTHON": sys.executable, "BIND": address, "GLOO_SOCKET_IFNAME": "lo"}
            logs.append(tmp_path / f"log-{node}")
            with logs[-1].open("wb") as log:
                script = tmp_path / "x" / f"launch-node-{node}.sh"
                processes.append(subprocess.Popen([script], stdout=log, stderr=log, env=environment))
        for url in (f"http://127.0.0.2:{base + 1}", f"http://127.0.0.1:{base + 1}", f"http://127.0.0.1:{base}"):
            await_ready(url, processes, logs)
        tokens = list(range(16))
        tensor = {"name": "tokens", "shape": [1, 16], "datatype": "INT64", "data": tokens}
        request = urllib.request.Request(
            f"http://127.0.0.1:{base}" + infer_path("m"), json.dumps({"inputs": [tensor]}).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            output = json.loads(answer.read())["outputs"][0]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(30)
    spec = SPECS["cpu-gpt-tiny"]
    whole = build_stage(spec, 0, spec.n_layers, seed=plan.models[0].seed)(torch.tensor([tokens]))
    torch.testing.assert_close(torch.tensor(output["data"]).view(whole.shape), whole, rtol=1e-4, atol=1e-4)


def await_ready(url: str, processes: list[subprocess.Popen[bytes]], logs: list[Path]) -> None:
    deadline = time.monotonic() + 90
    while True:
        said = "\n".join(log.read_text()[-1500:] for log in logs)
        assert all(process.poll() is None for process in processes), said
        assert time.monotonic() < deadline, said
        try:
            with urllib.request.urlopen(f"{url}/v2/health/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
