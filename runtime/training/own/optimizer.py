"""`TorchOptimizer`: a class of torch.optim with its options, run by every device on its own shards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ....errors import InputError, MeshwrightError
from ....profiles.graph.fused.part import parameter_of
from ....reprs import Shown
from ..optimizer import Optimizer, PlainStep, Shard
from .schedule import Schedule

if TYPE_CHECKING:
    from torch import Tensor

    from ..optimizer import Step

__all__ = ["Group", "TorchOptimizer"]

ADAFACTOR = "Adafactor"
"""The one that is not element-wise and yet runs on shards: ours, which equals torch's, sums what shards need."""


@dataclass(frozen=True, slots=True, repr=False)
class Group(Shown):
    """Parameters that have options of their own.

    Parameters
    ----------
    names : tuple of str
        Patterns of qualified names, such as ``*.bias``; ``*`` stands for any text, dots too.
    options : mapping
        What differs from the optimiser's options, such as ``{"weight_decay": 0.0}``.
    """

    names: tuple[str, ...]
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", (self.names,) if isinstance(self.names, str) else tuple(self.names))
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))

    def has(self, name: str) -> bool:
        """Whether a parameter is in the group; a part of a fused one is where that is."""
        return any(fnmatchcase(parameter_of(name), pattern) for pattern in self.names)


@dataclass(frozen=True, slots=True, repr=False)
class TorchOptimizer(Shown):
    """A class of torch.optim, its options, and what is around it in a training loop.

    Every device steps its own shards by torch's class. So it must work element by element (`check` tries that out), as
    SGD, Adam, AdamW, RMSprop and most do; Adafactor is ours, with torch's numbers.

    Parameters
    ----------
    name : str
        ``"AdamW"``, in any case of letters; ``"torch.optim:AdamW"``; or the class itself.
    options : mapping
        Its keywords, such as ``{"lr": 3e-4, "weight_decay": 0.1, "betas": (0.9, 0.95)}``; others have torch's defaults.
    groups : sequence of Group
        Parameters with options of their own. The first group that has a name counts.
    schedule : Schedule
        What the learning rates are multiplied by in each iteration.
    clip_norm : float, optional
        The norm of all gradients together is brought down to this, as `torch.nn.utils.clip_grad_norm_` does: over all
        shards and stages, parameters that several stages share counted once.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    groups: tuple[Group, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        given: Any = self.name
        name = given.__name__ if isinstance(given, type) else str(given).removeprefix("torch.optim:")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", MappingProxyType(dict(self.options)))
        object.__setattr__(self, "groups", tuple(self.groups))
        if self.clip_norm is not None and not (math.isfinite(self.clip_norm) and self.clip_norm > 0):
            raise InputError(f"optimizer: clip_norm: expected a finite number > 0 (got {self.clip_norm!r})")

    def document(self) -> dict[str, Any]:
        """What ranks are sent, as JSON can hold it."""
        return {
            "torch": self.name, "options": dict(self.options),
            "groups": [{"names": list(g.names), "options": dict(g.options)} for g in self.groups],
            "schedule": asdict(self.schedule), "clip_norm": self.clip_norm,
        }  # fmt: skip

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> TorchOptimizer:
        """The optimiser of a `document`."""
        groups = tuple(Group(tuple(g["names"]), _tuples(g["options"])) for g in document["groups"])
        schedule = Schedule(**{**document["schedule"], "factors": tuple(document["schedule"]["factors"])})
        return cls(document["torch"], _tuples(document["options"]), groups, schedule, document["clip_norm"])

    def kind(self) -> type[Any]:
        """The class.

        Raises
        ------
        InputError
            If torch.optim has none of that name.
        """
        import torch

        known = {
            key.lower(): value
            for key, value in vars(torch.optim).items()
            if isinstance(value, type)
            and issubclass(value, torch.optim.Optimizer)
            and value is not torch.optim.Optimizer
        }
        found = known.get(self.name.lower())
        if found is None:
            names = ", ".join(sorted(x.__name__ for x in known.values()))
            raise InputError(f"optimizer: torch.optim has no {self.name!r}; it has {names}")
        return found

    def options_of(self, name: str) -> dict[str, Any]:
        """Options of a parameter."""
        mine = next((group.options for group in self.groups if group.has(name)), {})
        return {**self.options, **mine}

    def check(self, names: Sequence[str]) -> None:
        """Try it out on small tensors: the class and its options, and that it steps halves of a matrix as the whole.

        Parameters
        ----------
        names : sequence of str
            The parameters that will be trained.

        Raises
        ------
        InputError
            If torch refuses an option, a group has no parameter, or the class is not element-wise.
        """
        kind = self.kind()
        for group in self.groups:
            for pattern in group.names:
                if not any(fnmatchcase(parameter_of(name), pattern) for name in names):
                    raise InputError(
                        f"optimizer: groups: no trained parameter is called {pattern!r}; one is {names[0]!r}"
                    )
        for options in ({**self.options}, *({**self.options, **group.options} for group in self.groups)):
            if kind.__name__ == ADAFACTOR:
                _adafactor(options)
                continue
            apart = _halves_apart(kind, options)
            if apart:
                raise InputError(
                    f"optimizer: {kind.__name__} is not element-wise: {apart}. Shards cannot be stepped alone; take "
                    "one that is, such as AdamW or SGD, or Adafactor"
                )

    def begin(self, name: str, value: Tensor, shard: Shard | None = None) -> Step:
        """The state of one parameter, or of a shard of it, before the first step."""
        options = self.options_of(name)
        if self.kind().__name__ == ADAFACTOR:
            plain, decay = _adafactor(options)
            return _ScheduledAdafactor(plain, decay, self.schedule, value, shard)
        return _TorchStep(self.kind(), options, self.schedule, value)


class _TorchStep:
    """torch's own optimiser of one tensor."""

    def __init__(self, kind: type[Any], options: Mapping[str, Any], schedule: Schedule, value: Tensor) -> None:
        self._leaf = value.detach().clone().requires_grad_()
        self._made = _made(kind, options, self._leaf)
        self._rates, self._schedule = [g.get("lr") for g in self._made.param_groups], schedule

    @property
    def state(self) -> list[Tensor]:
        """What torch keeps of the tensor; nothing before the first step."""
        import torch

        return [x for x in self._made.state.get(self._leaf, {}).values() if isinstance(x, torch.Tensor)]

    def apply(self, value: Tensor, gradient: Tensor, iteration: int) -> None:
        """Make one step in place."""
        for group, rate in zip(self._made.param_groups, self._rates, strict=True):
            if rate is not None:
                group["lr"] = rate * self._schedule.at(iteration)
        self._leaf.data, self._leaf.grad = value, gradient
        self._made.step()
        self._leaf.grad = None


