"""`Trainer`: the small torch job that agents train for real, and its checkpoint.

A step is the same step however many slots the job has (synchronous, fixed batch), and its data follow from its number
alone: a job that was stopped and resumed has, bit for bit, the weights of one that never was.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ....errors import RunError
from ....seeds import seed_sequence

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Trainer", "trained"]

# A step of some tenths of a millisecond, so that many slots fit on a core; and a rate at which it converges. Nothing
# else depends on these.
FEATURES, HIDDEN, BATCH = 64, 128, 64
RATE, MOMENTUM = 0.01, 0.9


class Trainer:
    """A small training job: a network of two hidden layers learns the outputs of a fixed network, by SGD with momentum.

    Parameters
    ----------
    seed : int
        Seed of the run.
    app, job : int
        Numbers of the app and the job; each job has weights and data of its own.
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
        """Make one optimizer step on the batch of this step's number; returns the loss before it."""
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
        """Write weights, their velocities and the step to disk; a reader finds the old file or the new one.

        Arrays in an npz file, and nothing that is run when it is read.
        """
        arrays = {f"model.{name}": x.detach().numpy() for name, x in self.model.state_dict().items()}
        arrays |= {f"velocity.{name}": x.numpy() for name, x in self._velocity.items()}
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            np.savez(file, allow_pickle=False, done=np.int64(self.done), **arrays)
        os.replace(draft, path)

    def load(self, path: Path) -> None:
        """Continue from a checkpoint.

        Raises
        ------
        RunError
            If the file is no checkpoint of such a job.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: self._torch.tensor(file[name]) for name in file.files if name != "done"}
                done = int(file["done"])
            velocity = {name: arrays.pop(f"velocity.{name}") for name in self._velocity}
            if any(velocity[name].shape != x.shape for name, x in self._velocity.items()):
                raise ValueError("velocities of other shapes")
            self.model.load_state_dict({name.removeprefix("model."): x for name, x in arrays.items()})
        except (OSError, EOFError, ValueError, KeyError, RuntimeError, TypeError, zipfile.BadZipFile) as error:
            raise RunError(f"{path}: no checkpoint of this job: {type(error).__name__}: {error}") from None
        self._velocity, self.done = velocity, done

    def weights(self) -> dict[str, Tensor]:
        """The model's weights by name."""
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}


def trained(seed: int, app: int, job: int, steps: int) -> Trainer:
    """Train a job for `steps` steps without interruption: the reference with which a run's checkpoints are compared."""
    trainer = Trainer(seed, app, job)
    for _ in range(steps):
        trainer.step()
    return trainer
