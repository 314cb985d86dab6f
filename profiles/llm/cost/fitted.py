"""`FittedCost`: an iteration's time as a fitted line; reader for the published fits of OPT models on A100s."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ....errors import InputError
from ....files import readable
from ....reprs import Shown
from ..iteration import Iteration
from .parts import Part

__all__ = ["FittedCost", "fits_in", "load_fits"]

MS = 1e-3


@dataclass(frozen=True, slots=True, repr=False)
class FittedCost(Shown):
    """A line through measured iterations; an `IterationCost`.

    A step of prompts takes ``a + b * tokens + c * sum(length ** 2)``, a step of decodes
    ``a + b * context + c * batch``, with other coefficients from `large_batch` on. A step of both (which the
    fitted engines did not have) is a decode step plus what the prompts add beyond their constant.

    Parameters
    ----------
    prefill, decode, decode_large : tuple of float
        The coefficients (a, b, c), seconds.
    large_batch : int
        Smallest batch of the large-batch line.
    source : str
        Where the fit comes from.
    """

    prefill: tuple[float, float, float]
    decode: tuple[float, float, float]
    decode_large: tuple[float, float, float]
    large_batch: int
    source: str = ""

    def seconds(self, iteration: Iteration) -> float:
        """Seconds of an iteration."""
        return sum(part.seconds for part in self.explain(iteration))

    def explain(self, iteration: Iteration) -> tuple[Part, ...]:
        """The terms of the line; n tokens on m cached ones count n² + 2 n m, twice the pairs that they look at."""
        parts: list[Part] = []
        if iteration.decodes:
            large = iteration.decodes >= self.large_batch
            a, b, c = self.decode_large if large else self.decode
            size = "large" if large else "small"
            parts.append(Part(f"decode step, {size} batch", a, "fitted"))
            parts.append(Part("decode, per context token", b * iteration.context, "fitted"))
            parts.append(Part("decode, per sequence", c * iteration.decodes, "fitted"))
        if iteration.prefill:
            a, b, c = self.prefill
            tokens = sum(new for new, _ in iteration.prefill)
            squares = sum(new * new + 2 * new * before for new, before in iteration.prefill)
            if not iteration.decodes:
                parts.append(Part("prefill step", a, "fitted"))
            parts.append(Part("prefill, per token", b * tokens, "fitted"))
            parts.append(Part("prefill, per squared length", c * squares, "fitted"))
        return tuple(parts)


def fits_in(path: str | Path) -> dict[str, tuple[int, ...]]:
    """What a file of fits has: model's short name, such as opt-13b -> tensor-parallel degrees.

    Raises
    ------
    InputError
        If the file cannot be read, or is not a table of models and degrees.
    """
    said = _said(path)
    degrees = {_short(name): list(cast(dict[str, Any], f)) for name, f in said.items() if isinstance(f, dict)}
    if len(degrees) < len(said) or not all(tp.isdecimal() for tps in degrees.values() for tp in tps):
        raise InputError(f"{path}: expected models, each with a fit for each tensor-parallel degree")
    return {name: tuple(int(tp) for tp in tps) for name, tps in degrees.items()}


def load_fits(path: str | Path, model: str, tp: int = 1) -> FittedCost:
    """Read the fit of one model at one tensor-parallel degree (the format of DistServe's simulator, milliseconds).

    Raises
    ------
    InputError
        If the file cannot be read, the model or degree is not in it, or a coefficient is no number.
    """
    said = _said(path)
    names = {_short(name): name for name in said}
    path, short = Path(path), _short(model)
    if short not in names:
        raise InputError(f"{path}: no fit of {model!r}; there is {', '.join(said)}")
    degrees = said[names[short]]
    if str(tp) not in degrees:
        raise InputError(f"{path}: {model} was not fitted at tp {tp}; there is tp {', '.join(degrees)}")
    fit = degrees[str(tp)]
    lines: list[tuple[float, float, float]] = []
    for name in ("prefill", "decoding_smallbs", "decoding_largebs"):
        line = cast(list[Any], fit.get(name))
        if not isinstance(fit.get(name), list) or len(line) != 3 or not all(_number(x) for x in line):
            raise InputError(f"{path}: {model}, tp {tp}: {name}: expected three numbers (got {line!r})")
        lines.append((MS * float(line[0]), MS * float(line[1]), MS * float(line[2])))
    switch = fit.get("decoding_large_small_bs_threshold")
    if not _number(switch):
        raise InputError(
            f"{path}: {model}, tp {tp}: decoding_large_small_bs_threshold: expected a number (got {switch!r})"
        )
    return FittedCost(lines[0], lines[1], lines[2], int(switch), f"{path.name}: {model}, tp {tp}, A100-80GB")


def _said(path: str | Path) -> dict[str, Any]:
    try:
        said: Any = json.loads(readable(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if not isinstance(said, dict):
        raise InputError(f"{path}: expected a table of models (got {type(said).__name__})")
    return cast(dict[str, Any], said)


def _short(model: str) -> str:
    return model.rpartition("/")[2].lower()


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
