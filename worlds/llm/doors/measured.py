"""The simulator held against what others measured: rows of engines (silicon), and recorded runs of vLLM."""

from __future__ import annotations

from ....errors import InputError
from ....profiles import LinkSpec
from ....runtime.llm import SiliconComparison, compare_silicon, compare_vllm_run
from ...door import Answer, Asked
from ..links import link_given
from ..options import CompareOptions

__all__ = ["against_measurements"]


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
        link = None if options.link is None else _link(options.link)
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


def _link(text: str) -> LinkSpec:
    try:
        return link_given(text)
    except InputError as error:
        raise InputError(f"link: {error}") from None
