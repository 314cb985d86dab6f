"""LLM: one cell of the small engine under load, expected and really served."""

from __future__ import annotations

from ....profiles.llm import decoder
from ....runtime.llm.compare.engine import compare_engine
from ....runtime.llm.compare.settings import Traffic
from ....runtime.llm.measure.engine import MeasureOptions
from ..line import Errors, Line
from ..machine import Machine
from . import Tell

__all__ = ["lines"]

MODEL, SETTING, LOAD, SECONDS = "tiny-llama", "vllm-v1", 0.6, 10.0
"""The model that docs/llm-measure.md begins with, under today's scheduler; short, so that the page takes minutes."""
FIGURES = {"throughput": "throughput", "ttft": "TTFT", "tpot": "TPOT"}


def lines(machine: Machine, seed: int, tell: Tell) -> tuple[Line, ...]:
    """Measure, expect, serve; throughput, and percentiles of TTFT and TPOT."""
    found = compare_engine(
        [decoder(MODEL)], Traffic((LOAD,), duration_s=SECONDS), settings=[SETTING],
        measure=MeasureOptions("cpu", seed=seed, fast=True), progress=lambda line: tell(f"llm: {line}"),
    )  # fmt: skip
    frame = found.to_frame()
    frame = frame[frame.judged]
    inside = None
    if {"low", "high"} <= set(frame.columns):
        inside = ((frame.low <= frame.real) & (frame.real <= frame.high)).tolist()
    share = float(frame.share.min())
    return (
        Line(
            "here", "llm",
            f"{len(frame)} figures ({', '.join(frame.figure)}) of {MODEL} under {SETTING} at load {LOAD:g}, "
            f"{int(frame.requests.iloc[0])} requests",
            "the LLM world with tables measured right before, and times in service", "this machine", machine.name,
            machine.date, "out",
            "times in service are those of every other half second of the run, latencies those of requests that came "
            f"between; the engine had its core for {share:.1%} of its steps' time",
            f"made now; `meshwright compare llm --model {MODEL}` does more cells, and says why one is off",
            Errors.relative(frame.simulated.tolist(), frame.real.tolist(), inside),
        ),
    )  # fmt: skip
