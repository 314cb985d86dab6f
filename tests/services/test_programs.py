"""The programs as they are started: none listens wide without a token, and SIGTERM ends them when all is done."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from servers import INFER, PATIENCE_S, TOKEN, plan_of_one


@contextmanager
def started(*words: str, says: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program, and what its first line says of where it is."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("MESHWRIGHT_")} | {"MASTER_ADDR": "127.0.0.1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        found = re.search(says, line)
        assert found is not None, line + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> None:
    """By itself, with success and without a word."""
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


async def streams(url: str, tokens: int, then: Callable[[], None]) -> list[str]:
    """Twenty streams; `then` is done when all have begun."""
    begun = 0
    body = {"prompt": "hello", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    limits = httpx.Limits(max_connections=50)

    async def one(client: httpx.AsyncClient) -> str:
        nonlocal begun
        text = ""
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            assert answer.status_code == 200
            async for piece in answer.aiter_text():
                if not text:
                    begun += 1
                    if begun == 20:
                        then()
                text += piece
        return text

    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, headers=headers, limits=limits) as client:
        return await asyncio.gather(*(one(client) for _ in range(20)))


@pytest.mark.parametrize(("grace", "tokens"), [("60", 60), pytest.param("0.5", 1900, marks=pytest.mark.slow)])
def test_the_endpoint_finishes_its_streams_at_sigterm(token: Path, grace: str, tokens: int) -> None:
    """Within the grace all of them; after it each hears that the server ends, and the stream is a whole one."""
    words = ("meshwright", "run", "llm", "--model", "tiny-llama", "--serve", "--port", "0", "--token-file", str(token))
    with started(*words, "--grace", grace, says=r" at (http://127\.0\.0\.1:\d+)/v1") as (process, url):
        assert httpx.get(f"{url}/v1/models", timeout=PATIENCE_S).status_code == 401
        assert httpx.get(f"{url}/health", timeout=PATIENCE_S).status_code == 200
        texts = asyncio.run(streams(url, tokens, lambda: process.send_signal(signal.SIGTERM)))
        ended(process)
    for text in texts:
        *events, last = [line.removeprefix("data: ") for line in text.split("\n") if line]
        assert last == "[DONE]"
        final = json.loads(events[-1])
        if tokens == 60:
            assert len(events) == 60
            assert final["choices"][0]["finish_reason"] == "length"
        else:
            assert final["error"]["message"] == "the server is shutting down"


def test_a_group_and_its_router(tmp_path: Path, token: Path) -> None:
    """Each alone at its port, known to each other by the token."""
    plan_of_one().save(tmp_path / "plan.json")
    common = ("--plan", str(tmp_path / "plan.json"), "--port", "0", "--token-file", str(token))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    group = started("meshwright.runtime.service.group", "--group", "0", *common, says=r"on port (\d+)")
    with group as (first, port):
        (tmp_path / "router.json").write_text(json.dumps({"backends": [f"http://127.0.0.1:{port}"]}))
        router = started(
            "meshwright.runtime.service.router", "--config", str(tmp_path / "router.json"), *common,
            says=r"on port (\d+)",
        )  # fmt: skip
        with router as (second, front):
            for at in (port, front):
                url = f"http://127.0.0.1:{at}"
                assert httpx.get(f"{url}/v2/health/ready", timeout=PATIENCE_S).status_code == 200
                asked = {"content": INFER, "timeout": PATIENCE_S}
                assert httpx.post(f"{url}/v2/models/m/infer", **asked).status_code == 401
                said = httpx.post(f"{url}/v2/models/m/infer", headers=headers, **asked)
                assert said.status_code == 200
                assert said.json()["outputs"][0]["shape"][0] == 1
            for process in (second, first):
                process.send_signal(signal.SIGTERM)
                ended(process)


def test_none_listens_wide_without_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from meshwright.cli.main import run
    from meshwright.runtime.service import group, router

    plan = str(plan_of_one().save(tmp_path / "plan.json"))
    (tmp_path / "router.json").write_text('{"backends": ["http://127.0.0.1:1"]}')

    def program(main: Callable[[list[str]], None], *words: str) -> int:
        with pytest.raises(SystemExit) as caught:
            main(["--plan", plan, *words, "--host", "0.0.0.0"])
        assert isinstance(caught.value.code, int)
        return caught.value.code

    for code in (
        lambda: run(["run", "llm", "--model", "tiny-llama", "--serve", "--host", "0.0.0.0"]),
        lambda: program(group.main, "--group", "0"),
        lambda: program(router.main, "--config", str(tmp_path / "router.json")),
    ):
        assert code() == 2
        said = capsys.readouterr().err
        assert re.fullmatch(r"meshwright.*: host: 0\.0\.0\.0 is reached .* give --token-file FILE .*\n", said), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--token-file", "no"], "token_file: goes with serve"),
        (["--grace", "3"], "grace: goes with serve"),
        (["--serve", "--token-file", "no"], "cannot read the token"),
        (["--serve", "--tls-cert", "no"], "go together"),
        (["--serve", "--tls-cert", "no", "--tls-key", "no"], "cannot read it for TLS"),
    ],
)
def test_slips_of_the_endpoint_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    from meshwright.cli.main import run

    assert run(["run", "llm", "--model", "tiny-llama", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
