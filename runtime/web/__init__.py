"""HTTP servers that strangers may call: uvicorn with time-outs, bounds, tokens and a shutdown that drains.

Needs uvicorn (the extra ``serve``). An application is any ASGI callable; `serve_app` puts a `Guard` before it, which
reads bodies and refuses what must not reach it.
"""

from .guard import Guard, JsonRefusal, read_json, send_json
from .limits import Limits
from .server import WebServer, check_uvicorn, serve, serve_app

__all__ = [
    "Guard",
    "JsonRefusal",
    "Limits",
    "WebServer",
    "check_uvicorn",
    "read_json",
    "send_json",
    "serve",
    "serve_app",
]
