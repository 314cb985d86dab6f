"""`Mix`: a way to serve one model on devices of several types, and the pieces that it is simulated in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....errors import InfeasibleError
from ....reprs import Shown
from ....simulator.llm.plan.entries import Deployment, Role
from ....simulator.mixed import MixedCluster
from ..candidate import EngineShape
from ..layouts import place

__all__ = ["Mix", "Part", "Piece", "deployments", "rows_of"]


@dataclass(frozen=True, slots=True, repr=False)
class Part(Shown):
    """Equal engines on one type of device.

    Parameters
    ----------
    pool : int
        Which pool of the fleet.
    engine : EngineShape
        Each engine.
    replicas : int
        How many.
    role : {"both", "prefill", "decode"}
        What they do.
    """

    pool: int
    engine: EngineShape
    replicas: int
    role: Role = "both"

    @property
    def devices(self) -> int:
        """Devices of all engines."""
        return self.replicas * self.engine.devices


@dataclass(frozen=True, slots=True)
class Piece:
    """What is simulated by itself: engines that get the requests of an interval of the deal (`policy.deal`).

    Parameters
    ----------
    parts : tuple of Part
        One part; or one for prompts and one for decodes, which get all requests.
    low, high : float
        The interval, in [0, 1].
    router : str
        Which engine gets a request.
    """

    parts: tuple[Part, ...]
    low: float
    high: float
    router: str


@dataclass(frozen=True, slots=True, repr=False)
class Mix(Shown):
    """A way to serve one model.

    Parameters
    ----------
    parts : tuple of Part
        Each on devices of another type; or one for prompts and one for decodes.
    shares : tuple of int
        Of the requests that each part gets, in steps; one step in all where a part, or a pair, gets everything.
    router : str
        Which engine of a part gets a request.
    """

    parts: tuple[Part, ...]
    shares: tuple[int, ...] = (1,)
    router: str = "round_robin"

    @property
    def devices(self) -> int:
        """Devices in all."""
        return sum(part.devices for part in self.parts)

    @property
    def split(self) -> bool:
        """Whether prompts and decodes are apart."""
        return self.parts[0].role != "both"

    @property
    def fractions(self) -> tuple[float, ...]:
        """Shares of the requests, 1 together."""
        return tuple(share / sum(self.shares) for share in self.shares)

    def counts(self, pools: int) -> tuple[int, ...]:
        """Devices of each pool."""
        return tuple(sum(part.devices for part in self.parts if part.pool == p) for p in range(pools))

    def pieces(self) -> tuple[Piece, ...]:
        """What it is simulated in: parts that do not touch each other."""
        if self.split or len(self.parts) == 1:
            return (Piece(self.parts, 0.0, 1.0, self.router),)
        from ....simulator.llm.policy.deal import edges

        ends = edges(self.fractions).tolist()
        return tuple(Piece((p,), ends[i], ends[i + 1], self.router) for i, p in enumerate(self.parts))

    def said(self, names: Sequence[str]) -> str:
        """In words, with the names of the pools' devices."""
        texts: list[str] = []
        for part, share in zip(self.parts, self.fractions if not self.split else (1.0,) * 2, strict=True):
            role = {"both": "", "prefill": " for prompts", "decode": " for decodes"}[part.role]
            dealt = f" gets {share:.4g}" if len(self.parts) > 1 and not self.split else ""
            texts.append(f"{part.replicas} x {part.engine} on {names[part.pool]}{role}{dealt}")
        routed = f", {self.router}" if self.router != "round_robin" else ""
        return " + ".join(texts) + routed

    def __str__(self) -> str:
        return self.said([f"pool {part}" for part in range(1 + max(p.pool for p in self.parts))])


def rows_of(mixes: Sequence[Mix], fleet: MixedCluster) -> list[list[list[tuple[int, ...]]]]:
    """Devices of each engine of each part of several mixes that stand side by side.

    Raises
    ------
    InfeasibleError
        If they do not go into the nodes.
    """
    rows: list[list[list[tuple[int, ...]]]] = [[[] for _ in mix.parts] for mix in mixes]
    for number, pool in enumerate(fleet.pools):
        mine = [(m, p, part) for m, mix in enumerate(mixes) for p, part in enumerate(mix.parts) if part.pool == number]
        sizes = [(part.engine.devices, part.engine.tp) for _, _, part in mine for _ in range(part.replicas)]
        placed = place(sizes, pool) if sum(size for size, _ in sizes) <= pool.n_devices else None
        if placed is None:
            texts = "; ".join(f"{part.replicas} x {part.engine}" for _, _, part in mine)
            raise InfeasibleError(f"the engines do not go into {pool}: {texts}; give a node more devices")
        found = iter(placed)
        for m, p, part in mine:
            rows[m][p] = [tuple(fleet.first(number) + x for x in next(found)) for _ in range(part.replicas)]
    return rows


def deployments(
    mix: Mix, model: str, rows: Sequence[Sequence[Sequence[int]]], names: Sequence[str]
) -> tuple[Deployment, ...]:
    """A mix as a plan says it, on one row of devices per engine; `names` are those of the pools' devices."""
    made: list[Deployment] = []
    for part, devices, share in zip(mix.parts, rows, mix.fractions if not mix.split else (None, None), strict=True):
        name = model if len(mix.parts) == 1 else f"{model} {part.role}" if mix.split else f"{model} {names[part.pool]}"
        each = part.engine.deployment(name, model, devices, part.role)
        made.append(each.model_copy(update={"share": share if len(mix.parts) > 1 else None}))
    return tuple(made)
