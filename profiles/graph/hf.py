"""Models of Hugging Face by their configuration, ``hf:CONFIG.json``: random weights, inputs of the sizes it names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import InputError, install_hint
from ...wording import nearest

__all__ = ["PREFIX", "arguments", "is_hf", "located", "with_sequence"]

PREFIX = "hf:"
FORM = "hf:CONFIG.json, or hf:FOLDER of one with config.json in it; @SEQUENCE behind it, such as hf:llama.json@2048"

LONGEST = 4096
"""Positions of a sample where nobody says how many: of the configuration, but no more than this. A guess: what models
are trained at most of the time, where configurations say how far they may be used."""

SOUND = 16_000
"""Samples of sound where nobody says how many: a second, as most models take it."""

MADE = 2 << 30
"""Bytes of parameters up to which a model has values, so that it can be run here; larger ones have shapes alone."""

BATCH = 2
"""Of the trace; graphs are resized."""

_FOR_EACH_POSITION = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForTokenClassification", "ForConditionalGeneration",
                      "MTModel")  # fmt: skip
_FOR_EACH_SAMPLE = ("ForSequenceClassification", "ForImageClassification", "ForAudioClassification")


def is_hf(word: str) -> bool:
    """Whether a word names a configuration of Hugging Face."""
    return word.startswith(PREFIX)


def with_sequence(word: str, sequence: int | None) -> str:
    """The word with the length of a sample, where one is given."""
    return word if sequence is None else f"{PREFIX}{_said(word, 'sequence')[0]}@{sequence}"


def located(word: str, folder: Path) -> str:
    """The word with its path from the current folder, where the file lies in `folder`."""
    path, sequence = _said(word, "model")
    found = folder / path
    return with_sequence(f"{PREFIX}{found}", sequence) if found.exists() else word


def arguments(word: str, option: str) -> dict[str, Any]:
    """What `from_torch` is to be called with for a configuration: the model in training mode, inputs and labels.

    Weights are random, from torch's own initialisation; of a model of more than `MADE` bytes there are only shapes.

    Raises
    ------
    InputError
        If transformers is not installed, the file is no configuration, its architecture is not known or has no loss
        with labels that can be made here.
    """
    path, sequence = _said(word, option)
    file = path / "config.json" if path.is_dir() else path
    document = _document(file, option)
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        raise InputError(f"{option}: {word}: {error.name} is not installed; {install_hint('hf')}") from None
    kind, config = _configured(document, file, option)
    config.use_cache = False
    dtype = getattr(config, "dtype", None) or torch.float32
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        with torch.device("meta"):
            model = kind(config).to(dtype)
        if sum(p.numel() * p.element_size() for p in model.parameters()) <= MADE:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                model = kind(config).to(dtype)
    except Exception as error:  # the configuration's own contradictions
        raise InputError(f"{option}: {file}: {kind.__name__} cannot be made of it: {_line(error)}") from error
    finally:
        transformers.logging.set_verbosity(before)
    inputs = _inputs(model, config, sequence, f"{option}: {file}")
    long = inputs["input_ids"].shape[1] if "input_ids" in inputs else 1
    return {
        "name": str(document.get("model_type") or kind.__name__), "module": model.train(), "inputs": inputs,
        "items_per_sample": float(long), "items": "tokens" if "input_ids" in inputs else "samples",
    }  # fmt: skip


def _said(word: str, option: str) -> tuple[Path, int | None]:
    """Path and length of a sample."""
    text, at, number = word.removeprefix(PREFIX).rpartition("@")
    if not at:
        text, number = number, ""
    if not text or (at and not (number.isdecimal() and int(number) > 0)):
        raise InputError(f"{option}: {word}: expected {FORM}")
    return Path(text), int(number) if at else None


def _document(file: Path, option: str) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{option}: {file}: {error.strerror or error}; expected {FORM}") from None
    except ValueError as error:
        raise InputError(f"{option}: {file}: not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("model_type"), str):
        raise InputError(f"{option}: {file}: no configuration of Hugging Face; expected an object with model_type")
    return document


def _configured(document: Mapping[str, Any], file: Path, option: str) -> tuple[Any, Any]:
    """The model's class, and its configuration."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = str(document["model_type"])
    if kind not in CONFIG_MAPPING:
        near = nearest(kind, list(CONFIG_MAPPING.keys()), cutoff=0.6)
        hint = f"; did you mean {near}?" if near else ""
        raise InputError(f"{option}: {file}: model_type {kind!r} is not known to transformers "
                         f"{transformers.__version__}{hint}")  # fmt: skip
    try:
        config: Any = CONFIG_MAPPING[kind].from_dict(dict(document))
    except Exception as error:
        raise InputError(f"{option}: {file}: {_line(error)}") from error
    named = document.get("architectures") or []
    if not named:
        from transformers import AutoModelForCausalLM

        try:
            return AutoModelForCausalLM._model_mapping[type(config)], config
        except KeyError:
            raise InputError(f"{option}: {file}: architectures: missing; expected a class of transformers, such as "
                             "BertForMaskedLM") from None  # fmt: skip
    name = str(named[0])
    found = getattr(transformers, name, None)
    if found is None:
        raise InputError(f"{option}: {file}: architectures: transformers {transformers.__version__} has no {name!r}; "
                         "a model with code of its own is given as path/to/file.py:function")  # fmt: skip
    if not name.endswith((*_FOR_EACH_POSITION, *_FOR_EACH_SAMPLE)):
        raise InputError(
            f"{option}: {file}: architectures: of {name} no labels are known; expected a class that ends with "
            f"{', '.join((*_FOR_EACH_POSITION, *_FOR_EACH_SAMPLE))}; or give path/to/file.py:function"
        )
    return found, config


def _inputs(model: Any, config: Any, sequence: int | None, where: str) -> dict[str, Any]:
    """Example inputs and labels; of them only shapes count."""
    import torch

    main = str(model.main_input_name)
    own = getattr(config, "max_position_embeddings", None) or getattr(config, "max_seq_len", None)
    long = sequence or min(own if isinstance(own, int) and own > 0 else LONGEST, LONGEST)
    shapes: dict[str, tuple[int, ...]] = {"input_ids": (BATCH, long), "input_values": (BATCH, sequence or SOUND)}
    if main == "pixel_values":
        size: Any = getattr(config, "image_size", None) or 224  # what most networks are trained at
        high, wide = (size, size) if isinstance(size, int) else size[:2]
        shapes[main] = (BATCH, int(getattr(config, "num_channels", 3)), high, wide)
    if main == "input_features" and hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):
        shapes[main] = (BATCH, config.num_mel_bins, 2 * config.max_source_positions)
        own = getattr(config, "max_target_positions", LONGEST)
        long = sequence or min(own, LONGEST)
    if main not in shapes:
        raise InputError(f"{where}: {type(model).__name__} takes {main!r}, whose shape is not known; give "
                         "path/to/file.py:function")  # fmt: skip
    whole = type(model).__name__.endswith(_FOR_EACH_SAMPLE)
    integers = main == "input_ids"
    first = torch.zeros(shapes[main], dtype=torch.int64 if integers else model.dtype)
    return {main: first, "labels": torch.zeros((BATCH,) if whole else (BATCH, long), dtype=torch.int64)}


def _line(error: Exception) -> str:
    text = next((part.strip() for part in str(error).splitlines() if part.strip()), "no reason given")
    return f"{type(error).__name__}: {text[:200]}"
