"""The router: takes every request, dispatches and admits with the policy that the simulator and `run` use."""

from __future__ import annotations

import argparse
import json
import ssl
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import InputError, MeshwrightError
from ...files import readable
from ...simulator.serving.plan.file import Plan
from ...simulator.serving.policy import Controller
from ...simulator.serving.tables import build_tables
from ..listening import add_listening_arguments, bearer_header, listening_of
from ..web import WebServer, serve_app
from ..web.limits import add_limit_arguments, limits_of
from .client import GroupError, post
from .http import OPEN_PATHS, Refusal, application, infer_path

__all__ = ["Router", "main"]

PATIENCE_S = 60.0
"""Longest wait for a group's answer when the model has no SLO, seconds."""


class Router:
    """Dispatches requests to groups. Lives in one event loop.

    Parameters
    ----------
    plan : Plan
        The placement, the policy, the SLOs, and the stage latencies that finishes are predicted with.
    backends : sequence of str
        URL of each group, in the plan's order.
    token : str, optional
        Bearer token that the groups ask for.
    ca : Path, optional
        Certificates, PEM, by which groups at ``https`` are believed; the system's without it.

    Raises
    ------
    InputError
        If the number of URLs is not the number of groups, or the plan lacks stage latencies.
    """

    def __init__(
        self, plan: Plan, backends: Sequence[str], *, token: str | None = None, ca: Path | None = None
    ) -> None:
        if len(backends) != len(plan.groups):
            raise InputError(f"backends: expected one URL per group, {len(plan.groups)} (got {len(backends)})")
        self.backends = [_address(url) for url in backends]
        self._headers = {"Content-Type": "application/json", **bearer_header(token)}
        self._tls = _tls(ca) if any(secure for _, _, secure in self.backends) else None
        self.models = list(plan.placement.models)
        self._index = {name: m for m, name in enumerate(self.models)}
        self._slo = {m.name: m.slo_s for m in plan.models}
        tables = build_tables(plan.placement, self.models, plan.planned_profiles())
        how = plan.serving
        self._policy = Controller(tables, how.dispatch, how.admission, how.overhead_s)

    async def infer(self, model: str, body: bytes) -> bytes:
        """Dispatch one request and give the group's answer.

        Raises
        ------
        Refusal
            503 if it cannot finish within its SLO, 502 if the group does not answer, else the group's own status.
        """
        slo = self._slo[model]
        now = time.monotonic()
        deadline = now + slo if slo is not None else float("inf")
        decision = self._policy.arrive(now, self._index[model], deadline)
        if not decision.admitted:
            raise Refusal(503, f"rejected: would finish {decision.finish - now:.4g} s after arrival, SLO {slo:.4g} s")
        try:
            return await self._forward(decision.group, model, body, 10 * (slo or PATIENCE_S) + PATIENCE_S)
        finally:
            self._policy.finished(decision.group)

    async def _forward(self, group: int, model: str, body: bytes, timeout_s: float) -> bytes:
        host, port, secure = self.backends[group]
        try:
            status, answer = await post(
                host, port, infer_path(model), body, self._headers, timeout_s=timeout_s,
                tls=self._tls if secure else None,
            )  # fmt: skip
        except GroupError as error:
            raise Refusal(502, f"group {group} at {host}:{port} does not answer: {error}") from None
        if status == 401:
            raise Refusal(502, f"group {group} at {host}:{port} refuses this router's token")
        if status != 200:
            raise Refusal(status, _message(answer))
        return answer


def _address(url: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(f"backends: expected http://host:port or https://host:port (got {url!r})")
    secure = parts.scheme == "https"
    return host, port or (443 if secure else 80), secure


def _tls(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{ca}: expected certificates in PEM ({error})") from None


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
    add_listening_arguments(parser, 8080)
    add_limit_arguments(parser)
    parser.add_argument("--ca", type=Path, metavar="FILE", help="certificates by which groups at https are believed")
    options = parser.parse_args(arguments)
    try:
        where, limits = listening_of(options), limits_of(options)
        router = Router(Plan.load(options.plan), _backends(options.config), token=where.token, ca=options.ca)

        def ready(server: WebServer) -> None:
            what = f"{len(router.models)} models of {len(router.backends)} groups"
            print(f"router serves {what} on port {server.port}", flush=True)

        serve_app(application(router.models, router.infer), where, limits, open_paths=OPEN_PATHS, ready=ready)
    except MeshwrightError as error:
        print(f"meshwright router: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def _backends(path: str) -> list[str]:
    try:
        found = json.loads(readable(path).read_text(encoding="utf-8"))["backends"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f'{path}: expected {{"backends": ["http://host:port", …]}} ({error})') from None
    return [str(url) for url in found]


if __name__ == "__main__":
    main()
