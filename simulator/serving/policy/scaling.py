"""`Scaling`: which groups of a placement run, as the load asks for. The decision is a `Scaler`, which knows no clock.

A placement holds the most groups that ever run. At time 0 the first groups serve that together hold every model, and
more in order of index until `least` do. Every `every_s` seconds, as long as requests arrive, the load is evaluated:

- the load is, by ``"outstanding"``, the requests that serving groups have been sent and not answered, and those that
  wait for a batch, divided by the groups that serve or load; by ``"utilization"``, the time since the last evaluation
  for which each serving group had requests, its sum divided by that time and by the groups that serve or load;
- above `up` one group is started. One that is being drained is taken back, and serves at once; else one that is off
  begins to load, and serves after its `load_s`. It is the one that relieves most: whose models' other serving groups
  have most requests, those waiting for its models included; the lowest index among equals;
- a load that was below `down` in all evaluations of at least `hold_s` seconds, the first and the last of them included,
  takes one group away: of those that serve and hold no model that no other serving group holds, the one with the fewest
  requests, the highest index among equals. Never below `least` groups that serve or load. It is drained: it is sent
  nothing any more, answers what it has, and is off at that instant. `hold_s` begins anew after each change.

Groups fail and are repaired. One that fails loses what it has, uses no devices, and is neither seen nor started by the
rule until it is repaired. If it served or loaded when it failed, it then begins to load, for its `load_s` again; if it
was drained or off, it is off. At an evaluation at which some model is held by no group that serves or loads, or fewer
than `least` serve or load, one group is started whatever the load is: of those that hold such a model, if there are
any, as above. (Neither can be so where nothing fails.)

A group that is off uses no devices; one that loads, serves or drains uses all of its own. Groups without models never
run. At one instant groups are repaired, groups that have loaded serve, groups fail, the load is evaluated, and then
requests are tried anew, or arrive.
"""

from __future__ import annotations

# A door checks what callers without a type checker give.
# pyright: reportUnnecessaryIsInstance=false
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ....errors import InputError
from ....reprs import Shown

__all__ = ["LOADS", "Order", "Scaler", "Scaling", "Use"]

LOADS = ("outstanding", "utilization")


@dataclass(frozen=True, slots=True, repr=False)
class Scaling(Shown):
    """A rule by which groups are started and drained.

    Parameters
    ----------
    least : int
        Groups that always serve or load; more where fewer do not hold every model.
    up, down : float
        Load above which a group is started, and below which one is drained.
    load_s : tuple of float
        Seconds that each group of the placement takes from its start until it serves.
    by : {"outstanding", "utilization"}
        What the load is: requests per group, or the share of the time for which groups have some.
    every_s : float
        Seconds between evaluations; the first is one of them after the beginning.
    hold_s : float
        Seconds for which the load must have been low before a group is drained.
    cold : bool
        Whether the first groups load at time 0 too, instead of serving.

    Raises
    ------
    InputError
        On a value out of its range.
    """

    least: int
    up: float
    down: float
    load_s: tuple[float, ...]
    by: Literal["outstanding", "utilization"] = "outstanding"
    # Kubernetes' horizontal pod autoscaler evaluates every 15 s, and shrinks by the last 300 s.
    every_s: float = 15.0
    hold_s: float = 300.0
    cold: bool = False

    def __post_init__(self) -> None:
        least: Any = self.least
        if isinstance(least, bool) or not isinstance(least, int) or least < 1:
            raise InputError(f"scaling: least: expected an integer >= 1 (got {least!r})")
        if self.by not in LOADS:
            raise InputError(f"scaling: by: expected one of {', '.join(LOADS)} (got {self.by!r})")
        if not (math.isfinite(self.up) and self.up > 0):
            raise InputError(f"scaling: up: expected a finite load > 0 (got {self.up})")
        if not 0 <= self.down < self.up:
            raise InputError(f"scaling: down: expected a load >= 0 and below up {self.up:g} (got {self.down})")
        if not (math.isfinite(self.every_s) and self.every_s > 0):
            raise InputError(f"scaling: every_s: expected finite seconds > 0 (got {self.every_s})")
        if not (math.isfinite(self.hold_s) and self.hold_s >= 0):
            raise InputError(f"scaling: hold_s: expected finite seconds >= 0 (got {self.hold_s})")
        for g, seconds in enumerate(self.load_s):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise InputError(f"scaling: load_s: group {g}: expected finite seconds >= 0 (got {seconds})")

    def check(self, groups: int) -> None:
        """Raise `InputError` if it is not for a placement of so many groups."""
        if len(self.load_s) != groups:
            raise InputError(f"scaling: load_s: expected seconds for each of {groups} groups (got {len(self.load_s)})")
        if self.least > groups:
            raise InputError(f"scaling: least: the placement has {groups} groups (got {self.least})")


