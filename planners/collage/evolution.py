"""`Evolution`: a search over strings of bits by what each was measured to take (thesis 003 §2.4.3).

The fitness is a function, in the end a measurement of the whole network, so the search counts evaluations and never
asks for the same string twice. The rounds are the authors': tournaments, two-point crossover, mutation, the whole
population replaced. By themselves they get stuck: in a re-implementation they found the best of 8 to 16 bits within 600
evaluations in 28 to 40 of 40 runs. So two things are added, both ours. After each round some neighbours of the best are
looked at: one bit flipped, or a stretch of bits set alike, since neighbouring groups become one engine. And a
population that has become alike is drawn anew around the best.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...errors import InputError
from ...files import readable, write_text
from ...reprs import Shown
from ...seeds import generator
from ...wording import short

__all__ = ["Enough", "Evolution", "EvolutionOptions", "Evolved"]

Bits = str
"""``"0110"``: a string of 0 and 1."""


@dataclass(frozen=True, kw_only=True, repr=False)
class EvolutionOptions(Shown):
    """How the search goes on. Defaults are those of the authors' program, but for the last.

    Parameters
    ----------
    seed : int
        What the draws begin with.
    evaluations : int
        Most calls of the fitness; strings that are known from a log count as well.
    population : int
        Strings in a round, >= 4.
    tournament : int
        Strings of which the best is selected.
    crossover : float
        Probability that a pair exchanges what is between two points.
    mutation, flip : float
        Probability that a string is mutated, and of each of its bits to be flipped then.
    neighbours : int
        Most neighbours of the best string that are looked at after a round; 0 gives the authors' search alone.
    """

    seed: int = 0
    evaluations: int = 600
    population: int = 50
    tournament: int = 5
    crossover: float = 0.5
    mutation: float = 0.2
    flip: float = 0.05
    neighbours: int = 25

    def __post_init__(self) -> None:
        for name, least in (("evaluations", 1), ("population", 4), ("tournament", 1), ("neighbours", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
                raise InputError(f"{name}: expected a whole number >= {least} (got {value!r})")
        for name in ("crossover", "mutation", "flip"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name}: expected a probability (got {getattr(self, name)!r})")


@dataclass(frozen=True, repr=False)
class Evolved(Shown):
    """What a search found.

    Parameters
    ----------
    time_ms : float
        Milliseconds of the best string.
    bits : str
        The best string; of equal ones the one met first.
    evaluations : int
        Strings that were evaluated, the remembered ones too.
    history : tuple of (str, float)
        All of them, in order.
    """

    time_ms: float
    bits: Bits
    evaluations: int
    history: tuple[tuple[Bits, float], ...]

    def _headline(self) -> str:
        return f"{self.time_ms:.4g} ms, {short(self.bits)}, {self.evaluations} evaluations"


class Enough(Exception):
    """What a fitness raises when its time is over: the search ends with what it knows."""


class _Spent(Exception):
    """The budget is used up, or all strings are known."""


class Evolution:
    """A search over strings of `bits` bits.

    It depends on nothing but its options and what the fitness returns. So it is resumed by going the same way again
    with the strings that are known: `known`, or a log file, which is written after each evaluation.

    Parameters
    ----------
    bits : int
        Length of the strings, >= 0.
    fitness : callable of str
        Milliseconds of a string; inf if it cannot run. Called once for each string.
    options : EvolutionOptions
        See there.
    known : mapping of str to float
        Strings that were evaluated before.
    log : path, optional
        A JSON file ``{"bits": n, "known": {"0110": ms, …}}``. It is read if it is there.

    Raises
    ------
    InputError
        If the number of bits or what is known does not fit, or the log cannot be read.
    """

    def __init__(
        self, bits: int, fitness: Callable[[Bits], float], options: EvolutionOptions | None = None, *,
        known: Mapping[Bits, float] | None = None, log: str | Path | None = None,
    ) -> None:  # fmt: skip
        if isinstance(bits, bool) or not hasattr(bits, "__index__") or bits < 0:
            raise InputError(f"bits: expected a whole number >= 0 (got {bits!r})")
        self.bits, self.options = int(bits), options or EvolutionOptions()
        self._fitness, self._log = fitness, None if log is None else Path(log)
        self._known = {**(self._read_log() if self._log and self._log.exists() else {}), **(known or {})}
        for string, ms in self._known.items():
            if len(string) != self.bits or not set(string) <= {"0", "1"} or not ms > -math.inf:
                raise InputError(f"known: expected strings of {self.bits} bits with their ms (got {string!r}: {ms!r})")
        self._seen: dict[Bits, float] = {}
        self._random = generator(self.options.seed, "collage evolution")

    def run(self) -> Evolved:
        """Search until evaluations are used up, all strings known, or it is `Enough`. A second call answers alike."""
        if not self._seen:
            with suppress(_Spent, Enough):
                self._search()
        best = self._best()
        return Evolved(self._seen[best], best, len(self._seen), tuple(self._seen.items()))

    def _search(self) -> None:
        n, size = self.bits, self.options.population
        population = ["0" * n, "1" * n, *(self._drawn() for _ in range(size - 2))]
        while True:
            before = len(self._seen)
            for string in population:
                self._ms(string)
            self._look_around()
            alike = len(set(population)) <= size // 10 or len(self._seen) == before
            population = self._fresh() if alike else self._next(population)

    def _fresh(self) -> list[Bits]:
        """A population drawn anew; where all strings can be evaluated, what is left of them in turn."""
        size = self.options.population
        if 2**self.bits <= self.options.evaluations:
            every = (format(k, f"0{self.bits}b") for k in range(2**self.bits))
            return [string for string in every if string not in self._seen][:size]
        return [self._best(), *(self._drawn() for _ in range(size - 1))]

    def _next(self, population: list[Bits]) -> list[Bits]:
        """Selection, crossover and mutation; the best string there is takes the first place."""
        draw, options = self._random, self.options
        shape = (len(population), options.tournament)
        picked: list[list[int]] = draw.integers(0, len(population), shape).tolist()
        chosen = [list(min((population[i] for i in row), key=self._seen.__getitem__)) for row in picked]
        for a, b in zip(chosen[::2], chosen[1::2], strict=False):
            if draw.random() < options.crossover and self.bits > 1:
                i, j = sorted(map(int, draw.choice(self.bits + 1, 2, replace=False)))
                a[i:j], b[i:j] = b[i:j], a[i:j]
        for string in chosen:
            if draw.random() < options.mutation:
                for k in np.flatnonzero(draw.random(self.bits) < options.flip):
                    string[k] = _other(string[k])
        return [self._best(), *("".join(string) for string in chosen[1:])]

    def _look_around(self) -> None:
        """Evaluate neighbours of the best string that are not known yet, until one is better or they are enough."""
        best, n = self._best(), self.bits
        if not self.options.neighbours:
            return
        flips = [best[:k] + _other(best[k]) + best[k + 1 :] for k in range(n)]
        # Of all stretches, as many as can be looked at: there are n² of them.
        drawn = self._random.integers(0, n + 1, (4 * self.options.neighbours, 2)).tolist()
        ends = [(min(pair), max(pair)) for pair in drawn]
        stretches = [best[:i] + str(b % 2) * (j - i) + best[j:] for b, (i, j) in enumerate(ends)]
        shuffled = [flips[int(k)] for k in self._random.permutation(n)]
        unknown = [string for string in dict.fromkeys([*shuffled, *stretches]) if string not in self._seen]
        for string in unknown[: self.options.neighbours]:
            if self._ms(string) < self._seen[best]:
                return

    def _drawn(self) -> Bits:
        return "".join(map(str, self._random.integers(0, 2, self.bits)))

    def _best(self) -> Bits:
        return min(self._seen, key=self._seen.__getitem__)

    def _ms(self, string: Bits) -> float:
        if string in self._seen:
            return self._seen[string]
        if len(self._seen) >= self.options.evaluations:
            raise _Spent
        ms = self._known.get(string)
        if ms is None:
            ms = float(self._fitness(string))
            if not ms > -math.inf:
                raise InputError(f"fitness of {string!r}: expected milliseconds (got {ms!r})")
            self._known[string] = ms
            if self._log is not None:
                write_text(self._log, json.dumps({"bits": self.bits, "known": self._known}) + "\n")
        self._seen[string] = ms
        if len(self._seen) == 2**self.bits:
            raise _Spent
        return ms

    def _read_log(self) -> dict[Bits, float]:
        assert self._log is not None
        try:
            made: Any = json.loads(readable(self._log).read_text(encoding="utf-8"))
            known = cast("dict[str, Any]", made["known"])
            if made["bits"] == self.bits:
                return {str(string): float(ms) for string, ms in known.items()}
            raise InputError(f"{self._log}: a log of {made['bits']} bits (expected {self.bits}); give another file")
        except InputError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise InputError(f"{self._log}: no log of a search ({error!r}); delete it to begin anew") from None


def _other(bit: str) -> str:
    return "1" if bit == "0" else "0"
