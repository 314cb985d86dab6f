"""The router: takes every request, dispatches and admits with the policy that the simulator and `run` use."""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import InputError, MeshwrightError
from ...simulator.plan import Plan
from ...simulator.serving.policy import Controller
from ...simulator.serving.tables import build_tables
from .http import Refusal, infer_path, serve

__all__ = ["Router", "main"]

PATIENCE_S = 60.0
"""Longest wait for a group's answer when the model has no SLO, seconds."""


class Router:
    """Dispatches requests to groups.

    Parameters
    ----------
    plan : Plan
        The placement, the policy, the SLOs, and the stage latencies that finishes are predicted with.
    backends : sequence of str
        URL of each group, in the plan's order.

    Raises
    ------
    InputError
        If the number of URLs is not the number of groups, or the plan lacks stage latencies.
    """

    def __init__(self, plan: Plan, backends: Sequence[str]) -> None:
        if len(backends) != len(plan.groups):
            raise InputError(f"backends: expected one URL per group, {len(plan.groups)} (got {len(backends)})")
        self.backends = []
        for url in backends:
            parts = urlsplit(url)
            if parts.scheme != "http" or not parts.hostname:
                raise InputError(f"backends: expected http://host:port (got {url!r})")
            self.backends.append((parts.hostname, parts.port or 80))
        self.models = list(plan.placement.models)
        self._index = {name: m for m, name in enumerate(self.models)}
        self._slo = {m.name: m.slo_s for m in plan.models}
        tables = build_tables(plan.placement, self.models, plan.planned_profiles())
        how = plan.serving
        self._policy = Controller(tables, how.dispatch, how.admission, how.overhead_s)
        self._lock = threading.Lock()

    def infer(self, model: str, body: bytes) -> bytes:
        """Dispatch one request and give the group's answer.

        Raises
        ------
        Refusal
            503 if it cannot finish within its SLO, 502 if the group does not answer, else the group's own status.
        """
        slo = self._slo[model]
        now = time.monotonic()
        deadline = now + slo if slo is not None else float("inf")
        with self._lock:
            decision = self._policy.arrive(now, self._index[model], deadline)
        if not decision.admitted:
            raise Refusal(503, f"rejected: would finish {decision.finish - now:.4g} s after arrival, SLO {slo:.4g} s")
        try:
            return self._forward(decision.group, model, body, 10 * (slo or PATIENCE_S) + PATIENCE_S)
        finally:
            with self._lock:
                self._policy.finished(decision.group)

    def _forward(self, group: int, model: str, body: bytes, timeout_s: float) -> bytes:
        host, port = self.backends[group]
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        try:
            connection.request("POST", infer_path(model), body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Refusal(502, f"group {group} at {host}:{port} does not answer: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            raise Refusal(response.status, _message(answer))
        return answer


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="meshwright.runtime.service.router", description=__doc__)
    parser.add_argument("--plan", required=True, help="the plan file")
    parser.add_argument("--config", required=True, help='JSON file: {"backends": ["http://host:port", …]}')
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on")
    options = parser.parse_args(arguments)
    try:
        router = Router(Plan.load(options.plan), _backends(options.config))
        server, port = serve(options.host, options.port, router.models, router.infer)
    except MeshwrightError as error:
        sys.exit(f"meshwright router: {error}")
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"router serves {len(router.models)} models of {len(router.backends)} groups on port {port}", flush=True)
    server.serve_forever()


def _backends(path: str) -> list[str]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))["backends"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f'{path}: expected {{"backends": ["http://host:port", …]}} ({error})') from None
    return [str(url) for url in found]


if __name__ == "__main__":
    main()
