"""Backends by name: those of this folder, and those that installed packages bring."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping

from ...errors import InputError, install_hint
from ...profiles.backends import Backend
from ...profiles.backends import installed as entry_points
from .inductor import Inductor
from .onnx_runtime import OnnxRuntime, OnnxRuntimeDynamo
from .open_vino import OpenVino
from .torch_eager import TorchNative, TorchNhwc, TorchOneDnn
from .torch_jit import TorchJit, TorchJitOptimized

__all__ = ["BUILT_IN", "DEFAULT", "available", "backend", "backends", "names"]

BUILT_IN: Mapping[str, Callable[[], Backend]] = {
    kind.name: kind
    for kind in (
        TorchOneDnn, TorchNative, TorchNhwc, TorchJit, TorchJitOptimized, OnnxRuntime, OnnxRuntimeDynamo, OpenVino,
        Inductor,
    )
}  # fmt: skip

DEFAULT = "torch-onednn"
"""Takes every operator: what others do not take runs here, and results are held against it."""


def names() -> list[str]:
    """All names, built in and installed."""
    return [*BUILT_IN, *(name for name in entry_points.names() if name not in BUILT_IN)]


def backend(name: str) -> Backend:
    """A backend that can be used here.

    Raises
    ------
    InputError
        If none has the name, or it cannot be used; the message says why and which extra brings it.
    """
    found = _found(name)
    reason = _reason(found)
    if reason:
        raise InputError(f"backend {name!r}: {reason}")
    return found


def backends(wanted: Iterable[str]) -> tuple[Backend, ...]:
    """Several, each once, in the order given.

    Raises
    ------
    InputError
        As `backend`; or if none is named.
    """
    listed = tuple(dict.fromkeys(wanted))
    if not listed:
        raise InputError(f"backends: expected at least one of {', '.join(names())}")
    return tuple(map(backend, listed))


def available() -> dict[str, str]:
    """Every name, with why it cannot be used here; empty where it can."""
    out = dict[str, str]()
    for name in names():
        try:
            out[name] = _reason(_found(name))
        except InputError as error:
            out[name] = str(error)
    return out


def _found(name: str) -> Backend:
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name in entry_points.names():
        return entry_points.installed(name)
    raise InputError(f"backend {name!r}: unknown; expected one of {', '.join(names())}")


def _reason(found: Backend) -> str:
    if importlib.util.find_spec("torch") is None:
        return f"torch is not installed: {install_hint('torch')}"
    try:
        return found.available()
    except Exception as error:
        return f"its available() raised {type(error).__name__}: {error}"
