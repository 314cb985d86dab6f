"""Measuring: token slices of a model's parts timed here, into a slice profile for TeraPipe."""

from __future__ import annotations

import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from ....errors import InputError, install_hint
from ...door import Answer, Asked
from ..case import TrainingCase
from ..options import MeasureOptions

if TYPE_CHECKING:
    from ....planners.terapipe import SliceProfile

__all__ = ["measured_slices"]

REPEATS = 7
UNITS = 32
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
CONTEXTS = (0, 4, 8, 16, 24)
"""Lengths and contexts that are measured, in 32nds of a sequence."""

UNDISTURBED = 0.98
"""Share of the measuring time in which the process must have had its core; below it figures are doubtful."""


def measured_slices(asked: Asked) -> Answer:
    """Measure, and fit Eq. 2.9.

    Raises
    ------
    InputError
        On what is wrong with the case, or a model that cannot be computed slice by slice.
    RunError
        If the process that measures fails.
    """
    from .... import __version__
    from ....planners.terapipe import SliceProfile, part_bounds
    from ....profiles.graph.token_loops import sequence_length, token_loops
    from ....profiles.measure.device import device_facts
    from ....profiles.measure.pool import Worker
    from ..data import load_data

    case, options = cast(TrainingCase, asked.case), cast(MeasureOptions, asked.options)
    if options.rounds is not None:
        raise InputError("rounds: are for the stages of a plan; a model is measured in slices")
    repeats = 3 if options.fast else REPEATS
    graph = load_data([case], asked.folder).graph_of(case)
    token_loops(graph)
    tokens, parts = sequence_length(graph), part_bounds(graph)
    if tokens < UNITS // 2:
        raise InputError(f"model: sequences of {tokens} tokens are too short to be sliced; 16 or more")
    if find_spec("torch") is None:
        raise InputError(f"measure: torch is not installed; measuring needs it: {install_hint('torch')}")
    from ....runtime.training.measure.slices import SliceGrid, measure_slices

    wanted = sorted(set(options.lengths)) or sorted({max(1, tokens * n // UNITS) for n in LENGTHS})
    before = sorted(set(options.contexts)) or sorted({tokens * n // UNITS for n in CONTEXTS})
    together = sorted(set(options.samples))
    if 0 not in before:
        raise InputError(f"contexts: expected 0 among them, which Eq. 2.9 starts from (got {before})")
    grid = SliceGrid(wanted, before, together)
    found = measure_slices(graph, parts, grid, repeats=repeats, seed=case.seed, progress=asked.progress)
    facts = device_facts(Worker(0, 1, "cpu"))
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    versions = ", ".join(f"{name} {version}" for name, version in {"meshwright": __version__, **facts.versions}.items())
    columns = ("samples", "lengths", "contexts", "forward_s", "backward_s")
    profile = SliceProfile.model_validate(
        {
            "model": graph.name,
            "digest": graph.digest,
            "tokens": tokens,
            "device": facts.name,
            "source": f"measured on {facts.name}, {found.processes} core(s), {found.dtype}, median of {repeats} "
            f"repeats; {versions}; {when}",
            "parts": {
                name: {column: getattr(times, column).tolist() for column in columns}
                for name, times in found.parts.items()
            },
        }
    )
    if asked.out is not None:
        profile.save(asked.out)
    many = ", ".join(map(str, together))
    text = [f"{graph.name}: slices of {tokens} tokens on {facts.name}, {many} sample(s)", *profile.report()]
    if found.own < UNDISTURBED:
        text.append(f"doubtful: the process had its core in {found.own:.1%} of the measuring time only")
    written = () if asked.out is None else (asked.out,)
    return Answer("\n".join(text), _document(profile, found.own), profile, written=written)


def _document(profile: SliceProfile, own: float) -> dict[str, Any]:
    fits: dict[str, Any] = {}
    for name, both in profile.fits().items():
        for way, fit in zip(("forward", "backward"), both, strict=True):
            fits[f"{name}.{way}"] = {
                "context": list(fit.context),
                "overhead_error": fit.overhead_error if fit.held_out else None,
                "error": fit.error if fit.held_out else None,
                "held_out": fit.held_out,
            }
    return {
        "model": profile.model,
        "tokens": profile.tokens,
        "source": profile.source,
        "own": own,
        "fits": fits,
    }
