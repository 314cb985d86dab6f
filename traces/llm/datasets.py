"""Files of prompts that benchmark tools draw from: ShareGPT's JSON and vLLM's ``custom`` JSON lines, as lengths."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...errors import InputError
from ..columns import LongArray
from ..files.text import TraceWarning, text_lines, translated_errors
from .lines import json_of

__all__ = ["dataset_lengths", "is_dataset"]

CHARACTERS = 4
"""Characters of a token, a guess: the rule of thumb for English text of OpenAI's help pages. No tokenizer is asked."""
LEAST, LONGEST_PROMPT, LONGEST = 4, 1024, 2048
"""What vLLM's benchmark takes of ShareGPT (``is_valid_sequence`` of vllm/benchmarks/datasets.py): at least so many
tokens of prompt and answer, at most so many of prompt, of both together."""


def is_dataset(path: Path) -> bool:
    """Whether a file holds prompts: a JSON list of conversations, or lines of objects with a ``prompt``."""
    first = _first(path)
    if first.startswith("["):
        return True
    try:
        said = json.loads(first)
    except json.JSONDecodeError:
        return False
    return isinstance(said, dict) and "prompt" in said


def dataset_lengths(path: Path) -> tuple[LongArray, LongArray]:
    """Prompt and output tokens of the prompts of a file.

    Of ShareGPT (a JSON list whose entries have ``conversations``) the first message and its answer, where both are of a
    length that vLLM's benchmark takes. Of ``custom`` (JSON lines with ``prompt`` and ``output_tokens``) every line.
    Texts are counted at 4 characters a token, which a `TraceWarning` says.

    Raises
    ------
    InputError
        On a file that cannot be read, a line or entry of another form, or if none is left.
    """
    pairs = list(_sharegpt(path) if _first(path).startswith("[") else _custom(path))
    if not pairs:
        raise InputError(f"{path}: holds no conversation of a message and an answer that vLLM's benchmark would take")
    warnings.warn(
        f"{path}: texts are counted at {CHARACTERS} characters a token, a guess; give a CSV with prompt_tokens and "
        "output_tokens for the model's own",
        TraceWarning,
        stacklevel=2,
    )
    prompts, outputs = zip(*pairs, strict=True)
    return np.array(prompts, dtype=np.int64), np.array(outputs, dtype=np.int64)


def _sharegpt(path: Path) -> Iterator[tuple[int, int]]:
    for number, entry in enumerate(cast("list[Any]", json_of(path))):
        turns = cast("Mapping[str, Any]", entry).get("conversations") if isinstance(entry, dict) else None
        if not isinstance(turns, list):
            raise InputError(f"{path}: [{number}]: expected an object with a list 'conversations'")
        first = cast("list[Any]", turns)[:2]
        if len(first) < 2:
            continue
        prompt, output = (
            _tokens(f"{path}: [{number}].conversations[{i}]", turn, "value") for i, turn in enumerate(first)
        )
        if prompt >= LEAST and output >= LEAST and prompt <= LONGEST_PROMPT and prompt + output <= LONGEST:
            yield prompt, output


def _custom(path: Path) -> Iterator[tuple[int, int]]:
    with translated_errors(path):
        for number, line in enumerate(text_lines(path), start=1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                said: Any = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(f"{where}: expected an object with prompt and output_tokens ({error.msg})") from None
            prompt = _tokens(where, said, "prompt")
            output = said.get("output_tokens")
            if isinstance(output, bool) or not isinstance(output, int) or output < 1:
                raise InputError(f"{where}: output_tokens: must be an integer >= 1 (got {output!r})")
            yield max(1, prompt), output


def _tokens(where: str, said: Any, name: str) -> int:
    text = cast("Mapping[str, Any]", said).get(name) if isinstance(said, dict) else None
    if not isinstance(text, str):
        raise InputError(f"{where}: {name}: expected a text (got {str(text)[:60]})")
    return round(len(text) / CHARACTERS)


def _first(path: Path) -> str:
    """The first line with anything on it; empty where there is none."""
    with translated_errors(path):
        return next((line.strip() for line in text_lines(path) if line.strip()), "")
