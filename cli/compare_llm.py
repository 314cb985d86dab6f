"""`meshwright compare --silicon` and `--vllm-run`: the LLM simulator held against measurements."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..errors import InputError, RunError
from .status import status
from .trace_io import print_json

if TYPE_CHECKING:
    from ..profiles import LinkSpec

__all__ = ["compare_llm", "link_given"]


def link_given(text: str) -> LinkSpec:
    """A link between devices: a shipped device's, by its name, or GB/s and microseconds."""
    from ..profiles import DEVICES, LinkSpec

    if text in DEVICES:
        return DEVICES[text].intra_node
    try:
        rate, latency = (float(word) for word in text.split(","))
        if not math.isfinite(rate):
            raise ValueError(text)
        return LinkSpec(1e9 * rate, 1e-6 * latency)
    except ValueError:
        raise InputError(
            f"--link: expected GB/s and microseconds, like 36.5,14, or a device ({', '.join(DEVICES)}) (got {text!r})"
        ) from None


def compare_llm(
    plans: list[Path] | None,
    silicon: Path | None,
    vllm_run: Path | None,
    kernels: Path | None,
    link: str | None = None,
    *,
    as_json: bool,
) -> None:
    """Print simulated against measured figures."""
    from ..runtime.llm import SiliconComparison, compare_silicon, compare_vllm_run

    if plans:
        raise InputError(f"compare: --silicon, --vllm-run and --kernels take no plan (got {plans[0]})")
    if silicon is not None and vllm_run is not None:
        raise InputError("compare: --silicon and --vllm-run are two comparisons; give one of them")
    if link is not None and vllm_run is None:
        raise InputError("--link: goes with --vllm-run; tables of operators bring their system's")
    with status("comparing") as say:
        if vllm_run is not None:
            found = compare_vllm_run(vllm_run, kernels, link=None if link is None else link_given(link))
        elif silicon is None:
            raise InputError("--kernels: goes with --silicon or --vllm-run (got neither)")
        elif kernels is None:
            raise InputError("--silicon: needs --kernels, the folder with the kernel tables of each system")
        else:
            found = compare_silicon(silicon, kernels, progress=say)
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
    if isinstance(found, SiliconComparison) and found.skipped:
        raise RunError(
            f"compare: {len(found.skipped)} rows could not be predicted; the medians are of the other {len(found.rows)}"
        )
