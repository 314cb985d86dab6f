"""docs/security.md lists every listening socket, and every place that turns bytes into code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
SOCKETS = re.compile(
    r"\.listen\(\w*\)|\.bind\(\(|\blistening_socket\(|\bWebServer\(|\bserve_app\(|\b(create|start)_(unix_)?server\("
    r"|HTTPServer\b|socketserver|TCPStore\(|\buvicorn\.(Config|run)\(|0\.0\.0\.0|\binit_process_group\(|socketpair\("
    r"|torch\.distributed\.run\b|exec torchrun|torchrun --n|exec tritonserver|\bvllm serve\b|http_options|\blisten \{"
    r"|\bray\.init\("
    r"|multiprocessing\.connection import .*Listener|BaseManager"
)
UNSAFE = re.compile(
    r"pickle\.loads?\(|pickle\.Unpickler|torch\.load\((?!.*weights_only=True)|(?<![\w.])(eval|exec)\(|yaml\.(unsafe_|full_)?load\("
    r"|allow_pickle=True|marshal\.loads?\(|shelve\.open|joblib\.load|read_pickle|shell=True|os\.system\("
)
OURS = {"runtime/listening.py", "runtime/web/server.py"}
"""The door itself; the page names it above the table."""
MENTIONS = {
    "runtime/sharing/agent/process.py": "its link to the arbiter listens for commands: it is a client",
    "runtime/export/llm/__init__.py": "says what an export writes",
    "simulator/llm/workload/clients.py": "says where the HTTP server of a front end runs",
    "worlds/llm/world.py": "says what its exports start",
    "worlds/serving/world.py": "says what its exports start",
    "worlds/words.py": "says how to start what an export wrote",
    "runtime/web/protocol.py": "what uvicorn is told to speak",
}
"""Files that have the words and open no socket."""


def sources() -> dict[str, str]:
    """Shipped code and templates."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py", "*.py.txt"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: cannot tell the project's files from others")
    names = [
        n for n in listed.stdout.decode().split("\0") if n and n.split("/")[0] not in ("tests", "examples", "docs")
    ]
    found = {name: (ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).is_file()}
    assert len(found) > 200
    return found


def code_of(text: str) -> str:
    """Without comments: what they mention is not done."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(("#", ">>>")))


def with_pattern(pattern: re.Pattern[str]) -> set[str]:
    return {name for name, text in sources().items() if pattern.search(code_of(text))}


def table() -> dict[str, str]:
    """Code -> its row of the page's table."""
    section = PAGE.partition("## Every listening socket")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return {path: row for row in rows for path in re.findall(r"`([\w/.]+\.(?:py|txt))`", row.rsplit("|", 2)[1])}


def test_the_table_has_every_listening_socket() -> None:
    found = with_pattern(SOCKETS) - OURS - set(MENTIONS)
    assert found - set(table()) == set(), "sockets that docs/security.md does not list"
    assert set(table()) - found == set(), "listed, and no socket is there any more"


def test_the_page_names_the_door() -> None:
    for path in OURS:
        assert f"`{path}`" in PAGE
        assert SOCKETS.search((ROOT / path).read_text(encoding="utf-8"))


def test_everything_that_makes_code_of_bytes_is_on_the_page() -> None:
    """Pickles between our own processes, and planners from files, which are code: nothing else."""
    named = {"planners/contract/file.py"}  # `file.py:planner`, the first thing that the page trusts
    assert "file.py:planner" in PAGE
    for path in with_pattern(UNSAFE) - named:
        assert f"`{path}`" in PAGE.partition("## What is trusted")[2], path


@pytest.mark.parametrize(
    "line",
    [
        "listener.listen(5)", 's.bind(("", 0))', "server = HTTPServer(a, b)", 'host="0.0.0.0"', "uvicorn.run(app)",
        "await asyncio.start_server(f)", "loop.create_server(p)", "dist.init_process_group(x)", "TCPStore(a, 1)",
    ],
)  # fmt: skip
def test_the_search_finds_sockets(line: str) -> None:
    assert SOCKETS.search(line)


@pytest.mark.parametrize("line", ["pickle.load(f)", "torch.load(path)", "x = eval(text)", "yaml.load(t)", "exec(code)"])
def test_the_search_finds_code_of_bytes(line: str) -> None:
    assert UNSAFE.search(line)


@pytest.mark.parametrize(
    "line", ["torch.load(p, weights_only=True)", "model.eval()", "re.compile(x)", "yaml.safe_load(t)"]
)
def test_the_search_leaves_data_alone(line: str) -> None:
    assert not UNSAFE.search(line)
