"""The eleven models of Themis' traces (Table 4), and what it costs each to have its GPUs apart (Table 1).

Two slowdowns are measured in the paper: VGG16 makes 103.6 images/s on four GPUs of a server and 80.4 across two, and
Inception-v3 is not slowed at all. The others are **assumed**: a gradient is as long as the model has parameters, so
they lie on the line through those two points over the number of parameters, never below 1. Across racks the excess is
three times that across machines, as in the paper's crude estimates (1.1 and 1.3, footnote 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ....errors import InputError
from ....reprs import Shown
from ....wording import nearest
from .app import Slowdown

__all__ = ["MIX", "MODELS", "TABLE1", "TrainedModel", "draw_models", "trained_model"]

TABLE1: Mapping[str, tuple[float, float]] = MappingProxyType({"VGG16": (103.6, 80.4), "Inception-v3": (242.0, 243.0)})
"""Model -> images per second on 4 GPUs of one server, and of two (Table 1)."""

MIX: Mapping[str, float] = MappingProxyType({"CV": 0.10, "NLP": 0.60, "Speech": 0.30})
"""Share of each category (Table 4)."""

RACK_EXCESS = 3.0
"""Excess slowdown across racks over that across machines: (1.3 − 1)/(1.1 − 1), footnote 3."""

NETWORK_INTENSIVE = 1.05
"""A model is called network-intensive if two machines slow it by at least this. The paper names no limit."""

_PARAMETERS = {
    "Inception-v3": ("CV", "ImageNet", 23.8e6),
    "AlexNet": ("CV", "ImageNet", 61.1e6),
    "ResNet50": ("CV", "ImageNet", 25.6e6),
    "VGG16": ("CV", "ImageNet", 138.4e6),
    "VGG19": ("CV", "ImageNet", 143.7e6),
    "Bi-Att-Flow": ("NLP", "SQuAD", 2.6e6),
    "LangModel": ("NLP", "PTB", 66e6),  # the large LSTM of its paper
    "GNMT": ("NLP", "WMT16", 278e6),
    "Transformer": ("NLP", "WMT16", 65e6),  # base
    "WaveNet": ("Speech", "VCTK", 4e6),
    "DeepSpeech": ("Speech", "CommonVoice", 47e6),
}


@dataclass(frozen=True, slots=True, repr=False)
class TrainedModel(Shown):
    """A model that apps train.

    Parameters
    ----------
    name, category, dataset : str
        As Table 4 has them.
    parameters : float
        Number of its parameters.
    slowdown : Slowdown
        How much slower it trains on GPUs that are far apart.
    measured : bool
        Whether the paper measured the slowdown across machines; if not, it is assumed from the number of parameters.
    """

    name: str
    category: str
    dataset: str
    parameters: float
    slowdown: Slowdown
    measured: bool

    @property
    def network_intensive(self) -> bool:
        """Whether it is slowed by 5 % or more across two machines."""
        return self.slowdown.rack >= NETWORK_INTENSIVE


def _across_machines(parameters: float) -> float:
    """The line through Table 1's two models."""
    (one, two), flat = TABLE1["VGG16"], _PARAMETERS["Inception-v3"][2]
    slope = (one / two - 1.0) / (_PARAMETERS["VGG16"][2] - flat)
    return max(1.0, 1.0 + slope * (parameters - flat))


def _model(name: str) -> TrainedModel:
    category, dataset, parameters = _PARAMETERS[name]
    measured = name in TABLE1
    apart = max(1.0, TABLE1[name][0] / TABLE1[name][1]) if measured else _across_machines(parameters)
    slowdown = Slowdown(1.0, 1.0, apart, 1.0 + RACK_EXCESS * (apart - 1.0))
    return TrainedModel(name, category, dataset, parameters, slowdown, measured)


MODELS: Mapping[str, TrainedModel] = MappingProxyType({name: _model(name) for name in _PARAMETERS})
"""Table 4, with slowdowns."""


def trained_model(name: str) -> TrainedModel:
    """A model by name.

    Raises
    ------
    InputError
        If Table 4 has none of this name; the nearest is named.
    """
    if name not in MODELS:
        near = nearest(name, tuple(MODELS))
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(MODELS)}"
        raise InputError(f"model: unknown model {name!r}; {hint}")
    return MODELS[name]


def draw_models(rng: np.random.Generator, n: int, network_intensive: float | None = None) -> tuple[TrainedModel, ...]:
    """Draw the models of `n` apps.

    Shares of categories are those of Table 4, met to within one app by systematic sampling in a random order. Within a
    category every model has the same share: the paper refers to Gandiva's mix, which is not printed.

    Parameters
    ----------
    rng : Generator
        Source of random numbers; the number of draws is always the same.
    n : int
        Number of apps.
    network_intensive : float, optional
        Share of apps of network-intensive models, to the nearest app; among these and among the others models are
        drawn, each app's by itself, with Table 4's chances: with a larger share an app that was so keeps its model.
        By default, what the mix gives.

    Raises
    ------
    InputError
        If the share is outside [0, 1].
    """
    order, chance = rng.random(n), rng.random(n)
    names = tuple(MODELS)
    size = {c: sum(m.category == c for m in MODELS.values()) for c in MIX}
    weight = np.array([MIX[MODELS[m].category] / size[MODELS[m].category] for m in names])
    heavy = np.array([MODELS[m].network_intensive for m in names])
    if network_intensive is None:
        ranks = np.argsort(np.argsort(order, kind="stable"))
        return tuple(MODELS[names[k]] for k in _by_weight(weight, (ranks + chance[:1]) / n))
    if not 0 <= network_intensive <= 1:
        raise InputError(f"workload: network_intensive: expected a share in [0, 1] (got {network_intensive})")
    chosen = np.zeros(n, bool)
    chosen[np.argsort(order, kind="stable")[: round(network_intensive * n)]] = True
    inside, outside = (_by_weight(np.where(kind, weight, 0.0), chance) for kind in (heavy, ~heavy))
    return tuple(MODELS[names[k]] for k in np.where(chosen, inside, outside))


def _by_weight(weight: npt.NDArray[np.float64], chance: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    edges = np.cumsum(weight) / weight.sum()
    edges[weight.nonzero()[0][-1] :] = 1.0  # and not an ulp below, which a draw could exceed
    return np.searchsorted(edges, chance, side="right")
