"""Reads what LLM cases name: each loader gives one thing, and keeps the digest of its file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ....errors import InputError
from ....files import readable
from ....planners.vllm import LengthPairs
from ....planners.vllm.demand import LengthSource
from ....profiles import DeviceSpec, device
from ....profiles.devices import DEVICES
from ....profiles.llm import DecoderSpec, KernelTables, decoder
from ....simulator.failures import ScriptedFailure, read_script
from ....simulator.llm import LLMTrace, read_lengths, read_requests
from ....traces.lengths import LENGTHS, length_profile
from ....wording import nearest
from .kept import LLMData

__all__ = [
    "decoder_of", "one_trace", "read_decoder", "read_device", "read_kernels", "read_lengths_of", "read_scripted",
    "read_traffic",
]  # fmt: skip


def decoder_of(name: str, folder: Path) -> DecoderSpec:
    """A model by name, or of a config.json in a folder that the case is of.

    Raises
    ------
    InputError
        If there is none, naming the nearest.
    """
    return decoder(str(folder / name) if Path(name).suffix == ".json" else name)


def read_decoder(name: str, folder: Path, data: LLMData) -> DecoderSpec:
    path = folder / name
    if path.suffix == ".json":
        data.digests[name] = _digest(path)
        try:
            return DecoderSpec.from_config(json.loads(readable(path).read_text(encoding="utf-8")), path.stem)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
    return decoder(name)


def read_device(name: str, folder: Path, data: LLMData) -> DeviceSpec:
    if name in DEVICES or not Path(name).suffix:
        return device(name)
    found = device(str(folder / name))
    data.digests[name] = _digest(folder / name)
    return found


def read_kernels(name: str, folder: Path, data: LLMData) -> KernelTables:
    found = KernelTables.load(folder / name)
    data.digests[name] = _digest(folder / name)
    return found


def read_scripted(name: str, folder: Path, data: LLMData) -> tuple[ScriptedFailure, ...]:
    found = read_script(folder / name)
    data.digests[name] = _digest(folder / name)
    return found


def read_lengths_of(name: str, folder: Path, data: LLMData) -> LengthSource:
    if name in LENGTHS:
        return length_profile(name)
    near = nearest(name, LENGTHS)
    if near and not Path(name).suffix and not (folder / name).exists():
        raise InputError(f"{name}: no such file, and no shipped lengths; did you mean {near!r}?")
    prompts, outputs = read_lengths(folder / name)
    data.digests[name] = _digest(folder / name)
    return LengthPairs(name, prompts, outputs)


def read_traffic(name: str, folder: Path, data: LLMData) -> dict[str, LLMTrace]:
    """Requests by model; of a published log under the empty name."""
    found = read_requests(folder / name)
    data.digests[name] = _digest(folder / name)
    return found


def one_trace(path: Path) -> LLMTrace:
    """The requests of a file for one model.

    Raises
    ------
    InputError
        On a file that cannot be read, or that holds requests for several.
    """
    found = read_requests(path)
    if len(found) > 1:
        raise InputError(f"{path}: holds requests for {', '.join(found)}; expected those of one model")
    return next(iter(found.values()))


def _digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of a folder's files."""
    try:
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        together = hashlib.sha256()
        for each in sorted(p for p in path.rglob("*") if p.is_file()):
            together.update(
                each.relative_to(path).as_posix().encode() + b"\0" + hashlib.sha256(each.read_bytes()).digest()
            )
        return together.hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
