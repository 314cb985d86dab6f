"""The optimiser in words, as a command line says it: ``adamw:lr=3e-4,weight_decay=0.1,betas=0.9/0.95``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ....errors import InputError
from .optimizer import Group, TorchOptimizer
from .schedule import Schedule

__all__ = ["optimizer_of"]

FORM = "a class of torch.optim and its options, such as adamw:lr=3e-4,weight_decay=0.1,betas=0.9/0.95"


def optimizer_of(
    optimizer: str | None, schedule: str | None = None, groups: Sequence[str] = (), clip_norm: float | None = None
) -> TorchOptimizer | None:
    """What the options say; None where they say nothing.

    Parameters
    ----------
    optimizer : str, optional
        ``NAME:OPTION=VALUE,…``; of several values, ``/`` is between them.
    schedule : str, optional
        ``cosine:warmup=100,until=1000,least=0.1``: fields of `Schedule`.
    groups : sequence of str
        ``PATTERN:OPTION=VALUE:…``: parameters with options of their own.
    clip_norm : float, optional
        As of `TorchOptimizer`.

    Raises
    ------
    InputError
        On words that say nothing, and where there is no optimiser that the others belong to.
    """
    if not optimizer:
        said = {"schedule": schedule, "groups": groups, "clip_norm": clip_norm}
        alone = next((name for name, value in said.items() if value), None)
        if alone is not None:
            raise InputError(f"{alone}: goes with optimizer alone: {FORM}")
        return None
    name, _, rest = optimizer.removeprefix("torch.optim:").partition(":")
    if not name:
        raise InputError(f"optimizer: expected {FORM} (got {optimizer!r})")
    made = tuple(_group(text) for text in groups)
    when = Schedule() if schedule is None else _schedule(schedule)
    return TorchOptimizer(name, _options(rest.split(",") if rest else [], "optimizer"), made, when, clip_norm)


def _schedule(text: str) -> Schedule:
    decay, _, rest = text.partition(":")
    said = _options(rest.split(",") if rest else [], "schedule")
    known = [f.name for f in fields(Schedule) if f.name != "decay"]
    unknown = next((name for name in said if name not in known), None)
    if unknown is not None:
        raise InputError(f"schedule: has no {unknown!r}; it has {', '.join(known)}")
    if "factors" in said and not isinstance(said["factors"], tuple):
        said["factors"] = (said["factors"],)
    whole = ("warmup", "until")
    wrong = next((name for name in whole if not isinstance(said.get(name, 0), int)), None)
    if wrong is not None:
        raise InputError(f"schedule: {wrong}: expected a number of iterations (got {said[wrong]!r})")
    made: Any = {"decay": decay, **said}
    return Schedule(**made)


def _group(text: str) -> Group:
    pattern, *rest = text.split(":")
    if not pattern or not rest:
        raise InputError(f"groups: expected PATTERN:OPTION=VALUE, such as *.bias:weight_decay=0 (got {text!r})")
    return Group((pattern,), _options(rest, "groups"))


def _options(words: Sequence[str], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        name, is_there, value = word.partition("=")
        if not is_there or not name.strip().isidentifier():
            raise InputError(f"{where}: expected OPTION=VALUE (got {word!r})")
        if name.strip() in found:
            raise InputError(f"{where}: {name.strip()} is said twice")
        parts = [_value(part) for part in value.split("/")]
        found[name.strip()] = parts[0] if len(parts) == 1 else tuple(parts)
    return found


def _value(text: str) -> Any:
    word = text.strip()
    if word.lower() in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
