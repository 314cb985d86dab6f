"""The Open Inference Protocol (V2) over HTTP, as much as a group and the router need: health, metadata, infer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast
from urllib.parse import quote, unquote

from ..web import JsonRefusal, read_json
from ..web.guard import Application, Receive, Scope, Send, send_json, unless_gone

__all__ = ["OPEN_PATHS", "Infer", "Refusal", "application", "infer_path", "read_tokens", "write_output"]

OPEN_PATHS = ("/v2/health/live", "/v2/health/ready")
"""What a probe may ask for without the token."""

DTYPES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16"}

Infer = Callable[[str, bytes], Awaitable[bytes]]
"""(model, body) -> the answer's body; raises `Refusal`."""

Refusal = JsonRefusal
"""A request that gets an answer other than 200."""

_EXPECTED = 'expected {"inputs": [{"name", "shape": [batch, tokens], "datatype", "data"}]}'


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
    said = read_json(body)
    inputs: Any = said.get("inputs") if isinstance(said, dict) else None
    given: Any = inputs[0] if isinstance(inputs, list) and len(cast("list[Any]", inputs)) == 1 else None
    shape: Any = given.get("shape") if isinstance(given, dict) else None
    if not isinstance(shape, list) or not all(_is_int(n) for n in cast("list[Any]", shape)) or "data" not in given:
        raise Refusal(400, _EXPECTED)
    sizes = cast("list[int]", shape)
    kind: Any = given.get("datatype")
    if kind != "INT64" or len(sizes) != 2 or sizes[1] != seq_len or not 1 <= sizes[0] <= max_batch:
        raise Refusal(
            400,
            f"inputs[0]: expected INT64 of shape [1 … {max_batch}, {seq_len}] (got {kind!r:.40} of shape "
            f"{sizes!r:.80})",
        )
    batch, length = sizes
    flat = _flat(given["data"])
    if len(flat) != batch * length or not all(_is_int(x) and 0 <= x < vocab for x in flat):
        raise Refusal(400, f"inputs[0].data: expected {batch * length} token ids in [0, {vocab})")
    return [flat[k * length : (k + 1) * length] for k in range(batch)]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _flat(data: Any) -> list[Any]:
    """Values as they are listed, or row by row."""
    rows = cast("list[Any]", data) if isinstance(data, list) else [data]
    if rows and all(isinstance(row, list) for row in rows):
        return [x for row in cast("list[list[Any]]", rows) for x in row]
    return rows


def write_output(model: str, dtype: str, shape: list[int], data: list[float]) -> bytes:
    """The body of an infer answer."""
    output = {"name": "output", "shape": shape, "datatype": DTYPES[dtype], "data": data}
    return json.dumps({"model_name": model, "outputs": [output]}).encode()


def application(models: Collection[str], infer: Infer) -> Application:
    """The ASGI application that answers for `models` with `infer`."""
    known = list(models)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["raw_path"].decode("latin-1")  # a name may hold a slash, quoted
        parts = path.strip("/").split("/")
        model = _unquoted(parts[2]) if parts[:2] == ["v2", "models"] and len(parts) in (3, 4) else ""
        infers = len(parts) == 4 and parts[3] == "infer"
        if scope["method"] == "GET" and parts in (["v2", "health", "live"], ["v2", "health", "ready"]):
            await send_json(send, 200, {})
        elif scope["method"] == "GET" and parts == ["v2"]:
            await send_json(send, 200, {"name": "meshwright", "extensions": [], "models": known})
        elif scope["method"] == "GET" and len(parts) == 3 and model in known:
            await send_json(send, 200, {"name": model, "platform": "meshwright"})
        elif scope["method"] == "POST" and infers and model in known:
            body: bytes = (await receive())["body"]  # there already, and of a size that was checked
            answer = await unless_gone(receive, infer(model, body))
            if answer is not None:
                await send_json(send, 200, answer)
        elif scope["method"] == "POST" and infers:
            raise Refusal(404, f"unknown model {model!r:.80}; served: {', '.join(known[:20])}")
        else:
            raise Refusal(404, f"no such resource: {scope['method']:.20} {path:.80}")

    return app


def _unquoted(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise Refusal(400, f"expected a model's name in UTF-8 (got {text:.80})") from None
