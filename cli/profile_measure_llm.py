"""`meshwright profile measure --llm`: the layers and host times of language models on this machine, into a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..profiles.llm.measured import LayerMeasurement

__all__ = ["NOISY", "measure_llm", "noise_lines"]

NOISY = 0.05
"""Share of the core that other processes may take, or drift of the device's speed, before figures are doubtful."""


def measure_llm(
    models: str,
    *,
    device: str,
    dtype: str | None,
    tp: int,
    max_tokens: int | None,
    max_seqs: int | None,
    max_context: int | None,
    block_size: int,
    seed: int,
    out: Path | None,
    fast: bool,
    as_json: bool,
) -> None:
    """Measure, write the folders, and print what was found.

    Raises
    ------
    InputError
        On a wrong option or model, before anything is measured.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..profiles.llm.decoder import decoder
    from ..profiles.llm.measured import write_measurement
    from ..runtime.llm.measure.engine import measure_layers

    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise InputError(f"--llm: expected names of decoders with commas, each once (got {models!r})")
    specs = [decoder(name) for name in names]
    folders = _folders(out, [spec.name for spec in specs])
    found: list[LayerMeasurement] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        for spec, folder in zip(specs, folders, strict=True):
            task = bar.add_task(f"measuring {spec.name}", total=1.0)
            measured = measure_layers(
                spec, device=device, dtype=dtype, tp=tp, max_tokens=max_tokens, max_seqs=max_seqs,
                max_context=max_context, block_size=block_size, seed=seed, fast=fast,
                progress=lambda share, what, task=task, name=spec.name: bar.update(
                    task, completed=share, description=f"measuring {name}: {what}"
                ),
            )  # fmt: skip
            found.append(measured)
            if folder is not None:
                write_measurement(measured, folder)
    if as_json:
        typer.echo(json.dumps([_document(one, at) for one, at in zip(found, folders, strict=True)], ensure_ascii=False))
        return
    for one, folder in zip(found, folders, strict=True):
        for line in _report(one):
            typer.echo(line)
        if folder is not None:
            typer.echo(f"wrote {folder}")


def _folders(out: Path | None, names: list[str]) -> list[Path | None]:
    """Where each model goes: into the folder itself if there is one, else into one of its own in it."""
    if out is None:
        return [None] * len(names)
    if out.exists() and not out.is_dir():
        raise InputError(f"--out: expected a folder (got the file {out}); give another path")
    if len(names) == 1:
        return [out]
    return [out / name.replace("/", "--") for name in names]


def _report(found: LayerMeasurement) -> Iterable[str]:
    said = found.provenance
    versions = ", ".join(f"{name} {version}" for name, version in said.versions.items())
    yield f"{found.model.name}, {found.dtype}, tp {found.tp} on {said.device}; {versions}"
    yield f"{said.notes}"
    yield ""
    yield "microseconds of one call"
    sizes = sorted({size for calls in found.dense.values() for size in calls})
    shown = sizes[:: max(1, len(sizes) // 6)]
    yield f"{'layer':<18}" + "".join(f"{size:>9}" for size in shown) + "  tokens"
    for name, calls in found.dense.items():
        yield f"{name:<18}" + "".join(f"{1e6 * calls[size]:>9.1f}" for size in shown)
    for name, calls in found.per_sequence.items():
        few = sorted(calls)[:: max(1, len(calls) // 6)]
        yield f"{name:<18}" + "".join(f"{1e6 * calls[size]:>9.1f}" for size in few) + f"  sequences {few}"
    alone = [row for row in found.attention if row[0] == 0]
    for decodes, context, seconds in ((r[2], r[3], r[4]) for r in (alone[0], alone[len(alone) // 2], alone[-1])):
        yield f"attention of {decodes} decodes of {context} tokens: {1e6 * seconds:.1f}"
    prompts = [row for row in found.attention if row[0] and not row[1] and not row[2]]
    for row in (prompts[0], prompts[-1]):
        yield f"attention of a prompt of {row[0]} tokens: {1e6 * row[4]:.1f}"
    yield f"a further prompt in the same batch: {1e6 * found.further_chunk_s:.1f}"
    for policy, overheads in found.overheads.items():
        yield f"{policy}: {overheads.explain()}"
    yield from noise_lines(found)


def noise_lines(found: LayerMeasurement) -> Iterable[str]:
    """How quiet the device was, and whether the figures are to be doubted."""
    noise = found.noise
    yield (
        f"noise: others took {noise.taken:.1%} of the core, repeats spread {noise.spread:.1%}, rounds drifted "
        f"{noise.drift:.1%}, {noise.repeats} or more repeats count"
    )
    if noise.taken > NOISY or noise.drift > NOISY:
        yield "doubtful: the device was not quiet meanwhile; measure again when nothing else runs"


def _document(found: LayerMeasurement, folder: Path | None) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "model": found.model.name,
        "tp": found.tp,
        "dtype": found.dtype,
        "folder": None if folder is None else str(folder),
        "dense": {name: {str(k): v for k, v in calls.items()} for name, calls in found.dense.items()},
        "per_sequence": {name: {str(k): v for k, v in calls.items()} for name, calls in found.per_sequence.items()},
        "attention": [list(row) for row in found.attention],
        "further_chunk_s": found.further_chunk_s,
        "overheads": {policy: asdict(one) for policy, one in found.overheads.items()},
        "noise": asdict(found.noise),
        "doubtful": found.noise.taken > NOISY or found.noise.drift > NOISY,
        "provenance": {**asdict(found.provenance), "versions": dict(found.provenance.versions)},
    }
