"""Running with an engine that is killed by a script and started anew, beside the simulation of the same failures."""

from __future__ import annotations

import io
from typing import Any

from ....errors import InputError
from ....files import write_bytes, write_text
from ....runtime.llm.kills.beside import Beside, beside, drawing
from ....runtime.llm.kills.forecast import foresee
from ....runtime.llm.kills.process import EngineBuild
from ....runtime.llm.kills.rehearse import Rehearsed, rehearse
from ....runtime.llm.kills.run import check_script, serve_with_kills
from ....simulator.llm import Fault, LLMTrace
from ...door import Answer, Asked
from ..case import LLMCase
from ..options import RunOptions

__all__ = ["check_kills", "killed"]

WINDOWS = 20
"""Windows of the time in which requests arrive."""


def check_kills(case: LLMCase, options: RunOptions) -> None:
    """Refuse options that do not go together.

    Raises
    ------
    InputError
        On what goes only with kills, or not with them.
    """
    if not options.kills:
        for name, given in (("repair", options.repair is not None), ("png", options.png is not None)):
            if given:
                raise InputError(f"{name}: goes with kills, the seconds at which the engine is killed")
        return
    for name, given in (
        ("serve", options.serve),
        ("concurrency", options.concurrency is not None),
        ("timeline", options.timeline is not None),
    ):
        if given:
            raise InputError(f"{name}: does not go with kills; leave one of them out")
    w = case.workload
    if w.slo_ttft is None and w.slo_tpot is None:
        raise InputError("kills: what is attained over time? Give workload.slo_ttft or workload.slo_tpot, seconds")


def killed(
    asked: Asked, case: LLMCase, options: RunOptions, build: EngineBuild, trace: LLMTrace, source: str
) -> Answer:
    """Rehearse, serve, simulate, compare.

    Raises
    ------
    InputError
        On what is wrong with the script or the requests, before any process starts.
    RunError
        If the engine dies unasked or fails.
    """
    w = case.workload
    ttft, tpot = (float("inf") if limit is None else limit * w.slo_scale for limit in (w.slo_ttft, w.slo_tpot))
    script = tuple(Fault(0, at, options.repair or 0.0) for at in options.kills)
    check_script(trace, script)
    span = float(trace.arrival[-1])
    if span <= script[0].at_s:
        raise InputError(
            f"kills: the last request arrives at {span:.4g} s, the engine is to be killed at {script[0].at_s:g} s; "
            "give more requests, a lower rate, or an earlier time"
        )
    known = rehearse(build, trace, seed=case.seed, repair_s=options.repair or 0.0, progress=asked.progress)
    run = serve_with_kills(build, trace, script, progress=asked.progress)
    simulated = foresee(build, trace, script, known, draws=case.draws, seed=case.seed, progress=asked.progress)
    found = beside(run, simulated, ttft=ttft, tpot=tpot, window_s=span / WINDOWS)
    written: list[Any] = []
    if asked.out is not None:
        write_text(asked.out, run.result.to_frame().to_csv(index=False))
        written.append(asked.out)
    if options.png is not None:
        picture = io.BytesIO()
        drawing(found).savefig(picture, format="png", dpi=150)
        write_bytes(options.png, picture.getvalue())
        written.append(options.png)
    document = {
        "model": build.spec.name, "policy": build.policy, "requests_from": source, "slo_ttft_s": _finite(ttft),
        "slo_tpot_s": _finite(tpot), "rehearsed_load_s": known.load_s.tolist(),
        "steps_over_rehearsed": known.level(run.steps), **found.to_dict(),
    }  # fmt: skip
    return Answer("\n".join(_lines(build, source, known, found)), document, found, written=tuple(written))


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value


def _lines(build: EngineBuild, source: str, known: Rehearsed, found: Beside) -> list[str]:
    run, totals = found.run, found.totals
    away = [f"killed at {at:.2f} s" for at in run.struck] + [str(one) for one in run.comebacks]
    what, (_, times) = "; ".join(away) or "never killed", known.costs()
    lines = [
        f"{build.spec.name}, {build.policy}: {len(run.result)} requests ({source}); {what}",
        f"rehearsed on other requests: {known.headline()}",
        f"sent anew: {int((run.retries > 0).sum())} requests, which had had {int(run.lost_tokens.sum())} tokens",
        "",
        f"{'':<12}{'real':>10}{'simulated':>11}   {f'{totals.coverage:.0%} of {totals.draws} draws':<22}",
    ]
    for name, real in found.real.items():
        low, high = totals.interval(name)
        held = "inside" if totals.inside(name, real) else "outside"
        scale, unit = (1e3, " ms") if name[:4] in ("ttft", "tpot", "e2e_") else (1.0, "")
        scale, unit = (1e2, " %") if name == "attainment" else (scale, unit)
        span = f"{scale * low:.4g} to {scale * high:.4g}{unit}"
        lines.append(f"{name:<12}{scale * real:>10.4g}{scale * totals.expected(name):>11.4g}   {span:<22} {held}")
    for name in ("attainment", "throughput"):
        windows = getattr(found, name)
        lines.append(
            f"{name} over time: {int(windows.inside.sum())} of {len(windows.inside)} windows of "
            f"{windows.window_s:.3g} s inside their intervals"
        )
    shift = known.level(run.steps) - 1
    return [*lines, f"steps vary: {times.explain()}", f"this run's own steps took {shift:+.1%} of what was rehearsed"]
