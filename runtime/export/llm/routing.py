"""An nginx configuration that spreads requests over a model's engines, as the plan's router does where nginx can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....errors import InputError
from ....simulator.llm.plan.file import LLMPlan
from .arguments import Server

__all__ = ["BALANCE", "nginx", "weight"]

BALANCE: Mapping[str, str] = {
    "round_robin": "",
    "least_outstanding": "least_conn;",
    "power_of_two": "random two least_conn;",
    "random": "random;",
    "session_affinity": "hash $http_x_session_id consistent;",
}
"""Router of a plan -> nginx's balancing method. Others look at prompts or caches, which nginx cannot."""

WEIGHTS = 10_000
"""Of all servers of a model together, about: shares are kept to a hundredth of a percent."""

HEAD = """\
# One port per model; a port's requests go to that model's vLLM servers. {note}
worker_processes auto;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_max_body_size 64m;
  proxy_http_version 1.1;
  proxy_buffering off;  # tokens are streamed
  proxy_read_timeout 1h;
"""

MODEL = """\
  upstream {name} {{
{method}{servers}
    keepalive 256;
  }}
  server {{
    listen {listen};
    location / {{
      proxy_pass http://{name};
      proxy_set_header Connection "";
      proxy_set_header Host $host;
    }}
  }}
"""


def weight(plan: LLMPlan, server: Server) -> str:
    """What stands behind a server's address: its weight, where its deployment has a share of the requests.

    Raises
    ------
    InputError
        If the engines of a deployment are not taken in turn: nginx has one method for all servers, and its weights mean
        shares in turn only.
    """
    share = server.deployment.share
    if share is None:
        return ""
    if plan.router != "round_robin":
        raise InputError(
            f"export: router {plan.router!r} beside shares of the requests: nginx has one method for all servers; plan "
            "with round_robin"
        )
    return f" weight={max(1, round(WEIGHTS * share / server.deployment.replicas))}"


def nginx(router: str, models: Sequence[tuple[str, int, Sequence[str]]], host: str = "") -> str:
    """The configuration.

    Parameters
    ----------
    router : str
        The plan's router.
    models : sequence of (str, int, sequence of str)
        For each model a name that nginx takes, the port that clients call, and its servers as ``host:port``.
    host : str
        Address to listen on; every one by default: then the servers ask for a key, which nginx passes on.

    Raises
    ------
    InputError
        If nginx has nothing like the router.
    """
    if router not in BALANCE and any(len(addresses) > 1 for _, _, addresses in models):
        raise InputError(
            f"export: router {router!r} looks at what nginx cannot see; plan with one of {', '.join(BALANCE)}, or put "
            "a router of your own before the servers in endpoints.json"
        )
    note = f"Router of the plan: {router}."
    parts = [HEAD.format(note=note)]
    for name, port, addresses in models:
        lines = "\n".join(f"    server {address} max_fails=1 fail_timeout=10s;" for address in addresses)
        method = f"    {BALANCE[router]}\n" if BALANCE.get(router) else ""
        parts.append(MODEL.format(name=name, listen=f"{host}:{port}" if host else port, servers=lines, method=method))
    return "".join(parts) + "}\n"