class Order(NamedTuple):
    """What becomes of a group: it is started, taken back while it drains, or drained."""

    group: int
    what: Literal["start", "take back", "drain"]


class Use(NamedTuple):
    """A group's devices are in use from its start until it is off: infinite if it runs to the end.

    Its first request can come at `serves_s`; infinite if it never came to serve. It is off too when it fails.
    """

    group: int
    from_s: float
    serves_s: float
    until_s: float


class Scaler:
    """Decides when groups start and drain, from what a controller has sent and heard.

    Parameters
    ----------
    scaling : Scaling
        The rule.
    models : sequence of sequence of int
        What each group of the placement holds.

    Attributes
    ----------
    state : list of str
        Of each group: ``"off"``, ``"loading"``, ``"serving"``, ``"draining"``, ``"down"``.
    outstanding : list of int
        Requests that each group was sent and has not answered.
    """

    def __init__(self, scaling: Scaling, models: Sequence[Sequence[int]]) -> None:
        self.scaling = scaling
        self.models = [frozenset(held) for held in models]
        self.outstanding = [0] * len(models)
        self.state = ["off"] * len(models)
        self._used: list[Use] = []
        self._open: dict[int, tuple[float, float]] = {}  # group -> when it was started, and when it served
        self._had = [0.0] * len(models)  # seconds with requests since the last evaluation
        self._since = [0.0] * len(models)  # from when on it has had requests, if not before the last evaluation
        self._last = 0.0
        self._low_since: float | None = None
        self._wanted: set[int] = set()  # groups that are down, and load when they are repaired
        held: set[int] = set()
        first = [g for g, mine in enumerate(self.models) if mine - held and not held.update(mine)]
        more = [g for g, mine in enumerate(self.models) if mine and g not in first]
        for g in first + more[: max(scaling.least - len(first), 0)]:
            self.state[g], self._open[g] = ("loading", (0.0, math.inf)) if scaling.cold else ("serving", (0.0, 0.0))

    def serves(self, group: int) -> bool:
        """Whether a group may be sent requests."""
        return self.state[group] == "serving"

    def sent(self, now: float, group: int, requests: int) -> None:
        """A group was sent so many requests."""
        if not self.outstanding[group]:
            self._since[group] = now
        self.outstanding[group] += requests

    def answered(self, now: float, group: int, requests: int) -> None:
        """A group answered so many; one that drains and has no more is off."""
        self.outstanding[group] -= requests
        if not self.outstanding[group]:
            self._had[group] += now - self._since[group]
            if self.state[group] == "draining":
                self._off(now, group)

    def loaded(self, now: float, group: int) -> None:
        """A group that was started has its weights, and serves."""
        self.state[group] = "serving"
        self._open[group] = (self._open[group][0], now)

    def begun(self, group: int) -> float:
        """When a group that loads began to, seconds; NaN if it does not load."""
        return self._open[group][0] if self.state[group] == "loading" else math.nan

    def failed(self, now: float, group: int) -> None:
        """A group went down, and has lost its requests."""
        if self.outstanding[group]:
            self._had[group] += now - self._since[group]
            self.outstanding[group] = 0
        if self.state[group] in ("serving", "loading"):
            self._wanted.add(group)
        if group in self._open:
            self._off(now, group)
        self.state[group] = "down"

    def repaired(self, now: float, group: int) -> bool:
        """A group that was down can run again: whether it begins to load, else it is off."""
        if group not in self._wanted:
            self.state[group] = "off"
            return False
        self._wanted.remove(group)
        self.state[group], self._open[group] = "loading", (now, math.inf)
        return True

    def evaluate(self, now: float, waiting: Sequence[int] = ()) -> Order | None:
        """Evaluate the load: what is to be done, which is noted already.

        Parameters
        ----------
        now : float
            Seconds; later than at the last call.
        waiting : sequence of int
            Requests of each model that no group has; none where nothing waits.
        """
        rule, load = self.scaling, self._load(now, sum(waiting))
        there = frozenset().union(*(self.models[g] for g in self._there()))
        unheld = frozenset().union(*self.models) - there
        order = self._start(now, waiting, unheld) if unheld else None
        if order is None and len(self._there()) < rule.least:
            order = self._start(now, waiting)
        if order is not None:
            return order
        if load > rule.up:
            self._low_since = None
            return self._start(now, waiting)
        if not load < rule.down:
            self._low_since = None
            return None
        if self._low_since is None:
            self._low_since = now
        return self._drain(now) if now - self._low_since >= rule.hold_s else None

    def uses(self) -> tuple[Use, ...]:
        """When each group was in use, by start and group."""
        still = [Use(g, begun, serves, math.inf) for g, (begun, serves) in self._open.items()]
        return tuple(sorted(self._used + still, key=lambda use: (use.from_s, use.group)))

    def _load(self, now: float, waiting: int) -> float:
        serving = [g for g, state in enumerate(self.state) if state == "serving"]
        for g, outstanding in enumerate(self.outstanding):
            if outstanding:
                self._had[g] += now - self._since[g]
                self._since[g] = now
        there = max(len(self._there()), 1)
        if self.scaling.by == "outstanding":
            load = (sum(self.outstanding[g] for g in serving) + waiting) / there
        else:
            had = 0.0  # not `sum`, which rounds otherwise in later versions of Python than in compiled code
            for g in serving:
                had += self._had[g]
            load = had / (now - self._last) / there
        self._had, self._last = [0.0] * len(self._had), now
        return load

    def _there(self) -> list[int]:
        return [g for g, state in enumerate(self.state) if state in ("serving", "loading")]

    def _start(self, now: float, waiting: Sequence[int], needed: frozenset[int] | None = None) -> Order | None:
        def relieves(group: int) -> int:
            mine = self.models[group]
            others = (h for h in range(len(self.models)) if self.serves(h) and self.models[h] & mine)
            return sum(self.outstanding[h] for h in others) + sum(n for m, n in enumerate(waiting) if m in mine)

        free = [g for g, state in enumerate(self.state) if state == "draining" or (state == "off" and self.models[g])]
        if needed is not None:
            free = [g for g in free if self.models[g] & needed]
        if not free:
            return None
        self._low_since = None
        group = min(free, key=lambda g: (self.state[g] == "off", -relieves(g), g))
        if self.state[group] == "draining":
            self.state[group] = "serving"
            return Order(group, "take back")
        self.state[group], self._open[group] = "loading", (now, math.inf)
        return Order(group, "start")

    def _drain(self, now: float) -> Order | None:
        if len(self._there()) <= self.scaling.least:
            return None
        serving = [g for g in range(len(self.models)) if self.serves(g)]
        free = [g for g in serving if self.models[g] <= frozenset().union(*(self.models[h] for h in serving if h != g))]
        if not free:
            return None
        group = min(free, key=lambda g: (self.outstanding[g], -g))
        self.state[group], self._low_since = "draining", None
        if not self.outstanding[group]:
            self._off(now, group)
        return Order(group, "drain")

    def _off(self, now: float, group: int) -> None:
        self.state[group] = "off"
        self._used.append(Use(group, *self._open.pop(group), now))
