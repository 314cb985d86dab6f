"""`Dealer`: assign the serverless functions of the Azure traces to models. There are more functions than models."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ...errors import InputError
from ..columns import model_names

__all__ = ["ASSIGNMENTS", "Dealer"]

ASSIGNMENTS = ("stripe", "hash")


class Dealer:
    """Gives every function a model, in order of the functions' first appearance.

    Parameters
    ----------
    models : sequence of str or None
        The models; None makes every function a model of its own, named as the function (and its application,
        where two applications have a function of that name).
    assign : str
        ``"stripe"``: round robin, function k to model k mod n, as AlpaServe §6.2 does. ``"hash"``: by a hash of
        the function's name and the seed, so that a function has the same model whatever part of a trace is read.
    seed : int
        Seed of the hash.

    Raises
    ------
    InputError
        On an unknown way to assign.
    """

    def __init__(self, models: Sequence[str] | None, assign: str, seed: int) -> None:
        if assign not in ASSIGNMENTS:
            raise InputError(f"assign: unknown way {assign!r}; expected one of {', '.join(ASSIGNMENTS)}")
        self._models = None if models is None else model_names(models)
        self._hash = assign == "hash"
        self._seed = seed
        self._model_of: dict[tuple[str, ...], int] = {}

    @property
    def functions(self) -> int:
        """How many functions were dealt."""
        return len(self._model_of)

    @property
    def models(self) -> tuple[str, ...]:
        """The models, in order."""
        if self._models is not None:
            return self._models
        short = [key[-1] for key in self._model_of]
        if len(set(short)) == len(short):
            return tuple(short)
        return tuple("/".join(key) for key in self._model_of)

    def model(self, *key: str) -> int:
        """The index of the model of the function `key`: (owner and) application and function."""
        known = self._model_of.get(key)
        if known is not None:
            return known
        k = len(self._model_of)
        if self._models is None:
            index = k
        elif self._hash:
            digest = hashlib.blake2b("\x1f".join((str(self._seed), *key)).encode(), digest_size=8).digest()
            index = int.from_bytes(digest, "little") % len(self._models)
        else:
            index = k % len(self._models)
        self._model_of[key] = index
        return index
