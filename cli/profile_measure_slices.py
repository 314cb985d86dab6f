"""`meshwright profile measure --terapipe`: token slices of a model's parts timed here, into a slice profile."""

from __future__ import annotations

import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError, install_hint
from ..worlds.training.models import graph_of
from .status import status
from .trace_io import print_json

if TYPE_CHECKING:
    from ..planners.terapipe import SliceProfile

__all__ = ["measure_terapipe"]

REPEATS = 7
UNITS = 32
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
CONTEXTS = (0, 4, 8, 16, 24)
"""Lengths and contexts that are measured, in 32nds of a sequence."""

UNDISTURBED = 0.98
"""Share of the measuring time in which the process must have had its core; below it figures are doubtful."""


def measure_terapipe(
    model: str,
    *,
    device: str,
    lengths: str | None,
    contexts: str | None,
    samples: str,
    seed: int,
    out: Path | None,
    fast: bool,
    as_json: bool,
) -> None:
    """Measure, fit Eq. 2.9, write the profile, print what the fits say.

    Raises
    ------
    InputError
        On what is wrong on the command line, or a model that cannot be computed slice by slice.
    RunError
        If the process that measures fails.
    """
    from ..files import check_target
    from ..planners.terapipe import SliceProfile, part_bounds
    from ..profiles.graph.token_loops import sequence_length, token_loops
    from ..profiles.measure.device import device_facts
    from ..profiles.measure.pool import Worker

    if device != "cpu":
        raise InputError(f"--device: slices are measured on cpu cores (got {device!r}); leave it out")
    repeats = 3 if fast else REPEATS
    together = _integers("--samples", samples, 1)
    if out is not None:
        check_target(out)
    graph = graph_of(model, "--terapipe")
    token_loops(graph)
    tokens, parts = sequence_length(graph), part_bounds(graph)
    if tokens < UNITS // 2:
        raise InputError(f"--terapipe: sequences of {tokens} tokens are too short to be sliced; 16 or more")
    if find_spec("torch") is None:
        raise InputError(f"measure: torch is not installed; measuring needs it: {install_hint('torch')}")
    from ..runtime.training.measure.slices import measure_slices

    if lengths is None:
        wanted = sorted({max(1, tokens * n // UNITS) for n in LENGTHS})
    else:
        wanted = _integers("--lengths", lengths, 1)
    if contexts is None:
        before = sorted({tokens * n // UNITS for n in CONTEXTS})
    else:
        before = _integers("--contexts", contexts, 0)
    if 0 not in before:
        raise InputError(f"--contexts: expected 0 among them, which Eq. 2.9 starts from (got {contexts!r})")
    with status("measuring") as say:
        found = measure_slices(graph, parts, wanted, before, samples=together, repeats=repeats, seed=seed, progress=say)
    facts = device_facts(Worker(0, 1, "cpu"))
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    from .. import __version__

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
    if out is not None:
        profile.save(out)
    if as_json:
        print_json(_document(profile, found.own, out))
        return
    typer.echo(f"{graph.name}: slices of {tokens} tokens on {facts.name}, {', '.join(map(str, together))} sample(s)")
    for line in profile.report():
        typer.echo(line)
    if found.own < UNDISTURBED:
        typer.echo(f"doubtful: the process had its core in {found.own:.1%} of the measuring time only")
    if out is not None:
        typer.echo(f"wrote {out}")


def _document(profile: SliceProfile, own: float, out: Path | None) -> dict[str, Any]:
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
        "out": None if out is None else str(out),
    }


def _integers(option: str, text: str, least: int) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= least for part in parts):
        raise InputError(f"{option}: expected integers from {least} with commas, like {least},64,128 (got {text!r})")
    return sorted({int(part) for part in parts})
