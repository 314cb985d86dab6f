"""Layers of one model, measured on the present device: their record, the folder it is kept in, and its cost.

The folder is in the public by-layer format (`tables.layers`), and `KernelTables.load` reads it. Beside what that
format holds, ``meta.yaml`` has the provenance, the shape of the model, and the host times of an engine's step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from ...errors import InputError
from ...files import readable, write_text
from ...reprs import Shown
from ..profile import Provenance
from .cost.iteration import CostOptions, TableCost, iteration_cost
from .cost.overheads import Overheads
from .decoder import DecoderSpec
from .tables.checks import read_yaml
from .tables.kernels import KernelTables
from .times import STEADY, StepTimes

__all__ = ["LayerMeasurement", "Noise", "measured_cost", "measured_times", "read_measurement", "write_measurement"]

US = 1e-6
KIND = "meshwright/llm-layers"
VERSION = 1

Calls = Mapping[str, Mapping[int, float]]
"""Name of a part -> size -> seconds."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How quiet the device was while it was measured.

    Parameters
    ----------
    taken : float
        Share of the measuring core that other processes took, 0 … 1; 0 on a GPU.
    spread : float
        Median over all figures of (90th percentile - median) / median of their repeats.
    drift : float
        Slowest over fastest round of the same calls, minus 1: how much the device's speed changed meanwhile.
    repeats : int
        Fewest repeats that any figure rests on.
    """

    taken: float
    spread: float
    drift: float
    repeats: int

    def __post_init__(self) -> None:
        for name in ("taken", "spread", "drift"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"noise: {name}: expected a finite share >= 0 (got {value})")
        if self.repeats < 1:
            raise InputError(f"noise: repeats: expected >= 1 (got {self.repeats})")


@dataclass(frozen=True, slots=True, repr=False)
class LayerMeasurement(Shown):
    """What was measured of one model at one degree.

    Parameters
    ----------
    model : DecoderSpec
        The model.
    tp : int
        Tensor-parallel degree; figures are one rank's.
    dtype : str
        Type of weights, activations and KV cache.
    dense : mapping
        Layer -> tokens -> seconds.
    attention : sequence of (int, int, int, int, float)
        Prefill chunk, its context before, decodes, their context (each), seconds of one layer.
    per_sequence : mapping
        ``lm_head`` and ``sampler`` -> sequences -> seconds.
    further_chunk_s : float
        What each prompt chunk after the first adds to a layer's attention whatever its size, seconds.
    overheads : mapping
        Policy -> host times of an engine's step under it: each scheduler is code of its own.
    provenance : Provenance
        Device, versions, date.
    noise : Noise
        How quiet it was.
    times : StepTimes
        How the engine's steps vary in service, around a mean of 1; `STEADY` where that was not measured.
    """

    model: DecoderSpec
    tp: int
    dtype: str
    dense: Calls
    attention: Sequence[tuple[int, int, int, int, float]]
    per_sequence: Calls
    further_chunk_s: float
    overheads: Mapping[str, Overheads]
    provenance: Provenance
    noise: Noise
    times: StepTimes = STEADY

    def __post_init__(self) -> None:
        if self.tp < 1:
            raise InputError(f"measurement of {self.model.name}: tp: expected >= 1 (got {self.tp})")
        if not (self.provenance.source and self.provenance.device and self.provenance.date):
            raise InputError(f"measurement of {self.model.name}: provenance: expected source, device and date")
        if not (math.isfinite(self.further_chunk_s) and self.further_chunk_s >= 0):
            raise InputError(
                f"measurement of {self.model.name}: further_chunk_s: expected seconds >= 0 (got {self.further_chunk_s})"
            )


def write_measurement(found: LayerMeasurement, folder: str | Path) -> Path:
    """Write the folder: ``dense.csv``, ``attention.csv``, ``per_sequence.csv``, and last ``meta.yaml``.

    Without ``meta.yaml`` no reader takes the folder, so that an interrupted write leaves nothing that looks whole.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    import yaml

    at = Path(folder)
    if at.exists() and not at.is_dir():
        raise InputError(f"{at}: expected a folder (got a file); give another path")
    write_text(at / "dense.csv", _series("tokens", found.dense))
    write_text(at / "per_sequence.csv", _series("sequences", found.per_sequence))
    rows = [f"{a},{b},{c},{d},{s / US:.9g}" for a, b, c, d, s in found.attention]
    write_text(at / "attention.csv", "\n".join(["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", *rows]) + "\n")
    said = found.provenance
    meta = {
        "kind": KIND,
        "version": VERSION,
        "model": found.model.name,
        "hardware": said.device,
        "gpu": said.device,
        "engine": f"meshwright {said.versions.get('meshwright', '')}".strip(),
        "profiled_at": said.date,
        "tp": found.tp,
        "dtype": found.dtype,
        "decoder": asdict(found.model),
        "further_chunk_us": found.further_chunk_s / US,
        "overheads": {policy: asdict(one) for policy, one in found.overheads.items()},
        "noise": asdict(found.noise),
        **({} if found.times.constant else {"times": found.times.to_dict()}),
        "provenance": {**asdict(said), "versions": dict(said.versions)},
    }
    write_text(at / "meta.yaml", yaml.safe_dump(meta, sort_keys=False, allow_unicode=True))
    return at


