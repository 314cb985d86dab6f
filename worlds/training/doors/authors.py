"""Planning from PipeDream's and Piper's own input files."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ....errors import InputError
from ....files import write_text
from ....wording import nearest
from ...door import Answer, Asked
from ..case import TrainingCase
from ..clusters import cluster_of

if TYPE_CHECKING:
    from ....planners.pipedream.partition import PipeDreamPartition

__all__ = ["of_authors"]


def of_authors(asked: Asked, file: Path) -> Answer:
    """Read the authors' file and plan with their rules.

    Raises
    ------
    InputError
        On what is wrong with the options or the file.
    InfeasibleError
        If nothing fits.
    """
    case = cast(TrainingCase, asked.case)
    if len(asked.cases) > 1 or case.planner.name not in _PLANNERS:
        raise InputError(f"authors: planner pipedream or piper, one of them (got {case.planner.name})")
    other = [
        name for name in sorted(asked.options.model_fields_set) if name != "authors" and getattr(asked.options, name)
    ]
    ours = {"cluster", "planner", "seed"}
    other += sorted(case.model_fields_set - ours - {"workload"})
    other += [f"workload.{name}" for name in sorted(case.workload.model_fields_set - {"global_batch"})]
    if other:
        what = other[0]
        raise InputError(f"{what}: does not go with authors, whose file says what is planned")
    return _PLANNERS[case.planner.name](case, file, asked)


def _pipedream(case: TrainingCase, file: Path, asked: Asked) -> Answer:
    """Levels of machines are the cluster's: devices of a node, and nodes, with the links of its device type."""
    from ....planners.pipedream.partition import pipedream_partition
    from ....planners.pipedream.profile import PipeDreamProfile

    options, lists = case.planner.options, ("machines", "bandwidths")
    where = cluster_of(case)
    layers = PipeDreamProfile.load(str(file))
    spec = where.spec
    levels = ((where.devices_per_node, spec.intra_node), (where.nodes, spec.inter_node))
    used = [(n, link) for n, link in levels if n > 1] or [levels[0]]
    said: dict[str, Any] = {
        "machines": tuple(n for n, _ in used),
        "bandwidths": tuple(link.bandwidth_bytes_per_s for _, link in used),
        **{name: [n] if name in lists and not isinstance(n, list) else n for name, n in options.items()},
    }
    _check_options("pipedream", said, pipedream_partition, lists)
    asked.progress("pipedream")
    found = pipedream_partition(layers, **said)
    counts = " x ".join(map(str, said["machines"]))
    text = [
        f"pipedream: {len(layers.layers)} layers, {found.states} states, on {counts} devices",
        f"a minibatch every {found.seconds * 1e3:.6g} ms: {found.speedup:.4g}x one device; data parallelism: "
        f"{found.data_parallel_s * 1e3:.6g} ms",
        f"\n{'stage':>5}  {'devices':<9} {'compute ms':>11}  layers",
    ]
    for s, stage in enumerate(found.stages):
        shape = " x ".join(map(str, stage.replication))
        text.append(f"{s:>5}  {shape:<9} {stage.compute_s * 1e3:>11.6g}  {_listed(stage.layers)}")
    plan = Staged(layers.with_stages([stage.layers for stage in found.stages]).to_text())
    return Answer("\n".join(text), _document(found, said), found, plan)


def _piper(case: TrainingCase, file: Path, asked: Asked) -> Answer:
    """The file says devices, memory and bandwidth; `cluster.devices` takes another number."""
    from ....planners.piper.instance import PiperInstance
    from ....planners.piper.partition import piper_partition

    if asked.out is not None:
        raise InputError(
            "out: does not go with the authors' file of piper, which holds no plan; see devices, planner.options"
        )
    _check_options("piper", case.planner.options, piper_partition, ())
    said = {"devices": case.cluster.devices, **case.planner.options}
    instance = PiperInstance.load(str(file))
    asked.progress("piper")
    found = piper_partition(instance, **said)
    rows = [(s.data_parallel, s.tensor_parallel, s.nodes, Counter(s.options)) for s in found.stages]
    text = [
        f"piper: {len(instance.nodes)} nodes, {found.downsets:,} downsets, {found.devices} devices used",
        f"a microbatch every {found.seconds * 1e3:.6g} ms",
        f"\n{'stage':>5}  {'data':>4} {'tensor':>6}  nodes",
    ]
    for s, (d, t, nodes, ways) in enumerate(rows):
        how = ", ".join(f"{n} {way}" for way, n in ways.items())
        text.append(f"{s:>5}  {d:>4} {t:>6}  {_listed(tuple(map(str, nodes)))}: {how}")
    document = {
        "planner": "piper", "options": said, "seconds": found.seconds, "devices": found.devices,
        "downsets": found.downsets,
        "stages": [
            {"data_parallel": d, "tensor_parallel": t, "nodes": list(nodes), "options": dict(ways)}
            for d, t, nodes, ways in rows
        ],
    }  # fmt: skip
    return Answer("\n".join(text), document, found)


@dataclass(frozen=True, slots=True)
class Staged:
    """PipeDream's own file again, with ``stage_id``: what `save` writes instead of a plan."""

    text: str

    def save(self, path: str | Path) -> Path:
        """Write it whole."""
        return write_text(path, self.text)


_PLANNERS: dict[str, Callable[[TrainingCase, Path, Asked], Answer]] = {"pipedream": _pipedream, "piper": _piper}
"""Planner -> what plans the authors' file."""


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
            if not isinstance(value, list | tuple):
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


def _document(found: PipeDreamPartition, said: Mapping[str, Any]) -> dict[str, Any]:
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
    }
