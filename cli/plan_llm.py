"""`meshwright plan --planner vllm`: engines for language models on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError
from .llm_traffic import tables_of, traffic_of
from .status import status
from .trace_io import print_json
from .workload import cluster_from

if TYPE_CHECKING:
    from ..planners.vllm import Planning, SharedPlanning

__all__ = ["LLMOptions", "plan_llm"]

DEFAULT_DEVICE = "h100-80gb"
EFFORT = ("eta", "finalists", "smallest", "seeds")


@dataclass(frozen=True, slots=True)
class LLMOptions:
    """Options of the verb `plan` that only language models have; None where the command line says nothing."""

    lengths: str | None = None
    slo_ttft: float | None = None
    slo_tpot: float | None = None
    kernels: Path | None = None
    objective: str | None = None
    target: float | None = None
    workers: int | None = None

    def refuse(self, planner: str) -> None:
        """Other planners take none of these.

        Raises
        ------
        InputError
            If one was given.
        """
        for field in fields(self):
            if getattr(self, field.name) is not None:
                option = "--" + field.name.replace("_", "-")
                raise InputError(f"{option}: is for language models (--planner vllm), not for {planner!r}")


def plan_llm(
    llm: LLMOptions,
    options: Mapping[str, Any],
    *,
    cluster: str | None,
    devices: int | None,
    device: str | None,
    models: str | None,
    trace: Path | None,
    rate: float | None,
    cv: float | None,
    duration: float | None,
    split: str | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan, print, write.

    Raises
    ------
    InputError
        On what is wrong on the command line.
    InfeasibleError
        If there is no plan, with the smallest change that makes one.
    """
    from ..files import check_target
    from ..planners.vllm import Effort, LLMDemand, SearchSpace, plan, plan_shared
    from ..profiles.llm import decoder
    from ..profiles.llm.decoder_names import check_precision_said

    if out is not None:
        check_target(out)
    if models is None:
        raise InputError("--models: which language models? Names with commas, such as llama-3.1-8b,qwen2.5-7b")
    names = [name.strip() for name in models.split(",")]
    for name in names:
        check_precision_said(name, options.get("precision"), "-o precision={}")
    specs = [decoder(name) for name in names]
    where = cluster_from(cluster, devices, device, DEFAULT_DEVICE)
    traffic = traffic_of(
        [s.name for s in specs], trace=trace, lengths=llm.lengths, rate=rate, cv=cv, duration=duration, split=split
    )
    slos: dict[str, Any] = {"ttft_s": llm.slo_ttft, "tpot_s": llm.slo_tpot}
    limits = {name: value for name, value in slos.items() if value is not None}
    demands = [LLMDemand(s, traffic[s.name], **limits) for s in specs if s.name in traffic]
    effort = {name: options[name] for name in EFFORT if name in options}
    rest = {name: value for name, value in options.items() if name not in EFFORT}
    share = rest.pop("share", False)
    if not isinstance(share, bool):
        raise InputError(f"--option: share: expected true or false (got {share!r})")
    known = [f.name for f in fields(SearchSpace)]
    for name, value in rest.items():
        if name not in known:
            raise InputError(
                f"--option: unknown option {name!r}; expected one of {', '.join([*known, *EFFORT, 'share'])}"
            )
        plain = isinstance(value, list) or name in ("precision", "kv_precision", "disaggregate")
        rest[name] = tuple(value) if isinstance(value, list) else value if plain else (value,)
    asked = {"objective": llm.objective, "target": llm.target, "workers": llm.workers}
    same: dict[str, Any] = {"tables": tables_of(llm.kernels), "effort": Effort(**effort), "seed": seed}
    with status("planning with vllm") as say:
        if share:
            group: dict[str, Any] = {"batched_tokens": (2048,), **rest}
            given = [name for name, value in asked.items() if value is not None and value != "goodput"]
            if given:
                raise InputError(f"--{given[0]}: does not go with -o share=true, which maximises goodput")
            found = plan_shared(where, demands, space=SearchSpace(**group), progress=say, **same)
        else:
            said = {name: value for name, value in asked.items() if value is not None}
            found = plan(where, demands, space=SearchSpace(**rest), progress=say, **same, **said)
    if out is not None:
        found.plan.save(out)
    if as_json:
        print_json(_document(found, out))
        return
    typer.echo(found.explain())
    if out is not None:
        typer.echo(f"plan written: {out}")


def _document(found: Planning | SharedPlanning, out: Path | None) -> dict[str, Any]:
    from ..planners.vllm import Planning

    who = found.plan.planner
    said: dict[str, Any] = {
        "plan": json.loads(found.plan.to_json()),
        "simulations": who.evaluations,
        "seconds": who.seconds,
        "out": None if out is None else str(out),
    }
    if not isinstance(found, Planning):
        return said | {"shared": found.shared_good, "dedicated": found.dedicated_good, "tried": found.tried}
    return said | {
        "front": {f.model: [asdict(p) for p in found.devices_front(f.model)] for f in found.fronts},
        "latency_front": {f.model: [asdict(p) for p in found.latency_front(f.model)] for f in found.fronts},
        "rejected": {name: [asdict(r) for r in rows] for name, rows in found.rejected.items()},
    }
