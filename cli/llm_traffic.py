"""What the verbs share that plan and simulate LLM serving: requests by model, kernel tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError
from .trace_io import read_trace, split_of

if TYPE_CHECKING:
    from ..planners.vllm.demand import LengthSource, Traffic
    from ..profiles.llm import KernelTables

__all__ = ["lengths_of", "tables_of", "traffic_of"]

FEWEST, LONGEST_S, MOST = 2000, 120.0, 20_000
"""What is drawn, all models together, where nobody says how long: so many requests, or those of so many seconds if that
is more (what is overloaded a little looks fine for a while), but no more than so many."""


def lengths_of(word: str) -> LengthSource:
    """``--lengths``: a shipped profile by name, or a CSV of lengths.

    Raises
    ------
    InputError
        If it is neither.
    """
    from ..traces.lengths import LENGTHS, length_profile

    path = Path(word)
    if word not in LENGTHS and path.is_file():
        from ..planners.vllm import LengthPairs
        from ..simulator.llm import read_lengths

        return LengthPairs(path.name, *read_lengths(path))
    try:
        return length_profile(word)
    except InputError as error:
        raise InputError(f"--lengths: {error}; or give a CSV with prompt_tokens, output_tokens") from None


def traffic_of(
    models: Sequence[str],
    *,
    trace: Path | None,
    lengths: str | None,
    rate: float | None,
    cv: float | None,
    duration: float | None,
    split: str | None,
    rates: dict[str, float] | None = None,
) -> dict[str, Traffic]:
    """The requests of each model: read, or drawn.

    Parameters
    ----------
    models : sequence of str
        The models.
    trace, lengths, rate, cv, duration, split
        What the command line says; None where it says nothing.
    rates : dict of str to float, optional
        Rates of a plan, where no rate is given.

    Raises
    ------
    InputError
        On options that do not go together, a value out of its range, or a trace of other models.
    """
    from ..planners.vllm import DrawnTraffic, GivenTraffic
    from ..traces.splits import shares

    if trace is not None:
        given = {"--lengths": lengths, "--rate": rate, "--cv": cv, "--duration": duration, "--split": split}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise InputError(f"{wrong[0]}: makes traffic, which --trace {trace} already is; leave it out")
        from ..simulator.llm.plan.simulate import by_model

        read = by_model(read_trace([trace], None))
        if len(models) == 1 and len(read) == 1:
            read = {models[0]: next(iter(read.values()))}
        other = [name for name in read if name not in models]
        if other:
            raise InputError(f"{trace}: holds requests for {other[0]!r}; the models are {', '.join(models)}")
        missing = [name for name in models if name not in read]
        if missing:
            raise InputError(f"{trace}: holds no request for {missing[0]!r}")
        return {name: GivenTraffic(read[name], str(trace)) for name in models}
    if lengths is None:
        raise InputError("--lengths: how long are the requests? sharegpt, alpaca, or a CSV; or give a --trace")
    if duration is not None and not (math.isfinite(duration) and duration > 0):
        raise InputError(f"--duration: expected finite seconds > 0 (got {duration})")
    drawn = lengths_of(lengths)
    if rate is not None:
        if not (math.isfinite(rate) and rate > 0):
            raise InputError(f"--rate: expected finite requests per second > 0 (got {rate})")
        parts = shares(split_of(split) if split is not None else None, models)
        rates = {name: rate * float(part) for name, part in zip(models, parts, strict=True)}
    elif rates is None:
        raise InputError("--rate: how many requests per second? Give it, or a --trace")
    elif split is not None:
        raise InputError("--split: goes with --rate")
    total = sum(rates.values())
    seconds = duration if duration is not None else min(max(FEWEST / total, LONGEST_S), MOST / total)
    return {
        name: DrawnTraffic(drawn, rates[name], max(1, round(rates[name] * seconds)), 1.0 if cv is None else cv, number)
        for number, name in enumerate(models)
        if rates.get(name, 0.0) > 0
    }


def tables_of(kernels: Path | None, tp: int | None = None) -> KernelTables | None:
    """``--kernels``: measured kernels, if there are any."""
    from ..profiles.llm import KernelTables

    return None if kernels is None else KernelTables.load(kernels, tp=tp)
