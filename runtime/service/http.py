"""The Open Inference Protocol (V2) over HTTP, as much as a group and the router need: health, metadata, infer."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote, unquote

from ...errors import InputError, MeshwrightError

__all__ = ["Refusal", "infer_path", "read_tokens", "serve", "write_output"]

LIMIT_BYTES = 64 * 2**20
"""Largest request body."""

DTYPES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16"}


class Refusal(MeshwrightError):
    """A request that gets an answer other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def infer_path(model: str) -> str:
    """Path of a model's infer call; any name is safe in it."""
    return f"/v2/models/{quote(model, safe='')}/infer"


def read_tokens(body: bytes, seq_len: int, vocab: int, max_batch: int) -> list[list[int]]:
    """The token ids of an infer request.

    Raises
    ------
    Refusal
        With status 400, if it is not one INT64 input of shape (batch, `seq_len`) with ids in [0, `vocab`).
    """
    try:
        request = json.loads(body)
        (given,) = request["inputs"]
        batch, length = (int(n) for n in given["shape"])
        flat = [int(x) for x in _flatten(given["data"])]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Refusal(400, 'expected {"inputs": [{"name", "shape": [batch, tokens], "datatype", "data"}]}') from None
    if given.get("datatype") != "INT64" or length != seq_len or not 1 <= batch <= max_batch:
        raise Refusal(
            400,
            f"inputs[0]: expected INT64 of shape [1 … {max_batch}, {seq_len}] (got {given.get('datatype')} of shape "
            f"[{batch}, {length}])",
        )
    if len(flat) != batch * length or not all(0 <= x < vocab for x in flat):
        raise Refusal(400, f"inputs[0].data: expected {batch * length} token ids in [0, {vocab})")
    return [flat[k * length : (k + 1) * length] for k in range(batch)]


def _flatten(data: Any) -> list[Any]:
    return [x for item in data for x in _flatten(item)] if isinstance(data, list) else [data]


def write_output(model: str, dtype: str, shape: list[int], data: list[float]) -> bytes:
    """The body of an infer answer."""
    output = {"name": "output", "shape": shape, "datatype": DTYPES[dtype], "data": data}
    return json.dumps({"model_name": model, "outputs": [output]}).encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    infer: Callable[[str, bytes], bytes]
    models: list[str]

    def do_GET(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts in (["v2", "health", "live"], ["v2", "health", "ready"]):
            self._answer(200, b"{}")
        elif parts == ["v2"]:
            self._answer(200, json.dumps({"name": "meshwright", "extensions": [], "models": self.models}).encode())
        elif parts[:2] == ["v2", "models"] and len(parts) == 3 and unquote(parts[2]) in self.models:
            self._answer(200, json.dumps({"name": unquote(parts[2]), "platform": "meshwright"}).encode())
        else:
            self._answer(404, _error(f"no such resource: {self.path[:80]}"))

    def do_POST(self) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > LIMIT_BYTES:
            self.close_connection = True
            self._answer(413, _error(f"expected a Content-Length up to {LIMIT_BYTES} bytes"))
            return
        body = self.rfile.read(int(size))
        if len(parts) != 4 or parts[:2] != ["v2", "models"] or parts[3] != "infer":
            self._answer(404, _error(f"no such resource: {self.path[:80]}"))
            return
        model = unquote(parts[2])
        if model not in self.models:
            self._answer(404, _error(f"unknown model {model!r}; served: {', '.join(self.models[:20])}"))
            return
        try:
            self._answer(200, self.infer(model, body))
        except Refusal as refusal:
            self._answer(refusal.status, _error(str(refusal)))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """No line per request; the caller keeps the log."""


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def serve(
    host: str, port: int, models: list[str], infer: Callable[[str, bytes], bytes]
) -> tuple[ThreadingHTTPServer, int]:
    """Bind a server that answers with `infer`; run it with ``serve_forever``. Port 0 takes any free one.

    Returns
    -------
    server, port
        The server, and the port that it is bound to.

    Raises
    ------
    InputError
        If the address cannot be bound.
    """
    handler = type("Handler", (_Handler,), {"models": models, "infer": staticmethod(infer)})
    try:
        server = _Server((host, port), handler)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
    return server, server.server_address[1]
