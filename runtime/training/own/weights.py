"""State dicts in files: ``.safetensors`` and torch's own ``.pt``; written whole, then renamed.

A safetensors file is eight bytes (the length of what follows, little endian), JSON that says each tensor's type, shape
and place, and the tensors' bytes (github.com/huggingface/safetensors, README, "Format"). So little needs no package.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import InputError
from ....files import readable, whole_file

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SUFFIXES", "check_suffix", "load_weights", "save_weights"]

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin")

TYPES: Mapping[str, str] = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
"""Type in a safetensors file -> torch's name."""


def check_suffix(path: str | Path, option: str) -> Path:
    """Refuse a file whose ending says no format.

    Raises
    ------
    InputError
        With the endings that do.
    """
    if Path(path).suffix not in SUFFIXES:
        raise InputError(f"{option}: {path}: expected a file that ends in {', '.join(SUFFIXES)}")
    return Path(path)


def load_weights(path: str | Path, option: str = "weights") -> dict[str, Tensor]:
    """Read a state dict. Pickled files are read with torch's `weights_only`: no code in them runs.

    Raises
    ------
    InputError
        If there is no such file, or it holds something else.
    """
    import torch

    file = check_suffix(path, option)
    if not file.is_file():
        raise InputError(f"{option}: {file}: no such file")
    try:
        if file.suffix == ".safetensors":
            return _read_safetensors(readable(file))
        found: Any = torch.load(readable(file), map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:120]
        raise InputError(f"{option}: {file}: no state dict: {type(error).__name__}: {why}") from None
    wrong = None if not isinstance(found, Mapping) else next((k for k, x in found.items() if not _tensor(x)), "")
    if wrong is None or wrong != "":
        what = f"{wrong!r} is no tensor" if wrong else f"a {type(found).__name__}"
        raise InputError(f"{option}: {file}: expected a state dict, tensors by name (got {what})")
    return dict(found)


def save_weights(path: str | Path, state: Mapping[str, Tensor]) -> Path:
    """Write a state dict; half of one is never seen.

    Raises
    ------
    InputError
        If the ending says no format, or no file can be written there.
    """
    import torch

    file = check_suffix(path, "save")
    with whole_file(file) as temporary:
        if file.suffix == ".safetensors":
            _write_safetensors(temporary, state)
        else:
            torch.save(dict(state), temporary)
    return file


def _tensor(x: Any) -> bool:
    import torch

    return isinstance(x, torch.Tensor)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    import torch

    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ValueError("the header is longer than the file")
        header: dict[str, Any] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    if size == 8 + length:  # tensors without elements, or none
        data = torch.empty(0, dtype=torch.uint8)
    else:
        data = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)[8 + length :]
    found: dict[str, Tensor] = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if entry["dtype"] not in TYPES:
            raise ValueError(f"{name!r} has type {entry['dtype']}, which is not read here")
        dtype = getattr(torch, TYPES[entry["dtype"]])
        if not 0 <= begin <= end <= data.numel():
            raise ValueError(f"{name!r} ends beyond the file")
        found[name] = data[begin:end].clone().view(dtype).reshape(entry["shape"])
    return found


def _write_safetensors(path: Path, state: Mapping[str, Tensor]) -> None:
    import torch

    words = {getattr(torch, name): word for word, name in TYPES.items()}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    plain: dict[str, Tensor] = {}
    place = 0
    for name, x in state.items():
        if x.dtype not in words:
            raise InputError(
                f"save: {name!r} has type {x.dtype}, which a safetensors file cannot hold; save a .pt file"
            )
        plain[name] = x.detach().cpu().contiguous()
        n = plain[name].numel() * x.element_size()
        header[name] = {"dtype": words[x.dtype], "shape": list(x.shape), "data_offsets": [place, place + n]}
        place += n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that tensors are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for x in plain.values():
            n = x.numel() * x.element_size()
            file.write((ctypes.c_char * n).from_address(x.data_ptr()) if n else b"")  # numpy may not be there
