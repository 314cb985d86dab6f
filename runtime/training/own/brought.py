"""`Own`: what a user brings to a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from ....profiles.graph import Graph
from ....reprs import Shown
from ..module_values import module_values
from ..optimizer import Optimizer
from ..stage.statistics import kept_statistics
from .batches import Batch, global_batches
from .names import StateNames
from .optimizer import TorchOptimizer

if TYPE_CHECKING:
    from torch import Tensor

    from ....profiles.graph.module_loss import ModuleLoss
    from ....simulator.training.plan.file import TrainingPlan

__all__ = ["Own", "Ready"]


@dataclass(frozen=True, eq=False, repr=False)
class Own(Shown):
    """The user's data, weights, optimiser and module; what is left out is drawn from the seed, or the plan's.

    Parameters
    ----------
    data : iterable, or map-style dataset, optional
        Samples, or batches of any number of samples: mappings from the model's inputs to arrays or tensors, or tuples
        in the order of the graph's inputs. A torch Dataset or DataLoader, a list, a generator. They are collated to the
        plan's global batches, in their order; shuffling is theirs.
    state : mapping, optional
        A state dict with the module's qualified names: the weights to start from.
    optimizer : TorchOptimizer, optional
        Instead of the plan's, which has the learning rate of `RunOptions`.
    module : ModuleLoss, optional
        The module that the graph was traced from, with its loss: its buffers and names are the run's. A comparison is
        with it instead of with the graph.
    """

    data: Any = None
    state: Mapping[str, Any] | None = None
    optimizer: TorchOptimizer | None = None
    module: ModuleLoss | None = None


@dataclass(eq=False)
class Ready:
    """What a user brought, checked against the plan's graph.

    Parameters
    ----------
    names : StateNames
        Of the user's state dict.
    values : dict
        Parameter or buffer of the graph -> value that is not drawn from the seed.
    kept : dict
        Entries of the state dict that the loss does not depend on.
    optimizer : Optimizer or TorchOptimizer
        What steps.
    batches : iterator of Batch, optional
        Global batches, of which the first has been made.
    first : Batch
        That one; empty without data.
    seen : list of Batch
        Those that a reference needs, filled while the run goes on.
    """

    names: StateNames
    values: dict[str, Tensor]
    kept: dict[str, Tensor]
    optimizer: Optimizer | TorchOptimizer
    batches: Iterator[Batch] | None = None
    first: Batch = field(default_factory=dict[str, "Tensor"])
    seen: list[Batch] = field(default_factory=list[Batch])

    @classmethod
    def of(cls, own: Own, plan: TrainingPlan, graph: Graph, iterations: int, rate: float) -> Ready:
        """Check it, before any process starts.

        Raises
        ------
        InputError
            On data, weights or an optimiser that do not go with the plan.
        """
        kept_up = kept_statistics(plan, graph)
        names = (
            StateNames.of_graph(graph, kept_up)
            if own.module is None
            else StateNames.of_module(own.module, graph, kept_up)
        )
        values = {} if own.module is None else module_values(own.module, graph)
        kept: dict[str, Tensor] = {}
        if own.module is not None:
            there = {key: x for key, x in own.module.module.state_dict().items() if x.device.type != "meta"}
            kept = names.kept(there)
        if own.state is not None:
            values |= names.values(own.state)
            kept = names.kept(own.state)
        optimizer: Optimizer | TorchOptimizer = Optimizer(plan.model.optimizer, rate)
        if own.optimizer is not None:
            optimizer = own.optimizer
            optimizer.check([t.name for t in graph.parameters if t.trainable])
        ready = cls(names, values, kept, optimizer)
        if own.data is None:
            return ready
        batches = global_batches(own.data, graph, plan.global_batch, iterations)
        first = next(batches)
        return replace(ready, batches=chain([first], batches), first=first)

    def again(self) -> Iterator[Batch] | None:
        """The first batch alone, for a run before the run."""
        return None if self.batches is None else iter([self.first])

    def remembered(self, every: bool) -> Iterator[Batch] | None:
        """The batches for the run; the first one is remembered for the reference, or every one."""
        if self.batches is None:
            return None
        self.seen = [] if every else [self.first]
        return (self._noted(batch) for batch in self.batches) if every else self.batches

    def _noted(self, batch: Batch) -> Batch:
        self.seen.append(batch)
        return batch
