"""`ProfileSet`: the profiles of several models on one device type."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from ..errors import InputError, OutOfProfileError
from ..reprs import Shown
from .profile import ModelProfile, Provenance
from .spread import NO_VARIATION, Variation

__all__ = ["MAX_MODELS", "ProfileSet"]

MAX_MODELS = 100_000
"""Models of a set: more than any trace asks for."""


class _UnknownModelError(OutOfProfileError, KeyError):
    """A `KeyError` too, so that `Mapping.get` and ``in`` work; prints its message without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


def _unknown_model(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"unknown model {name!r}; " + (
        f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
    )


@dataclass(frozen=True, repr=False)
class ProfileSet(Shown, Mapping[str, ModelProfile]):
    """A named set of profiles for one device type: a read-only mapping from model name to `ModelProfile`.

    Parameters
    ----------
    name : str
        Name of the set.
    device : str
        Device type, as in `meshwright.profiles.DEVICES`.
    models : Mapping[str, ModelProfile]
        The profiles.
    provenance : Provenance
        Where the set comes from.
    overhead_s : float
        Seconds that the serving system adds to every finish, as measured (or cited) with the set.
    aliases : Mapping[str, str]
        Other names that a model answers to; not listed when the set is iterated.
    variation : Variation
        How latencies, hops and the overhead vary in service, where that was measured.
    """

    name: str
    device: str
    models: Mapping[str, ModelProfile]
    provenance: Provenance
    overhead_s: float = 0.0
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    variation: Variation = NO_VARIATION

    def __post_init__(self) -> None:
        if not (math.isfinite(self.overhead_s) and self.overhead_s >= 0):
            raise InputError(
                f"profile set {self.name!r}: overhead_s must be finite and >= 0 seconds (got {self.overhead_s})"
            )
        lost = [f"{alias!r} -> {name!r}" for alias, name in self.aliases.items() if name not in self.models]
        if lost:
            raise InputError(f"profile set {self.name!r}: alias of a model that it does not hold: {lost[0]}")
        object.__setattr__(self, "models", MappingProxyType(dict(self.models)))
        object.__setattr__(self, "aliases", MappingProxyType(dict(self.aliases)))

    def __reduce__(self) -> tuple[type[ProfileSet], tuple[object, ...]]:
        """Make instances picklable for our own processes: a read-only view cannot be pickled as it is."""
        plain = (self.name, self.device, dict(self.models), self.provenance, self.overhead_s, dict(self.aliases))
        return ProfileSet, (*plain, self.variation)

    def _headline(self) -> str:
        names = ", ".join(list(self.models)[:3]) + (" …" if len(self.models) > 3 else "")
        return f"{self.name} on {self.device}: {len(self.models)} models ({names})"

    def __getitem__(self, key: str) -> ModelProfile:
        profile = self.models.get(self.aliases.get(key, key))
        if profile is None:
            raise _UnknownModelError(f"profile set {self.name!r}: {_unknown_model(key, self.models)}")
        return profile

    def __iter__(self) -> Iterator[str]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def instances(self, counts: Mapping[str, int]) -> ProfileSet:
        """A set with `counts[name]` instances of each model, named ``name-0``, ``name-1``, ….

        Raises
        ------
        InputError
            On an unknown model, a count below zero, or more than `MAX_MODELS` in all.
        """
        if sum(counts.values()) > MAX_MODELS:
            raise InputError(
                f"profile set {self.name!r}: {sum(counts.values())} instances; expected at most {MAX_MODELS:,} in all"
            )
        models: dict[str, ModelProfile] = {}
        for name, count in counts.items():
            if name not in self:
                raise InputError(f"profile set {self.name!r}: {_unknown_model(name, self.models)}")
            if count < 0:
                raise InputError(f"profile set {self.name!r}: count of {name!r} must be >= 0 (got {count})")
            for i in range(count):
                models[f"{name}-{i}"] = self[name].renamed(f"{name}-{i}")
        return replace(self, models=models, aliases={})

    def named(self, names: Iterable[str]) -> ProfileSet:
        """A set with models of these names, each its own or that of what it is an instance of (``bert-1.3b-7``).

        Raises
        ------
        InputError
            On a name that is neither, or one given twice.
        """
        models: dict[str, ModelProfile] = {}
        for name in names:
            base = re.sub(r"-\d+$", "", name)
            if name not in self and base not in self:
                raise InputError(f"profile set {self.name!r}: {_unknown_model(name, self.models)}")
            if name in models:
                raise InputError(f"profile set {self.name!r}: {name!r} is named twice")
            models[name] = self[name if name in self else base].renamed(name)
        return replace(self, models=models, aliases={})

    def digest(self) -> str:
        """SHA-256 of the set's canonical JSON: the same figures and provenance give the same digest."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        from .document import digest

        return digest(self)