def read_measurement(folder: str | Path) -> LayerMeasurement:
    """Read a folder that `write_measurement` wrote.

    Raises
    ------
    InputError
        If it is not one, or a field or table is missing or wrong; names the file and the field.
    """
    at = Path(folder)
    if not at.is_dir():
        raise InputError(f"{at}: expected a folder that meshwright measure llm wrote; there is none")
    meta, where = read_yaml(at / "meta.yaml"), at / "meta.yaml"
    if meta.get("kind") != KIND:
        raise InputError(
            f"{where}: kind: expected {KIND} (got {meta.get('kind')!r}); "
            "public tables have no host times: load them with KernelTables.load"
        )
    if meta.get("version") != VERSION:
        raise InputError(f"{where}: version: expected {VERSION} (got {meta.get('version')!r}); measure again")
    tables = KernelTables.load(at)
    assert tables.layers is not None
    layers = tables.layers
    mixed = _rows(at / "attention.csv")
    return LayerMeasurement(
        model=_record(DecoderSpec, meta, "decoder", where),
        tp=layers.tp,
        dtype=_word(meta, "dtype", where),
        dense={name: _points(grid) for name, grid in layers.dense.items()},
        attention=mixed,
        per_sequence={name: _points(grid) for name, grid in layers.per_sequence.items()},
        further_chunk_s=layers.further_chunk_s,
        overheads=_overheads(meta, where),
        provenance=_record(Provenance, meta, "provenance", where),
        noise=_record(Noise, meta, "noise", where),
        times=_times(meta, where),
    )


def measured_times(folder: str | Path) -> StepTimes:
    """How the steps of the engine that was measured into `folder` vary.

    Raises
    ------
    InputError
        If it is no such folder, or that was not measured.
    """
    where = Path(folder) / "meta.yaml"
    meta = read_yaml(where)
    if meta.get("kind") != KIND or "times" not in meta:
        raise InputError(
            f"{where}: does not say how times vary; measure it with meshwright measure llm, or say it by hand (spread)"
        )
    return _times(meta, where)


def measured_cost(
    folder: str | Path, policy: str = "vllm-v1", *, max_tokens: int = 16384, max_outputs: int = 1024
) -> TableCost:
    """Cost of an iteration of the model that was measured into `folder`, its engine's host times included.

    Parameters
    ----------
    folder : path
        The folder that ``meshwright measure llm`` wrote.
    policy : str
        The scheduler whose host times count.
    max_tokens, max_outputs : int
        Sizes up to which tables are laid out (`iteration_cost`).

    Raises
    ------
    InputError
        If it is no such folder, or something in it is missing or wrong.
    """
    found = read_measurement(folder)
    if policy not in found.overheads:
        raise InputError(
            f"{folder}: host times of policy {policy!r} were not measured; there are those of "
            f"{', '.join(found.overheads)}"
        )
    return iteration_cost(
        found.model,
        KernelTables.load(folder),
        tp=found.tp,
        overheads=found.overheads[policy],
        options=CostOptions(max_tokens=max_tokens, max_outputs=max_outputs),
    )


def _series(over: str, parts: Calls) -> str:
    rows = [f"{name},{size},{s / US:.9g}" for name, calls in parts.items() for size, s in sorted(calls.items())]
    return "\n".join([f"layer,{over},time_us", *rows]) + "\n"


def _points(grid: Any) -> dict[int, float]:
    return {int(size): float(seconds) for size, seconds in zip(grid.axes[0], grid.seconds, strict=True)}


def _rows(path: Path) -> list[tuple[int, int, int, int, float]]:
    lines = readable(path).read_text(encoding="utf-8").splitlines()[1:]  # checked by KernelTables.load before
    found: list[tuple[int, int, int, int, float]] = []
    for line in lines:
        a, b, c, d, us = line.split(",")
        found.append((int(float(a)), int(float(b)), int(float(c)), int(float(d)), float(us) * US))
    return found


def _overheads(meta: Mapping[str, Any], where: Path) -> dict[str, Overheads]:
    said = meta.get("overheads")
    if not isinstance(said, dict) or not said:
        raise InputError(f"{where}: overheads: expected those of a policy (got {said!r}); measure again")
    given = cast("dict[str, Any]", said)
    return {policy: _record(Overheads, given, policy, where) for policy in given}


def _times(meta: Mapping[str, Any], where: Path) -> StepTimes:
    try:
        return StepTimes.from_dict(cast("Mapping[str, Any]", meta.get("times", {})))
    except InputError as error:
        raise InputError(f"{where}: times: {error}") from None


def _word(meta: Mapping[str, Any], name: str, where: Path) -> str:
    if not isinstance(meta.get(name), str):
        raise InputError(f"{where}: {name}: expected a word (got {meta.get(name)!r})")
    return str(meta[name])


def _record(kind: type[Any], meta: Mapping[str, Any], name: str, where: Path) -> Any:
    said = meta.get(name)
    if not isinstance(said, dict):
        raise InputError(f"{where}: {name}: expected its fields (got {said!r}); measure again")
    given = cast("dict[str, Any]", said)
    known = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(kind)}
    unknown = sorted(set(given) - set(known))
    missing = sorted(field for field, needed in known.items() if needed and field not in given)
    if unknown or missing:
        raise InputError(f"{where}: {name}: unknown fields {unknown}, missing fields {missing}; measure again")
    try:
        return kind(**given)
    except (TypeError, InputError) as error:
        raise InputError(f"{where}: {name}: {error}") from None
