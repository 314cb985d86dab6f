"""Profile sets and layer tables as plain JSON documents: the schema, both ways, with every error at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from ..errors import InputError
from .config import ParallelConfig
from .layers import Layer, LayerTable
from .profile import ModelProfile, Provenance, StageProfile
from .profile_set import ProfileSet
from .reader import Reader
from .spread import NO_VARIATION, Variation

__all__ = [
    "LAYERS_FORMAT",
    "PROFILES_FORMAT",
    "VERSION",
    "digest",
    "from_document",
    "layers_from_document",
    "layers_to_document",
    "to_document",
]

PROFILES_FORMAT = "meshwright-profiles"
LAYERS_FORMAT = "meshwright-layers"
VERSION = 1

Document = dict[str, Any]


def to_document(profiles: ProfileSet) -> Document:
    """The set as JSON-ready dicts and lists."""
    document: Document = {
        "format": PROFILES_FORMAT,
        "version": VERSION,
        "name": profiles.name,
        "device": profiles.device,
        "overhead_s": profiles.overhead_s,
        "provenance": _provenance(profiles.provenance),
        "aliases": dict(profiles.aliases),
        "models": {
            name: {
                "provenance": _provenance(profile.provenance),
                "configs": {str(c): _stage(profile.stages[c]) for c in profile.configs},
            }
            for name, profile in profiles.items()
        },
    }
    if not profiles.variation.constant:
        document["variation"] = profiles.variation.to_dict()
    return document


def from_document(document: object, where: str) -> ProfileSet:
    """The set that a document describes.

    Parameters
    ----------
    document : object
        The parsed JSON.
    where : str
        The file, for messages.

    Raises
    ------
    InputError
        With one line ``where: path: what (got …); how to mend`` for every error of the document.
    """
    read = Reader(where)
    required = {"name", "device", "provenance", "models"}
    root = read.root(document, PROFILES_FORMAT, VERSION, required, {"overhead_s", "aliases", "variation"})
    name = read.text(root, "name", "")
    device = read.text(root, "device", "")
    overhead = read.number(root, "overhead_s", "", default=0.0)
    provenance = _read_provenance(read, root, "")
    aliases = read.mapping(root, "aliases", "", default={})
    variation = NO_VARIATION
    with read.building("variation"):
        variation = Variation.from_dict(read.mapping(root, "variation", "", default={}))
    models: dict[str, ModelProfile] = {}
    for model, body in read.mapping(root, "models", "").items():
        path = f"models.{model}"
        fields = read.fields(body, path, {"provenance", "configs"})
        source = _read_provenance(read, fields, path)
        stages: dict[ParallelConfig, StageProfile] = {}
        for key, entry in read.mapping(fields, "configs", path).items():
            try:
                config = ParallelConfig.parse(key)
            except InputError:
                read.error(f"{path}.configs", "unknown parallel configuration", key, "write it like 'op2pp4'")
                continue
            stage = _read_stage(read, entry, f"{path}.configs.{key}", config)
            if stage is not None:
                stages[config] = stage
        if not stages:
            read.error(f"{path}.configs", "no usable parallel configuration", len(stages), "give at least one")
        elif not read.errors:
            with read.building(path):
                models[model] = ModelProfile(model, stages, source)
    for alias, target in aliases.items():
        if not read.errors and target not in models:
            read.error(f"aliases.{alias}", "names no model of this file", target, f"use one of {', '.join(models)}")
    read.raise_errors()
    return ProfileSet(name, device, models, provenance, overhead, aliases, variation)


def layers_to_document(table: LayerTable) -> Document:
    """The layer table as JSON-ready dicts and lists."""
    return {
        "format": LAYERS_FORMAT,
        "version": VERSION,
        "model": table.model,
        "provenance": _provenance(table.provenance),
        "layers": [
            {
                "name": layer.name,
                "block": layer.block,
                "output_bytes": layer.output_bytes,
                "allreduces": layer.allreduces,
                "allreduce_bytes": layer.allreduce_bytes,
                "activation_bytes": layer.activation_bytes,
                "weight_bytes": {str(op): w for op, w in sorted(layer.weight_bytes.items())},
                "latency_s": {
                    str(op): {str(b): s for b, s in sorted(row.items())} for op, row in sorted(layer.latency.items())
                },
            }
            for layer in table.layers
        ],
    }


def layers_from_document(document: object, where: str) -> LayerTable:
    """The layer table that a document describes; errors as in `from_document`."""
    read = Reader(where)
    root = read.root(document, LAYERS_FORMAT, VERSION, {"model", "provenance", "layers"})
    model = read.text(root, "model", "")
    provenance = _read_provenance(read, root, "")
    optional = {"block", "output_bytes", "allreduces", "allreduce_bytes", "activation_bytes"}
    layers: list[Layer] = []
    for i, body in enumerate(read.sequence(root, "layers", "")):
        path = f"layers[{i}]"
        row = read.fields(body, path, {"name", "weight_bytes", "latency_s"}, optional)
        sizes = {
            key: read.number(row, key, path, default=0.0)
            for key in ("output_bytes", "allreduce_bytes", "activation_bytes")
        }
        by_op = read.mapping(row, "latency_s", path)
        latency = {
            int(op): read.numbers_by_int(by_op, op, f"{path}.latency_s", positive=True)
            for op in read.integer_keys(by_op, f"{path}.latency_s")
        }
        name = read.text(row, "name", path)
        weights = read.numbers_by_int(row, "weight_bytes", path)
        block = row.get("block")
        if not (block is None or (type(block) is int and block >= 0)):
            read.error(f"{path}.block", "expected an integer >= 0 or null", block, "give the Transformer layer's index")
        reduces = int(read.number(row, "allreduces", path, default=0.0))
        if reduces != row.get("allreduces", 0) and not read.errors:
            read.error(f"{path}.allreduces", "expected an integer", row["allreduces"], "count the all-reduces")
        if not read.errors:
            with read.building(path):
                layers.append(Layer(name, latency, weights, allreduces=reduces, block=block, **sizes))
    read.raise_errors()
    with read.building("layers"):
        return LayerTable(model, tuple(layers), provenance)
    raise read.failure()


def digest(profiles: ProfileSet) -> str:
    """SHA-256, in hex, of the set's canonical JSON (sorted keys, no spaces, shortest float form)."""
    text = json.dumps(to_document(profiles), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _provenance(provenance: Provenance) -> Document:
    out: Document = {"source": provenance.source}
    for key in ("device", "date", "notes"):
        if getattr(provenance, key):
            out[key] = getattr(provenance, key)
    if provenance.versions:
        out["versions"] = dict(provenance.versions)
    return out


def _stage(stage: StageProfile) -> Document:
    out: Document = {
        "latency_s": {str(b): list(row) for b, row in sorted(stage.latency.items())},
        "weight_bytes": list(stage.weight_bytes),
    }
    if stage.activation_bytes:
        out["activation_bytes"] = {str(b): a for b, a in sorted(stage.activation_bytes.items())}
    if stage.hop_s:
        out["hop_s"] = stage.hop_s
    if stage.partition:
        out["partition"] = list(stage.partition)
    if stage.source:
        out["source"] = stage.source
    if stage.measured:
        out["measured_s"] = {str(b): list(row) for b, row in sorted(stage.measured.items())}
    return out


def _read_provenance(read: Reader, parent: Mapping[str, Any], path: str) -> Provenance:
    where = f"{path}.provenance" if path else "provenance"
    fields = read.fields(parent.get("provenance", {}), where, {"source"}, {"device", "date", "versions", "notes"})
    texts = {key: read.text(fields, key, where, default="") for key in ("device", "date", "notes")}
    versions = {k: str(v) for k, v in read.mapping(fields, "versions", where, default={}).items()}
    return Provenance(read.text(fields, "source", where), versions=versions, **texts)


_STAGE_OPTIONAL = {"activation_bytes", "hop_s", "partition", "source", "measured_s"}


def _read_stage(read: Reader, entry: object, path: str, config: ParallelConfig) -> StageProfile | None:
    before = len(read.errors)
    fields = read.fields(entry, path, {"latency_s", "weight_bytes"}, _STAGE_OPTIONAL)
    by_batch = read.mapping(fields, "latency_s", path)
    latency = {
        int(b): read.row(by_batch, b, f"{path}.latency_s", length=config.pp, positive=True)
        for b in read.integer_keys(by_batch, f"{path}.latency_s")
    }
    if by_batch == {} and "latency_s" in fields:
        read.error(f"{path}.latency_s", "no batch size", by_batch, "give at least batch 1")
    weights = read.row(fields, "weight_bytes", path, length=config.pp)
    hop = read.number(fields, "hop_s", path, default=0.0)
    activation = read.numbers_by_int(fields, "activation_bytes", path, default={})
    starts = read.sequence(fields, "partition", path, default=[])
    if starts and (
        len(starts) != config.pp
        or not all(type(s) is int for s in starts)
        or starts[0] != 0
        or any(a >= b for a, b in pairwise(starts))
    ):
        read.error(f"{path}.partition", f"expected {config.pp} rising integers from 0", starts, "or leave it out")
    source = read.text(fields, "source", path, default="")
    run_whole = read.mapping(fields, "measured_s", path, default={})
    measured = {
        int(b): read.row(run_whole, b, f"{path}.measured_s", length=config.pp, positive=True)
        for b in read.integer_keys(run_whole, f"{path}.measured_s")
    }
    for batch in sorted(set(measured) - set(latency)):
        read.error(f"{path}.measured_s.{batch}", "batch has no latency_s", batch, "add one or leave it out")
    if len(read.errors) > before:
        return None
    return StageProfile(latency, weights, activation, hop, tuple(starts), source, measured)
