"""`meshwright plan --planner pipedream --profile graph.txt`: plans of PipeDream's and Piper's own input files."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from ..files import check_target, write_text
from ..wording import nearest
from .status import status
from .trace_io import print_json
from .workload import cluster_from

if TYPE_CHECKING:
    from ..planners.pipedream.partition import PipeDreamPartition

__all__ = ["AUTHORS", "plan_of_authors"]

DEVICE = "v100-16gb"


def plan_of_authors(
    planner: str, profile: str, options: Mapping[str, Any], *, cluster: str | None, devices: int | None,
    device: str | None, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Read the authors' file, plan with their rules, print, write.

    Raises
    ------
    InputError
        On what is wrong on the command line or in the file.
    InfeasibleError
        If nothing fits.
    """
    if out is not None:
        check_target(out)
    _PLANNERS[planner](profile, options, cluster, devices, device, out, as_json)


def _pipedream(
    profile: str, options: Mapping[str, Any], cluster: str | None, devices: int | None, device: str | None,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Levels of machines are the cluster's: devices of a node, and nodes, with the links of its device type."""
    from ..planners.pipedream.partition import pipedream_partition
    from ..planners.pipedream.profile import PipeDreamProfile

    _check_options("pipedream --profile", options, pipedream_partition, ("machines", "bandwidths"))
    where = cluster_from(cluster, devices, device, DEVICE)
    layers = PipeDreamProfile.load(profile)
    spec = where.spec
    levels = ((where.devices_per_node, spec.intra_node), (where.nodes, spec.inter_node))
    used = [(n, link) for n, link in levels if n > 1] or [levels[0]]
    said: dict[str, Any] = {
        "machines": tuple(n for n, _ in used),
        "bandwidths": tuple(link.bandwidth_bytes_per_s for _, link in used),
        **options,
    }
    with status("planning with pipedream"):
        found = pipedream_partition(layers, **said)
    if out is not None:
        write_text(out, layers.with_stages([stage.layers for stage in found.stages]).to_text())
    if as_json:
        print_json(_document(found, said, out))
        return
    counts = " x ".join(map(str, said["machines"]))
    typer.echo(f"pipedream: {len(layers.layers)} layers, {found.states} states, on {counts} devices")
    typer.echo(
        f"a minibatch every {found.seconds * 1e3:.6g} ms: {found.speedup:.4g}x one device; data parallelism: "
        f"{found.data_parallel_s * 1e3:.6g} ms"
    )
    typer.echo(f"\n{'stage':>5}  {'devices':<9} {'compute ms':>11}  layers")
    for s, stage in enumerate(found.stages):
        shape = " x ".join(map(str, stage.replication))
        typer.echo(f"{s:>5}  {shape:<9} {stage.compute_s * 1e3:>11.6g}  {_listed(stage.layers)}")
    if out is not None:
        typer.echo(f"written: {out} (PipeDream's format, with stage_id)")


def _piper(
    profile: str, options: Mapping[str, Any], cluster: str | None, devices: int | None, device: str | None,
    out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """The file says devices, memory and bandwidth; --devices takes another number."""
    from ..planners.piper.instance import PiperInstance
    from ..planners.piper.partition import piper_partition

    for name, value in (("cluster", cluster), ("device", device), ("out", out)):
        if value is not None:
            raise InputError(f"--{name}: does not go with --planner piper --profile; see --devices, -o")
    _check_options("piper --profile", options, piper_partition, ())
    said = {**({} if devices is None else {"devices": devices}), **options}
    instance = PiperInstance.load(profile)
    with status("planning with piper"):
        found = piper_partition(instance, **said)
    rows = [(s.data_parallel, s.tensor_parallel, s.nodes, Counter(s.options)) for s in found.stages]
    if as_json:
        stages = [
            {"data_parallel": d, "tensor_parallel": t, "nodes": list(nodes), "options": dict(ways)}
            for d, t, nodes, ways in rows
        ]
        print_json({
            "planner": "piper", "options": said, "seconds": found.seconds, "devices": found.devices,
            "downsets": found.downsets, "stages": stages,
        })  # fmt: skip
        return
    typer.echo(f"piper: {len(instance.nodes)} nodes, {found.downsets:,} downsets, {found.devices} devices used")
    typer.echo(f"a microbatch every {found.seconds * 1e3:.6g} ms")
    typer.echo(f"\n{'stage':>5}  {'data':>4} {'tensor':>6}  nodes")
    for s, (d, t, nodes, ways) in enumerate(rows):
        how = ", ".join(f"{n} {way}" for way, n in ways.items())
        typer.echo(f"{s:>5}  {d:>4} {t:>6}  {_listed(tuple(map(str, nodes)))}: {how}")


_PLANNERS: dict[str, Callable[..., None]] = {"pipedream": _pipedream, "piper": _piper}
"""Planner -> what plans the authors' file."""
AUTHORS = tuple(_PLANNERS)
"""Planners that read files of their authors' format."""


def _check_options(what: str, options: Mapping[str, Any], function: Callable[..., Any], own: tuple[str, ...]) -> None:
    """Options are the keywords of the function; those of `own` may be given, too."""
    known = [
        name for name, p in inspect.signature(function).parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for name, value in options.items():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(known)}"
            raise InputError(f"{what}: unknown option {name!r}; {hint}")
        kind = str(inspect.signature(function).parameters[name].annotation)
        if name in own:
            if not isinstance(value, list):
                raise InputError(f"{what}: {name}: expected a list, from the inside out, such as [4,2] (got {value!r})")
        elif kind == "bool":
            if not isinstance(value, bool):
                raise InputError(f"{what}: {name}: expected true or false (got {value!r})")
        elif kind == "Recompute":
            if value not in ("any", "never", "always"):
                raise InputError(f"{what}: {name}: expected any, never or always (got {value!r})")
        elif kind.startswith("int") and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise InputError(f"{what}: {name}: expected a positive integer (got {value!r})")
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise InputError(f"{what}: {name}: expected a positive number (got {value!r})")


def _listed(layers: tuple[str, ...]) -> str:
    if len(layers) <= 4:
        return ", ".join(layers)
    return f"{layers[0]}, {layers[1]}, … {layers[-1]} ({len(layers)})"


def _document(found: PipeDreamPartition, said: Mapping[str, Any], out: Path | None) -> dict[str, Any]:
    return {
        "planner": "pipedream",
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in said.items()},
        "seconds": found.seconds,
        "single_s": found.single_s,
        "data_parallel_s": found.data_parallel_s,
        "speedup": found.speedup,
        "states": found.states,
        "stages": [
            {"layers": list(s.layers), "replication": list(s.replication), "compute_s": s.compute_s}
            for s in found.stages
        ],
        "out": None if out is None else str(out),
    }
