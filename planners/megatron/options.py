"""`SearchOptions`: what the configuration search may choose from, by the names that files and flags use."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError
from ...simulator import Cluster
from ...simulator.training import CORE, MEGATRON_2022, NEMO_2024, Stack
from ...simulator.training.configuration.kernels import DTYPE_BYTES, FP8
from ...wording import nearest
from ..option_names import options_from
from .means import ALL, DEGREES, NAMES, Means
from .result import SearchResult
from .search import search
from .space import Space

if TYPE_CHECKING:
    from ...profiles.llm import KernelTables

__all__ = ["SOFTWARE", "SearchOptions"]

DEEPEP = replace(CORE, name="Megatron Core, DeepEP", dispatch_once=True)
SOFTWARE: Mapping[str, Stack] = {
    "core": CORE, "megatron-2022": MEGATRON_2022, "core-deepep": DEEPEP, "nemo-2024": NEMO_2024,
}  # fmt: skip
"""Name -> training software."""
DTYPES = (*DTYPE_BYTES, FP8)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SearchOptions(Means):
    """Options of planner `search`.

    Parameters
    ----------
    tp, pp, dp : int or several, optional
        Degrees of tensor, pipeline and data parallelism that are tried; by default all that make up the cluster.
    microbatch : int or several, optional
        Samples of a microbatch; by default all divisors of the global batch.
    interleave : int or several, optional
        Model chunks of a stage; by default all that divide the layers.
    recompute : str or several, optional
        Activation recomputation: none, selective, full; chosen: the cheapest tensors. By default the first three.
    sequence_parallel : bool or both, optional
        Whether norms are cut along the sequence; by default both.
    zero : int or several, optional
        ZeRO's stages, 0 to 3; by default all.
    cp : int or several, optional
        Degrees of context parallelism; by default 1; all: those that the sequence allows.
    context : str or several, optional
        How devices share a sequence: ring, all-to-all; by default ring.
    ep : int or several, optional
        Degrees of expert parallelism; by default all that divide the experts.
    etp : int or several, optional
        Devices that share one expert, 0: as tp; by default 1.
    overlap_experts : bool or both, optional
        Whether tokens travel to experts beside other work; by default false.
    shard : int or several, optional
        Devices over which ZeRO shards, 0: all replicas; by default 0.
    reshard : bool or both, optional
        Whether ZeRO 3 gives gathered parameters back after the forward pass; by default true.
    schedule : str or several, optional
        Pipelines: 1f1b, zb-h1, dualpipe, zb-v; by default 1f1b.
    offload_optimizer : bool or both, optional
        Whether the optimizer is in the host's memory; by default false.
    offload_activations : bool or both, optional
        Whether activations may be in the host's memory meanwhile; by default false.
    first_layers, last_layers : int or several, optional
        Layers of the first and of the last stage, of which others have no fewer; by default 0, as even as they go.
    dtype : {"bf16", "fp16", "fp32", "fp8"}
        What is multiplied.
    software : {"core", "megatron-2022", "core-deepep", "nemo-2024"} or several
        Training software: Megatron Core with its overlap, Megatron-LM of 2021 and 2022, Megatron Core with DeepEP's
        exchange of tokens, or NeMo's performance recipes, which overlap tensor parallelism and reduce in bf16.
    memory_fraction : float
        Share of a device's memory that a configuration may fill, context and fragmentation included.

    Raises
    ------
    InputError
        On a value that an option does not have.
    """

    dtype: str = "bf16"
    software: str | tuple[str, ...] = "core"
    memory_fraction: float = 1.0

    def __post_init__(self) -> None:
        for name in DEGREES:
            given = getattr(self, name)
            if given == ALL:
                continue
            several = cast("list[Any]", [given] if isinstance(given, int | str) else list(given or ()))
            if (given is not None and not several) or any(
                isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in several
            ):
                raise InputError(f"search: {name}: expected positive integers (got {given!r})")
        try:
            Space.of(1, 1, 1, stack=CORE, **{n: getattr(self, n) for n in NAMES if n not in DEGREES})
        except InputError as error:
            raise InputError(f"search: {error}") from None
        if self.dtype not in DTYPES:
            raise InputError(f"search: dtype: expected one of {', '.join(DTYPES)} (got {self.dtype!r})")
        for word in self._software or ("",):
            if word not in SOFTWARE:
                near = nearest(str(word), SOFTWARE)
                hint = f"did you mean {near!r}?" if near else f"known: {', '.join(SOFTWARE)}"
                raise InputError(f"search: software: unknown value {word!r}; {hint}")
        share = self.memory_fraction
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise InputError(f"search: memory_fraction: expected more than 0, up to 1 (got {share!r})")

    @classmethod
    def of(cls, options: SearchOptions | Mapping[str, Any] | None) -> SearchOptions:
        """Options from a mapping.

        Raises
        ------
        InputError
            On an unknown name; the nearest one is named.
        """
        return options_from(cls, options, "search")

    @property
    def _software(self) -> tuple[str, ...]:
        return (self.software,) if isinstance(self.software, str) else tuple(self.software)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The training software."""
        return tuple(SOFTWARE[word] for word in self._software)

    def stack(self, name: str) -> Stack:
        """Of the training software, the one that a configuration calls so."""
        return next(one for one in self.stacks if one.name == name)

    def to_json(self) -> dict[str, Any]:
        """As plain data, by name."""
        many = (tuple, list, range)
        return {k: list(cast("list[Any]", v)) if isinstance(v, many) else v for k, v in asdict(self).items()}

    def run(
        self,
        model: object,
        cluster: Cluster,
        global_batch: int,
        *,
        top: int = 10,
        tables: KernelTables | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> SearchResult:
        """`search` with these options.

        Raises
        ------
        InputError, ImpossibleError, InfeasibleError
            As `search`.
        """
        return search(
            model, cluster, global_batch, **{name: getattr(self, name) for name in NAMES}, dtype=self.dtype,
            memory=cluster.spec.memory_bytes * self.memory_fraction, top=top, stack=self.stacks, tables=tables,
            progress=progress,
        )  # fmt: skip
