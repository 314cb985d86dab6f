"""An nginx configuration that spreads requests over a model's engines, as the plan's router does where nginx can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....errors import InputError

__all__ = ["BALANCE", "nginx"]

BALANCE: Mapping[str, str] = {
    "round_robin": "",
    "least_outstanding": "least_conn;",
    "power_of_two": "random two least_conn;",
    "random": "random;",
    "session_affinity": "hash $http_x_session_id consistent;",
}
"""Router of a plan -> nginx's balancing method. Others look at prompts or caches, which nginx cannot."""

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
