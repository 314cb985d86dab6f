"""`search`: the fastest training configuration of a whole space, exactly."""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InfeasibleError, InputError
from ...simulator import Cluster
from ...simulator.training import CORE, Stack, estimate
from ...simulator.training.configuration.columns import WORDS
from ...simulator.training.configuration.model import shape_of
from .evaluate import Asked, evaluate
from .means import NAMES
from .missing import nothing_fits
from .result import Configuration, SearchResult
from .space import ImpossibleError, Space

__all__ = ["search"]


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
        If nothing fits; names the smallest configuration, what it misses, the one trick that saves most, and the fewest
        nodes on which something fits.
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
    said = Asked(**asked, memory_bytes=limit)
    space = Space.of(cluster.n_devices, global_batch, shape.layers, stack=stack, shape=shape, **said.means)
    table, impossible, repeats = evaluate(shape, cluster, space, said.costs, progress)
    if not len(table["seconds"]):
        rules = list(impossible)  # in the order in which they are checked: the last is broken by what comes closest
        rule = rules[-1] if rules else "every combination repeats another"
        told = ", ".join(f"{name} {value}" for name, value in said.means.items() if value is not None)
        raise ImpossibleError(
            f"search: none of {len(space):,} combinations is possible; what comes closest breaks: {rule}"
            + (f" (got {told})" if told else "")
        )
    table["fits"] = table["device_bytes"] <= limit
    fits = np.flatnonzero(table["fits"])

    def configuration(row: int) -> Configuration:
        settings: dict[str, Any] = {name: table[name][row].item() for name in NAMES}
        settings |= {name: known[settings[name]] for name, known in WORDS.items()}
        used: Stack = space.stacks[int(table["stack"][row])]
        one = estimate(
            shape, cluster, global_batch=global_batch, stack=used, check_memory=False, **settings, **said.costs
        )
        return Configuration(**settings, stack=used.name, estimate=one)

    smallest = configuration(int(np.argmin(table["peak_bytes"])))
    if must_fit and not len(fits):
        raise InfeasibleError(nothing_fits(shape, cluster, space, smallest, limit, said))
    order = fits[np.lexsort((table["peak_bytes"][fits], table["seconds"][fits]))]
    best = tuple(configuration(int(row)) for row in order[:top])
    front = tuple(configuration(int(row)) for row in _front(order, table["peak_bytes"]))
    return SearchResult(
        shape, cluster, global_batch, int(limit), best, front, len(space), repeats, impossible,
        len(table["seconds"]), len(fits), smallest, time.process_time() - begin, table,
        tuple(one.name for one in space.stacks),
    )  # fmt: skip


def _front(order: NDArray[np.int64], peak: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of rows from the fastest to the slowest, those with less memory than all before them."""
    if not len(order):
        return order
    values = peak[order]
    before = np.concatenate(([np.iinfo(np.int64).max], np.minimum.accumulate(values)[:-1]))
    return order[values < before]
