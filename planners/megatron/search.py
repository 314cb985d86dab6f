"""`search`: the fastest training configuration of a whole space, exactly."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InfeasibleError, InputError
from ...simulator import Cluster
from ...simulator.training import CORE, DeviceRates, Stack, TransformerShape, estimate, estimate_many
from ...simulator.training.configuration.columns import PROBLEMS, RECOMPUTE, Columns
from ...simulator.training.configuration.model import shape_of
from .result import Configuration, SearchResult
from .space import NAMES, Choices, ImpossibleError, Means, Space

if TYPE_CHECKING:
    from ...profiles.llm import KernelTables

__all__ = ["search"]

Table = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Asked(Means):
    """The means that are tried, and what a combination of them costs.

    Parameters
    ----------
    dtype : str
        "bf16", "fp16" or "fp32".
    tables, rates : KernelTables, DeviceRates, optional
        As in `estimate`.
    """

    dtype: str = "bf16"
    tables: KernelTables | None = None
    rates: DeviceRates | None = None

    @property
    def means(self) -> dict[str, Choices]:
        """The means by name, as `Space.of` takes them."""
        return {name: getattr(self, name) for name in NAMES}

    @property
    def costs(self) -> dict[str, Any]:
        """What `estimate` and `estimate_many` are told of costs."""
        return {"dtype": self.dtype, "tables": self.tables, "rates": self.rates}


def search(
    model: object,
    cluster: Cluster,
    global_batch: int,
    *,
    memory: float | None = None,
    top: int = 10,
    stack: Stack | Sequence[Stack] = CORE,
    must_fit: bool = True,
    progress: Callable[[str], None] | None = None,
    **asked: Any,
) -> SearchResult:
    """The fastest configurations of a model on a cluster, among all combinations of the choices.

    Exact: every combination that is possible is evaluated (`estimate_many`); what is left out breaks a rule, or has
    something switched on that does nothing there and so costs what another combination costs.

    Parameters
    ----------
    model : TransformerShape, mapping or object
        As in `estimate`.
    cluster : Cluster
        All of its devices are used.
    global_batch : int
        Samples of an iteration.
    memory : float, optional
        Bytes that a configuration may take of each device, context and fragmentation included; by default all.
    top : int
        Configurations in `SearchResult.best`.
    stack : Stack or several
        Training software; several are tried with every combination.
    must_fit : bool
        Raise when nothing fits; otherwise `best` is empty then.
    progress : callable, optional
        Called with a line now and then.
    **asked
        Fields of `Asked`: of each of the means one value, several, or None for all, and what a combination costs
        (``dtype, tables, rates``, as in `estimate`).

    Raises
    ------
    InputError
        On a choice that cannot be.
    ImpossibleError
        On a space without a possible combination; names the rule that what comes closest breaks.
    InfeasibleError
        If nothing fits; names the smallest configuration and the fewest nodes on which something does.
    """
    begin = time.process_time()
    shape = shape_of(model)
    if not isinstance(cluster, Cluster):
        raise InputError(f"cluster: expected a simulator.Cluster (got {type(cluster).__name__})")
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise InputError(f"top: expected a positive integer (got {top!r})")
    limit = cluster.spec.memory_bytes if memory is None else memory
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < float("inf"):
        raise InputError(f"memory: expected bytes > 0 (got {memory!r})")
    said = Asked(**asked)
    space = Space.of(cluster.n_devices, global_batch, shape.layers, stack=stack, **said.means)
    table, impossible, repeats = _evaluate(shape, cluster, space, said.costs, progress)
    if not len(table["seconds"]):
        rules = list(impossible)  # in the order in which they are checked: the last is broken by what comes closest
        rule = rules[-1] if rules else "every combination repeats another"
        raise ImpossibleError(
            f"search: none of {len(space):,} combinations is possible; what comes closest breaks: {rule}"
        )
    table["fits"] = table["device_bytes"] <= limit
    fits = np.flatnonzero(table["fits"])

    def configuration(row: int) -> Configuration:
        settings: dict[str, Any] = {name: table[name][row].item() for name in NAMES}
        settings["recompute"] = RECOMPUTE[settings["recompute"]]
        used: Stack = space.stacks[int(table["stack"][row])]
        one = estimate(
            shape, cluster, global_batch=global_batch, stack=used, check_memory=False, **settings, **said.costs
        )
        return Configuration(**settings, stack=used.name, estimate=one)

    smallest = configuration(int(np.argmin(table["peak_bytes"])))
    if must_fit and not len(fits):
        raise InfeasibleError(_nothing_fits(shape, cluster, space, smallest, limit, said))
    order = fits[np.lexsort((table["peak_bytes"][fits], table["seconds"][fits]))]
    best = tuple(configuration(int(row)) for row in order[:top])
    front = tuple(configuration(int(row)) for row in _front(order, table["peak_bytes"]))
    return SearchResult(
        shape, cluster, global_batch, int(limit), best, front, len(space), repeats, impossible,
        len(table["seconds"]), len(fits), smallest, time.process_time() - begin, table,
        tuple(one.name for one in space.stacks),
    )  # fmt: skip


def _evaluate(
    shape: TransformerShape,
    cluster: Cluster,
    space: Space,
    costs: dict[str, Any],
    progress: Callable[[str], None] | None,
) -> tuple[Table, dict[str, int], int]:
    """Costs of all that is possible and no repetition, as columns; how many break which rule; how many repeat."""
    parts: list[Table] = []
    broken: Counter[int] = Counter()
    repeats = seen = 0
    formats = {"devices": cluster.n_devices, "heads": shape.heads, "kv_heads": shape.kv_heads, "ffn": shape.ffn,
               "layers": shape.layers, "seq": shape.seq}  # fmt: skip
    for stack, columns in space.chunks():
        seen += len(columns["tp"])
        problem = Columns.of(global_batch=space.global_batch, **columns).problems(shape, cluster)
        for code in np.unique(problem[problem > 0]):
            broken[int(code)] += int((problem == code).sum())
        again = _repeats(columns, stack, space)
        repeats += int((again & (problem == 0)).sum())
        rows = np.flatnonzero((problem == 0) & ~again)
        if progress:
            progress(f"{seen:,} of {len(space):,} combinations")
        if not len(rows):
            continue
        some = {name: column[rows] for name, column in columns.items()}
        many = estimate_many(shape, cluster, global_batch=space.global_batch, stack=stack, **some, **costs)
        some["stack"] = np.full(len(rows), space.stacks.index(stack))
        some |= {name: getattr(many, name) for name in ("seconds", "peak_bytes", "device_bytes", "mfu")}
        parts.append(some)
    empty = [*NAMES, "stack", "seconds", "peak_bytes", "device_bytes", "mfu"]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {
        name: np.empty(0) for name in empty
    }  # fmt: skip
    return table, {PROBLEMS[code].format(**formats): broken[code] for code in sorted(broken)}, repeats


def _repeats(columns: Table, stack: Stack, space: Space) -> NDArray[np.bool_]:
    """Rows with something switched on that does nothing, while the space has the same row without it."""
    again = np.zeros(len(columns["tp"]), dtype=bool)
    if False in space.sequence_parallel:
        again |= columns["sequence_parallel"] & (columns["tp"] == 1)
    again |= (columns["zero"] > space.zero[0]) & (columns["dp"] == 1)
    if stack.flash and "none" in space.recompute:  # a fused kernel recomputes scores by itself
        again |= columns["recompute"] == RECOMPUTE.index("selective")
    return again


def _front(order: NDArray[np.int64], peak: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of rows from the fastest to the slowest, those with less memory than all before them."""
    if not len(order):
        return order
    values = peak[order]
    before = np.concatenate(([np.iinfo(np.int64).max], np.minimum.accumulate(values)[:-1]))
    return order[values < before]


def _nothing_fits(
    shape: TransformerShape,
    cluster: Cluster,
    space: Space,
    smallest: Configuration,
    limit: float,
    asked: Asked,
) -> str:
    """What is missing, and the fewest nodes (doubling) on which something fits."""
    gib = 2**30
    said = (
        f"search: no configuration of {shape.params / 1e9:.1f} B parameters fits into {limit / gib:.1f} GiB on "
        f"{cluster.n_devices} x {cluster.spec.name}: the smallest needs {smallest.breakdown.memory.device / gib:.1f} "
        f"GiB ({smallest})"
    )
    for doublings in range(1, 8):
        larger = Cluster(cluster.nodes << doublings, cluster.devices_per_node, cluster.device)
        try:
            wider = Space.of(larger.n_devices, space.global_batch, shape.layers, stack=space.stacks, **asked.means)
            found, _, _ = _evaluate(shape, larger, wider, asked.costs, None)
        except InputError:  # fixed degrees do not multiply to it
            break
        if len(found["device_bytes"]) and found["device_bytes"].min() <= limit:
            return f"{said}; {larger.n_devices} devices would do"
    return f"{said}; allow more of tp, pp, zero and recompute, or take devices with more memory"
