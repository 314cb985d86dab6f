"""`Trainer`: the small torch job that agents train for real, and its checkpoint.

A step is the same step however many slots the job has (synchronous, fixed batch), and its data follow from its number
alone: a job that was stopped and resumed has, bit for bit, the weights of one that never was.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...seeds import seed_sequence

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Trainer", "trained"]

FEATURES, HIDDEN, BATCH = 64, 128, 64
RATE, MOMENTUM = 0.01, 0.9


class Trainer:
    """A regression by a network of two hidden layers on data that a fixed network made; SGD with momentum.

    Parameters
    ----------
    seed : int
        Of the run.
    app, job : int
        Which job: each has weights and data of its own.
    """

    def __init__(self, seed: int, app: int, job: int) -> None:
        import torch

        self._torch = torch
        words = seed_sequence(seed, "sharing job", app, job).generate_state(2, np.uint32)
        self._data_seed = int(words[1]) << 20
        self._random = torch.Generator().manual_seed(int(words[0]))
        self.model = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(),
            torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1),
        )  # fmt: skip
        with torch.no_grad():
            for weights in self.model.parameters():
                weights.copy_(torch.empty_like(weights).uniform_(-0.1, 0.1, generator=self._random))
        self._truth = torch.randn(FEATURES, 1, generator=self._random)
        # By hand: torch.optim would bring in torch's compiler, for which every run would wait.
        self._velocity = {name: torch.zeros_like(w) for name, w in self.model.named_parameters()}
        self.done = 0

    def step(self) -> float:
        """One optimizer step on the batch of this step's number; the loss before it."""
        torch = self._torch
        self._random.manual_seed(self._data_seed + self.done)
        x = torch.randn(BATCH, FEATURES, generator=self._random)
        loss = torch.nn.functional.mse_loss(self.model(x), torch.tanh(x @ self._truth))
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        with torch.no_grad():
            for name, weights in self.model.named_parameters():
                if weights.grad is not None:
                    velocity = self._velocity[name].mul_(MOMENTUM).add_(weights.grad)
                    weights.sub_(velocity, alpha=RATE)
                    weights.grad = None
        self.done += 1
        return float(loss.detach())

    def save(self, path: Path) -> None:
        """Write weights, their velocities and the step to disk; a reader finds the old file or the new one."""
        state = {"model": self.model.state_dict(), "velocity": self._velocity, "done": self.done}
        draft = path.with_suffix(".draft")
        self._torch.save(state, draft)
        os.replace(draft, path)

    def load(self, path: Path) -> None:
        """Go on from a checkpoint."""
        state = self._torch.load(path, weights_only=True)
        self.model.load_state_dict(state["model"])
        self._velocity = state["velocity"]
        self.done = int(state["done"])

    def weights(self) -> dict[str, Tensor]:
        """The model's weights by name."""
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}


def trained(seed: int, app: int, job: int, steps: int) -> Trainer:
    """The job after `steps` steps that nothing interrupted: what a run's checkpoints are held against."""
    trainer = Trainer(seed, app, job)
    for _ in range(steps):
        trainer.step()
    return trainer
