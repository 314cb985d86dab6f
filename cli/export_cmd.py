"""`meshwright export`: a plan as files that start it on another system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError

__all__ = ["export"]


def export(
    plan: Annotated[Path | None, typer.Argument(help="Plan file, as `meshwright plan` writes it.")] = None,
    to: Annotated[
        str,
        typer.Option(help="torchrun, k8s, ray-serve, triton or vllm."),
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Folder to write to: new, empty, or an earlier export's.")] = None,
    image: Annotated[str, typer.Option(help="Container image (k8s, triton, vllm).")] = "",
    namespace: Annotated[str, typer.Option(help="Kubernetes namespace.")] = "meshwright",
    host: Annotated[list[str] | None, typer.Option(help="Address of a node, once per node, in order.")] = None,
    port: Annotated[int, typer.Option(help="Port that clients call; groups take those after it.")] = 8080,
    device: Annotated[str, typer.Option(help="What a device is: auto, cpu or cuda.")] = "auto",
    model_source: Annotated[
        list[str] | None, typer.Option(help="MODEL=NAME-OR-FOLDER of a model's weights (vllm); repeat it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that holds other files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list of files as JSON.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of plan files, and stop.")] = False,
) -> None:
    """Write the files that start a plan elsewhere: torchrun, Kubernetes, Ray Serve, Triton or vLLM."""
    from ..simulator.serving.plan.file import Plan

    if schema:
        typer.echo(json.dumps(Plan.json_schema(), indent=2))
        return
    if plan is None or not to or out is None:
        missing = "PLAN" if plan is None else "--to" if not to else "--out"
        raise InputError(f"export: {missing} is missing; say: meshwright export PLAN --to TARGET --out FOLDER")
    sources = dict(_pair(text) for text in model_source or [])
    # The module has the name of the function that the runtime's face re-exports: import the function by its own path.
    from ..runtime.export.export import export as write

    options: dict[str, Any] = {
        "image": image, "namespace": namespace, "hosts": tuple(host or ()), "port": port, "device": device,
        "model_source": sources,
    }  # fmt: skip
    paths = write(Plan.load(plan), to, out, force=force, **options)
    if as_json:
        typer.echo(json.dumps({"target": to, "out": str(out), "files": [str(path) for path in paths]}, indent=2))
        return
    for path in paths:
        typer.echo(path)
    typer.echo(_NEXT[to].format(out=out), err=True)


_NEXT = {
    "torchrun": "start each node K with {out}/launch-node-K.sh",
    "k8s": "start it with: kubectl apply -k {out}",
    "ray-serve": "start it with: cd {out} && serve run serve-config.yaml",
    "triton": "start each node K with {out}/node-K/start.sh in the Triton container",
    "vllm": "start each node K with {out}/node-K/serve.sh, or docker compose -f {out}/node-K/docker-compose.yaml up",
}


def _pair(text: str) -> tuple[str, str]:
    """``MODEL=SOURCE``; the model's name may hold an ``=``, a source hardly does."""
    model, found, source = text.rpartition("=")
    if not found or not model or not source:
        raise InputError(f"export: --model-source: expected MODEL=NAME-OR-FOLDER (got {text!r})")
    return model, source
