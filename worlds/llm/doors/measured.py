"""The simulator held against what others measured: rows of engines (silicon), and recorded runs of vLLM."""

from __future__ import annotations

import math

from ....errors import InputError
from ....profiles import DEVICES, LinkSpec
from ....runtime.llm import SiliconComparison, compare_silicon, compare_vllm_run
from ...door import Answer, Asked
from ..options import CompareOptions

__all__ = ["against_measurements", "link_given"]


def link_given(text: str) -> LinkSpec:
    """A link between devices: a shipped device's, by its name, or GB/s and microseconds.

    Raises
    ------
    InputError
        If it is neither.
    """
    if text in DEVICES:
        return DEVICES[text].intra_node
    try:
        rate, latency = (float(word) for word in text.split(","))
        if not math.isfinite(rate):
            raise ValueError(text)
        return LinkSpec(1e9 * rate, 1e-6 * latency)
    except ValueError:
        raise InputError(
            f"link: expected GB/s and microseconds, like 36.5,14, or a device ({', '.join(DEVICES)}) (got {text!r})"
        ) from None


def against_measurements(asked: Asked, options: CompareOptions, kernels: str | None) -> Answer:
    """Simulated against measured figures.

    Raises
    ------
    InputError
        On options that do not go together, or files that cannot be read.
    """
    tables = None if kernels is None else asked.folder / kernels
    if options.silicon is not None and options.vllm_run is not None:
        raise InputError("silicon, vllm_run: are two comparisons; give one of them")
    if options.vllm_run is not None:
        link = None if options.link is None else link_given(options.link)
        found = compare_vllm_run(options.vllm_run, tables, link=link)
    elif options.silicon is None:
        raise InputError("link: goes with vllm_run")
    elif options.link is not None:
        raise InputError("link: goes with vllm_run; tables of operators bring their system's")
    elif tables is None:
        raise InputError("silicon: needs kernels, the folder with the kernel tables of each system")
    else:
        found = compare_silicon(options.silicon, tables, progress=asked.progress)
    failed = ""
    if isinstance(found, SiliconComparison) and found.skipped:
        failed = (
            f"compare: {len(found.skipped)} rows could not be predicted; the medians are of the other {len(found.rows)}"
        )
    return Answer(str(found), found.to_dict(), found, failed=failed)
