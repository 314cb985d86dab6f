"""`meshwright compare --llm`: language models served by the real engine and by the simulator."""

from __future__ import annotations

from pathlib import Path

import typer

from ..errors import InputError, RunError
from .status import status
from .trace_io import print_json

__all__ = ["compare_llm_engine"]


def compare_llm_engine(
    models: str,
    *,
    settings: str | None,
    loads: str,
    rate: float | None,
    trace: Path | None,
    duration: float,
    device: str,
    dtype: str | None,
    profile: str | None,
    clock: str,
    fast: bool,
    calibrate: bool,
    retries: int,
    seed: int,
    csv: Path | None,
    png: Path | None,
    as_json: bool,
) -> None:
    """Serve models for real and in simulation; print both.

    Raises
    ------
    InputError
        On a wrong option, before anything runs.
    RunError
        If a figure differs by more than the goal.
    """
    from ..files import check_target, write_text
    from ..profiles.llm.decoder import decoder
    from ..runtime.llm.compare.cells import WITHIN
    from ..runtime.llm.compare.chart import save_engine_png
    from ..runtime.llm.compare.engine import compare_engine
    from ..runtime.llm.compare.settings import SETTINGS
    from ..simulator.llm import LLMTrace
    from ..traces import read

    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise InputError(f"--llm: expected names of decoders with commas, each once (got {models!r})")
    if retries < 0 or seed < 0:
        raise InputError(f"--retries, --seed: expected >= 0 (got {retries} and {seed})")
    for target in (csv, png):
        if target is not None:
            check_target(target)
    chosen = list(SETTINGS) if settings is None else [word.strip() for word in settings.split(",")]
    with status("comparing") as say:
        found = compare_engine(
            [decoder(name) for name in names],
            settings=chosen,
            loads=_numbers(loads),
            rate=rate,
            trace=None if trace is None else LLMTrace.of(read(trace)),
            duration_s=duration,
            device="cpu" if device == "auto" else device,
            dtype=dtype,
            profile=None if profile is None else Path(profile),
            clock=clock,
            fast=fast,
            calibrate=calibrate,
            retries=retries,
            seed=seed,
            progress=say,
        )
    if csv is not None:
        write_text(csv, found.to_frame().to_csv(index=False))
    if png is not None:
        save_engine_png(found, png)
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
        for written in (csv, png):
            if written is not None:
                typer.echo(f"written: {written}")
    if not found.within:
        raise RunError(
            f"compare: simulated and real differ by up to {found.worst:.1%} (goal: {WITHIN:.0%}); where the core was "
            "not ours or passes took longer than measured, run it on a quiet machine, or with --retries N"
        )


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"--loads: expected numbers with commas, like 0.3,0.6 (got {text!r})") from None