class _ScheduledAdafactor(PlainStep):
    """Our Adafactor with a schedule and weight decay."""

    def __init__(
        self, plain: Optimizer, decay: float, schedule: Schedule, value: Tensor, shard: Shard | None
    ) -> None:  # fmt: skip
        super().__init__(plain, value, shard)
        self._decay, self._schedule, self._rate = decay, schedule, plain.rate

    def apply(self, value: Tensor, gradient: Tensor, iteration: int) -> None:
        """Make one step in place."""
        rate = self._rate * self._schedule.at(iteration)
        self.optimizer = replace(self.optimizer, rate=rate)
        before = value * (rate * self._decay)
        super().apply(value, gradient, iteration)
        value.sub_(before)  # torch finds the step's size of the weights before they decay


def _adafactor(options: Mapping[str, Any]) -> tuple[Optimizer, float]:
    """Our Adafactor for torch's options, and the weight decay."""
    known = {"lr", "beta2_decay", "eps", "d", "weight_decay"}
    unknown = next((key for key in options if key not in known), None)
    if unknown is not None:
        raise InputError(f"optimizer: Adafactor on shards takes no {unknown!r}; it takes {', '.join(sorted(known))}")
    eps = options.get("eps", (None, 1e-3))
    if eps[0] is not None:
        raise InputError("optimizer: Adafactor on shards: eps: the first is that of the number format; give None")
    plain = Optimizer(
        "adafactor", float(options.get("lr", 1e-2)), decay=float(options.get("beta2_decay", -0.8)),
        least_scale=float(eps[1]), clip=float(options.get("d", 1.0)),
    )  # fmt: skip
    return plain, float(options.get("weight_decay", 0.0))


def _made(kind: type[Any], options: Mapping[str, Any], leaf: Tensor) -> Any:
    """The optimiser of one tensor.

    Raises
    ------
    InputError
        With torch's reason, if it refuses the options.
    """
    try:
        return kind([leaf], **options)
    except MeshwrightError:
        raise
    except Exception as error:
        raise InputError(f"optimizer: {kind.__name__}: {' '.join(str(error).split())}") from None


def _halves_apart(kind: type[Any], options: Mapping[str, Any]) -> str:
    """Why three steps of a matrix are not those of its halves; empty if they are."""
    import torch

    torch_random = torch.Generator().manual_seed(0)
    whole = torch.randn((4, 6), dtype=torch.float64, generator=torch_random)
    gradients = [torch.randn((4, 6), dtype=torch.float64, generator=torch_random) for _ in range(3)]
    found: list[Tensor] = []
    for parts in ([slice(0, 4)], [slice(0, 1), slice(1, 4)]):
        after: list[Tensor] = []
        for part in parts:
            value = whole[part].clone()
            step = _TorchStep(kind, options, Schedule(), value)
            for iteration, gradient in enumerate(gradients):
                try:
                    step.apply(value, gradient[part].clone(), iteration)
                except Exception as error:
                    return " ".join(str(error).split()).rstrip(".")
            after.append(value)
        found.append(torch.cat(after))
    return "" if torch.allclose(found[0], found[1], rtol=1e-12, atol=0) else "a part of a matrix steps otherwise alone"


def _tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were: JSON makes lists of tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
