"""Measuring: the layers and host times of language models on this machine, into a folder of tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from ....errors import InputError
from ....profiles.llm.measured import LayerMeasurement, write_measurement
from ....runtime.llm.measure import engine
from ...door import Answer, Asked
from ..case import LLMCase
from ..data import decoder_of
from ..options import MeasureOptions

__all__ = ["NOISY", "measured", "noise_lines"]

NOISY = 0.05
"""Share of the core that other processes may take, or drift of the device's speed, before figures are doubtful."""


def measured(asked: Asked) -> Answer:
    """Measure, and write the folders.

    Raises
    ------
    InputError
        On a wrong option or model, before anything is measured.
    """
    case, options = cast(LLMCase, asked.case), cast(MeasureOptions, asked.options)
    if len(set(case.models)) < len(case.models):
        raise InputError(f"model: expected each model once (got {', '.join(case.models)})")
    specs = [decoder_of(name, asked.folder) for name in case.models]
    folders = _folders(asked.out, [spec.name for spec in specs])
    found: list[LayerMeasurement] = []
    how = engine.MeasureOptions(
        device=options.on, dtype=options.dtype, tp=case.engine.tensor_parallel_size,
        max_tokens=options.max_tokens, max_seqs=options.max_seqs, max_context=options.max_context,
        block_size=case.engine.block_size, seed=case.seed, fast=options.fast,
    )  # fmt: skip
    for spec, folder in zip(specs, folders, strict=True):
        one = engine.measure_layers(
            spec, how, progress=lambda share, what, name=spec.name: asked.progress(f"{name}: {what} ({share:.0%})")
        )
        found.append(one)
        if folder is not None:
            write_measurement(one, folder)
    text = [line for one in found for line in _report(one)]
    document = {"measured": [_document(one, at) for one, at in zip(found, folders, strict=True)]}
    written = tuple(folder for folder in folders if folder is not None)
    return Answer("\n".join(text), document, found, written=written)


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
    if not found.times.constant:
        yield f"steps in service: {found.times.explain()}"
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
        "times": found.times.to_dict(),
        "doubtful": found.noise.taken > NOISY or found.noise.drift > NOISY,
        "provenance": {**asdict(found.provenance), "versions": dict(found.provenance.versions)},
    }
